#include "cli/cli.h"
#include "cli/replicate_run.h"

#include "base/json.h"
#include "base/log.h"

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
