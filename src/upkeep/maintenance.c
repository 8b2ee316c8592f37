/*
 * What is due is decided from what the disk shows, so that nothing has to be kept right:
 * the record in NAME.git/refrelay/maintained is a short cut that may be lost.
 */
#include "upkeep/maintenance.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "git/pack_list.h"
#include "upkeep/maintenance_parts.h"
#include "upkeep/stale.h"

#define RECORD "refrelay/maintained"
#define RECORD_MOST 4096
#define ROOM_LEAST ((uint64_t)16 << 20)

static bool maintenance_is_late(const struct maintenance_found *found)
{
	return found->objects >= MAINTENANCE_OBJECTS &&
	       (found->since_ms < 0 || found->since_ms >= MAINTENANCE_DAY_MS);
}

static bool maintenance_has_to_fold(const struct maintenance_found *found)
{
	if (found->folds >= MAINTENANCE_PACKS || found->loose >= MAINTENANCE_LOOSE)
		return true;
	return maintenance_is_late(found) && (found->folds > 1 || found->loose > 0);
}

static bool maintenance_has_to_index(const struct maintenance_found *found)
{
	if (found->packs < 2 && !found->has_index)
		return false;
	return found->unindexed >= MAINTENANCE_PACKS ||
	       (maintenance_is_late(found) &&
		(found->unindexed > 0 || !found->has_index));
}

void maintenance_decide(const struct maintenance_found *found,
			struct maintenance_plan *plan)
{
	*plan = (struct maintenance_plan){ .folds = maintenance_has_to_fold(found) };
	plan->indexes = plan->folds || maintenance_has_to_index(found);
	/* git makes none where history is cut short. */
	plan->has_bitmap = plan->indexes && !found->is_shallow;
	plan->graphs = !found->is_shallow && found->is_graph_old && found->objects > 0 &&
		       (plan->indexes || maintenance_is_late(found));
	plan->sweeps = found->stale > 0 || plan->indexes || plan->graphs;
	if (plan->folds)
		plan->room = found->fold_bytes + found->fold_bytes / 4 + ROOM_LEAST;
}

bool maintenance_is_due(const struct maintenance_plan *plan)
{
	return plan->sweeps || plan->folds || plan->indexes || plan->graphs;
}

/* One folder of 256 tells. */
static size_t maintenance_estimate_loose(const struct repo *repo)
{
	struct dirent *entry;
	size_t count = 0;
	AUTO_CLOSEDIR DIR *folder = dir_list(repo->fd, "objects/17");

	while (folder && (entry = readdir(folder)) != NULL)
		count += strlen(entry->d_name) == 2 * repo->oid_len - 2;
	return count * 256;
}

static int64_t maintenance_changed_ns(const struct repo *repo, const char *path)
{
	struct stat st;

	if (fstatat(repo->fd, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return 0;
	return clock_ns(&st.st_mtim);
}

static void maintenance_count_packs(const struct repo *repo, const pack_list *packs,
				    struct maintenance_found *found)
{
	int64_t indexed_ns =
		maintenance_changed_ns(repo, "objects/pack/multi-pack-index");
	size_t folds = pack_list_count_folds(packs);

	found->has_index = indexed_ns > 0;
	found->folds = folds;
	for (size_t i = 0; i < packs->count; i++) {
		const struct pack_item *pack = &packs->items[i];
		found->objects += pack->objects;
		found->unindexed += pack->changed_ns > indexed_ns;
		if (pack->is_kept)
			continue;
		if (found->packs++ < folds)
			found->fold_bytes += pack->bytes;
	}
}

static json_t *maintenance_read_record(int dir)
{
	AUTO_STR struct str text = STR_INIT;

	return file_read(dir, RECORD, RECORD_MOST, &text, ERR_IGNORED) == 0
		       ? json_parse_object(text.data, text.len, RECORD_MOST, ERR_IGNORED)
		       : NULL;
}

bool maintenance_read_last(int dir, struct maintenance_last *last)
{
	json_auto_t *record = maintenance_read_record(dir);

	*last = (struct maintenance_last){
		.at = json_integer_value(json_object_get(record, "at")),
		.took_ms = json_integer_value(json_object_get(record, "took_ms")),
		.packs = (size_t)json_integer_value(json_object_get(record, "packs")),
	};
	return last->at > 0;
}

static void maintenance_look_at_record(const struct repo *repo, const char *refs,
				       struct maintenance_found *found)
{
	json_auto_t *record = maintenance_read_record(repo->fd);
	const char *graph = json_string_value(json_object_get(record, "graph"));
	int64_t at = json_integer_value(json_object_get(record, "at"));

	found->has_graph = maintenance_changed_ns(repo, "objects/info/commit-graphs/"
							"commit-graph-chain") > 0 ||
			   maintenance_changed_ns(repo, "objects/info/commit-graph") > 0;
	found->is_graph_old = !found->has_graph || !graph || strcmp(graph, refs) != 0;
	found->since_ms = at > 0 ? clock_wall_ms() - at : -1;
	if (found->since_ms < -1) /* the clock was set back */
		found->since_ms = -1;
}

int maintenance_look(const struct repo *repo, const char *refs, bool wants_stale,
		     struct maintenance_found *found, struct err *err)
{
	AUTO_PACK_LIST pack_list packs = { 0 };

	*found = (struct maintenance_found){ .is_shallow = repo->is_shallow };
	if (pack_list_read(repo, &packs, err) != 0)
		return -1;
	maintenance_count_packs(repo, &packs, found);
	maintenance_look_at_record(repo, refs, found);
	found->loose = maintenance_estimate_loose(repo);
	if (wants_stale)
		found->stale = stale_count(repo, clock_wall_ms() / 1000);
	return 0;
}

int maintenance_write_last(const struct maintenance_request *request,
			   const struct maintenance_result *result, int64_t took_ms,
			   struct err *err)
{
	json_auto_t *before = maintenance_read_record(request->repo->fd);
	const char *graph = json_string_value(json_object_get(before, "graph"));
	json_auto_t *record = json_object();
	AUTO_STR struct str text = STR_INIT;

	json_put_number(record, "at", clock_wall_ms());
	json_put_number(record, "took_ms", took_ms);
	json_put_number(record, "packs", (int64_t)result->packs_after);
	if (result->has_graphed)
		graph = request->refs;
	if (graph)
		json_put_text(record, "graph", graph);
	json_render(record, &text);
	str_add_char(&text, '\n');
	return file_replace(request->repo->fd, RECORD, text.data, text.len, FILE_NO_SYNC,
			    err);
}
