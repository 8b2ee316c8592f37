#include <sched.h>

#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/replicate_run.h"

static const char *const end_names[] = { "not_reached", "unchanged", "created", "updated",
					 "deleted",     "held",      "failed" };

/* The trees: SOURCE and DEST first, then those of --blobs. */
typedef VEC(struct tree) trees;

struct totals {
	size_t ends[ITEM_ENDS];
	size_t left_out; /* findings that are failures */
	size_t busy;     /* failures for want of a lease */
	uint64_t bytes;
};

static struct totals add_up(const struct tree *tree)
{
	struct totals totals = { 0 };

	for (size_t i = 0; i < tree->items.count; i++) {
		const struct item *item = &tree->items.items[i];
		totals.ends[item->end]++;
		totals.bytes += item->bytes;
		totals.busy += item->err && (item->err->class == ERR_BUSY ||
					     item->err->class == ERR_LOCK_TIMEOUT);
	}
	for (size_t i = 0; i < tree->there.findings.count; i++)
		totals.left_out += !tree->there.findings.items[i].is_harmless;
	return totals;
}

static size_t count_good(const struct totals *totals)
{
	return totals->ends[ITEM_UNCHANGED] + totals->ends[ITEM_CREATED] +
	       totals->ends[ITEM_UPDATED] + totals->ends[ITEM_DELETED];
}

static int replicate_get_status(const trees *all)
{
	size_t good = 0, held = 0, failed = 0, busy = 0;

	for (size_t i = 0; i < all->count; i++) {
		struct totals totals = add_up(&all->items[i]);
		good += count_good(&totals);
		held += totals.ends[ITEM_HELD];
		failed += totals.ends[ITEM_FAILED] + totals.left_out;
		busy += totals.busy;
		failed += all->items[i].failure.class != ERR_NONE;
	}
	if (stop_is_requested(all->items[0].stop))
		return EXIT_INTERRUPTED;
	if (failed + held == 0)
		return EXIT_DONE;
	if (good > 0 || held > 0)
		return EXIT_PARTLY;
	return busy == failed ? EXIT_NOT_OBTAINED : EXIT_FAILED;
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
		fprintf(stderr, "  hint: %s\n", remedy);
}

/* A copy always stands at NAME.git; nobody should take the other for it. */
static void print_strangers(struct tree *tree)
{
	for (size_t i = 0; i < tree->here.found.count; i++) {
		const struct discovered *one = &tree->here.found.items[i];
		if (!text_ends_with(one->path, ".git") && replicate_find(tree, one->name))
			print_problem(one->path, "not the copy", "",
				      "it exists in DEST without .git; the copy was "
				      "created next to it",
				      "move it away, or rename it to have it adopted");
	}
}

static void print_item_problem(const struct item *item)
{
	const bool is_file = item->tree->kind == &replicate_files;

	if (item->end == ITEM_FAILED)
		print_problem(item->name, "failed",
			      is_file ? "" : err_class_name(item->err->class),
			      item->err->text, item->err->remedy);
	else if (item->end == ITEM_HELD)
		print_problem(item->name, "held", "", item->reason, item->remedy);
}

static void print_problems(struct tree *tree)
{
	for (size_t i = 0; i < tree->there.findings.count; i++) {
		const struct discover_finding *finding = &tree->there.findings.items[i];
		print_problem(finding->path,
			      finding->is_harmless ? "not a repository to copy"
						   : "left out",
			      "", finding->err.text, finding->err.remedy);
	}
	print_strangers(tree);
	for (size_t i = 0; i < tree->items.count; i++)
		print_item_problem(&tree->items.items[i]);
}

static void print_count(const char *before, size_t count, const char *what)
{
	if (count > 0)
		printf("%s%zu %s", before, count, what);
}

/* Of repositories all that was met, of files those of FROM. */
static size_t count_all(const struct tree *tree, const struct totals *totals)
{
	return tree->kind == &replicate_files ? tree->listed
					      : tree->items.count + totals->left_out;
}

static void print_summary(const struct tree *tree)
{
	const struct totals totals = add_up(tree);
	const bool is_files = tree->kind == &replicate_files;
	const size_t *ends = totals.ends, all = count_all(tree, &totals);
	const size_t failed = ends[ITEM_FAILED] + totals.left_out;
	const size_t bad = failed + ends[ITEM_HELD] + ends[ITEM_NOT_REACHED];
	char bytes[32], took[32];

	format_bytes(totals.bytes, bytes);
	format_duration(tree->took_ms, took);
	printf("%zu %s: %zu created, %zu updated, %zu unchanged", all,
	       is_files   ? all == 1 ? "blob" : "blobs"
	       : all == 1 ? "repository"
			  : "repositories",
	       ends[ITEM_CREATED], ends[ITEM_UPDATED], ends[ITEM_UNCHANGED]);
	print_count(", ", ends[ITEM_DELETED], "deleted");
	print_count(", ", ends[ITEM_HELD], "held");
	print_count(", ", failed, "failed");
	print_count(", ", ends[ITEM_NOT_REACHED], "not reached");
	print_count(", ", tree->only_in_dest, "only in ");
	if (tree->only_in_dest)
		printf("%s (--delete removes them)", is_files ? tree->to : "DEST");
	printf("; %s in %s; %s\n", bytes, took,
	       tree->failure.class != ERR_NONE         ? "not finished"
	       : bad == 0                              ? "all verified equal"
	       : count_good(&totals) == 0 && !is_files ? "none verified"
						       : "the rest verified equal");
}

static json_t *item_to_json(const struct item *item)
{
	json_t *object = json_object();

	json_put_text(object, "name", item->name);
	json_put_text(object, "outcome", end_names[item->end]);
	json_put_number(object, "refs_changed", (int64_t)item->refs_changed);
	json_put_number(object, "bytes", (int64_t)item->bytes);
	if (item->end == ITEM_FAILED) {
		json_put_text(object, "failure_class", err_class_name(item->err->class));
		json_put_message(object, "failure", item->err->text);
		json_put_message(object, "remedy", item->err->remedy);
	}
	if (item->end == ITEM_HELD) {
		json_put_message(object, "held_reason", item->reason);
		json_put_text(object, "remedy", item->remedy);
	}
	return object;
}

static json_t *findings_to_json(const struct tree *tree)
{
	json_t *array = json_array();

	for (size_t i = 0; i < tree->there.findings.count; i++) {
		const struct discover_finding *finding = &tree->there.findings.items[i];
		json_t *object = json_object();
		json_put_text(object, "path", finding->path);
		json_put_bool(object, "left_out", !finding->is_harmless);
		json_put_message(object, "message", finding->err.text);
		json_put_message(object, "remedy", finding->err.remedy);
		json_array_append_new(array, object);
	}
	return array;
}

/* Of files what was left out counts as failed. */
static json_t *tree_to_json(const struct tree *tree)
{
	const bool is_files = tree->kind == &replicate_files;
	struct totals totals = add_up(tree);
	json_t *object = json_object();

	json_put_text(object, is_files ? "from" : "source", tree->from);
	json_put_text(object, is_files ? "to" : "dest", tree->to);
	json_put_number(object, "total", (int64_t)count_all(tree, &totals));
	if (is_files)
		totals.ends[ITEM_FAILED] += totals.left_out;
	for (size_t i = is_files ? ITEM_UNCHANGED : 0; i < ITEM_ENDS; i++)
		json_put_number(object, end_names[i], (int64_t)totals.ends[i]);
	if (!is_files)
		json_put_number(object, "left_out", (int64_t)totals.left_out);
	json_put_number(object, "only_in_dest", (int64_t)tree->only_in_dest);
	json_put_number(object, "bytes", (int64_t)totals.bytes);
	json_put_seconds(object, "duration", tree->took_ms);
	if (tree->failure.class != ERR_NONE) {
		json_put_text(object, "failure_class",
			      err_class_name(tree->failure.class));
		json_put_message(object, "failure", tree->failure.text);
	}
	return object;
}

static void print_json(const trees *all)
{
	const struct tree *tree = &all->items[0];
	json_auto_t *object = tree_to_json(tree);
	json_t *items = json_array(), *blobs = json_array();

	for (size_t i = 0; i < tree->items.count; i++)
		json_array_append_new(items, item_to_json(&tree->items.items[i]));
	for (size_t i = 1; i < all->count; i++)
		json_array_append_new(blobs, tree_to_json(&all->items[i]));
	json_put(object, "repositories", items);
	json_put(object, "findings", findings_to_json(tree));
	json_put(object, "blobs", blobs);
	json_write(stdout, object);
}

/* The object tells nothing of single files. */
static void replicate_report(const struct replicate_options *options, trees *all)
{
	for (size_t i = 1; i < all->count; i++)
		print_problems(&all->items[i]);
	if (!options->is_json)
		print_problems(&all->items[0]);
	if (options->is_json)
		print_json(all);
	for (size_t i = 0; i < all->count && !options->is_json; i++)
		if (all->items[i].failure.class == ERR_NONE || all->items[i].listed > 0)
			print_summary(&all->items[i]);
	for (size_t i = 0; i < all->count; i++)
		if (all->items[i].failure.class != ERR_NONE)
			cli_fail(&all->items[i].failure);
}

struct replicate_call {
	struct replicate_options options;
	cli_words blobs; /* FROM=TO */
	bool is_verbose;
};

#define AT(kind, member) CLI_AT(kind, struct replicate_call, member)

static const struct cli_option rows[] = {
	{ "delete", 0, NULL,
	  "move copies that are not in SOURCE to the trash; asks if there are\nmore than "
	  "10 and more than 5 % of all",
	  AT(FLAG, options.deletes) },
	{ "blobs", 0, "FROM=TO",
	  "also copy the files below directory FROM to the same places below\nTO; may be "
	  "repeated",
	  AT(LIST, blobs) },
	{ "force", 0, NULL,
	  "carry out what is otherwise held: overwrite copies with commits that\nSOURCE "
	  "lacks, delete very many refs or copies; never ask",
	  AT(FLAG, options.is_forced) },
	{ "jobs", 'j', "N",
	  "copy this many repositories or files at once, 1 to 256\n(default: the number "
	  "of processors, from 2 to 10)",
	  AT(NUMBER, options.jobs), .min = 1, .max = 256 },
	{ "secret-file", 0, "F", "the secret shared with the primary, if SOURCE is a URL",
	  AT(TEXT, options.secret_file) },
	{ "ca-file", 0, "F",
	  "certificate authorities to trust instead of the system's, if\nSOURCE is a "
	  "URL",
	  AT(TEXT, options.ca_file) },
	{ "site", 0, "NAME", "this site's name at the primary (default: the host name)",
	  AT(TEXT, options.site), .needs = "secret-file" },
	{ "json", 0, NULL, "print one JSON object instead of the summary",
	  AT(FLAG, options.is_json) },
	{ "no-progress", 0, NULL, "no progress line, not even on a terminal",
	  AT(FLAG, options.is_quiet) },
	{ "verbose", 'v', NULL, "log each step; no progress line", AT(FLAG, is_verbose) },
	{ 0 },
};

const struct cli_options replicate_options = {
	.rows = rows, .least = 2, .most = 2, .takes = "SOURCE and DEST", .column = 18
};

/* Git children keep two processors busy each while they work, and wait for the disk
 * as often. */
static size_t default_jobs(void)
{
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 2;

	return count < 2 ? 2 : count > 10 ? 10 : (size_t)count;
}

static int cli_replicate_add_files(const char *word, trees *all)
{
	char *pair = (char *)(uintptr_t)word, *equals = strchr(pair, '=');
	struct err err;

	if (!equals || equals == pair || !equals[1]) {
		err_set(&err, ERR_CONFIG, "--blobs takes FROM=TO, not \"%s\"", pair);
		err_remedy(&err, "name two directories");
		return cli_fail(&err);
	}
	*equals = '\0';
	vec_add(all,
		((struct tree){
			.kind = &replicate_files, .source = pair, .dest = equals + 1 }));
	return -1;
}

static int cli_replicate_check_options(const struct replicate_options *options,
				       const trees *all)
{
	const struct tree *tree = &all->items[0];

	if (!tree->source[0] || !tree->dest[0])
		return cli_usage("replicate", "SOURCE and DEST must not be empty");
	if ((options->secret_file || options->ca_file) && !replicate_is_url(tree->source))
		return cli_usage("replicate",
				 "--secret-file, --site and --ca-file need a URL as "
				 "SOURCE");
	if (all->count > 1 && replicate_is_url(tree->source))
		return cli_usage("replicate", "--blobs needs a directory as SOURCE");
	return -1;
}

/* -1: go on. */
static int cli_replicate_read_call(struct replicate_call *call, char *const *operands,
				   trees *all)
{
	int status = -1;

	vec_add(all, ((struct tree){ .kind = &replicate_repositories,
				     .source = operands[0],
				     .dest = operands[1] }));
	for (size_t i = 0; i < call->blobs.count && status < 0; i++)
		status = cli_replicate_add_files(call->blobs.items[i], all);
	return status < 0 ? cli_replicate_check_options(&call->options, all) : status;
}

/* Files first: what is wrong with them is told before DEST is made. */
static int cli_replicate_open_all(trees *all, struct err *err)
{
	for (size_t i = all->count; i-- > 0;)
		if (replicate_open(&all->items[i], err) != 0)
			return -1;
	for (size_t i = 1; i < all->count; i++)
		for (size_t k = 0; k < all->count; k++)
			if (k != i && replicate_check_apart(&all->items[i],
							    &all->items[k], err) != 0)
				return -1;
	return 0;
}

/* What was done before a tree of files fails is reported all the same. */
static int cli_replicate_run_all(trees *all, const struct stop *stop, struct err *err)
{
	if (cli_replicate_open_all(all, err) != 0)
		return -1;
	for (size_t i = 0; i < all->count; i++) {
		if (replicate_run(&all->items[i], err) == 0)
			continue;
		if (i == 0)
			return -1;
		if (!stop_is_requested(stop))
			all->items[i].failure = *err;
	}
	return 0;
}

static int cli_replicate_run(const struct replicate_options *options, trees *all)
{
	struct stop stop;
	struct err err;
	int status;

	cli_catch_signals(&stop);
	for (size_t i = 0; i < all->count; i++)
		replicate_begin(&all->items[i], options, &stop);
	if (cli_replicate_run_all(all, &stop, &err) == 0) {
		replicate_report(options, all);
		status = replicate_get_status(all);
	} else {
		status = cli_fail(&err);
	}
	for (size_t i = 0; i < all->count; i++)
		replicate_end(&all->items[i]);
	cli_end_signals(&stop);
	return status;
}

int cli_replicate(struct cli *cli, char **argv)
{
	struct replicate_call call = { .options.jobs = default_jobs(),
				       .is_verbose = cli->is_verbose };
	struct cli_operands operands;
	trees all = { 0 };
	int status = cli_read_options(cli->command, argv, &call, &operands);

	/* The report says it, for people; lines of the log would mix with progress. */
	log_set_level(call.is_verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_NONE);
	call.options.is_quiet |= call.is_verbose;
	if (status < 0)
		status = cli_replicate_read_call(&call, operands.items, &all);
	if (status < 0)
		status = cli_replicate_run(&call.options, &all);
	vec_clear(&call.blobs);
	vec_clear(&all);
	return status;
}
