/*
 * What a tree has is listed, and each is looked at: most copies are equal already, and a
 * look at the disk tells it, without a row, a lease or a process. Of the others the pull
 * engine gets rows, and brings them. Then what the source lacks is removed, or held.
 *
 * A file's copy counts as equal if size and time of change are: it gets those of its
 * source, but only once it has been read from disk and found equal. So a second run reads
 * nothing, and what was killed in between is copied or compared again.
 */
#include "cli/replicate_run.h"

#include <poll.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "blob/incoming.h"
#include "blob/walk.h"
#include "cli/cli.h"
#include "git/repo.h"
#include "job/job.h"
#include "job/pool.h"
#include "pull/hold.h"
#include "pull/sync_repository.h"
#include "replicable/name.h"
#include "upkeep/trash.h"

#define SYNC_TIMEOUT_MS ((int64_t)3 * 3600 * 1000)
#define FILE_TIMEOUT_MS ((int64_t)365 * 24 * 3600 * 1000)
#define ROWS_AT_ONCE ((size_t)50000)

static struct item *tree_add(struct tree *tree, const char *name)
{
	struct item item = { .tree = tree, .name = xstrdup(name) };

	vec_add(&tree->items, item);
	return &tree->items.items[tree->items.count - 1];
}

ORDER_BY_TEXT(item_compare, struct item, name);

struct item *replicate_find(struct tree *tree, const char *name)
{
	const struct item key = { .name = (char *)(uintptr_t)name };

	return tree->listed == 0 ? NULL
				 : bsearch(&key, tree->items.items, tree->listed,
					   sizeof(key), item_compare);
}

/* The source may lack it. */
static void tree_add_copy(struct tree *tree, const char *name, const char *path)
{
	tree->copies++;
	if (!replicate_find(tree, name))
		tree_add(tree, name)->path = path;
}

static void item_fail(struct item *item, const struct err *err)
{
	item->end = ITEM_FAILED;
	item->err = xmalloc(sizeof(*err));
	*item->err = *err;
}

/*
 * Repositories, of a directory or a primary.
 */

static int repositories_list_directory(struct tree *tree, struct err *err)
{
	if (discover(tree->from, &tree->there, err) != 0)
		return -1;
	for (size_t i = 0; i < tree->there.found.count; i++)
		tree_add(tree, tree->there.found.items[i].name);
	tree->origin = source_new_directory(tree->from, &tree->there);
	return 0;
}

#define PAGE 10000
#define TRIES 3

static int primary_open_as(struct tree *tree, struct err *err)
{
	const struct replicate_options *options = tree->options;
	AUTO_SITE_KEY struct site_key key = { .secret = STR_INIT };
	char host[SITE_NAME_SIZE] = "";

	gethostname(host, sizeof(host) - 1);
	if (options->secret_file && site_key_read(options->site ? options->site : host,
						  options->secret_file, &key, err) != 0)
		return -1;
	if (primary_open(tree->from, options->secret_file ? &key : NULL, &tree->primary,
			 err) != 0)
		return -1;
	primary_trust(tree->primary, options->ca_file);
	return 0;
}

/* Those from the first on. */
static void tree_forget_items(struct tree *tree, size_t first)
{
	for (size_t i = first; i < tree->items.count; i++) {
		struct item *item = &tree->items.items[i];
		if (item->reported)
			inventory_item_clear(item->reported);
		free(item->reported);
		free(item->name);
		free(item->reason);
		free(item->err);
	}
	tree->items.count = first;
}

/* One a page: the others of it are counted. */
static void repositories_note_skipped(struct tree *tree,
				      const struct inventory_page *page)
{
	struct discover_finding one = { .hides_names = true };

	if (page->skipped == 0)
		return;
	one.path = xstrdup(page->skipped_example);
	err_set(&one.err, ERR_CONFIG, "%zu of the primary's names are not valid here",
		page->skipped);
	err_remedy(&one.err, "rename at the primary");
	vec_add(&tree->there.findings, one);
}

/* 1: the log became another one between two pages (the primary was restored): what is
 * absent then proves nothing. */
static int repositories_list_once(struct tree *tree, struct primary_line *line,
				  struct err *err)
{
	AUTO_FREE char *after = NULL;
	const struct kind kind = kind_of_repositories(NULL);
	char timeline[TIMELINE_SIZE] = "";
	int result = 0;

	tree_forget_items(tree, 0);
	discovery_clear(&tree->there);
	do {
		const struct page_question question = { .after = after, .limit = PAGE };
		struct inventory_page page;
		if (primary_inventory(line, &kind, &question, &page, err) < 0)
			return -1;
		if (timeline[0] && strcmp(timeline, page.timeline) != 0)
			result = 1;
		memcpy(timeline, page.timeline, sizeof(timeline));
		repositories_note_skipped(tree, &page);
		for (size_t i = 0; i < page.items.count; i++) {
			struct item *item = tree_add(tree, page.items.items[i].name);
			item->reported = xmalloc(sizeof(*item->reported));
			*item->reported = page.items.items[i];
		}
		page.items.count = 0; /* they are the items' */
		free(after);
		after = TAKE(page.next);
		inventory_page_clear(&page);
	} while (after && result == 0);
	return result;
}

static int repositories_list_primary(struct tree *tree, struct err *err)
{
	struct primary_line *line;
	int result = 1;

	if (primary_open_as(tree, err) != 0 ||
	    primary_line_open(tree->primary, tree->stop, &line, err) != 0)
		return -1;
	for (int tries = 0; tries < TRIES && result > 0; tries++)
		result = repositories_list_once(tree, line, err);
	primary_line_close(line);
	tree->origin = source_new_primary(tree->primary, SYNC_TIMEOUT_MS, tree->stop);
	if (result <= 0)
		return result;
	err_set(err, ERR_CONFLICT,
		"the primary's event log was replaced while it was read");
	return err_remedy(err, "check the primary's log, then repeat");
}

static int repositories_list(struct tree *tree, struct err *err)
{
	AUTO_FREE char *own = xasprintf("%s/" OWN_FOLDER, tree->to);
	bool is_url = replicate_is_url(tree->source);

	if ((is_url ? repositories_list_primary(tree, err)
		    : repositories_list_directory(tree, err)) != 0 ||
	    discover(tree->to, &tree->here, err) != 0 ||
	    site_data_open_directory(own, &tree->data, err) != 0)
		return -1;
	staging_clear(tree->data.leases, tree->to);
	return 0;
}

static int repositories_look(struct item *item, struct err *err)
{
	const struct inventory_item *told = item->reported;
	const struct sync_request request = { .source = item->tree->origin,
					      .root = item->tree->to,
					      .name = item->name };

	(void)err;
	if (!told)
		return sync_is_current(&request);
	return sync_is_recorded(
		&request, &(struct sync_reported){ .checksum = told->checksum,
						   .timeline = told->timeline,
						   .generation = told->generation });
}

static void repositories_brought(struct item *item, const struct pull_item *ended)
{
	struct inventory_item *told = item->reported;

	if (!told)
		return;
	free(told->checksum);
	told->checksum = xstrdup(ended->checksum);
	snprintf(told->timeline, sizeof(told->timeline), "%s", ended->timeline);
	told->generation = ended->generation;
}

static int repositories_list_copies(struct tree *tree, struct err *err)
{
	(void)err;
	for (size_t i = 0; i < tree->here.found.count; i++)
		tree_add_copy(tree, tree->here.found.items[i].name,
			      tree->here.found.items[i].path);
	return 0;
}

static int repositories_trash(struct job *job, void *arg, struct err *err)
{
	const struct item *item = arg;
	char *to = NULL;
	int result = trash_put(job, item->tree->to, item->path, &to, err);

	free(to);
	return result;
}

static int repositories_discard(struct item *item, struct err *err)
{
	return job_run(
		&(struct job_request){
			.leases = item->tree->data.leases,
			.kind = KIND_REPOSITORY,
			.name = item->name,
			.operation = "remove",
			.fence_floor = job_fence_floor(item->tree->to, item->name),
			.wait_ms = lease_manager_wait_ms(item->tree->data.leases),
			.stop = item->tree->stop,
			.run = repositories_trash,
			.arg = item,
		},
		err);
}

const struct tree_kind replicate_repositories = {
	.type = KIND_REPOSITORY,
	.prefix = "",
	.source = "SOURCE",
	.dest = "DEST",
	.of_source = "repository",
	.of_dest = "copies",
	.list = repositories_list,
	.look = repositories_look,
	.brought = repositories_brought,
	.list_copies = repositories_list_copies,
	.discard = repositories_discard,
};

/*
 * Files.
 */

static char files_type[] = "blobs";

static int files_take(void *arg, const char *id,
		      const struct blob_fingerprint *fingerprint, struct err *err)
{
	struct tree *tree = arg;

	struct item *item = tree_add(tree, id);

	(void)err;
	item->fingerprint = *fingerprint;
	source_file_timeline(fingerprint, item->timeline);
	tree->bytes += fingerprint->size;
	return 0;
}

static void files_take_finding(void *arg, const struct blob_finding *finding)
{
	struct tree *tree = arg;
	const struct discover_finding one = { .path = xstrdup(finding->path),
					      .err = *finding->why,
					      .hides_names = finding->hides_names };

	vec_add(&tree->there.findings, one);
}

static int files_list(struct tree *tree, struct err *err)
{
	const struct blob_visitor visitor = { .file = files_take,
					      .finding = files_take_finding,
					      .arg = tree };

	tree->from_kind = (struct blob_kind){ .type = files_type, .path = tree->from };
	tree->to_kind = (struct blob_kind){ .type = files_type, .path = tree->to };
	tree->from_fd = blob_root_open(&tree->from_kind, err);
	if (tree->from_fd < 0)
		return err_remedy(err, "FROM must be a directory that can be read");
	tree->to_fd = blob_root_open(&tree->to_kind, err);
	if (tree->to_fd < 0)
		return err_remedy(err, "TO must be a directory that can be written to");
	blob_incoming_expire(&tree->to_kind, BLOB_INCOMING_KEEP_MS);
	tree->origin = source_new_files(tree->from_fd);
	return blob_walk(&tree->from_kind, &visitor, tree->stop, err);
}

static int files_set_time(int fd, const struct blob_fingerprint *source, struct err *err)
{
	const int64_t second = 1000000000;
	int64_t ns = source->mtime_ns % second, s = source->mtime_ns / second;
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT },
					  { .tv_sec = ns < 0 ? s - 1 : s,
					    .tv_nsec = ns < 0 ? ns + second : ns } };

	return futimens(fd, times) == 0 ? 0 : err_errno(err, "cannot set its time");
}

/* Only the time of change differs: both are read. */
static int files_compare(const struct item *item, int to, struct err *err)
{
	const struct tree *tree = item->tree;
	char here[BLOB_DIGEST_SIZE], there[BLOB_DIGEST_SIZE];
	struct blob_fingerprint copy, source;
	struct stat st;
	AUTO_CLOSE int from = -1;

	if (blob_open(tree->from_fd, item->name, &from, &st, err) != 0 ||
	    blob_digest(from, &source, there, tree->stop, err) != 0 ||
	    blob_digest(to, &copy, here, tree->stop, err) != 0)
		return -1;
	if (strcmp(here, there) != 0)
		return 0;
	files_set_time(to, &source, ERR_IGNORED);
	return 1;
}

static int files_look(struct item *item, struct err *err)
{
	struct blob_fingerprint copy;
	AUTO_CLOSE int to = -1;
	struct stat st;

	item->was_there = blob_open(item->tree->to_fd, item->name, &to, &st, err) == 0;
	if (!item->was_there)
		return 0;
	blob_fingerprint_of(&st, &copy);
	if (copy.size != item->fingerprint.size)
		return 0;
	return copy.mtime_ns == item->fingerprint.mtime_ns ? 1
							   : files_compare(item, to, err);
}

/* Read from disk and equal: from now on its time says so, unless the source has changed
 * since it was listed. */
static void files_brought(struct item *item, const struct pull_item *ended)
{
	struct blob_fingerprint source;
	AUTO_CLOSE int from = -1, to = -1;
	struct stat st;

	(void)ended;
	if (item->was_there && item->end == ITEM_CREATED)
		item->end = ITEM_UPDATED;
	if (blob_open(item->tree->from_fd, item->name, &from, &st, ERR_IGNORED) != 0)
		return;
	blob_fingerprint_of(&st, &source);
	if (blob_fingerprint_same(&source, &item->fingerprint) &&
	    blob_open(item->tree->to_fd, item->name, &to, &st, ERR_IGNORED) == 0)
		files_set_time(to, &source, ERR_IGNORED);
}

static int files_take_copy(void *arg, const char *id,
			   const struct blob_fingerprint *fingerprint, struct err *err)
{
	(void)fingerprint;
	(void)err;
	tree_add_copy(arg, id, "");
	return 0;
}

static int files_list_copies(struct tree *tree, struct err *err)
{
	const struct blob_visitor visitor = { .file = files_take_copy, .arg = tree };

	return blob_walk(&tree->to_kind, &visitor, tree->stop, err);
}

static int files_discard(struct item *item, struct err *err)
{
	int result = blob_discard(item->tree->to_fd, item->name, err);

	return result != 0 && err->class == ERR_MISSING ? 0 : result;
}

const struct tree_kind replicate_files = {
	.type = files_type,
	.prefix = "--blobs: ",
	.source = "FROM",
	.dest = "TO",
	.of_source = "file",
	.of_dest = "files",
	.list = files_list,
	.look = files_look,
	.brought = files_brought,
	.list_copies = files_list_copies,
	.discard = files_discard,
};

/*
 * The run.
 */

/* A copy that was written a moment ago has stamps too young to prove anything. By now
 * they are older: looking once more makes the next run cheap. */
static void look_task(void *arg)
{
	struct item *item = arg;
	struct tree *tree = item->tree;
	struct err err;

	if (stop_is_requested(tree->stop))
		return;
	int current = tree->kind->look(item, &err);
	if (item->end != ITEM_NOT_REACHED)
		return;
	if (current > 0)
		item->end = ITEM_UNCHANGED;
	else if (current < 0 && err.class != ERR_CANCELED)
		item_fail(item, &err);
	if (item->end == ITEM_NOT_REACHED)
		return;
	progress_add(&tree->progress);
	atomic_fetch_add(&tree->progress.bytes, item->fingerprint.size);
}

/* At those that ended so. */
static void replicate_look(struct tree *tree, enum item_end least, enum item_end most)
{
	struct pool *pool = pool_start("look", tree->options->jobs);

	for (size_t i = 0; i < tree->listed; i++)
		if (tree->items.items[i].end >= least && tree->items.items[i].end <= most)
			pool_submit(pool, look_task, &tree->items.items[i]);
	pool_drain(pool);
	pool_stop(pool, NULL);
}

/* Rows of some items, while the engine works on them: so that any number of files needs
 * little memory. */
struct round {
	struct tree *tree;
	size_t first, end;      /* items */
	struct store *registry; /* in memory */
	atomic_size_t left;     /* rows without an outcome */
	struct stop ended;      /* there are none */
};

/* By a worker of the engine. */
static void round_row_ended(void *arg, const struct pull_item *ended)
{
	static const enum item_end ends[] = { [PULL_UNCHANGED] = ITEM_UNCHANGED,
					      [PULL_CREATED] = ITEM_CREATED,
					      [PULL_UPDATED] = ITEM_UPDATED,
					      [PULL_HELD] = ITEM_HELD };
	struct round *round = arg;
	struct tree *tree = round->tree;
	struct item *item = replicate_find(tree, ended->row->name);

	if (!item || item->end != ITEM_NOT_REACHED)
		return;
	/* Requests to a primary are stopped at once, their rows after that. */
	if (ended->end == PULL_FAILED && ended->why.class == ERR_CANCELED &&
	    stop_is_requested(tree->stop))
		return;
	item->refs_changed = ended->refs_changed;
	item->bytes = ended->bytes;
	if (ended->end == PULL_FAILED) {
		item_fail(item, &ended->why);
	} else {
		item->end = ends[ended->end];
		if (item->end == ITEM_HELD) {
			item->reason = xstrdup(ended->held_reason);
			item->remedy = "check that this is intended; repeat with --force "
				       "to overwrite the copy, or move the copy away";
		} else
			tree->kind->brought(item, ended);
	}
	progress_add(&tree->progress);
	if (atomic_fetch_sub(&round->left, 1) == 1)
		stop_request(&round->ended);
}

/* Rows of those that are not equal by a look. */
static int replicate_ask_rows(struct store_tx *tx, void *arg, struct err *err)
{
	const struct round *round = arg;
	const struct tree *tree = round->tree;
	VEC(struct registry_ask) asks = { 0 };
	int result;

	for (size_t i = round->first; i < round->end; i++) {
		const struct item *item = &tree->items.items[i];
		struct registry_ask ask = { .name = item->name };
		if (item->end != ITEM_NOT_REACHED)
			continue;
		if (tree->options->is_forced)
			ask.move.wishes = REGISTRY_WISH_FORCE;
		if (tree->kind == &replicate_files) {
			ask.move.timeline = item->timeline;
			ask.move.generation = SOURCE_FILE_GENERATION;
			ask.move.size = item->fingerprint.size;
		}
		vec_add(&asks, ask);
	}
	result = registry_ask_many_in(tx, tree->kind->type, asks.items, asks.count, err);
	vec_clear(&asks);
	return result < 0 ? -1 : 0;
}

/* Until each row has an outcome, or stop. */
static void round_wait(struct round *round)
{
	const struct stop *stop = round->tree->stop;
	struct pollfd fds[] = { { .fd = round->ended.fd, .events = POLLIN },
				{ .fd = stop->fd, .events = POLLIN } };

	while (!stop_is_requested(&round->ended) && !stop_is_requested(stop))
		poll(fds, ARRAY_SIZE(fds), -1);
}

static int round_run(struct round *round, struct err *err)
{
	struct tree *tree = round->tree;
	const bool is_files = tree->kind == &replicate_files;
	AUTO_KINDS struct kinds_here here = { 0 };
	const struct pull_once once = {
		.source = tree->origin,
		/* Files have none. */
		.lease_wait_ms = is_files ? 0 : lease_manager_wait_ms(tree->data.leases),
		.bytes = &tree->progress.bytes,
		.ended = round_row_ended,
		.arg = round
	};
	const struct pull_options options = {
		.store = round->registry,
		.leases = tree->data.leases,
		.once = &once,
		.here = &here,
		.settings = { .repository_capacity = tree->options->jobs,
			      .blob_capacity = tree->options->jobs,
			      .delete_brake = HOLD_SHARE,
			      .timeout_ms =
				      is_files ? FILE_TIMEOUT_MS : SYNC_TIMEOUT_MS },
	};
	struct pull *pull;
	int result;

	if (is_files)
		blob_kinds_add(&here.blobs, &tree->to_kind);
	kinds_fill(&here, is_files ? NULL : tree->to);
	result = pull_start(&options, &pull, err);
	if (result == 0) {
		round_wait(round);
		pull_stop(pull, 0);
	}
	return result;
}

static int replicate_bring_round(struct tree *tree, size_t first, struct err *err)
{
	struct round round = { .tree = tree, .first = first };
	int result;

	round.end =
		tree->listed - first < ROWS_AT_ONCE ? tree->listed : first + ROWS_AT_ONCE;
	for (size_t i = first; i < round.end; i++)
		round.left += tree->items.items[i].end == ITEM_NOT_REACHED;
	if (round.left == 0 || stop_is_requested(tree->stop))
		return 0;
	if (site_store_open(NULL, true, &round.registry, err) != 0)
		return -1;
	stop_init(&round.ended);
	result = store_write(round.registry, replicate_ask_rows, &round, err);
	if (result == 0)
		result = round_run(&round, err);
	stop_clear(&round.ended);
	store_close(round.registry);
	return result;
}

static int replicate_bring(struct tree *tree, struct err *err)
{
	for (size_t first = 0; first < tree->listed; first += ROWS_AT_ONCE)
		if (replicate_bring_round(tree, first, err) != 0)
			return -1;
	return 0;
}

static bool replicate_ask_user(const struct tree *tree, size_t count)
{
	char answer[16] = "";

	if (tree->kind == &replicate_files || !isatty(STDIN_FILENO) ||
	    !isatty(STDERR_FILENO))
		return false;
	fprintf(stderr,
		"%zu of %zu copies have no repository in SOURCE. Move them to the "
		"trash? [y/N] ",
		count, tree->copies);
	return fgets(answer, sizeof(answer), stdin) &&
	       (answer[0] == 'y' || answer[0] == 'Y');
}

/* Absence proves nothing when not all of the source could be seen, and a source without
 * anything is more likely a disk that is not mounted. NULL: they may go. */
static char *replicate_refuse_deletion(const struct tree *tree, size_t count,
				       const char **remedy)
{
	const struct tree_kind *kind = tree->kind;

	*remedy = "make readable what could not be read, and repeat";
	if (!discovery_is_complete(&tree->there))
		return xasprintf(
			"%s could not be read completely, so nothing counts as deleted",
			kind->source);
	*remedy = "check that this is intended; repeat with --force to delete them "
		  "anyway";
	if (tree->options->is_forced)
		return NULL;
	if (tree->listed == 0)
		return xasprintf("%s has no %s: is its disk mounted?", kind->source,
				 kind->of_source);
	if (hold_limit_stops(HOLD_REPLICABLES, count, tree->copies) &&
	    !replicate_ask_user(tree, count))
		return xasprintf("too many %s would be deleted at once", kind->of_dest);
	return NULL;
}

static bool replicate_is_absent(int cause)
{
	return cause == ENOENT || cause == ENOTDIR;
}

/* The source's items are in the order of their names. */
static bool replicate_has_below(const struct tree *tree, const char *name)
{
	AUTO_FREE char *folder = xasprintf("%s/", name);
	size_t from = 0, to = tree->listed;

	while (from < to) {
		size_t middle = from + (to - from) / 2;
		if (strcmp(tree->items.items[middle].name, folder) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from < tree->listed &&
	       text_starts_with(tree->items.items[from].name, folder);
}

/* A folder of others, such as tools/ beside tools.git; not a work tree. An empty one may
 * be what is left of a repository, or where its file system is to be mounted. */
static bool replicate_is_folder(const struct tree *tree, const char *name,
				const char *path)
{
	AUTO_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	return replicate_has_below(tree, name) && dir >= 0 &&
	       repo_look_into(dir, ERR_IGNORED) == REPO_NOTHING &&
	       fstatat(dir, ".git", &st, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

/* A file that came since FROM was listed, or whose folder was moved meanwhile; a link,
 * there or above it, may lead to what is now kept elsewhere. A folder is none. */
static bool replicate_has_file(const struct tree *tree, const char *id)
{
	struct stat st;
	AUTO_CLOSE int fd =
		path_open_beneath(tree->from_fd, id, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return !replicate_is_absent(errno);
	return fstat(fd, &st) != 0 || !S_ISDIR(st.st_mode);
}

/* What stands there in SOURCE is no repository that could be copied, but it is not
 * nothing: a repository that was damaged, or replaced by a link. What a primary has its
 * inventory says. */
static bool replicate_still_stands(const struct tree *tree, const char *name)
{
	AUTO_FREE char *bare = xasprintf("%s/%s", tree->from, name);
	AUTO_FREE char *usual = xasprintf("%s.git", bare);
	struct stat st;

	if (tree->kind == &replicate_files)
		return replicate_has_file(tree, name);
	if (tree->primary)
		return false;
	if (lstat(usual, &st) == 0 || !replicate_is_absent(errno))
		return true;
	return (lstat(bare, &st) == 0 || !replicate_is_absent(errno)) &&
	       !replicate_is_folder(tree, name, bare);
}

static void replicate_discard(struct item *item)
{
	struct err err;

	if (item->tree->kind->discard(item, &err) == 0)
		item->end = ITEM_DELETED;
	else if (err.class == ERR_MISSING) /* another run did it */
		item->end = ITEM_UNCHANGED;
	else if (err.class != ERR_CANCELED)
		item_fail(item, &err);
}

static void replicate_discard_or_hold(struct item *item, const char *why,
				      const char *remedy)
{
	struct tree *tree = item->tree;

	if (!why && replicate_still_stands(tree, item->name)) {
		why = tree->kind == &replicate_files ? "FROM still has something there"
						     : "SOURCE still has something there";
		remedy = "repair it there, or remove it and repeat";
	}
	if (why) {
		item->end = ITEM_HELD;
		item->reason = xasprintf("not deleted: %s", why);
		item->remedy = remedy;
	} else if (!stop_is_requested(tree->stop)) {
		replicate_discard(item);
	}
}

/* Copies that the source lacks. */
static int replicate_delete(struct tree *tree, struct err *err)
{
	size_t count;

	if (tree->kind->list_copies(tree, err) != 0) {
		if (!tree->options->deletes) /* they are none of this run's */
			tree_forget_items(tree, tree->listed);
		return -1;
	}
	count = tree->items.count - tree->listed;
	if (!tree->options->deletes) {
		tree->only_in_dest = count;
		tree_forget_items(tree, tree->listed);
	}
	if (!tree->options->deletes || count == 0)
		return 0;
	const char *remedy;
	AUTO_FREE char *why = replicate_refuse_deletion(tree, count, &remedy);
	for (size_t i = tree->listed; i < tree->items.count; i++)
		replicate_discard_or_hold(&tree->items.items[i], why, remedy);
	return 0;
}

static int replicate_list(struct tree *tree, struct err *err)
{
	trash_expire(tree->to);
	if (tree->kind->list(tree, err) != 0) {
		tree_forget_items(tree, 0);
		return -1;
	}
	tree->listed = tree->items.count;
	return 0;
}

int replicate_run(struct tree *tree, struct err *err)
{
	int64_t started = clock_boot_ms();
	int result = replicate_list(tree, err);

	if (result == 0) {
		progress_start(&tree->progress, tree->listed, tree->bytes,
			       !tree->options->is_quiet);
		replicate_look(tree, ITEM_NOT_REACHED, ITEM_NOT_REACHED);
		result = replicate_bring(tree, err);
		if (result == 0 && tree->kind == &replicate_repositories)
			replicate_look(tree, ITEM_CREATED, ITEM_UPDATED);
		progress_stop(&tree->progress);
	}
	if (result == 0 && !stop_is_requested(tree->stop))
		result = replicate_delete(tree, err);
	tree->took_ms = clock_boot_ms() - started;
	return result;
}

void replicate_begin(struct tree *tree, const struct replicate_options *options,
		     const struct stop *stop)
{
	tree->options = options;
	tree->stop = stop;
	tree->from_fd = tree->to_fd = -1;
}

void replicate_end(struct tree *tree)
{
	tree_forget_items(tree, 0);
	vec_clear(&tree->items);
	source_free(tree->origin);
	primary_close(tree->primary);
	site_data_close(&tree->data);
	discovery_clear(&tree->there);
	discovery_clear(&tree->here);
	if (tree->from_fd >= 0)
		close(tree->from_fd);
	if (tree->to_fd >= 0)
		close(tree->to_fd);
	free(tree->from);
	free(tree->to);
}

/*
 * Where a tree is.
 */

bool replicate_is_url(const char *source)
{
	return text_starts_with(source, "http://") ||
	       text_starts_with(source, "https://");
}

static int replicate_check_root(const struct tree *tree, const char *path,
				struct err *err)
{
	AUTO_CLOSE int fd = -1;

	if (tree->kind == &replicate_files)
		return 0;
	fd = dir_open(AT_FDCWD, path, err);
	if (fd < 0) {
		if (err->sys_errno == ENOTDIR)
			err_set(err, ERR_CONFIG, "%s is not a directory", path);
		return err->remedy[0] ? -1
				      : err_remedy(err, "name a directory of bare "
							"repositories");
	}
	if (repo_look_at(fd) == REPO_NOTHING)
		return 0;
	err_set(err, ERR_CONFIG, "%s is itself a repository", path);
	return err_remedy(err, "name the directory above it: all repositories below "
			       "SOURCE are copied to the same places below DEST");
}

static int replicate_resolve(const struct tree *tree, const char *path, char **absolute,
			     struct err *err)
{
	*absolute = realpath(path, NULL);
	return *absolute ? 0
			 : err_errno(err, "%scannot find %s", tree->kind->prefix, path);
}

/* Copies of copies would have no end. */
static int replicate_check_pair(const struct tree *tree, const char *to, struct err *err)
{
	const struct tree_kind *kind = tree->kind;

	if (!path_is_below(tree->from, to) && !path_is_below(to, tree->from))
		return 0;
	err_set(err, ERR_CONFIG, "%s%s and %s are inside each other: %s, %s",
		kind->prefix, kind->source, kind->dest, tree->from, tree->dest);
	return err_remedy(err, "choose directories that do not contain each other");
}

/* "host:path" is another machine to rsync and scp; a directory of that name here is
 * hardly meant, unless it is there. */
static int replicate_check_local(const struct tree *tree, const char *path,
				 struct err *err)
{
	const char *colon = strchr(path, ':');

	if (tree->kind == &replicate_files || !colon || text_starts_with(colon, "://") ||
	    memchr(path, '/', (size_t)(colon - path)) || access(path, F_OK) == 0)
		return 0;
	err_set(err, ERR_CONFIG, "%s looks like a place on another machine", path);
	return err_remedy(
		err, "both must be directories on this machine; if it is one, write ./%s",
		path);
}

/* A password there would end up in the output and in records of copies. */
static int replicate_take_url(struct tree *tree, struct err *err)
{
	const char *host = strstr(tree->source, "://") + 3;

	if (memchr(host, '@', strcspn(host, "/"))) {
		err_set(err, ERR_CONFIG, "the URL has a user or a password in it");
		return err_remedy(err, "remove them; --secret-file names the secret "
				       "shared with the primary");
	}
	tree->from = xstrdup(tree->source);
	return 0;
}

static int replicate_take_source(struct tree *tree, struct err *err)
{
	if (replicate_is_url(tree->source))
		return replicate_take_url(tree, err);
	if (tree->kind == &replicate_repositories && strstr(tree->source, "://")) {
		err_set(err, ERR_CONFIG,
			"SOURCE is neither a directory nor an http or https URL: %s",
			tree->source);
		return err_remedy(err, "name a directory of bare repositories, or the "
				       "URL of a refrelay primary");
	}
	if (replicate_check_root(tree, tree->source, err) != 0)
		return -1;
	return replicate_resolve(tree, tree->source, &tree->from, err);
}

/* DEST may not exist yet: nothing is made inside SOURCE before that is refused. */
int replicate_open(struct tree *tree, struct err *err)
{
	AUTO_FREE char *to = path_resolve(tree->dest);

	if (replicate_check_local(tree, tree->source, err) != 0 ||
	    replicate_check_local(tree, tree->dest, err) != 0 ||
	    replicate_take_source(tree, err) != 0 ||
	    replicate_check_pair(tree, to, err) != 0 ||
	    dir_make(AT_FDCWD, tree->dest, err) != 0 ||
	    replicate_check_root(tree, tree->dest, err) != 0 ||
	    replicate_resolve(tree, tree->dest, &tree->to, err) != 0)
		return -1;
	return replicate_check_pair(tree, tree->to, err);
}

static int replicate_check_outside(const char *to, const char *other, struct err *err)
{
	if (!path_is_below(to, other) && !path_is_below(other, to))
		return 0;
	err_set(err, ERR_CONFIG,
		"--blobs: TO contains another directory of this run, or is inside it: "
		"%s, %s",
		to, other);
	return err_remedy(err, "choose a separate directory for each TO");
}

/* --delete takes away what it does not know: the other directory's files would be that.
 */
int replicate_check_apart(const struct tree *files, const struct tree *other,
			  struct err *err)
{
	if (replicate_check_outside(files->to, other->from, err) != 0)
		return -1;
	return replicate_check_outside(files->to, other->to, err);
}
