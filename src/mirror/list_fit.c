/*
 * What has a row is ours already, whoever made it: only names without one are looked for
 * on disk, by listing the folders that they lead through.
 */
#include "mirror/list_fit.h"

#include "base/map.h"
#include "mirror/mirror_places.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "upkeep/copies_root.h"

struct list_fitting {
	const struct list_fit_call *call;
	struct upstream_list *said;
	struct map listed; /* names that the list had before: any pointer */
	mirror_place_list fresh;
};

static void list_fit_note(struct query *query, void *arg)
{
	struct list_fitting *fitting = arg;
	AUTO_FREE char *name = query_copy_text(query, 0);

	map_put(&fitting->listed, name, fitting);
}

static int list_fit_note_fresh(struct store_tx *tx, struct list_fitting *fitting,
			       const struct upstream_chosen *one, struct err *err)
{
	const struct mirror_place place = { .name = one->name, .url = one->url };
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	int found = map_get(&fitting->listed, one->name)
			    ? 1
			    : registry_get_in(tx, KIND_MIRROR, one->name, &row, err);

	if (found == 0)
		vec_add(&fitting->fresh, place);
	return found < 0 ? -1 : 0;
}

static int list_fit_read(struct store_tx *tx, void *arg, struct err *err)
{
	struct list_fitting *fitting = arg;

	map_clear(&fitting->listed);
	fitting->fresh.count = 0;
	if (query_each(tx, list_fit_note, fitting, err,
		       "SELECT name FROM mirror_listed WHERE list = ?1",
		       QUERY_TEXT(fitting->call->list->name)) != 0)
		return -1;
	for (size_t i = 0; i < fitting->said->chosen.count; i++)
		if (list_fit_note_fresh(tx, fitting, &fitting->said->chosen.items[i],
					err) != 0)
			return -1;
	return 0;
}

static void list_fit_leave_out(struct list_fitting *fitting, struct upstream_chosen *one,
			       const struct mirror_place *place)
{
	struct err why;

	err_set(&why, ERR_CONFLICT, "the repository %.200s of this site has its place",
		place->other);
	err_remedy(&why,
		   "put exclude = %s into [mirrors \"%s\"]; or, to have it taken "
		   "over, give it a section [mirror]",
		   one->name, fitting->call->list->name);
	upstream_findings_add(&fitting->said->findings, one->entry->name, &why);
	free(one->name);
}

/* Both are in the same order. */
static void list_fit_leave_out_taken(struct list_fitting *fitting)
{
	struct upstream_list *said = fitting->said;
	size_t kept = 0, at = 0;

	for (size_t i = 0; i < said->chosen.count; i++) {
		struct upstream_chosen one = said->chosen.items[i];
		const struct mirror_place *place =
			at < fitting->fresh.count &&
					fitting->fresh.items[at].name == one.name
				? &fitting->fresh.items[at++]
				: NULL;
		if (place && place->other)
			list_fit_leave_out(fitting, &one, place);
		else
			said->chosen.items[kept++] = one;
	}
	said->chosen.count = kept;
}

ORDER_BY_TEXT(list_fit_order, struct upstream_chosen, name);

static void list_fit_keep_unfit(struct list_fitting *fitting)
{
	const struct mirror_list *list = fitting->call->list;
	struct upstream_list *said = fitting->said;
	struct err why;

	for (size_t i = 0; i < said->unfit.count; i++) {
		struct upstream_chosen one = said->unfit.items[i];
		if (!map_get(&fitting->listed, one.name))
			continue;
		bool is_archived = one.entry->is_archived && !list->source.has_archived;
		err_set(&why, ERR_CONFLICT, "%s: its mirror stays",
			is_archived ? "it is archived by now"
				    : "it is larger than mirrors.maxSize by now");
		err_remedy(&why,
			   "to have the mirror removed, put exclude = %s into "
			   "[mirrors \"%s\"]",
			   one.name, list->name);
		upstream_findings_add(&said->findings, one.entry->name, &why);
		one.name = xstrdup(one.name);
		vec_add(&said->chosen, one);
	}
	vec_sort(&said->chosen, list_fit_order);
}

int list_fit(const struct list_fit_call *call, struct upstream_list *said,
	     struct err *err)
{
	struct list_fitting fitting = { .call = call, .said = said };
	int result = store_read(call->store, list_fit_read, &fitting, err);

	/* Where the disk is away, nothing would be in the way. */
	if (result == 0 && fitting.fresh.count > 0)
		result = copies_root_check(call->store, KIND_MIRROR, call->root, err);
	if (result == 0 && !call->list->adopts)
		result = mirror_places_find_taken(&fitting.fresh, call->root,
						  call->source, err);
	if (result == 0) {
		list_fit_leave_out_taken(&fitting);
		list_fit_keep_unfit(&fitting);
	}
	mirror_place_list_clear(&fitting.fresh);
	map_clear(&fitting.listed);
	return result;
}
