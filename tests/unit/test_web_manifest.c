/*
 * The manifest: what is in it while repositories cannot be read, or are away, as who
 * follows it deletes the others; and its requests while the node ends.
 */
#include "notice_test.h"

#include <dlfcn.h>
#include <pthread.h>

#include "git/cuts.h"
#include "mirror/manifest.h"
#include "pull/followed.h"
#include "store/site_value.h"
#include "web/access.h"
#include "web/answer.h"
#include "web/route.h"
#include "web/services.h"

#include "registry_write.h"

#define REPOSITORIES 3

/* How one repository's reading fails; those of all are held up. */
static struct {
	const char *name;
	enum err_class class;
	int sys_errno;
	bool holds;
	atomic_int begun;
	struct stop go_on;
} script;

static struct web_services services;
static struct stop stop, cut;
static const char *since;

bool access_may_read(struct access *access, const struct web_request *request,
		     const char *name)
{
	(void)access;
	(void)request;
	(void)name;
	return true;
}

const char *web_header(const struct web_request *request, const char *name)
{
	(void)request;
	assert_string_equal(name, "If-Modified-Since");
	return since;
}

int ref_reading_take(int dir, const char *path, struct ref_reading *reading,
		     struct err *error)
{
	int (*take)(int, const char *, struct ref_reading *, struct err *) = NULL;
	void *found = dlsym(RTLD_NEXT, "ref_reading_take");

	atomic_fetch_add(&script.begun, 1);
	if (script.holds)
		stop_wait(&script.go_on, 60000);
	if (script.name && strstr(path, script.name)) {
		err_set(error, script.class, "it fails as it is told to");
		error->sys_errno = script.sys_errno;
		return -1;
	}
	memcpy(&take, &found, sizeof(found));
	return take(dir, path, reading, error);
}

static void begin_book(void)
{
	manifest_book_free(services.manifest);
	services.manifest = manifest_book_new(srv);
}

static void scan(void)
{
	struct scan_result result = { 0 };

	usleep(30000); /* an equal fingerprint is a proof from then on */
	assert_ok(scan_site(NULL, &result));
}

static int make_manifest(void **state)
{
	if (make_site(state) != 0)
		return -1;
	memset(&script, 0, sizeof(script));
	stop_init(&script.go_on);
	stop_init(&stop);
	stop_init(&cut);
	since = NULL;
	for (int i = 0; i < REPOSITORIES; i++) {
		AUTO_FREE char *path = xasprintf("%c.git", 'a' + i);
		make_bare(path);
	}
	services = (struct web_services){ .role = SITE_PRIMARY, .store = store };
	begin_book();
	scan();
	return event_log_set_scanned(store, KIND_REPOSITORY, SCANNED_ALL, &err);
}

static int remove_manifest(void **state)
{
	manifest_book_free(TAKE(services.manifest));
	stop_clear(&script.go_on);
	stop_clear(&stop);
	stop_clear(&cut);
	return remove_site(state);
}

#define MANIFEST_CASE(name)                                                              \
	cmocka_unit_test_setup_teardown(name, make_manifest, remove_manifest)

static const char *header_of(const struct web_response *response, const char *name)
{
	for (size_t i = 0; i < response->headers.count; i++) {
		const struct web_header_field *field = &response->headers.items[i];
		if (strcmp(field->name, name) == 0)
			return field->own ? field->own : field->value;
	}
	return NULL;
}

static char date[CLOCK_HTTP_SIZE];
static struct manifest manifest;

static void handle(struct web_response *response)
{
	const struct web_request request = {
		.services = &services, .client = "192.0.2.1", .stop = &stop, .cut = &cut
	};
	struct err why;

	*response = (struct web_response){ .status = 200, .body = STR_INIT };
	if (web_manifest_routes->handle(&request, response, &why) != 0)
		fail_msg("%s", why.text);
	if (response->status == 503)
		assert_non_null(header_of(response, "Retry-After"));
}

static void clear(struct web_response *response)
{
	answer_reset(response);
	str_clear(&response->body);
}

/* Its status; the manifest itself is in `manifest`. */
static int ask(void)
{
	struct web_response response;

	manifest_clear(&manifest);
	handle(&response);
	if (response.status != 503)
		snprintf(date, sizeof(date), "%s", header_of(&response, "Last-Modified"));
	if (response.status == 200)
		assert_ok(manifest_read(response.body.data, response.body.len, &manifest,
					&err));
	int status = response.status;
	clear(&response);
	return status;
}

static void assert_listed(const char *expected)
{
	AUTO_STR struct str paths = STR_INIT;

	assert_int_equal(ask(), 200);
	for (size_t i = 0; i < manifest.entries.count; i++)
		str_addf(&paths, "%s ", manifest.entries.items[i].path);
	assert_string_equal(paths.data, expected);
}

static const char *print_of_b(void)
{
	return manifest.entries.items[1].fingerprint;
}

static void fail_as(const char *name, enum err_class class, int sys_errno)
{
	script.name = name;
	script.class = class;
	script.sys_errno = sys_errno;
}

TEST(what_cannot_be_read_now_keeps_its_entry)
{
	static const struct {
		enum err_class class;
		int sys_errno;
	} faults[] = {
		{ ERR_CONFLICT, 0 },    { ERR_INTERNAL, EMFILE }, { ERR_DISK, EIO },
		{ ERR_CONFIG, EACCES }, { ERR_TIMEOUT, 0 },
	};
	char print[MANIFEST_FINGERPRINT_SIZE], first[CLOCK_HTTP_SIZE];

	assert_listed("a.git b.git c.git ");
	memcpy(print, print_of_b(), sizeof(print));
	memcpy(first, date, sizeof(first));
	set_ref("b.git", "refs/heads/main", 2);
	scan();
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		fail_as("/b.git", faults[i].class, faults[i].sys_errno);
		assert_listed("a.git b.git c.git ");
		assert_string_equal(print_of_b(), print);
		assert_string_equal(date, first);
	}
	script.name = NULL;
	assert_listed("a.git b.git c.git ");
	assert_string_not_equal(print_of_b(), print);
	assert_string_not_equal(date, first);
}

TEST(what_nobody_can_follow_is_left_out)
{
	static const enum err_class classes[] = { ERR_MISSING, ERR_CORRUPT, ERR_CONFIG };

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		assert_listed("a.git b.git c.git ");
		set_ref("b.git", "refs/heads/main", 2 + (int)i);
		scan();
		fail_as("/b.git", classes[i], 0);
		assert_listed("a.git c.git ");
		since = date;
		assert_int_equal(ask(), 304); /* it is no change each time */
		since = NULL;
		begin_book();
		assert_listed("a.git c.git ");
		script.name = NULL;
	}
}

TEST(what_is_closed_to_readers_is_left_out)
{
	assert_listed("a.git b.git c.git ");
	must("git -C srv/b.git config http.uploadpack false");
	scan();
	assert_listed("a.git c.git ");
	must("git -C srv/b.git config http.uploadpack true");
	scan();
	assert_listed("a.git b.git c.git ");
	/* ... also by a file that its own includes */
	must("printf '[http]\\nuploadpack = no\\n' >srv/b.git/more");
	must("git -C srv/b.git config --unset http.uploadpack");
	must("git -C srv/b.git config include.path more");
	scan();
	assert_listed("a.git c.git ");
}

TEST(without_one_that_was_never_read_there_is_no_manifest)
{
	fail_as("/b.git", ERR_INTERNAL, EMFILE);
	assert_int_equal(ask(), 503);
	fail_as("/b.git", ERR_CONFLICT, 0);
	assert_int_equal(ask(), 503);
	/* but for one that is cut, whatever state that is in */
	must("mkdir -p srv/b.git/refrelay && echo changing >srv/b.git/" CUTS_MARK);
	assert_listed("a.git c.git ");
	must("rm srv/b.git/" CUTS_MARK);
	script.name = NULL;
	assert_listed("a.git b.git c.git ");
}

TEST(a_root_that_is_away_deletes_nothing)
{
	must("mv srv away && mkdir srv"); /* as an empty mount point */
	assert_int_equal(ask(), 503);
	must("rmdir srv");
	assert_int_equal(ask(), 503);
	must("mv away srv");
	assert_listed("a.git b.git c.git ");
}

TEST(a_folder_that_is_not_mounted_deletes_nothing)
{
	must("mkdir srv/group && mv srv/b.git srv/group");
	scan();
	assert_ok(site_value_write(store, "origin.mounts", "[\"group\"]", &err));
	must("mv srv/group away && mkdir srv/group");
	assert_int_equal(ask(), 503);
	must("rmdir srv/group && mv away srv/group");
	assert_listed("a.git c.git group/b.git ");
}

TEST(while_the_first_scan_has_not_seen_all_there_is_no_manifest)
{
	struct event_ends ends;

	assert_ok(event_log_look(store, &ends, &err));
	assert_ok(event_log_renew(store, ends.timeline, &err));
	assert_int_equal(ask(), 503);
	assert_ok(event_log_set_scanned(store, KIND_REPOSITORY, SCANNED_PART, &err));
	assert_int_equal(ask(), 503);
	assert_ok(event_log_set_scanned(store, KIND_REPOSITORY, SCANNED_ALL, &err));
	assert_listed("a.git b.git c.git ");
}

static const char *const copies[] = { "a", "b", "c" };

static void add_copies(void)
{
	services.role = SITE_SECONDARY;
	assert_ok(registry_add(store, KIND_REPOSITORY, copies, ARRAY_SIZE(copies), &err));
}

static void move_copy(const char *name, struct registry_move move)
{
	move.id = replicable_id(KIND_REPOSITORY, name);
	assert_ok(registry_move(store, &move, &err));
}

static void bring_copies(void)
{
	add_copies();
	assert_ok(followed_keep(store, KIND_REPOSITORY, "t1", false, &err));
	for (size_t i = 0; i < ARRAY_SIZE(copies); i++) {
		move_copy(copies[i], (struct registry_move){ .event = REGISTRY_BEGUN,
							     .timeout_ms = 60000 });
		move_copy(copies[i], (struct registry_move){ .event = REGISTRY_BROUGHT,
							     .timeline = "t1",
							     .generation = 1 });
	}
}

static int forget_followed(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return followed_forget_in(tx, error);
}

TEST(before_its_first_comparison_a_secondary_has_no_manifest)
{
	services.role = SITE_SECONDARY;
	assert_int_equal(ask(), 503);
	assert_ok(followed_keep(store, KIND_REPOSITORY, "t1", false, &err));
	assert_listed("");
	/* nor after it was a primary */
	assert_ok(store_write(store, forget_followed, NULL, &err));
	assert_int_equal(ask(), 503);
	assert_ok(followed_keep(store, KIND_REPOSITORY, "t2", false, &err));
	assert_listed("");
}

TEST(copies_of_a_lost_database_are_listed)
{
	must("rm -r srv/b.git");
	add_copies();
	assert_ok(followed_keep(store, KIND_REPOSITORY, "t1", false, &err));
	assert_listed("a.git c.git ");
}

TEST(what_a_restored_primary_has_stays_listed)
{
	bring_copies();
	for (size_t i = 0; i < ARRAY_SIZE(copies); i++)
		move_copy(copies[i], (struct registry_move){ .event = REGISTRY_ASKED,
							     .timeline = "t2",
							     .generation = 1 });
	assert_listed("a.git b.git c.git ");
}

/* The limit on deletions is checked later, and may hold it. */
TEST(a_deleted_copy_is_listed_until_it_is_removed)
{
	bring_copies();
	move_copy("b", (struct registry_move){ .event = REGISTRY_GONE });
	assert_listed("a.git b.git c.git ");
	move_copy("b", (struct registry_move){ .event = REGISTRY_HELD,
					       .held_reason = "too many" });
	assert_listed("a.git b.git c.git ");
	must("rm -r srv/b.git");
	begin_book();
	assert_listed("a.git c.git ");
}

TEST(a_folder_of_copies_that_is_not_mounted_deletes_nothing)
{
	bring_copies();
	assert_ok(site_value_write(store, "origin.mounts", "[\"b.git\"]", &err));
	must("mv srv/b.git away && mkdir srv/b.git");
	assert_int_equal(ask(), 503);
	must("rmdir srv/b.git && mv away srv/b.git");
	assert_listed("a.git b.git c.git ");
	must("rm -r srv/b.git");
	begin_book();
	assert_listed("a.git c.git ");
}

static void *ask_on_thread(void *arg)
{
	struct web_response response;

	handle(&response);
	atomic_store((atomic_int *)arg, response.status);
	clear(&response);
	return NULL;
}

TEST(it_ends_with_the_node)
{
	pthread_t threads[3];
	atomic_int statuses[ARRAY_SIZE(threads)] = { 0 };

	script.holds = true;
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		thread_start(&threads[i], "ask", ask_on_thread, &statuses[i]);
		wait_until(atomic_load(&script.begun) == 1);
	}
	/* Who waits goes at once, though the first one still reads. */
	stop_request(&stop);
	wait_until(atomic_load(&statuses[1]) == 503 && atomic_load(&statuses[2]) == 503);
	assert_int_equal(atomic_load(&statuses[0]), 0);
	stop_request(&cut);
	stop_request(&script.go_on);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		thread_join(threads[i]);
	assert_int_equal(atomic_load(&statuses[0]), 503);
	assert_int_equal(atomic_load(&script.begun), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MANIFEST_CASE(what_cannot_be_read_now_keeps_its_entry),
		MANIFEST_CASE(what_nobody_can_follow_is_left_out),
		MANIFEST_CASE(what_is_closed_to_readers_is_left_out),
		MANIFEST_CASE(without_one_that_was_never_read_there_is_no_manifest),
		MANIFEST_CASE(a_root_that_is_away_deletes_nothing),
		MANIFEST_CASE(a_folder_that_is_not_mounted_deletes_nothing),
		MANIFEST_CASE(while_the_first_scan_has_not_seen_all_there_is_no_manifest),
		MANIFEST_CASE(before_its_first_comparison_a_secondary_has_no_manifest),
		MANIFEST_CASE(copies_of_a_lost_database_are_listed),
		MANIFEST_CASE(what_a_restored_primary_has_stays_listed),
		MANIFEST_CASE(a_deleted_copy_is_listed_until_it_is_removed),
		MANIFEST_CASE(a_folder_of_copies_that_is_not_mounted_deletes_nothing),
		MANIFEST_CASE(it_ends_with_the_node),
	};

	log_set_level(LOG_LEVEL_NONE);
	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
