/*
 * What was looked through last is known by two things that must agree: timeline and
 * generation in lfs_scan, and the refs of that moment in data/lfs/refs/<id>. If they do
 * not, all of the history is looked through, which is slow and right. The refs are read
 * behind the row, so what is written of a generation is never less than it has.
 *
 * What was named and is not any more is found only when all is looked through: that is
 * done again, at most once a day, when commits of a repository that names something are
 * reached no more. At once it is done where tips of then are not there at all: it was
 * cleaned up since, or, if none is there, is another repository that was put in its place
 * and has no claim either to what was uploaded.
 *
 * A repository is looked through by one thread at a time; who else asks waits for it. Of
 * those who wait `lfs-names` is first: one by one, those who ask may all have too little
 * time for a long history, and each begins anew.
 */
#include "verify/lfs_names.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/proc_stream.h"
#include "base/retry.h"
#include "base/thread.h"
#include "change/recorded_refs.h"
#include "git/git_child.h"
#include "git/lfs_pointer.h"
#include "git/objects.h"
#include "git/refs.h"
#include "git/repo.h"
#include "replicable/lfs_rows.h"
#include "replicable/locate.h"
#include "replicable/name.h"

/*
 * One git child walks what is new and tells the blobs that are small enough for a
 * pointer, by bitmaps where there are some; others then read them, so many at a time.
 * Where there is nothing so small, there is no second child.
 */

enum { GROUP = 4096 };

struct search {
	const struct git_work *work;
	const struct repo *repo;
	struct str group; /* names of blobs to read, a line each */
	size_t grouped;
	lfs_rows *rows;
};

static void take_blob(struct search *search, const char *text, size_t len)
{
	struct lfs_pointer pointer;
	struct lfs_row row;

	if (!lfs_pointer_parse(text, len, &pointer) || pointer.size == 0)
		return; /* git-lfs neither brings nor gets what is empty */
	memcpy(row.oid, pointer.oid, sizeof(row.oid));
	row.size = pointer.size;
	vec_add(search->rows, row);
}

/* "<oid> blob <size>\n<content>\n", or "<oid> missing\n". */
static int take_blobs(struct search *search, const struct str *said, struct err *err)
{
	const char *at = said->data;
	const char *end = at + said->len;

	while (at < end) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at));
		const char *space;
		unsigned long size;
		if (!line_end)
			break;
		space = memrchr(at, ' ', (size_t)(line_end - at));
		if (!space)
			break;
		at = line_end + 1;
		if (space[1] < '0' || space[1] > '9')
			continue; /* missing */
		size = strtoul(space + 1, NULL, 10);
		if (size >= (size_t)(end - at))
			break;
		take_blob(search, at, size);
		at += size + 1;
	}
	if (at < end)
		return err_set(err, ERR_INTERNAL,
			       "git cat-file answered what is not understood");
	return 0;
}

static int read_group(struct search *search, struct err *err)
{
	static const char *const args[] = { "cat-file", "--batch", "--buffer", NULL };
	AUTO_STR struct str said = STR_INIT;

	if (search->grouped == 0)
		return 0;
	if (git_run(&(struct git_call){ .work = search->work,
					.repository = search->repo->path,
					.reach = git_reach_of(search->repo),
					.args = args,
					.input = &search->group,
					.output = &said,
					.output_limit = GROUP * (LFS_POINTER_LIMIT + 128),
					.yields = true },
		    err) != 0)
		return -1;
	str_reset(&search->group);
	search->grouped = 0;
	return take_blobs(search, &said, err);
}

/* Lines of one name each; what is behind the last whole one stays in *rest. */
static int take_names(struct search *search, struct str *rest, struct err *err)
{
	char *at = rest->data;
	char *end;

	while ((end = memchr(at, '\n', rest->len - (size_t)(at - rest->data))) != NULL) {
		str_add_bytes(&search->group, at, (size_t)(end - at) + 1);
		at = end + 1;
		if (++search->grouped == GROUP && read_group(search, err) != 0)
			return -1;
	}
	AUTO_STR struct str left = STR_INIT;
	str_add(&left, at);
	str_reset(rest);
	str_add(rest, left.data);
	return 0;
}

static int lfs_search_take_output(struct search *search, struct git_stream *stream,
				  struct err *err)
{
	AUTO_STR struct str rest = STR_INIT;
	char buffer[16 << 10];
	ssize_t got;

	while ((got = proc_stream_read(git_stream_proc(stream), buffer, sizeof(buffer))) >
	       0) {
		str_add_bytes(&rest, buffer, (size_t)got);
		if (take_names(search, &rest, err) != 0)
			return -1;
	}
	return got < 0 ? err_set(err, ERR_INTERNAL, "git rev-list broke off") : 0;
}

static int lfs_search_walk_objects(struct search *search, const oid_list *tips,
				   const oid_list *known, struct err *err)
{
	static const char *const args[] = { "rev-list",
					    "--ignore-missing",
					    "--objects",
					    "--no-object-names",
					    "--use-bitmap-index",
					    "--filter=blob:limit=1024",
					    "--filter=object:type=blob",
					    "--filter-provided-objects",
					    "--stdin",
					    NULL };
	const char *strict[ARRAY_SIZE(args) - 1] = { args[0] };
	AUTO_STR struct str input = STR_INIT;
	struct git_stream *stream = NULL;
	struct err ended;

	memcpy(strict + 1, args + 2, sizeof(strict) - sizeof(strict[0]));
	oid_list_add_lines(known, "^", &input);
	oid_list_add_lines(tips, "", &input);
	if (git_stream_open(&(struct git_call){ .work = search->work,
						.repository = search->repo->path,
						.args = known->count > 0 ? strict : args,
						.input = &input,
						.yields = true },
			    -1, &stream, err) != 0)
		return -1;
	int result = lfs_search_take_output(search, stream, err);
	if (git_stream_close(stream, &ended) == 0)
		return result;
	if (result == 0 || err->class == ERR_INTERNAL)
		*err = ended;
	return -1;
}

/* Adds, in no order and maybe more than once, what the pointers name that are reached
 * from `tips` and not from `known`. It fails, too, if one of `known` is not there any
 * more; tips that are not there are passed over if nothing is known. */
static int lfs_search(const struct git_work *work, const struct repo *repo,
		      const oid_list *tips, const oid_list *known, lfs_rows *rows,
		      struct err *err)
{
	struct search search = {
		.work = work, .repo = repo, .group = STR_INIT, .rows = rows
	};
	int result = 0;

	if (tips->count > 0)
		result = lfs_search_walk_objects(&search, tips, known, err);
	if (result == 0)
		result = read_group(&search, err);
	str_clear(&search.group);
	return result;
}

/* How many of `known` are not there any more. */
static int lfs_search_gone(const struct git_work *work, const struct repo *repo,
			   const oid_list *known, size_t *count, struct err *err)
{
	static const char *const args[] = { "cat-file", "--batch-check=x", "--buffer",
					    NULL };
	AUTO_STR struct str input = STR_INIT;
	AUTO_STR struct str said = STR_INIT;

	*count = 0;
	oid_list_add_lines(known, "", &input);
	if (git_run(&(struct git_call){ .work = work,
					.repository = repo->path,
					.reach = git_reach_of(repo),
					.args = args,
					.input = &input,
					.output = &said,
					.output_limit = input.len + 16 * known->count,
					.yields = true },
		    err) != 0)
		return -1;
	for (const char *at = said.data; (at = strstr(at, " missing\n")) != NULL; at++)
		++*count;
	return 0;
}

/* Whether a commit is reached from `known` and not from `tips`: 1, 0 or -1. */
static int lfs_search_lost(const struct git_work *work, const struct repo *repo,
			   const oid_list *tips, const oid_list *known, struct err *err)
{
	static const char *const args[] = { "rev-list", "--max-count=1", "--stdin",
					    NULL };
	AUTO_STR struct str input = STR_INIT;
	AUTO_STR struct str said = STR_INIT;

	if (known->count == 0)
		return 0;
	oid_list_add_lines(tips, "^", &input);
	oid_list_add_lines(known, "", &input);
	if (git_run(&(struct git_call){ .work = work,
					.repository = repo->path,
					.reach = git_reach_of(repo),
					.args = args,
					.input = &input,
					.output = &said,
					.output_limit = 128,
					.yields = true },
		    err) != 0)
		return -1;
	return said.len > 0;
}

enum {
	PAUSE_MS = 2000,
	PAUSE_MAX_MS = 60 * 1000,
	PAUSE_SHARE = 50,
	PAGE = 100,
	MARK_SIZE = 64,
	TURN_MS = 60 * 1000 /* so long the thread waits for who looks */
};
#define TIMEOUT_MS ((int64_t)3 * 3600 * 1000)
#define WHOLE_AGAIN_MS ((int64_t)24 * 3600 * 1000)

struct lfs_names {
	struct lfs_names_options options;
	char *root, *data, *kind; /* owned */
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	VEC(struct look *) busy; /* guarded by mutex, as next; owned by who looks */
	struct look *next;       /* the thread's, which waits for one of those; or NULL */
	struct map failures;     /* of struct failure, owned; the thread's own, as: */
	int64_t again_at;        /* when one is due that this round left, boot ms */
	int64_t spent_ms;        /* in this round, in histories */
	struct stop stop;
	pthread_t thread;
};

/* What could not be looked through. */
struct failure {
	char mark[MARK_SIZE];
	uint64_t count; /* in a row */
	int64_t due_at; /* boot ms */
};

/* A look at one repository. */
struct look {
	struct lfs_names *names;
	const char *name;
	int64_t until;   /* boot ms */
	bool is_threads; /* lfs-names looks */
	struct lfs_scan now, before;
	bool has_before;
	struct ref_reading reading;
	lfs_rows rows;
	bool is_whole;
	bool is_other; /* it may be another repository than the one before */
};

static void mark_of(const struct lfs_scan *scan, char mark[MARK_SIZE])
{
	snprintf(mark, MARK_SIZE, "%s-%" PRIu64, scan->timeline, scan->generation);
}

/* store_work; arg: struct look */
static int read_scans(struct store_tx *tx, void *arg, struct err *err)
{
	struct look *look = arg;
	enum lfs_side side = look->names->options.side;
	int found;

	lfs_scan_clear(&look->now);
	lfs_scan_clear(&look->before);
	found = lfs_scan_now(tx, side, look->name, &look->now, err);
	if (found == 0)
		err_set(err, ERR_MISSING, "%s: no such repository is here", look->name);
	if (found <= 0)
		return -1;
	found = lfs_scan_get(tx, look->now.repository, &look->before, err);
	look->has_before = found > 0 && look->before.timeline[0];
	return found < 0 ? -1 : 0;
}

static bool lfs_names_is_observation_done(const struct look *look)
{
	return look->has_before &&
	       strcmp(look->now.timeline, look->before.timeline) == 0 &&
	       look->now.generation == look->before.generation;
}

/* Fills in what was looked through before; without that all has to be. */
static void find_known(struct look *look, const char *folder, oid_list *known)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	char mark[MARK_SIZE];

	look->is_whole = true;
	look->is_other = look->has_before &&
			 strcmp(look->now.timeline, look->before.timeline) != 0;
	if (!look->has_before || look->is_other)
		return;
	mark_of(&look->before, mark);
	if (!recorded_refs_read(folder, look->now.repository, mark, look->reading.oid_len,
				&refs))
		return;
	oid_list_add_tips(known, &refs);
	look->is_whole = false;
}

ORDER_BY_TEXT(compare_rows, struct lfs_row, oid);

static void lfs_names_tidy_rows(lfs_rows *rows)
{
	size_t kept = 0;

	vec_sort(rows, compare_rows);
	for (size_t i = 0; i < rows->count; i++)
		if (kept == 0 || compare_rows(&rows->items[kept - 1], &rows->items[i]))
			rows->items[kept++] = rows->items[i];
	rows->count = kept;
}

static bool may_be_whole_again(const struct look *look)
{
	return look->before.named > 0 &&
	       clock_wall_ms() - look->before.whole_at >= WHOLE_AGAIN_MS;
}

/* All of it, as what was looked through before cannot be left out. */
static int search_anew(struct look *look, const struct git_work *work,
		       const struct repo *repo, const oid_list *tips,
		       const oid_list *known, struct err *err)
{
	const oid_list none = { 0 };
	size_t gone;

	if (lfs_search_gone(work, repo, known, &gone, err) != 0)
		return -1;
	look->is_whole = true;
	look->is_other |= gone == known->count;
	vec_clear(&look->rows);
	return lfs_search(work, repo, tips, &none, &look->rows, err);
}

static int search_known(struct look *look, const struct git_work *work,
			const struct repo *repo, const oid_list *tips, oid_list *known,
			struct err *err)
{
	int result = 0;

	if (may_be_whole_again(look))
		result = lfs_search_lost(work, repo, tips, known, err);
	if (result > 0) {
		look->is_whole = true;
		vec_clear(known);
	}
	if (result >= 0)
		result = lfs_search(work, repo, tips, known, &look->rows, err);
	if (result == 0 || known->count == 0 || err->class == ERR_CANCELED ||
	    err->class == ERR_TIMEOUT)
		return result;
	return search_anew(look, work, repo, tips, known, err);
}

static int search(struct look *look, int root, const char *path, oid_list *known,
		  struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	const struct git_work work = { .stop = &look->names->stop,
				       .guard_fd = -1,
				       .until = look->until };
	oid_list tips = { 0 };
	int result = -1;

	oid_list_add_tips(&tips, &look->reading.refs);
	if (repo_open(root, path, &repo, err) == 0 && repo_check_files(&repo, err) == 0) {
		free(repo.path);
		repo.path = xasprintf("%s/%s", look->names->root, path);
		result = search_known(look, &work, &repo, &tips, known, err);
	}
	vec_clear(&tips);
	return result;
}

/* store_work; arg: struct look */
static int lfs_names_write_rows(struct store_tx *tx, void *arg, struct err *err)
{
	struct look *look = arg;
	const struct lfs_found found = {
		.scan = &look->now,
		.rows = &look->rows,
		.is_whole = look->is_whole,
		.is_other = look->is_other,
	};

	return lfs_rows_put(tx, &found, err);
}

static int lfs_names_record_observation(struct look *look, const char *folder,
					struct err *err)
{
	char mark[MARK_SIZE];

	look->now.whole_at = look->is_whole ? clock_wall_ms() : look->before.whole_at;
	lfs_names_tidy_rows(&look->rows);
	if (store_write(look->names->options.store, lfs_names_write_rows, look, err) != 0)
		return -1;
	mark_of(&look->now, mark);
	return recorded_refs_write(folder, look->now.repository, mark,
				   &look->reading.refs, err);
}

static int look_through(struct look *look, struct err *err)
{
	AUTO_FREE char *folder = xasprintf("%s/lfs", look->names->data);
	AUTO_CLOSE int root = dir_open(AT_FDCWD, look->names->root, err);
	AUTO_FREE char *path = NULL;
	int64_t begun_at = clock_boot_ms();
	oid_list known = { 0 };
	int found, result;

	if (root < 0)
		return -1;
	found = locate_repository(root, look->name, &path, err);
	if (found == 0)
		err_set(err, ERR_MISSING, "%s: no such repository is here", look->name);
	if (found <= 0 || ref_reading_take_refs(root, path, &look->reading, err) != 0)
		return -1;
	find_known(look, folder, &known);
	result = search(look, root, path, &known, err);
	vec_clear(&known);
	if (result != 0 || lfs_names_record_observation(look, folder, err) != 0)
		return -1;
	log_debug("lfs.looked", LOG_NUMBER("dur_ms", clock_boot_ms() - begun_at),
		  LOG_TEXT("repo", look->name), LOG_NUMBER("found", look->rows.count),
		  LOG_NUMBER("named", look->now.named));
	return 0;
}

static void lfs_names_clear_observation(struct look *look)
{
	lfs_scan_clear(&look->now);
	lfs_scan_clear(&look->before);
	ref_reading_clear(&look->reading);
	vec_clear(&look->rows);
}

/* Whom this one lets go first, or NULL. */
static struct look *find_earlier_locked(const struct look *look)
{
	struct lfs_names *names = look->names;

	for (size_t i = 0; i < names->busy.count; i++)
		if (strcmp(names->busy.items[i]->name, look->name) == 0)
			return names->busy.items[i];
	return names->next && names->next != look &&
			       strcmp(names->next->name, look->name) == 0
		       ? names->next
		       : NULL;
}

/* The thread leaves a repository to a job, which has as much time as it has itself. */
static bool lfs_names_wait_locked(struct look *look)
{
	struct lfs_names *names = look->names;
	const int64_t until = look->is_threads ? clock_boot_ms() + TURN_MS : look->until;
	const struct look *earlier;

	while ((earlier = find_earlier_locked(look)) != NULL) {
		if (look->is_threads && earlier->until > until)
			return false;
		if (look->is_threads)
			names->next = look;
		if (stop_is_requested(&names->stop) ||
		    !cond_wait_until(&names->changed, &names->mutex, until))
			return false;
	}
	return true;
}

/* Only one looks through a repository. False: somebody still does. */
static bool lfs_names_begin_observation(struct look *look)
{
	struct lfs_names *names = look->names;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&names->mutex);
	bool is_begun = lfs_names_wait_locked(look);

	if (is_begun)
		vec_add(&names->busy, look);
	if (names->next == look) {
		names->next = NULL;
		pthread_cond_broadcast(&names->changed);
	}
	return is_begun;
}

static void lfs_names_end_observation(struct look *look)
{
	struct lfs_names *names = look->names;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&names->mutex);

	for (size_t i = 0; i < names->busy.count; i++)
		if (names->busy.items[i] == look)
			names->busy.items[i] = names->busy.items[--names->busy.count];
	pthread_cond_broadcast(&names->changed);
}

static int lfs_names_observe(struct look *look, struct err *err)
{
	struct store *store = look->names->options.store;
	int result = store_read(store, read_scans, look, err);

	if (result == 0 && !lfs_names_is_observation_done(look)) {
		if (!lfs_names_begin_observation(look)) {
			lfs_names_clear_observation(look);
			return err_set(err, ERR_BUSY,
				       "%s: its history is still looked through",
				       look->name);
		}
		result = store_read(store, read_scans, look, err);
		if (result == 0 && !lfs_names_is_observation_done(look))
			result = look_through(look, err);
		lfs_names_end_observation(look);
	}
	lfs_names_clear_observation(look);
	return result;
}

/* The thread, which has more time, begins anew. */
int lfs_names_look(struct lfs_names *names, const char *name, int64_t until,
		   struct err *err)
{
	struct look look = { .names = names, .name = name, .until = until };

	if (lfs_names_observe(&look, err) == 0)
		return 0;
	return err->class == ERR_TIMEOUT
		       ? err_set(err, ERR_BUSY,
				 "%s: its history takes longer to be looked through",
				 name)
		       : -1;
}

static void lfs_names_visit_again(struct lfs_names *names, int64_t at)
{
	names->again_at = names->again_at < at ? names->again_at : at;
}

/* What could not be looked through is tried again after a while, or at once when it has
 * changed. */
static bool failed_before(struct lfs_names *names, const struct lfs_scan *scan)
{
	const struct failure *failed = map_get(&names->failures, scan->name);
	char mark[MARK_SIZE];

	mark_of(scan, mark);
	if (!failed || strcmp(failed->mark, mark) != 0 ||
	    failed->due_at <= clock_boot_ms())
		return false;
	lfs_names_visit_again(names, failed->due_at);
	return true;
}

static void lfs_names_note_failure(struct lfs_names *names, const struct lfs_scan *scan,
				   const struct err *err)
{
	struct failure *failed = map_get(&names->failures, scan->name);
	char mark[MARK_SIZE];

	if (err->class == ERR_BUSY || err->class == ERR_CONFLICT)
		lfs_names_visit_again(names, 0);
	if (err->class == ERR_CANCELED || err->class == ERR_MISSING ||
	    err->class == ERR_BUSY || err->class == ERR_CONFLICT)
		return;
	log_warn("lfs.look_failed", LOG_ERR(err), LOG_TEXT("repo", scan->name));
	if (!failed) {
		failed = xcalloc(1, sizeof(*failed));
		map_put(&names->failures, scan->name, failed);
	}
	mark_of(scan, mark);
	if (strcmp(failed->mark, mark) != 0)
		failed->count = 0;
	memcpy(failed->mark, mark, sizeof(mark));
	failed->due_at =
		clock_boot_ms() + retry_random_delay_ms(++failed->count, RETRY_CAP);
	lfs_names_visit_again(names, failed->due_at);
}

/* A page of rows, for store works. */
struct page {
	const struct lfs_names *names;
	const char *after;
	lfs_scans scans;
};

static int lfs_names_read_due(struct store_tx *tx, void *arg, struct err *err)
{
	struct page *page = arg;

	lfs_scans_clear(&page->scans);
	return lfs_scans_due(tx, page->names->options.side, page->after, PAGE,
			     &page->scans, err);
}

static int read_naming(struct store_tx *tx, void *arg, struct err *err)
{
	struct page *page = arg;

	lfs_scans_clear(&page->scans);
	return lfs_scans_naming(tx, page->after, PAGE, &page->scans, err);
}

typedef void (*visit_scan)(struct lfs_names *names, const struct lfs_scan *scan);

static int lfs_names_visit_each(struct lfs_names *names, store_work read,
				visit_scan visit, struct err *err)
{
	AUTO_FREE char *after = xstrdup("");
	bool has_more = true;

	while (has_more && !stop_is_requested(&names->stop)) {
		struct page page = { .names = names, .after = after };
		int result = store_read(names->options.store, read, &page, err);
		for (size_t i = 0; result == 0 && i < page.scans.count; i++)
			if (!stop_is_requested(&names->stop))
				visit(names, &page.scans.items[i]);
		has_more = page.scans.count == PAGE;
		if (has_more) {
			free(after);
			after = xstrdup(page.scans.items[PAGE - 1].name);
		}
		lfs_scans_clear(&page.scans);
		if (result != 0)
			return -1;
	}
	return 0;
}

static void visit_due(struct lfs_names *names, const struct lfs_scan *scan)
{
	int64_t begun_at = clock_boot_ms();
	struct look look = { .names = names,
			     .name = scan->name,
			     .until = begun_at + TIMEOUT_MS,
			     .is_threads = true };
	struct err err;

	if (failed_before(names, scan))
		return;
	if (lfs_names_observe(&look, &err) != 0)
		lfs_names_note_failure(names, scan, &err);
	else
		free(map_remove(&names->failures, scan->name));
	names->spent_ms += clock_boot_ms() - begun_at;
}

static int write_count(struct store_tx *tx, void *arg, struct err *err)
{
	return lfs_scan_set_absent(tx, arg, err);
}

static void visit_naming(struct lfs_names *names, const struct lfs_scan *scan)
{
	struct lfs_scan counted = *scan; /* its name is borrowed */
	struct store *store = names->options.store;
	struct err err;

	if (lfs_scan_count(store, names->options.side, names->kind, &counted, &err) !=
		    0 ||
	    (counted.absent != scan->absent &&
	     store_write(store, write_count, &counted, &err) != 0))
		log_warn("lfs.not_counted", LOG_ERR(&err), LOG_TEXT("repo", scan->name));
}

static int prune(struct store_tx *tx, void *arg, struct err *err)
{
	const struct lfs_names *names = arg;

	return lfs_rows_prune(tx, names->options.side, err);
}

static int lfs_names_visit_all(struct lfs_names *names, struct err *err)
{
	struct store *store = names->options.store;
	int orphans;

	if (lfs_names_visit_each(names, lfs_names_read_due, visit_due, err) != 0 ||
	    lfs_names_visit_each(names, read_naming, visit_naming, err) != 0 ||
	    (orphans = lfs_rows_have_orphans(store, names->options.side, err)) < 0)
		return -1;
	return orphans > 0 ? store_write(store, prune, names, err) : 0;
}

/* Nothing is asked as long as nobody wrote to the database and nothing is tried again,
 * and seldom where asking takes long. */
static void *lfs_names_run_thread(void *arg)
{
	struct lfs_names *names = arg;
	struct store_stamp done = { 0 };
	int64_t pause_ms = 0;
	struct err err;

	while (!stop_wait(&names->stop, pause_ms)) {
		int64_t begun_at = clock_boot_ms();
		struct store_stamp stamp;
		bool is_known = store_stamp(names->options.store, &stamp);
		pause_ms = PAUSE_MS;
		names->spent_ms = 0;
		if (is_known && store_stamp_equal(&stamp, &done) &&
		    begun_at < names->again_at)
			continue;
		names->again_at = INT64_MAX;
		if (lfs_names_visit_all(names, &err) == 0)
			done = stamp;
		else
			log_warn("lfs.not_looked", LOG_ERR(&err));
		pause_ms += (clock_boot_ms() - begun_at - names->spent_ms) * PAUSE_SHARE;
		pause_ms = pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS;
	}
	return NULL;
}

struct lfs_names *lfs_names_start(const struct lfs_names_options *options)
{
	struct lfs_names *names = xcalloc(1, sizeof(*names));

	names->options = *options;
	names->root = xstrdup(options->root);
	names->data = xstrdup(options->data);
	names->kind = xstrdup(options->kind);
	mutex_init(&names->mutex);
	cond_init(&names->changed);
	stop_init(&names->stop);
	thread_start(&names->thread, "lfs-names", lfs_names_run_thread, names);
	return names;
}

void lfs_names_interrupt(struct lfs_names *names)
{
	if (!names)
		return;
	lock(&names->mutex);
	stop_request(&names->stop);
	pthread_cond_broadcast(&names->changed);
	unlock(&names->mutex);
}

void lfs_names_stop(struct lfs_names *names)
{
	if (!names)
		return;
	lfs_names_interrupt(names);
	thread_join(names->thread);
	map_clear_owned(&names->failures);
	vec_clear(&names->busy);
	pthread_cond_destroy(&names->changed);
	pthread_mutex_destroy(&names->mutex);
	stop_clear(&names->stop);
	free(names->root);
	free(names->data);
	free(names->kind);
	free(names);
}
