#include "pull/leftovers.h"

#include "base/file.h"
#include "base/log.h"
#include "pull/copy_record.h"
#include "replicable/discover.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "store/site_value.h"
#include "upkeep/copies_root.h"

struct leftovers {
	VEC(const char *) ours; /* names, borrowed from the discovery */
	int64_t foreign;
	const char *example; /* of these */
	int64_t taken;
};

struct looking {
	const struct discovery *discovery;
	int root;
	struct leftovers *leftovers;
};

/* A record of `replicate` names no timeline: that copy belongs to a person. */
static bool is_own_copy(int root, const char *path)
{
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_CLOSE int copy = dir_open(root, path, ERR_IGNORED);

	if (copy >= 0)
		copy_record_read(copy, &record);
	return record.is_there && record.timeline[0];
}

static int has_row(struct store_tx *tx, const char *name, struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	return registry_get_in(tx, KIND_REPOSITORY, name, &row, err);
}

static int look_for_rows(struct store_tx *tx, void *arg, struct err *err)
{
	const struct looking *looking = arg;
	struct leftovers *leftovers = looking->leftovers;

	vec_clear(&leftovers->ours);
	leftovers->foreign = 0;
	for (size_t i = 0; i < looking->discovery->found.count; i++) {
		const struct discovered *one = &looking->discovery->found.items[i];
		int found = has_row(tx, one->name, err);
		if (found < 0)
			return -1;
		if (found)
			continue;
		if (is_own_copy(looking->root, one->path)) {
			vec_add(&leftovers->ours, one->name);
		} else {
			leftovers->foreign++;
			leftovers->example = one->name;
		}
	}
	return 0;
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
static int take_up(struct store_tx *tx, void *arg, struct err *err)
{
	struct leftovers *leftovers = arg;

	leftovers->taken = 0;
	for (size_t i = 0; i < leftovers->ours.count; i++) {
		int found = has_row(tx, leftovers->ours.items[i], err);
		if (found < 0)
			return -1;
		if (found)
			continue;
		if (mark_gone(tx, leftovers->ours.items[i], err) != 0)
			return -1;
		leftovers->taken++;
	}
	AUTO_FREE char *foreign =
		xasprintf("%" PRId64 " %s", leftovers->foreign,
			  leftovers->foreign > 0 ? leftovers->example : "");
	return site_value_set(tx, PULL_FOREIGN, foreign, err);
}

static int judge(struct pull *pull, struct looking *looking, struct err *err)
{
	struct store *store = pull->options.store;
	struct leftovers *leftovers = looking->leftovers;

	if (store_read(store, look_for_rows, looking, err) != 0 ||
	    store_write(store, take_up, leftovers, err) != 0)
		return -1;
	if (leftovers->taken > 0) {
		log_warn("leftovers.gone", LOG_NUMBER("copies", leftovers->taken));
		pull_signal(pull);
	}
	if (leftovers->foreign > 0)
		log_warn("leftovers.foreign",
			 LOG_NUMBER("repositories", leftovers->foreign),
			 LOG_TEXT("repo", leftovers->example));
	return 0;
}

int leftovers_take_up(struct pull *pull, struct err *err)
{
	AUTO_DISCOVERY struct discovery discovery = { 0 };
	struct leftovers leftovers = { 0 };
	AUTO_CLOSE int root = dir_open(AT_FDCWD, pull->options.root, err);
	struct looking looking = { &discovery, root, &leftovers };
	int result;

	if (root < 0 ||
	    copies_root_check(pull->options.store, pull->options.root, err) != 0 ||
	    discover(pull->options.root, &discovery, err) != 0)
		return -1;
	result = judge(pull, &looking, err);
	vec_clear(&leftovers.ours);
	return result;
}
