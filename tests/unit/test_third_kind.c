/*
 * A kind that is neither repositories nor blobs, with both halves: day-books, each a file
 * with one word, which is its checksum. It is the only kind that the sites have; scans,
 * events, verification, inventory, claims, removal and doubts are the engine's, which has
 * not heard of it.
 */
#include "fake_primary.h"
#include "web_test.h"

#include "change/blob_notice.h"
#include "change/inventory.h"
#include "change/notice_parts.h"
#include "change/origin_root.h"
#include "change/watch.h"
#include "cli/cli.h"
#include "node/settings.h"
#include "pull/blob_copy_watch.h"
#include "pull/copy_kind.h"
#include "pull/pull_parts.h"
#include "report/report.h"
#include "store/site_value.h"
#include "upkeep/removal.h"
#include "verify/verify_origin.h"

#define DAYBOOK "daybook"
#define FOG "nVmrV5+CdEcNzEFUoPCtpPfcyLicieSUUk92dOeXgms=" /* SHA-256 of "fog\n" */

static struct store *origin_store, *copies_store;
static struct event_log *event_log;
static struct notice *notice;
static struct watch *watch;
static struct verify_origin *verify;
static struct lease_manager *leases;
static struct pull *pull;
static char there[96], here[96]; /* its directories at the two sites */

static char *word_of(const char *directory, const char *name, struct err *error)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, directory, error);

	if (dir < 0 || file_read(dir, name, 100, &text, error) != 0)
		return NULL;
	text.data[strcspn(text.data, "\n")] = '\0';
	return xstrdup(text.data);
}

/*
 * The primary's half.
 */

static int toy_open_root(const struct origin_kind *kind, struct err *error)
{
	return dir_open(AT_FDCWD, kind->of.path, error);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int toy_walk(struct scan *scan, const char *below, struct err *error)
{
	AUTO_CLOSEDIR DIR *list = dir_list(scan->root, ".");
	const struct dirent *entry;
	text_list names = { 0 };
	int result = 0;

	assert_string_equal(below, "");
	while ((entry = readdir(list)) != NULL)
		if (entry->d_name[0] != '.')
			vec_add(&names, xstrdup(entry->d_name));
	vec_sort(&names, by_name);
	for (size_t i = 0; result == 0 && i < names.count; i++)
		result = scan_meet(scan, &(struct scan_item){ .name = names.items[i] },
				   error);
	text_list_clear(&names);
	return result;
}

static int toy_has_any(struct scan *scan, bool *has_any, struct err *error)
{
	(void)error;
	*has_any = !dir_is_empty(scan->root, ".");
	return 0;
}

static bool toy_is_as_recorded(struct scan *scan, const struct scan_item *item,
			       const struct origin_row *row)
{
	AUTO_FREE char *word =
		word_of(scan->request->kind->of.path, item->name, ERR_IGNORED);

	return word && row->checksum && strcmp(word, row->checksum) == 0;
}

/* What is seen is its word. */
static void toy_observe(struct comparisons *all, struct comparison *one)
{
	struct blob_fingerprint fingerprint;
	struct stat st;

	free(one->seen);
	one->seen = word_of(all->kind->of.path, one->noticed->name, &one->noticed->why);
	one->observation = OBSERVATION_GONE;
	if (!one->seen || fstatat(all->root, one->noticed->name, &st, 0) != 0)
		return;
	one->observation = OBSERVATION_WHOLE;
	blob_fingerprint_of(&st, &fingerprint);
	blob_fingerprint_format(&fingerprint, one->fingerprint);
}

static void toy_settle(const struct comparisons *all, struct comparison *one)
{
	(void)all;
	free(one->seen);
}

static enum origin_step toy_judge(const struct comparisons *all,
				  const struct comparison *one)
{
	(void)all;
	if (!one->base.name)
		return STEP_CREATED;
	if (strcmp(one->base.checksum, one->seen) != 0)
		return STEP_UPDATED;
	return strcmp(one->base.fingerprint, one->fingerprint) == 0 ? STEP_NOTHING
								    : STEP_NOTED;
}

static void toy_announce(struct comparisons *all)
{
	(void)all;
}

static void toy_fill(struct comparisons *all, struct comparison *one,
		     struct origin_row *row)
{
	(void)all;
	text_replace(&row->path, one->noticed->name);
	text_replace(&row->checksum, one->seen);
	text_replace(&row->fingerprint, one->fingerprint);
	row->size = strlen(one->seen);
	row->verification = VERIFICATION_PENDING;
	row->verification_due_at = clock_wall_ms();
}

static void toy_committed(struct comparisons *all)
{
	for (size_t i = 0; i < all->items.count; i++)
		notice_report(all->kind->notice, &all->items.items[i].noticed->event,
			      true);
}

static void toy_finish(const struct origin_kind *kind, const struct scan_result *result,
		       int64_t took_ms)
{
	(void)kind;
	(void)result;
	(void)took_ms;
}

static void toy_note(struct scan *scan, const struct noticed *noticed)
{
	scan_count(scan, noticed->is_changed);
}

static const struct origin_kind_ops toy_origin_ops = {
	.events = { "daybook.finding", "daybook.failed", "daybook.not_kept" },
	.is_file = true,
	.open_root = toy_open_root,
	.has_any = toy_has_any,
	.walk = toy_walk,
	.is_as_recorded = toy_is_as_recorded,
	.finish = toy_finish,
	.group = 10,
	.observe = toy_observe,
	.judge = toy_judge,
	.announce = toy_announce,
	.fill = toy_fill,
	.committed = toy_committed,
	.settle = toy_settle,
	.note = toy_note,
};

static int toy_record(struct store_tx *tx, void *arg, struct err *error)
{
	const struct verify_batch *batch = arg;

	for (size_t i = 0; i < batch->count; i++) {
		AUTO_ORIGIN_ROW struct origin_row row = { 0 };
		AUTO_FREE char *word =
			word_of(batch->kind->of.path, batch->names[i], ERR_IGNORED);
		if (origin_row_get(tx, DAYBOOK, batch->names[i], &row, error) <= 0 ||
		    !origin_row_end_claim(&row, batch->claim_token))
			continue;
		row.verification = word && strcmp(word, row.checksum) == 0
					   ? VERIFICATION_SUCCEEDED
					   : VERIFICATION_FAILED;
		row.verified_at = clock_wall_ms();
		row.verification_due_at = row.verified_at + 3600000;
		if (origin_row_update(tx, &row, row.generation, error) != 0)
			return -1;
	}
	return 0;
}

static bool toy_verify_origin(const struct verify_batch *batch)
{
	struct verify_batch own = *batch;

	return store_write(batch->kind->store, toy_record, &own, ERR_IGNORED) == 0;
}

static const struct verify_kind_ops toy_verify_ops = { .most = 5,
						       .new_most = 20,
						       .verify = toy_verify_origin };

/*
 * The copies' half.
 */

static int toy_check_name(const struct kind *kind, const char *name, struct err *error)
{
	(void)kind;
	return name[strspn(name, "0123456789-")] == '\0'
		       ? 0
		       : err_set(error, ERR_CONFIG, "%s is no day", name);
}

static int toy_look(const struct glance_look *look, const struct registry_row *row,
		    struct err *error)
{
	AUTO_FREE char *word = word_of(look->kind->path, row->name, error);

	if (!word)
		return -1;
	return strcmp(word, row->checksum) == 0
		       ? 0
		       : err_set(error, ERR_CORRUPT, "it is another word");
}

static int toy_discard(void *arg, const struct removal_copy *copy, struct err *error)
{
	AUTO_FREE char *path = xasprintf("%s/%s", (const char *)arg, copy->name);

	return unlink(path) == 0 ? 0 : err_errno(error, "cannot remove it");
}

static void toy_remove(struct pull_job *job)
{
	struct removal_copy gone[8] = { 0 };
	struct removal_batch removal = { .store = copies_store,
					 .kind = DAYBOOK,
					 .copies = gone,
					 .discard = toy_discard,
					 .arg = here };
	struct pull_item *item;

	for (size_t at = 0; (item = pull_job_next(job, &at, PULL_OPEN));)
		if (item->row->is_gone)
			gone[removal.count++] =
				(struct removal_copy){ .name = item->row->name,
						       .claim_token =
							       item->row->claim_token,
						       .own = item };
	removal_run_batch(&removal, ERR_IGNORED);
	for (size_t i = 0; i < removal.count; i++)
		pull_item_end_removed(gone[i].own, &gone[i].why);
}

static void toy_bring(struct pull_job *job)
{
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, job->kind.path, ERR_IGNORED);
	struct pull_item *item;
	struct err why;

	for (size_t at = 0; (item = pull_job_next(job, &at, PULL_OPEN));) {
		const struct registry_row *row = item->row;
		AUTO_FREE char *word = word_of(there, row->name, &why);
		if (!word || file_replace(dir, row->name, word, strlen(word), FILE_SYNC,
					  &why) != 0) {
			pull_item_fail(item, &why);
			continue;
		}
		item->end = row->generation > 0 ? PULL_UPDATED : PULL_CREATED;
		item->is_proved = true;
		item->generation = row->generation_wanted;
		memcpy(item->timeline, row->timeline, sizeof(item->timeline));
		snprintf(item->checksum, sizeof(item->checksum), "%s", word);
	}
}

static void toy_verify(struct pull_job *job)
{
	const struct glance_look look = { .kind = &job->kind };
	struct pull_item *item;

	for (size_t at = 0; (item = pull_job_next(job, &at, PULL_OPEN));) {
		item->generation = item->row->generation;
		item->of_copy = true;
		if (toy_look(&look, item->row, &item->why) == 0)
			item->why.class = ERR_NONE;
	}
}

static void toy_end(struct pull_job *job)
{
	(void)job;
}

static int toy_discard_one(const struct kind *kind, const char *name, struct err *error)
{
	const struct removal_copy copy = { .name = (char *)(uintptr_t)name };

	return toy_discard((void *)(uintptr_t)kind->path, &copy, error);
}

static const struct copy_kind_ops toy_copy_ops = {
	.workers = PULL_BLOB_WORKERS,
	.bring_most = 8,
	.verify_most = 8,
	.is_watched = true,
	.look = toy_look,
	.remove = toy_remove,
	.bring = toy_bring,
	.verify = toy_verify,
	.end = toy_end,
	.discard = toy_discard_one,
};

/*
 * The site's kinds, with one that pull/kinds.c has not heard of.
 */

static struct kind daybooks(const char *path)
{
	return (struct kind){ .type = DAYBOOK,
			      .key = "daybook.path",
			      .path = path,
			      .check_name = toy_check_name,
			      .origin = &toy_origin_ops,
			      .verify = &toy_verify_ops,
			      .copies = &toy_copy_ops };
}

static struct kinds_here kinds;

/* In place of the program's: commands find the same. */
int kinds_read(const struct conf *conf, struct kinds_here *read, struct err *error)
{
	(void)conf;
	(void)error;
	*read = (struct kinds_here){ 0 };
	vec_add(&read->all, daybooks(here));
	return 0;
}

/*
 * Two sites.
 */

static atomic_bool leaves_out; /* a name that the primary has is none */
static int64_t consistency_interval_ms;

static int read_inventory(const struct kind *kind, const struct page_question *question,
			  struct inventory_page *page, struct err *error)
{
	if (inventory_read(origin_store, kind->type, question, page, error) != 0)
		return -1;
	if (question->etag && strcmp(question->etag, page->etag) == 0) {
		inventory_page_clear(page);
		return INVENTORY_UNCHANGED;
	}
	page->skipped = page->is_part = leaves_out;
	if (leaves_out)
		page->skipped_example = xstrdup("../rain is no day");
	return INVENTORY_PAGE;
}

/* What the primary's log has is what the fake one answers. */
static void pass_events_on(void)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fake.mutex);
	const struct event_question question = { .after = fake.events.count,
						 .limit = 100 };
	event_list events;
	struct event_ends ends;
	enum event_read how;

	assert_ok(
		event_log_read_once(origin_store, &question, &how, &events, &ends, &err));
	assert_int_equal(how, EVENTS_READ);
	memcpy(fake.timeline, ends.timeline, sizeof(fake.timeline));
	for (size_t i = 0; i < events.count; i++)
		copy_event(&events.items[i], &fake.events);
	event_list_clear(&events);
}

static void due(void *arg)
{
	(void)arg;
	if (verify)
		verify_origin_wake(verify);
}

static void start_primary(void)
{
	const struct kind kind = daybooks(there);

	notice = notice_new(
		&(struct notice_options){ .store = origin_store, .log = event_log });
	const struct origin_kind origin = { .of = kind,
					    .store = origin_store,
					    .notice = notice };
	verify = verify_origin_start(
		&(struct verify_origin_options){ .store = origin_store,
						 .kinds = &origin,
						 .kind_count = 1,
						 .capacity = 2,
						 .reverify_ms = 3600000,
						 .timeout_ms = 3600000 });
	notice_set_due(notice, due, NULL);
	watch = watch_start(&(struct watch_options){ .thread = "daybooks",
						     .kinds = &origin,
						     .kind_count = 1,
						     .store = origin_store,
						     .scan_interval_ms = 100 });
}

static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	AUTO_FREE char *ours = xasprintf("sqlite:%s/copies.db", root);
	AUTO_FREE char *theirs = xasprintf("sqlite:%s/origin.db", root);
	AUTO_FREE char *directory = xasprintf("%s/leases", root);
	const struct lease_options options = { .directory = directory };

	log_set_level(LOG_LEVEL_NONE);
	consistency_interval_ms = 60000;
	fake_init();
	fake.inventory = read_inventory;
	snprintf(there, sizeof(there), "%s/there", root);
	snprintf(here, sizeof(here), "%s/here", root);
	must("mkdir there");
	vec_add(&kinds.all, daybooks(here));
	assert_ok(store_open(theirs, &origin_store, &err));
	assert_ok(store_open(ours, &copies_store, &err));
	assert_ok(event_log_open(origin_store, NULL, &event_log, &err));
	assert_ok(lease_manager_open_local(copies_store, &options, &leases, &err));
	return 0;
}

static int tear_down(void **state)
{
	leaves_out = false;
	if (pull)
		pull_stop(TAKE(pull), 5000);
	watch_stop(TAKE(watch));
	verify_origin_stop(verify);
	verify_origin_free(TAKE(verify));
	notice_free(TAKE(notice));
	event_log_close(event_log);
	lease_manager_close(leases);
	store_close(origin_store);
	store_close(copies_store);
	fake_clear();
	kinds_clear(&kinds);
	return test_remove_root(state);
}

static void start_pull(struct primary *primary)
{
	const struct pull_options options = {
		.store = copies_store,
		.leases = leases,
		.primary = primary,
		.here = &kinds,
		.settings = { .repository_capacity = 1,
			      .blob_capacity = 2,
			      .verification_capacity = 1,
			      .consistency_interval_ms = consistency_interval_ms,
			      .timeout_ms = 60000,
			      .reverify_ms = 3600000,
			      .delete_brake = 0.05 },
	};

	assert_ok(pull_start(&options, &pull, &err));
}

static void start_secondary(void)
{
	pass_events_on();
	start_pull(&fake);
}

struct wanted_row {
	const char *name;
	struct origin_row row;
};

static int read_origin(struct store_tx *tx, void *arg, struct err *error)
{
	struct wanted_row *wanted = arg;

	origin_row_clear(&wanted->row);
	return origin_row_get(tx, DAYBOOK, wanted->name, &wanted->row, error) < 0 ? -1
										  : 0;
}

static bool is_verified(const char *name, uint64_t generation)
{
	struct wanted_row wanted = { .name = name };

	assert_ok(store_read(origin_store, read_origin, &wanted, &err));
	bool is = wanted.row.verification == VERIFICATION_SUCCEEDED &&
		  wanted.row.generation == generation;
	origin_row_clear(&wanted.row);
	return is;
}

static bool is_copied(const char *name, const char *word)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	AUTO_FREE char *found = word_of(here, name, ERR_IGNORED);

	return registry_get(copies_store, DAYBOOK, name, &row, ERR_IGNORED) == 0 &&
	       row.state == REGISTRY_SYNCED &&
	       row.verification == VERIFICATION_SUCCEEDED && found &&
	       strcmp(found, word) == 0;
}

static bool is_gone(const char *name)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	AUTO_FREE char *found = word_of(here, name, ERR_IGNORED);

	return !found &&
	       registry_get(copies_store, DAYBOOK, name, &row, ERR_IGNORED) != 0;
}

static bool has_taken_all_events(void)
{
	struct pull_state state;

	pull_look(pull, &state);
	return state.cursor == fake.events.count;
}

static int64_t count_rows(void)
{
	struct registry_counts counts;

	assert_ok(registry_counts(copies_store, DAYBOOK, &counts, &err));
	return counts.all;
}

TEST(what_stands_at_the_primary_is_copied_changed_and_removed)
{
	must("echo rain >there/2026-11-22; echo sun >there/2026-11-23");
	start_primary();
	eventually(is_verified("2026-11-22", 1) && is_verified("2026-11-23", 1));
	start_secondary();
	eventually(is_copied("2026-11-22", "rain") && is_copied("2026-11-23", "sun"));
	must("echo snow >there/.new; mv there/.new there/2026-11-23; "
	     "rm there/2026-11-22");
	eventually(is_verified("2026-11-23", 2));
	eventually((pass_events_on(), is_copied("2026-11-23", "snow")));
	eventually((pass_events_on(), is_gone("2026-11-22")));
}

TEST(a_copy_that_others_have_changed_is_seen_and_mended)
{
	const struct kind kind = daybooks(here);
	const struct glance_request request = { .store = copies_store, .kind = &kind };
	struct glance_result result;

	must("echo sun >there/2026-11-23");
	start_primary();
	eventually(is_verified("2026-11-23", 1));
	start_secondary();
	eventually(is_copied("2026-11-23", "sun"));
	pull_stop(TAKE(pull), 5000); /* else it may see it first, by inotify */
	must("echo hail >here/2026-11-23");
	assert_ok(glance_all(&request, &result, &err));
	assert_int_equal(result.doubted, 1);
	free(result.example);
	start_secondary();
	eventually(is_copied("2026-11-23", "sun"));
	blob_copy_watch_stop(pull->blob_copy_watch); /* needs no doubt to mend it */
	must("echo hail >here/2026-11-23");
	pull_doubt(pull, DAYBOOK, "2026-11-23", &result.why);
	eventually(is_copied("2026-11-23", "sun"));
}

/* By inotify: nothing else looks within the time of this test. */
TEST(a_change_of_a_copy_is_heard_of)
{
	must("echo sun >there/2026-11-23");
	start_primary();
	eventually(is_verified("2026-11-23", 1));
	start_secondary();
	eventually(is_copied("2026-11-23", "sun"));
	must("echo hail >here/2026-11-23");
	eventually(is_copied("2026-11-23", "sun"));
}

static int keep_compared(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return site_value_set(tx, PULL_COMPARED, "1", error);
}

/* What has no row here is nobody's. */
TEST(a_kind_need_not_look_for_leftovers)
{
	struct leftovers_found found;

	assert_ok(store_write(copies_store, keep_compared, NULL, &err));
	assert_ok(leftovers_count(copies_store, &kinds.all.items[0], &found, &err));
	assert_int_equal(found.count, 0);
}

TEST(a_name_that_is_none_of_this_kind_is_left_out)
{
	must("echo sun >there/2026-11-23");
	start_primary();
	eventually(is_verified("2026-11-23", 1));
	start_secondary();
	eventually(is_copied("2026-11-23", "sun"));
	lock(&fake.mutex);
	log_event(DAYBOOK, "../2026-11-24", EVENT_CREATED);
	unlock(&fake.mutex);
	eventually(has_taken_all_events());
	assert_int_equal(count_rows(), 1);
}

static int ask_row(struct store_tx *tx, void *arg, struct err *error)
{
	const struct registry_move move = { .generation = 1,
					    .timeline = "1111111111111111" };

	return registry_ask_in(tx, DAYBOOK, arg, &move, error);
}

/* Somebody else, as a schedule of the kind's own, asks for rows. */
TEST(rows_are_worked_on_where_there_is_no_primary)
{
	char name[] = "2026-11-23";

	must("echo sun >there/2026-11-23");
	start_pull(NULL);
	assert_ok(store_write(copies_store, ask_row, name, &err));
	pull_wake(pull);
	eventually(is_copied(name, "sun"));
}

/* At a secondary whose node does all that it should. */
static void make_report(struct report *report)
{
	struct vital_signs signs = VITAL_SIGNS_NONE;

	signs.node = NODE_ANSWERS;
	signs.written_age_ms = signs.heard_age_ms = signs.compared_age_ms = 0;
	signs.compared_left_ms = 1000;
	assert_ok(report_make(&(struct report_options){ .role = SITE_SECONDARY,
							.site = "paris",
							.store = copies_store,
							.here = &kinds,
							.signs = &signs },
			      report, &err));
}

TEST(a_site_is_not_in_sync_while_a_copy_is_to_come)
{
	AUTO_STR struct str text = STR_INIT;
	char name[] = "2026-11-23";
	struct report report;

	must("echo sun >there/2026-11-23");
	assert_ok(store_write(copies_store, keep_compared, NULL, &err));
	assert_ok(store_write(copies_store, ask_row, name, &err));
	make_report(&report);
	assert_false(report_is_good(&report));
	report_sentence(&report, &text);
	assert_non_null(strstr(text.data, "1 blob of kind daybook"));
	report_clear(&report);
	start_pull(NULL);
	eventually(is_copied(name, "sun"));
	make_report(&report);
	assert_true(report_is_good(&report));
	report_clear(&report);
}

static bool is_in_sync(struct str *text)
{
	struct report report;

	make_report(&report);
	str_reset(text);
	report_sentence(&report, text);
	bool is_good = report_is_good(&report);
	report_clear(&report);
	return is_good;
}

TEST(a_site_that_leaves_out_a_name_of_its_primary_is_not_in_sync)
{
	AUTO_STR struct str text = STR_INIT;

	must("echo sun >there/2026-11-23");
	start_primary();
	eventually(is_verified("2026-11-23", 1));
	leaves_out = true;
	consistency_interval_ms = 100;
	start_secondary();
	eventually(is_copied("2026-11-23", "sun"));
	eventually((is_in_sync(&text), strstr(text.data, "left out") != NULL));
	assert_false(is_in_sync(&text));
	assert_non_null(strstr(text.data, "../rain is no day"));
	/* The answer has the same tag: it was another who left it out. */
	leaves_out = false;
	eventually(is_in_sync(&text));
}

/* What says nonsense is not believed what it does not say. */
TEST(a_page_that_leaves_out_a_name_deletes_nothing)
{
	AUTO_STR struct str text = STR_INIT;
	char other[] = "2026-11-22";

	must("echo sun >there/2026-11-23");
	start_primary();
	eventually(is_verified("2026-11-23", 1));
	assert_ok(store_write(copies_store, ask_row, other, &err));
	leaves_out = true;
	start_secondary();
	eventually((is_in_sync(&text), strstr(text.data, "left out") != NULL));
	assert_int_equal(count_rows(), 2);
	leaves_out = false;
	comparison_ask(pull);
	eventually(is_gone(other));
}

TEST(a_node_that_cannot_write_to_the_directory_says_so)
{
	struct vital_signs signs;

	kinds.all.items[0].path = "/proc/self";
	struct vitals *vitals = vitals_start(&(struct vitals_options){
		.store = copies_store, .data = root, .here = &kinds });
	eventually((vitals_look(vitals, &signs), signs.failing_age_ms >= 0));
	vital_signs_clear(&signs);
	vitals_stop(vitals);
}

TEST(no_directory_lies_in_that_of_another_kind_or_in_the_data)
{
	AUTO_FREE char *text = xasprintf("[site]\ndata = %s/data\n", root);
	AUTO_FREE char *below = xasprintf("%s/below", here);
	AUTO_FREE char *data = xasprintf("%s/data/books", root);
	AUTO_CONF struct conf *conf = NULL;

	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_ok(kinds_check_places(conf, &kinds, &err));
	struct kind other = daybooks(below);
	other.key = "logbook.path";
	vec_add(&kinds.all, other);
	assert_fails(kinds_check_places(conf, &kinds, &err), ERR_CONFIG);
	assert_non_null(strstr(err.text, "logbook.path"));
	assert_non_null(strstr(err.text, "daybook.path"));
	kinds.all.items[1].path = data;
	assert_fails(kinds_check_places(conf, &kinds, &err), ERR_CONFIG);
	assert_non_null(strstr(err.text, "site.data"));
	kinds.all.items[1].path = NULL;
	assert_ok(kinds_check_places(conf, &kinds, &err));
}

/* A command, as the shell would run it; what it prints is not looked at. */
static int run_blob_command(char **argv)
{
	static const struct command command = { .name = "blob",
						.options = &blob_options };
	AUTO_FREE char *path = xasprintf("%s/conf", root);
	struct cli cli = { .config_path = path,
			   .settings = node_settings_tables,
			   .command = &command };

	must("printf '[site]\\n role = secondary\\n repositories = %s/git\\n data = "
	     "%s/site\\n'"
	     " >conf; mkdir -p -m 700 site",
	     root, root);
	int out = dup(STDOUT_FILENO), sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
	fflush(stdout);
	dup2(sink, STDOUT_FILENO);
	int status = cli_blob(&cli, argv);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	close(sink);
	close(out);
	return status;
}

TEST(a_copy_is_removed_by_a_command)
{
	char name[] = "2026-11-23", type[] = DAYBOOK;
	char *argv[] = { (char[]){ "remove" }, (char[]){ "--type" }, type, name, NULL };
	AUTO_FREE char *url = xasprintf("sqlite:%s/site/refrelay.db", root);
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct store *store;

	must("mkdir -m 700 site; mkdir here; echo sun >here/%s", name);
	assert_ok(store_open(url, &store, &err));
	assert_ok(store_write(store, ask_row, name, &err));
	assert_int_equal(run_blob_command(argv), EXIT_DONE);
	assert_int_not_equal(faccessat(root_fd, "here/2026-11-23", F_OK, 0), 0);
	assert_fails(registry_get(store, DAYBOOK, name, &row, &err), ERR_MISSING);
	store_close(store);
}

#define OPERATOR "0123456789abcdef0123456789abcdef"

static void serve_daybooks(void)
{
	static const struct web_route *const tables[] = { web_blob_routes,
							  web_retrieve_routes, NULL };
	AUTO_FREE char *text =
		xasprintf("[http]\n operatorTokenFile = %s/operator\n", root);
	AUTO_CONF struct conf *conf = NULL;

	must("umask 077; echo " OPERATOR " >operator");
	kinds.all.items[0].path = there;
	notice = notice_new(&(struct notice_options){
		.store = origin_store, .log = event_log, .kinds = &kinds });
	services = (struct web_services){ .role = SITE_PRIMARY,
					  .site = "london",
					  .store = origin_store,
					  .data = root,
					  .here = &kinds,
					  .notice = notice };
	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_ok(access_read(conf, true, &services.access, &err));
	assert_ok(server_start(&(struct web_server_options){ .listen = "127.0.0.1:0",
							     .services = &services,
							     .routes = tables },
			       &server, &err));
}

static void stop_serving(void)
{
	web_server_stop(TAKE(server), 0);
	access_free(services.access);
}

/* The whole answer; the caller frees. */
static char *ask_over_http(const char *line, const char *more)
{
	AUTO_FREE char *text = xasprintf("%s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
					 "Authorization: Bearer " OPERATOR "\r\n%s",
					 line, more);
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();

	send_text(fd, text);
	assert_true(receive_all(fd, 20000, &answer));
	return str_take(&answer);
}

#define ASSERT_ANSWER(line, more, ...)                                                   \
	do {                                                                             \
		static const char *const parts_[] = { __VA_ARGS__ };                     \
		AUTO_FREE char *answer_ = ask_over_http(line, more);                     \
		for (size_t i_ = 0; i_ < ARRAY_SIZE(parts_); i_++)                       \
			if (!strstr(answer_, parts_[i_]))                                \
				fail_msg("no \"%s\" in: %s", parts_[i_], answer_);       \
	} while (0)

/* By its own names, directory and comparison. */
TEST(the_api_serves_a_kind_of_files)
{
	static const char fog[] =
		"Content-Digest: sha-256=:" FOG ":\r\nContent-Length: 4\r\n\r\nfog\n";

	must("echo sun >there/2026-11-23");
	serve_daybooks();
	ASSERT_ANSWER("GET /api/v1/retrieve/daybook/2026-11-23", "\r\n", " 200 ",
		      "Refrelay-Checksum: sun", "\r\n\r\nsun\n");
	ASSERT_ANSWER("GET /api/v1/retrieve/daybook/today", "\r\n", " 400 ",
		      "today is no day");
	ASSERT_ANSWER("PUT /api/v1/blobs/daybook/2026-11-24", fog, " 201 ",
		      "\"checksum\":\"fog\"");
	ASSERT_ANSWER("PUT /api/v1/blobs/daybook/tomorrow", fog, " 400 ",
		      "tomorrow is no day");
	ASSERT_ANSWER("GET /api/v1/blobs/daybook/2026-11-24", "\r\n", " 200 ",
		      "\"name\":\"2026-11-24\"");
	ASSERT_ANSWER("GET /api/v1/blobs", "\r\n", " 200 ", "\"type\":\"daybook\"");
	stop_serving();
}

/* Its rows can be asked for; bytes it has none. */
TEST(the_api_gives_no_bytes_of_a_kind_that_is_no_files)
{
	struct origin_kind_ops ops = toy_origin_ops;

	ops.is_file = false;
	must("echo sun >there/2026-11-23");
	kinds.all.items[0].origin = &ops;
	serve_daybooks();
	ASSERT_ANSWER("GET /api/v1/retrieve/daybook/2026-11-23", "\r\n", " 404 ",
		      "KIND_NOT_FOUND");
	ASSERT_ANSWER("PUT /api/v1/blobs/daybook/2026-11-23", "Content-Length: 0\r\n\r\n",
		      " 404 ", "KIND_NOT_FOUND");
	ASSERT_ANSWER("GET /api/v1/blobs/daybook/2026-11-23", "\r\n", " 404 ",
		      "BLOB_NOT_FOUND");
	ASSERT_ANSWER("GET /api/v1/blobs/repository", "\r\n", " 404 ", "KIND_NOT_FOUND");
	stop_serving();
}

TEST(a_hook_or_a_command_tells_of_a_change)
{
	uint64_t event;

	must("echo sun >there/2026-11-23");
	kinds.all.items[0].path = there;
	notice = notice_new(&(struct notice_options){
		.store = origin_store, .log = event_log, .kinds = &kinds });
	assert_ok(blob_changed(notice, DAYBOOK "/2026-11-23", &event, &err));
	assert_int_equal(event, 1);
	assert_fails(blob_changed(notice, DAYBOOK "/today", &event, &err), ERR_CONFIG);
}

#define KIND_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		KIND_CASE(what_stands_at_the_primary_is_copied_changed_and_removed),
		KIND_CASE(a_copy_that_others_have_changed_is_seen_and_mended),
		KIND_CASE(a_change_of_a_copy_is_heard_of),
		KIND_CASE(a_kind_need_not_look_for_leftovers),
		KIND_CASE(a_name_that_is_none_of_this_kind_is_left_out),
		KIND_CASE(rows_are_worked_on_where_there_is_no_primary),
		KIND_CASE(a_site_is_not_in_sync_while_a_copy_is_to_come),
		KIND_CASE(a_site_that_leaves_out_a_name_of_its_primary_is_not_in_sync),
		KIND_CASE(a_page_that_leaves_out_a_name_deletes_nothing),
		KIND_CASE(a_node_that_cannot_write_to_the_directory_says_so),
		KIND_CASE(the_api_serves_a_kind_of_files),
		KIND_CASE(the_api_gives_no_bytes_of_a_kind_that_is_no_files),
		KIND_CASE(a_hook_or_a_command_tells_of_a_change),
		KIND_CASE(a_copy_is_removed_by_a_command),
		KIND_CASE(no_directory_lies_in_that_of_another_kind_or_in_the_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
