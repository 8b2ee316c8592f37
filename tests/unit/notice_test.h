/*
 * What the tests of noticing share: a site in the test's directory, with repositories in
 * root/srv, and its event log.
 */
#ifndef UNIT_NOTICE_TEST_H
#define UNIT_NOTICE_TEST_H

#include "git_test.h"

#include "change/notice.h"
#include "git/checksum.h"
#include "replicable/name.h"

static struct store *store;
static struct event_log *event_log;
static struct notice *notice;
static char srv[96], data[96];

static inline void start_notice(void)
{
	const struct notice_options options = {
		.store = store,
		.log = event_log,
		.root = srv,
		.data = data,
		.verifies = true,
		.reverify_ms = 1000000,
	};

	notice = notice_new(&options);
}

static inline int make_site(void **state)
{
	char url[128];

	if (test_make_root(state) != 0)
		return -1;
	snprintf(srv, sizeof(srv), "%s/srv", root);
	snprintf(data, sizeof(data), "%s/data", root);
	assert_ok(dir_make(root_fd, "srv", &err));
	assert_ok(dir_make(root_fd, "data", &err));
	snprintf(url, sizeof(url), "sqlite:%s/db", data);
	assert_ok(store_open(url, &store, &err));
	assert_ok(event_log_open(store, data, &event_log, &err));
	start_notice();
	return 0;
}

static struct map scan_troubles;

/* Scans from one to the next know what was wrong before. */
static inline int scan_site(const struct stop *stop, struct scan_result *result)
{
	const struct origin_kind kind = notice_origin_kind(notice);
	const struct scan_request request = { .kind = &kind,
					      .stop = stop,
					      .troubles = &scan_troubles };

	return scan_all(&request, result, &err);
}

static inline int remove_site(void **state)
{
	map_clear_owned(&scan_troubles);
	notice_free(notice);
	event_log_close(event_log);
	store_close(store);
	return test_remove_root(state);
}

#define SITE_CASE(name) cmocka_unit_test_setup_teardown(name, make_site, remove_site)

/* A bare repository with main at commit 1, borrowing the objects of all tests. */
static inline void make_bare(const char *path)
{
	char oid[OID_MAX_TEXT];

	must("mkdir -p srv/%s && cd srv/%s && mkdir -p objects/info refs/heads && "
	     "echo 'ref: refs/heads/main' >HEAD && "
	     "echo %s/objects >objects/info/alternates && echo %s >refs/heads/main",
	     path, path, store_path, oid_text(&commits[1], oid));
}

static inline void set_ref(const char *path, const char *ref, int commit)
{
	char oid[OID_MAX_TEXT];

	must("git -C srv/%s update-ref %s %s", path, ref,
	     oid_text(&commits[commit], oid));
}

static event_list events;

/* All of them, in order. */
static inline const event_list *all_events(void)
{
	const struct event_question question = { .after = EVENTS_FROM_OLDEST,
						 .limit = 100000 };
	struct event_ends ends;
	enum event_read how;

	event_list_clear(&events);
	assert_ok(event_log_read_once(store, &question, &how, &events, &ends, &err));
	return &events;
}

static inline const struct event *last_event(void)
{
	all_events();
	assert_true(events.count > 0);
	return &events.items[events.count - 1];
}

static inline int get_row_work(struct store_tx *tx, void *arg, struct err *error)
{
	struct origin_row *row = arg;
	AUTO_FREE char *name = TAKE(row->name);

	return origin_row_get(tx, KIND_REPOSITORY, name, row, error) < 0 ? -1 : 0;
}

/* Zeroes if there is none; the caller clears. */
static inline struct origin_row row_of(const char *name)
{
	struct origin_row row = { .name = xstrdup(name) };

	assert_ok(store_read(store, get_row_work, &row, &err));
	return row;
}

#endif
