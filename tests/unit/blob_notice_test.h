/*
 * What the tests of noticing blobs share: a site in the test's directory, with blobs of
 * the types "files" in root/files and "lfs" in root/lfs, and its event log.
 */
#ifndef UNIT_BLOB_NOTICE_TEST_H
#define UNIT_BLOB_NOTICE_TEST_H

#include "test.h"

#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "change/blob_notice.h"
#include "pull/kinds.h"
#include "replicable/name.h"
#include "verify/verify_origin.h"

#define REVERIFY_MS 1000000

static struct store *store;
static struct event_log *event_log;
static struct notice *notice;
static struct kinds_here kinds;
static const struct kind *files, *lfs;
static char database[96];

PRINTF_LIKE(1, 2) static inline void must(const char *fmt, ...)
{
	AUTO_FREE char *command = NULL;
	AUTO_FREE char *script = NULL;
	va_list args;

	va_start(args, fmt);
	assert_true(vasprintf(&command, fmt, args) >= 0);
	va_end(args);
	script = xasprintf("set -e; %s\n", command);
	pid_t pid = fork();
	if (pid == 0) {
		if (fchdir(root_fd) != 0)
			_exit(1);
		execl("/bin/sh", "sh", "-c", script, NULL);
		_exit(1);
	}
	int status = -1;
	waitpid(pid, &status, 0);
	if (status != 0)
		fail_msg("failed: %s", command);
}

static inline void add_kind(const char *type, enum blob_layout layout)
{
	struct blob_kind kind = { .type = xstrdup(type),
				  .path = xasprintf("%s/%s", root, type),
				  .layout = layout };

	vec_add(&kinds.blobs.items, kind);
	assert_ok(dir_make(root_fd, type, &err));
}

static inline void open_store(void)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s", database);

	assert_ok(store_open(url, &store, &err));
	assert_ok(event_log_open(store, root, &event_log, &err));
	notice = notice_new(&(struct notice_options){ .store = store,
						      .log = event_log,
						      .kinds = &kinds,
						      .reverify_ms = REVERIFY_MS });
}

static inline void close_store(void)
{
	notice_free(notice);
	event_log_close(event_log);
	store_close(store);
}

static inline int make_site(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	log_set_level(LOG_LEVEL_NONE);
	add_kind("files", BLOB_PLAIN);
	add_kind("lfs", BLOB_LFS);
	kinds_fill(&kinds, root);
	files = kinds_find(&kinds, "files");
	lfs = kinds_find(&kinds, "lfs");
	snprintf(database, sizeof(database), "%s/db", root);
	open_store();
	return 0;
}

static inline int remove_site(void **state)
{
	close_store();
	kinds_clear(&kinds);
	return test_remove_root(state);
}

#define SITE_CASE(name) cmocka_unit_test_setup_teardown(name, make_site, remove_site)

static inline int get_row_work(struct store_tx *tx, void *arg, struct err *error)
{
	struct origin_row *row = arg;
	AUTO_FREE char *name = TAKE(row->name);
	AUTO_FREE char *kind = TAKE(row->kind);

	return origin_row_get(tx, kind, name, row, error) < 0 ? -1 : 0;
}

/* Without name if there is none; the caller clears. */
static inline struct origin_row row_of(const struct kind *kind, const char *id)
{
	struct origin_row row = { .name = xstrdup(id), .kind = xstrdup(kind->type) };

	assert_ok(store_read(store, get_row_work, &row, &err));
	return row;
}

static event_list events;

/* All of them, in order. */
static inline const event_list *all_events(void)
{
	const struct event_question question = { .after = EVENTS_FROM_OLDEST,
						 .limit = 1000000 };
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

/* Looks at one; the class of what is wrong. */
static inline enum err_class look(const struct kind *kind, const char *id)
{
	struct noticed one = { .name = id };
	int result = notice_compare_this(notice, kind, &one, &err);

	noticed_clear(&one);
	return result == 0 ? ERR_NONE : err.class;
}

static inline bool verify(const struct kind *kind, const char *id)
{
	const struct origin_kind origin = notice_kind(notice, kind);
	char *names[] = { xstrdup(id) };
	struct stop stop;

	stop_init(&stop);
	bool is_done = blob_verify_ops.verify(&(struct verify_batch){ .kind = &origin,
								      .names = names,
								      .count = 1,
								      .claim_token = "",
								      .stop = &stop });
	stop_clear(&stop);
	free(names[0]);
	return is_done;
}

/* All kinds of this site, as a node hands them on. */
static inline struct verify_origin *start_verifier(const char *repositories,
						   size_t capacity)
{
	VEC(struct origin_kind) all = { 0 };
	const struct kind *kind = NULL;

	while ((kind = kinds_next(&kinds, kind)) != NULL) {
		struct origin_kind origin = notice_kind(notice, kind);
		if (kind_is_repository(kind->type))
			origin.of.path = repositories;
		vec_add(&all, origin);
	}
	struct verify_origin *verifier = verify_origin_start(
		&(struct verify_origin_options){ .store = store,
						 .kinds = all.items,
						 .kind_count = all.count,
						 .capacity = capacity,
						 .reverify_ms = 3600000,
						 .timeout_ms = 3600000 });
	vec_clear(&all);
	return verifier;
}

#endif
