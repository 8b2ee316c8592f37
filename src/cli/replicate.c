#include <getopt.h>
#include <sched.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/replicate_run.h"
#include "git/repo.h"
#include "job/job.h"
#include "pull/hold.h"
#include "replicable/name.h"
#include "upkeep/trash.h"
#include "wire/wire_token.h"

static int refuse_inside(const struct replicate_run *run, struct err *err)
{
	err_set(err, ERR_CONFIG, "SOURCE and DEST lie inside each other: %s, %s",
		run->source_root, run->options.dest);
	return err_remedy(err, "choose directories of which none is above the other");
}

/* Copies of copies would have no end. */
static int replicate_roots_check_apart(const struct replicate_run *run, struct err *err)
{
	if (path_is_below(run->source_root, run->dest_root) ||
	    path_is_below(run->dest_root, run->source_root))
		return refuse_inside(run, err);
	return 0;
}

static int replicate_roots_check_root(const char *path, struct err *err)
{
	AUTO_CLOSE int fd = dir_open(AT_FDCWD, path, err);

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

static int replicate_roots_resolve_path(const char *path, char **absolute,
					struct err *err)
{
	*absolute = realpath(path, NULL);
	return *absolute ? 0 : err_errno(err, "cannot find %s", path);
}

/* DEST may not exist yet: nothing is made inside SOURCE before that is refused. */
static int check_before_making(struct replicate_run *run, struct err *err)
{
	AUTO_FREE char *path = xstrdup(run->options.dest);
	char *slash;
	int result = 0;

	while ((run->dest_root = realpath(path, NULL)) == NULL && errno == ENOENT &&
	       (slash = strrchr(path, '/')) != NULL && slash != path)
		*slash = '\0';
	if (!run->dest_root)
		run->dest_root = realpath(".", NULL);
	if (run->dest_root && path_is_below(run->dest_root, run->source_root))
		result = refuse_inside(run, err);
	free(TAKE(run->dest_root));
	return result;
}

/* "host:path" is another machine to rsync and scp; a directory of that name here is
 * hardly meant, unless it is there. */
static int check_local(const char *path, struct err *err)
{
	const char *colon = strchr(path, ':');

	if (!colon || text_starts_with(colon, "://") ||
	    memchr(path, '/', (size_t)(colon - path)) || access(path, F_OK) == 0)
		return 0;
	err_set(err, ERR_CONFIG, "%s looks like a place on another machine", path);
	return err_remedy(err,
			  "both must be directories on this machine; write ./%s if "
			  "that is one",
			  path);
}

/* A password there would end up in the output and in records of copies. */
static int take_url(struct replicate_run *run, struct err *err)
{
	const char *host = strstr(run->options.source, "://") + 3;

	if (memchr(host, '@', strcspn(host, "/"))) {
		err_set(err, ERR_CONFIG, "the URL has a user or a password in it");
		return err_remedy(err, "leave them out; --secret-file names the secret "
				       "that this site and the primary share");
	}
	run->source_root = xstrdup(run->options.source);
	return 0;
}

static int open_dest(struct replicate_run *run, struct err *err)
{
	const struct replicate_options *options = &run->options;

	if (dir_make(AT_FDCWD, options->dest, err) != 0 ||
	    replicate_roots_check_root(options->dest, err) != 0)
		return -1;
	return replicate_roots_resolve_path(options->dest, &run->dest_root, err);
}

int replicate_open_roots(struct replicate_run *run, struct err *err)
{
	const struct replicate_options *options = &run->options;

	if (check_local(options->source, err) != 0 ||
	    check_local(options->dest, err) != 0)
		return -1;
	if (replicate_is_url(options->source))
		return take_url(run, err) == 0 ? open_dest(run, err) : -1;
	if (strstr(options->source, "://")) {
		err_set(err, ERR_CONFIG,
			"SOURCE is neither a directory nor an http "
			"or https URL: %s",
			options->source);
		return err_remedy(err, "name a directory of bare repositories, or the "
				       "URL of a refrelay primary");
	}
	if (replicate_roots_check_root(options->source, err) != 0 ||
	    replicate_roots_resolve_path(options->source, &run->source_root, err) != 0 ||
	    check_before_making(run, err) != 0 || open_dest(run, err) != 0)
		return -1;
	return replicate_roots_check_apart(run, err);
}

struct removal {
	struct item *item;
	char *to;
};

static int replicate_delete_remove_copy(struct job *job, void *arg, struct err *err)
{
	struct removal *removal = arg;

	return trash_put(job, removal->item->run->dest_root, removal->item->path,
			 &removal->to, err);
}

static void run_removal(struct item *item)
{
	struct replicate_run *run = item->run;
	struct removal removal = { .item = item };
	const struct job_request request = {
		.leases = run->data.leases,
		.kind = KIND_REPOSITORY,
		.name = item->name,
		.operation = "remove",
		.fence_floor = sync_fence_floor(run->dest_root, item->name),
		.wait_ms = LEASE_WAIT_MS,
		.stop = &run->stop,
		.run = replicate_delete_remove_copy,
		.arg = &removal,
	};

	if (job_run(&request, &item->err) == 0)
		item->end = ITEM_DELETED;
	else if (item->err.class == ERR_MISSING) /* another run did it */
		item->end = ITEM_UNCHANGED;
	else if (item->err.class != ERR_CANCELED)
		item->end = ITEM_FAILED;
	free(removal.to);
}

static void list_surplus(struct replicate_run *run, size_t *first)
{
	*first = run->items.count;
	for (size_t i = 0; i < run->here.found.count; i++) {
		const struct discovered *copy = &run->here.found.items[i];
		struct item item = { .run = run, .name = copy->name, .path = copy->path };
		if (!discovery_find(&run->there, copy->name))
			vec_add(&run->items, item);
	}
}

static bool replicate_delete_ask_user(size_t count, size_t all)
{
	char answer[16] = "";

	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return false;
	fprintf(stderr,
		"%zu of %zu copies have no repository in SOURCE. Move them to the "
		"trash? [y/N] ",
		count, all);
	return fgets(answer, sizeof(answer), stdin) &&
	       (answer[0] == 'y' || answer[0] == 'Y');
}

/* What stands there in SOURCE is no repository that could be copied, but it is not
 * nothing: a repository that was damaged, or replaced by a link. */
static bool still_stands(const struct replicate_run *run, const char *name)
{
	AUTO_FREE char *bare = xasprintf("%s/%s", run->source_root, name);
	AUTO_FREE char *usual = xasprintf("%s.git", bare);
	struct stat st;

	if (run->primary)
		return false; /* its inventory says all there is to say */
	return lstat(bare, &st) == 0 || lstat(usual, &st) == 0;
}

static void remove_or_hold(struct replicate_run *run, struct item *item, const char *why)
{
	if (!why && still_stands(run, item->name))
		why = "something still stands there in SOURCE";
	if (why) {
		item->end = ITEM_HELD;
		item->reason = xasprintf("not deleted: %s", why);
	} else if (!stop_is_requested(&run->stop)) {
		run_removal(item);
	}
}

/* Absence proves nothing when not all of SOURCE could be seen, and a SOURCE without any
 * repository is more likely a disk that is not mounted. */
static const char *replicate_delete_refuse_removal(struct replicate_run *run,
						   size_t count)
{
	if (!discovery_is_complete(&run->there))
		return "not all of SOURCE could be read, so that absence proves nothing";
	if (run->options.is_forced)
		return NULL;
	if (run->there.found.count == 0)
		return "SOURCE has no repository at all: is its disk mounted?";
	if (hold_limit_stops(HOLD_REPLICABLES, count, run->here.found.count) &&
	    !replicate_delete_ask_user(count, run->here.found.count))
		return "very many copies would be deleted at once";
	return NULL;
}

void replicate_delete(struct replicate_run *run)
{
	size_t first, count;
	const char *why;

	list_surplus(run, &first);
	count = run->items.count - first;
	if (count == 0)
		return;
	if (!run->options.deletes) {
		run->only_in_dest = count;
		run->items.count = first;
		return;
	}
	why = replicate_delete_refuse_removal(run, count);
	for (size_t i = first; i < run->items.count; i++)
		remove_or_hold(run, &run->items.items[i], why);
}

/*
 * SOURCE is a primary: what it has is its inventory.
 */

#define PAGE 10000
#define TRIES 3

bool replicate_is_url(const char *source)
{
	return text_starts_with(source, "http://") ||
	       text_starts_with(source, "https://");
}

static int open_primary(struct replicate_run *run, struct err *err)
{
	const struct replicate_options *options = &run->options;
	AUTO_SITE_KEY struct site_key key = { .secret = STR_INIT };
	char host[SITE_NAME_SIZE] = "";

	gethostname(host, sizeof(host) - 1);
	if (options->secret_file && site_key_read(options->site ? options->site : host,
						  options->secret_file, &key, err) != 0)
		return -1;
	return primary_open(run->source_root, options->secret_file ? &key : NULL,
			    &run->primary, err);
}

static void replicate_primary_add_item(struct replicate_run *run,
				       const struct inventory_item *reported)
{
	struct discovered found = { .name = xstrdup(reported->name),
				    .path = xasprintf("%s.git", reported->name) };
	struct item item = { .run = run,
			     .name = found.name,
			     .generation = reported->generation };

	if (reported->checksum)
		snprintf(item.checksum, sizeof(item.checksum), "%s", reported->checksum);
	memcpy(item.timeline, reported->timeline, sizeof(item.timeline));
	vec_add(&run->there.found, found);
	vec_add(&run->items, item);
}

/* 1: the log became another one between two pages (the primary was restored): what is
 * absent then proves nothing. */
static int list_once(struct replicate_run *run, struct primary_line *line,
		     struct err *err)
{
	AUTO_FREE char *after = NULL;
	char timeline[TIMELINE_SIZE] = "";
	int result = 0;

	discovery_clear(&run->there);
	run->items.count = 0;
	do {
		const struct page_question question = { .after = after, .limit = PAGE };
		struct inventory_page page;
		if (primary_inventory(line, NULL, &question, &page, err) < 0)
			return -1;
		if (timeline[0] && strcmp(timeline, page.timeline) != 0)
			result = 1;
		memcpy(timeline, page.timeline, sizeof(timeline));
		for (size_t i = 0; i < page.items.count; i++)
			replicate_primary_add_item(run, &page.items.items[i]);
		free(after);
		after = TAKE(page.next);
		inventory_page_clear(&page);
	} while (after && result == 0);
	return result;
}

static int replicate_primary_list_items(struct replicate_run *run,
					struct primary_line *line, struct err *err)
{
	int result = 1;

	for (int tries = 0; tries < TRIES && result > 0; tries++)
		result = list_once(run, line, err);
	if (result <= 0)
		return result;
	err_set(err, ERR_CONFLICT, "the primary's log begins anew while it is read");
	return err_remedy(err, "look at the primary's log, then repeat");
}

int replicate_open_primary(struct replicate_run *run, struct err *err)
{
	struct primary_line *line;
	int result;

	if (open_primary(run, err) != 0 ||
	    primary_line_open(run->primary, &run->stop, &line, err) != 0)
		return -1;
	result = replicate_primary_list_items(run, line, err);
	primary_line_close(line);
	return result;
}

static const char *const end_names[] = { "not_reached", "unchanged", "created", "updated",
					 "deleted",     "held",      "failed" };

struct totals {
	size_t ends[ITEM_ENDS];
	size_t left_out; /* findings that are failures */
	size_t busy;     /* failures for want of a lease */
	size_t blobs_good, blobs_held, blobs_failed;
	uint64_t bytes;
};

static struct totals add_up(const struct replicate_run *run)
{
	struct totals totals = { 0 };

	for (size_t i = 0; i < run->items.count; i++) {
		const struct item *item = &run->items.items[i];
		totals.ends[item->end]++;
		totals.bytes += item->bytes;
		totals.busy += item->end == ITEM_FAILED && item->err.class == ERR_BUSY;
	}
	for (size_t i = 0; i < run->there.findings.count; i++)
		totals.left_out += !run->there.findings.items[i].is_harmless;
	for (size_t i = 0; i < run->blobs.count; i++) {
		const struct replicate_blobs *blobs = &run->blobs.items[i];
		totals.blobs_good += blobs->created + blobs->updated + blobs->unchanged +
				     blobs->deleted;
		totals.blobs_held += blobs->held;
		totals.blobs_failed += blobs->failed;
	}
	return totals;
}

static int replicate_report_get_status(const struct replicate_run *run,
				       const struct totals *totals)
{
	size_t failed =
		totals->ends[ITEM_FAILED] + totals->left_out + totals->blobs_failed;
	size_t good = totals->ends[ITEM_UNCHANGED] + totals->ends[ITEM_CREATED] +
		      totals->ends[ITEM_UPDATED] + totals->ends[ITEM_DELETED] +
		      totals->blobs_good;
	size_t held = totals->ends[ITEM_HELD] + totals->blobs_held;

	if (stop_is_requested(&run->stop))
		return EXIT_INTERRUPTED;
	if (failed + held == 0)
		return EXIT_DONE;
	if (good > 0 || held > 0)
		return EXIT_PARTLY;
	return totals->busy == failed ? EXIT_NOT_OBTAINED : EXIT_FAILED;
}

static const char *hold_remedy(const struct item *item)
{
	return item->path ? "look at it; repeat with --force to delete them all the same"
			  : "look at it; repeat with --force to overwrite the copy, or "
			    "move the copy away";
}

static void print_problem(const char *name, const char *what, const char *class,
			  const char *text, const char *remedy)
{
	AUTO_STR struct str masked = STR_INIT;
	AUTO_STR struct str line = STR_INIT;

	log_redact(text, &masked);
	str_add_printable(&line, name);
	str_addf(&line, ": %s%s%s%s: ", what, class[0] ? " (" : "", class,
		 class[0] ? ")" : "");
	str_add_printable(&line, masked.data);
	fprintf(stderr, "%s\n", line.data);
	if (remedy[0])
		fprintf(stderr, "  what to do: %s\n", remedy);
}

/* A copy always stands at NAME.git; nobody should take the other for it. */
static void print_strangers(const struct replicate_run *run)
{
	for (size_t i = 0; i < run->here.found.count; i++) {
		const struct discovered *one = &run->here.found.items[i];
		if (!text_ends_with(one->path, ".git") &&
		    discovery_find(&run->there, one->name))
			print_problem(one->path, "not the copy", "",
				      "it stands in DEST without .git; the copy was made "
				      "beside it",
				      "move it away, or to that name to have it adopted");
	}
}

static void print_problems(const struct replicate_run *run)
{
	for (size_t i = 0; i < run->there.findings.count; i++) {
		const struct discover_finding *finding = &run->there.findings.items[i];
		print_problem(finding->path,
			      finding->is_harmless ? "not a repository to copy"
						   : "left out",
			      "", finding->err.text, finding->err.remedy);
	}
	print_strangers(run);
	for (size_t i = 0; i < run->items.count; i++) {
		const struct item *item = &run->items.items[i];
		if (item->end == ITEM_FAILED)
			print_problem(item->name, "failed",
				      err_class_name(item->err.class), item->err.text,
				      item->err.remedy);
		else if (item->end == ITEM_HELD)
			print_problem(item->name, "held", "", item->reason,
				      hold_remedy(item));
	}
}

static void print_summary(const struct replicate_run *run, const struct totals *totals)
{
	char bytes[32], took[32];
	size_t bad = totals->ends[ITEM_FAILED] + totals->ends[ITEM_HELD] +
		     totals->ends[ITEM_NOT_REACHED] + totals->left_out;
	size_t good = totals->ends[ITEM_CREATED] + totals->ends[ITEM_UPDATED] +
		      totals->ends[ITEM_UNCHANGED] + totals->ends[ITEM_DELETED];

	if (run->items.count + totals->left_out == 0)
		good = 1; /* nothing to do is no failure */
	format_bytes(totals->bytes, bytes);
	format_duration(run->took_ms, took);
	printf("%zu %s: %zu created, %zu updated, %zu unchanged",
	       run->items.count + totals->left_out,
	       run->items.count + totals->left_out == 1 ? "repository" : "repositories",
	       totals->ends[ITEM_CREATED], totals->ends[ITEM_UPDATED],
	       totals->ends[ITEM_UNCHANGED]);
	if (totals->ends[ITEM_DELETED])
		printf(", %zu deleted", totals->ends[ITEM_DELETED]);
	if (totals->ends[ITEM_HELD])
		printf(", %zu held", totals->ends[ITEM_HELD]);
	if (totals->ends[ITEM_FAILED] + totals->left_out)
		printf(", %zu failed", totals->ends[ITEM_FAILED] + totals->left_out);
	if (totals->ends[ITEM_NOT_REACHED])
		printf(", %zu not reached", totals->ends[ITEM_NOT_REACHED]);
	if (run->only_in_dest)
		printf(", %zu only in DEST (--delete removes them)", run->only_in_dest);
	printf("; %s in %s; %s\n", bytes, took,
	       good == 0 ? "none is verified"
	       : bad     ? "the others are verified equal"
			 : "all verified equal");
}

static void print_blobs(const struct replicate_blobs *blobs)
{
	size_t bad = blobs->held + blobs->failed;
	char bytes[32], took[32];

	format_bytes(blobs->bytes, bytes);
	format_duration(blobs->took_ms, took);
	printf("%zu blob%s: %zu created, %zu updated, %zu unchanged", blobs->all,
	       blobs->all == 1 ? "" : "s", blobs->created, blobs->updated,
	       blobs->unchanged);
	if (blobs->deleted)
		printf(", %zu deleted", blobs->deleted);
	if (blobs->held)
		printf(", %zu held", blobs->held);
	if (blobs->failed)
		printf(", %zu failed", blobs->failed);
	if (blobs->only_in_to)
		printf(", %zu only in %s (--delete removes them)", blobs->only_in_to,
		       blobs->to);
	printf("; %s in %s; %s\n", bytes, took,
	       bad ? "the others are verified equal" : "all verified equal");
}

static json_t *blobs_to_json(const struct replicate_run *run)
{
	json_t *array = json_array();

	for (size_t i = 0; i < run->blobs.count; i++) {
		const struct replicate_blobs *blobs = &run->blobs.items[i];
		json_t *object = json_object();
		json_put_text(object, "from", blobs->from);
		json_put_text(object, "to", blobs->to);
		json_put_number(object, "total", (int64_t)blobs->all);
		json_put_number(object, "created", (int64_t)blobs->created);
		json_put_number(object, "updated", (int64_t)blobs->updated);
		json_put_number(object, "unchanged", (int64_t)blobs->unchanged);
		json_put_number(object, "deleted", (int64_t)blobs->deleted);
		json_put_number(object, "held", (int64_t)blobs->held);
		json_put_number(object, "failed", (int64_t)blobs->failed);
		json_put_number(object, "only_in_dest", (int64_t)blobs->only_in_to);
		json_put_number(object, "bytes", (int64_t)blobs->bytes);
		json_put_seconds(object, "duration", blobs->took_ms);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *item_to_json(const struct item *item)
{
	json_t *object = json_object();

	json_put_text(object, "name", item->name);
	json_put_text(object, "outcome", end_names[item->end]);
	json_put_number(object, "refs_changed", (int64_t)item->refs_changed);
	json_put_number(object, "bytes", (int64_t)item->bytes);
	if (item->end == ITEM_FAILED) {
		json_put_text(object, "failure_class", err_class_name(item->err.class));
		json_put_message(object, "failure", item->err.text);
		json_put_message(object, "remedy", item->err.remedy);
	}
	if (item->end == ITEM_HELD) {
		json_put_message(object, "held_reason", item->reason);
		json_put_text(object, "remedy", hold_remedy(item));
	}
	return object;
}

static json_t *findings_to_json(const struct replicate_run *run)
{
	json_t *array = json_array();

	for (size_t i = 0; i < run->there.findings.count; i++) {
		const struct discover_finding *finding = &run->there.findings.items[i];
		json_t *object = json_object();
		json_put_text(object, "path", finding->path);
		json_put_bool(object, "left_out", !finding->is_harmless);
		json_put_message(object, "message", finding->err.text);
		json_put_message(object, "remedy", finding->err.remedy);
		json_array_append_new(array, object);
	}
	return array;
}

static void replicate_report_print_json(const struct replicate_run *run,
					const struct totals *totals)
{
	json_auto_t *object = json_object();
	json_t *items = json_array();

	json_put_text(object, "source", run->source_root);
	json_put_text(object, "dest", run->dest_root);
	json_put_number(object, "total", (int64_t)(run->items.count + totals->left_out));
	for (size_t i = 0; i < ITEM_ENDS; i++)
		json_put_number(object, end_names[i], (int64_t)totals->ends[i]);
	json_put_number(object, "left_out", (int64_t)totals->left_out);
	json_put_number(object, "only_in_dest", (int64_t)run->only_in_dest);
	json_put_number(object, "bytes", (int64_t)totals->bytes);
	json_put_seconds(object, "duration", run->took_ms);
	for (size_t i = 0; i < run->items.count; i++)
		json_array_append_new(items, item_to_json(&run->items.items[i]));
	json_put(object, "repositories", items);
	json_put(object, "findings", findings_to_json(run));
	json_put(object, "blobs", blobs_to_json(run));
	json_write(stdout, object);
}

int replicate_report(struct replicate_run *run)
{
	struct totals totals = add_up(run);

	if (run->options.is_json) {
		replicate_report_print_json(run, &totals);
	} else {
		print_problems(run);
		print_summary(run, &totals);
		for (size_t i = 0; i < run->blobs.count; i++)
			print_blobs(&run->blobs.items[i]);
	}
	return replicate_report_get_status(run, &totals);
}

static const char options_text[] =
	"  --delete        move copies that SOURCE lacks to the trash; asks when they "
	"are\n"
	"                  more than 10 and more than 5 % of all\n"
	"  --blobs FROM=TO copy the files below directory FROM to the same places below "
	"TO,\n"
	"                  too; may be given several times\n"
	"  --force         do what is otherwise held: overwrite copies that hold "
	"commits\n"
	"                  which SOURCE lacks, delete very many refs or copies; never "
	"ask\n"
	"  -j, --jobs N    work on so many repositories at once, 1 to 256 (default: the\n"
	"                  number of processors, from 2 to 10)\n"
	"  --secret-file F the secret shared with the primary, if SOURCE is a URL\n"
	"  --site NAME     the name by which the primary knows the secret (default: "
	"the\n"
	"                  host's name)\n"
	"  --json          print one JSON object instead of the summary\n"
	"  --no-progress   no progress line, not even on a terminal\n"
	"  -v, --verbose   log what is done; no progress line\n";

enum {
	OPTION_DELETE = 256,
	OPTION_BLOBS,
	OPTION_FORCE,
	OPTION_JSON,
	OPTION_NO_PROGRESS,
	OPTION_SECRET_FILE,
	OPTION_SITE,
	OPTION_HELP
};

static const struct option long_options[] = {
	{ "delete", no_argument, NULL, OPTION_DELETE },
	{ "blobs", required_argument, NULL, OPTION_BLOBS },
	{ "force", no_argument, NULL, OPTION_FORCE },
	{ "jobs", required_argument, NULL, 'j' },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "no-progress", no_argument, NULL, OPTION_NO_PROGRESS },
	{ "secret-file", required_argument, NULL, OPTION_SECRET_FILE },
	{ "site", required_argument, NULL, OPTION_SITE },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, OPTION_HELP },
	{ NULL, 0, NULL, 0 },
};

/* Git children keep two processors busy each while they work, and wait for the disk
 * as often. */
static size_t default_jobs(void)
{
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 2;

	return count < 2 ? 2 : count > 10 ? 10 : (size_t)count;
}

/* -1: go on. */
static int cli_replicate_read_option(int option, const char *word,
				     struct replicate_options *options)
{
	uint64_t jobs;

	switch (option) {
	case OPTION_DELETE:
		options->deletes = true;
		return -1;
	case OPTION_FORCE:
		options->is_forced = true;
		return -1;
	case OPTION_JSON:
		options->is_json = true;
		return -1;
	case OPTION_NO_PROGRESS:
		options->progress = PROGRESS_NEVER;
		return -1;
	case 'j':
		if (!text_to_uint64(optarg, &jobs) || jobs < 1 || jobs > 256)
			return cli_usage("replicate",
					 "--jobs takes a number from 1 to "
					 "256, not \"%s\"",
					 optarg);
		options->jobs = (size_t)jobs;
		return -1;
	case 'v':
		log_set_level(LOG_LEVEL_DEBUG);
		options->progress = PROGRESS_NEVER; /* the lines would mix */
		return -1;
	case OPTION_SECRET_FILE:
		options->secret_file = optarg;
		return -1;
	case OPTION_SITE:
		options->site = optarg;
		return -1;
	case OPTION_HELP:
		cli_help("replicate", options_text);
		return EXIT_DONE;
	default:
		return cli_usage("replicate", "wrong option %s", word);
	}
}

static int cli_replicate_read_options(int argc, char **argv, struct replicate_run *run)
{
	struct replicate_options *options = &run->options;
	int option;

	*options = (struct replicate_options){ .jobs = default_jobs() };
	while ((option = cli_getopt(argc, argv, "j:v", long_options)) != -1) {
		if (option == OPTION_BLOBS) {
			vec_add(&run->blobs, (struct replicate_blobs){ .pair = optarg });
			continue;
		}
		int status = cli_replicate_read_option(option, argv[optind - 1], options);
		if (status >= 0)
			return status;
	}
	if (argc - optind != 2)
		return cli_usage("replicate", "it takes SOURCE and DEST");
	options->source = argv[optind];
	options->dest = argv[optind + 1];
	if (!options->source[0] || !options->dest[0])
		return cli_usage("replicate", "SOURCE and DEST may not be empty");
	if ((options->secret_file || options->site) && !replicate_is_url(options->source))
		return cli_usage("replicate", "--secret-file and --site go with a URL");
	if (options->site && !options->secret_file)
		return cli_usage("replicate", "--site goes with --secret-file");
	if (run->blobs.count > 0 && replicate_is_url(options->source))
		return cli_usage("replicate", "--blobs goes with a SOURCE that is a "
					      "directory");
	return -1;
}

int cli_replicate(struct cli *cli, int argc, char **argv)
{
	struct replicate_run run = { 0 };
	struct err err;
	int status;

	if (!cli->is_verbose)
		log_set_level(LOG_LEVEL_NONE); /* the report says it, for people */
	status = cli_replicate_read_options(argc, argv, &run);
	if (cli->is_verbose)
		run.options.progress = PROGRESS_NEVER; /* the lines would mix */
	if (status >= 0) {
		vec_clear(&run.blobs);
		return status;
	}
	stop_init(&run.stop);
	cli_catch_signals(&run.stop);
	status = replicate_run(&run, &err) == 0 ? replicate_report(&run) : cli_fail(&err);
	replicate_run_clear(&run);
	cli_end_signals();
	stop_clear(&run.stop);
	return status;
}
