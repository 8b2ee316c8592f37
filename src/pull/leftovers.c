#include "pull/leftovers.h"

#include "base/file.h"
#include "base/log.h"
#include "blob/walk.h"
#include "pull/copy_kind.h"
#include "pull/copy_record.h"
#include "pull/followed.h"
#include "pull/pull_parts.h"
#include "replicable/discover.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "store/site_value.h"
#include "upkeep/removal.h"

#define BATCH 1000

struct leftovers {
	const char *kind;
	VEC(char *) names; /* to be looked up, then those without a row; owned */
	VEC(char *) paths; /* of repositories, below the root: the same order; owned */
	int64_t taken;
	bool holds; /* those that are taken wait for a person's decision */
};

static void leftovers_clear(struct leftovers *leftovers)
{
	for (size_t i = 0; i < leftovers->names.count; i++)
		free(leftovers->names.items[i]);
	for (size_t i = 0; i < leftovers->paths.count; i++)
		free(leftovers->paths.items[i]);
	vec_clear(&leftovers->names);
	vec_clear(&leftovers->paths);
}

static int leftovers_has_row(struct store_tx *tx, const char *kind, const char *name,
			     struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	return registry_get_in(tx, kind, name, &row, err);
}

/* Empties the names that have a row. */
static int leftovers_look_up_names(struct store_tx *tx, void *arg, struct err *err)
{
	struct leftovers *leftovers = arg;

	for (size_t i = 0; i < leftovers->names.count; i++) {
		char *name = leftovers->names.items[i];
		int found =
			name[0] ? leftovers_has_row(tx, leftovers->kind, name, err) : 0;
		if (found < 0)
			return -1;
		if (found)
			name[0] = '\0';
	}
	return 0;
}

static void add_found(const struct leftovers *leftovers, struct leftovers_found *found)
{
	for (size_t i = 0; i < leftovers->names.count; i++) {
		const char *name = leftovers->names.items[i];
		if (!name[0])
			continue;
		if (found->count++ == 0)
			snprintf(found->example, sizeof(found->example), "%s", name);
	}
}

static int read_tree(struct store *store, const char *root, struct leftovers *leftovers,
		     struct err *err)
{
	AUTO_DISCOVERY struct discovery discovery = { 0 };

	leftovers->kind = KIND_REPOSITORY;
	if (discover(root, &discovery, err) != 0)
		return -1;
	for (size_t i = 0; i < discovery.found.count; i++) {
		vec_add(&leftovers->names, TAKE(discovery.found.items[i].name));
		vec_add(&leftovers->paths, TAKE(discovery.found.items[i].path));
	}
	return store_read(store, leftovers_look_up_names, leftovers, err);
}

static bool is_compared(struct store *store)
{
	AUTO_STR struct str at = STR_INIT;

	return site_value_read(store, PULL_COMPARED, &at, ERR_IGNORED) > 0 &&
	       strtoll(at.data, NULL, 10) > 0;
}

int leftovers_count(struct store *store, const struct kind *kind,
		    struct leftovers_found *found, struct err *err)
{
	*found = (struct leftovers_found){ 0 };
	return kind->copies && kind->copies->count_leftovers && is_compared(store)
		       ? kind->copies->count_leftovers(store, kind, found, err)
		       : 0;
}

int leftovers_count_repositories(struct store *store, const struct kind *kind,
				 struct leftovers_found *found, struct err *err)
{
	struct leftovers leftovers = { 0 };
	int result = read_tree(store, kind->path, &leftovers, err);

	if (result == 0)
		add_found(&leftovers, found);
	leftovers_clear(&leftovers);
	return result;
}

struct blob_counting {
	struct store *store;
	struct leftovers batch;
	struct leftovers_found *found;
};

static int look_up_batch(struct blob_counting *counting, struct err *err)
{
	int result = store_read(counting->store, leftovers_look_up_names,
				&counting->batch, err);

	if (result == 0)
		add_found(&counting->batch, counting->found);
	leftovers_clear(&counting->batch);
	return result;
}

static int leftovers_add_blob(void *arg, const char *id,
			      const struct blob_fingerprint *fingerprint, struct err *err)
{
	struct blob_counting *counting = arg;

	(void)fingerprint;
	vec_add(&counting->batch.names, xstrdup(id));
	return counting->batch.names.count < BATCH ? 0 : look_up_batch(counting, err);
}

static int count_blobs(struct store *store, const struct blob_kind *kind,
		       const struct stop *stop, struct leftovers_found *found,
		       struct err *err)
{
	struct blob_counting counting = { .store = store,
					  .batch = { .kind = kind->type },
					  .found = found };
	const struct blob_visitor visitor = { .file = leftovers_add_blob,
					      .arg = &counting };
	int result = blob_walk(kind, &visitor, stop, err);

	if (result == 0)
		result = look_up_batch(&counting, err);
	leftovers_clear(&counting.batch);
	return result;
}

int leftovers_count_blobs(struct store *store, const struct kind *kind,
			  struct leftovers_found *found, struct err *err)
{
	return count_blobs(store, kind->blobs, NULL, found, err);
}

/* A record of `replicate` names no timeline: that copy belongs to a person. So does what
 * somebody made of a copy of ours, by cp, mv or a push: its record is another's. */
static bool is_own_copy(const struct pull *pull, int root, const char *name,
			const char *path)
{
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_CLOSE int copy = dir_open(root, path, ERR_IGNORED);
	AUTO_FREE char *source = source_url(pull->source, name, ERR_IGNORED);

	if (copy < 0 || !source)
		return false;
	copy_record_read(copy, &record);
	return record.timeline[0] && copy_record_is_of(&record, copy, source);
}

static int leftovers_hold(struct store_tx *tx, const char *name, struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	int found = registry_get_in(tx, KIND_REPOSITORY, name, &row, err);

	return found > 0 ? removal_hold_in(tx, &row, FOLLOWED_LACKS, err) : found;
}

static int mark_gone(struct store_tx *tx, const char *name, struct err *err)
{
	const struct registry_move asked = { .event = REGISTRY_ASKED };
	const struct registry_move gone = { .event = REGISTRY_GONE,
					    .id = replicable_id(KIND_REPOSITORY, name) };

	if (registry_ask_in(tx, KIND_REPOSITORY, name, &asked, err) != 0)
		return -1;
	return registry_move_in(tx, &gone, err) < 0 ? -1 : 0;
}

/* One that an event has added since is wanted. */
static int mark_all_gone(struct store_tx *tx, void *arg, struct err *err)
{
	struct leftovers *leftovers = arg;

	leftovers->taken = 0;
	for (size_t i = 0; i < leftovers->names.count; i++) {
		const char *name = leftovers->names.items[i];
		int found =
			name[0] ? leftovers_has_row(tx, KIND_REPOSITORY, name, err) : 1;
		if (found < 0 || (!found && mark_gone(tx, name, err) != 0) ||
		    (!found && leftovers->holds && leftovers_hold(tx, name, err) != 0))
			return -1;
		leftovers->taken += !found;
	}
	return 0;
}

static void report_foreign(const char *kind, const struct leftovers_found *found)
{
	if (found->count > 0)
		log_warn("leftovers.foreign", LOG_TEXT("kind", kind),
			 LOG_NUMBER("count", found->count),
			 LOG_TEXT("example", found->example));
}

static int take_up_copies(struct pull *pull, int root, struct leftovers *leftovers,
			  struct err *err)
{
	struct leftovers foreign = { 0 };
	struct leftovers_found found = { 0 };

	for (size_t i = 0; i < leftovers->names.count; i++) {
		char *name = leftovers->names.items[i];
		if (!name[0] || is_own_copy(pull, root, name, leftovers->paths.items[i]))
			continue;
		vec_add(&foreign.names, xstrdup(name));
		name[0] = '\0';
	}
	add_found(&foreign, &found);
	leftovers_clear(&foreign);
	report_foreign(KIND_REPOSITORY, &found);
	if (store_write(pull->options.store, mark_all_gone, leftovers, err) != 0)
		return -1;
	if (leftovers->taken > 0 && leftovers->holds)
		removal_report_held(KIND_REPOSITORY, leftovers->taken);
	else if (leftovers->taken > 0)
		log_warn("leftovers.gone", LOG_NUMBER("copies", leftovers->taken));
	pull_signal(pull);
	return 0;
}

int leftovers_take_repositories(struct pull *pull, const struct leftovers_call *call,
				struct err *err)
{
	const struct kind *kind = call->kind;
	struct leftovers leftovers = { .holds = call->is_of_another };
	AUTO_CLOSE int root = dir_open(AT_FDCWD, kind->path, err);
	int result = -1;

	if (root >= 0 && pull_check_root(pull, kind->type, err) == 0)
		result = read_tree(pull->options.store, kind->path, &leftovers, err);
	if (result == 0)
		result = take_up_copies(pull, root, &leftovers, err);
	leftovers_clear(&leftovers);
	return result;
}

int leftovers_take_blobs(struct pull *pull, const struct leftovers_call *call,
			 struct err *err)
{
	const struct kind *kind = call->kind;
	struct leftovers_found found = { 0 };

	if (call->rows > 0)
		return 0;
	if (count_blobs(pull->options.store, kind->blobs, &pull->stop, &found, err) != 0)
		return -1;
	report_foreign(kind->type, &found);
	return 0;
}
