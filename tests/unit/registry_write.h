/*
 * Writes of single rows of the registry, which only tests make alone.
 */
#ifndef UNIT_REGISTRY_WRITE_H
#define UNIT_REGISTRY_WRITE_H

#include "replicable/registry.h"

struct registry_addition {
	const char *kind;
	const char *const *names;
	size_t count;
};

static inline int registry_add_work(struct store_tx *tx, void *arg, struct err *error)
{
	const struct registry_addition *added = arg;

	return registry_add_in(tx, added->kind, added->names, added->count, error);
}

/* Adds pending rows for these names. */
static inline int registry_add(struct store *to, const char *kind,
			       const char *const *names, size_t count, struct err *error)
{
	struct registry_addition added = { kind, names, count };

	return store_write(to, registry_add_work, &added, error);
}

struct registry_removal {
	uint64_t id;
	int result;
};

static inline int registry_remove_work(struct store_tx *tx, void *arg, struct err *error)
{
	struct registry_removal *removal = arg;

	removal->result = registry_remove_in(tx, removal->id, error);
	return removal->result < 0 ? -1 : 0;
}

/* ERR_CONFLICT: it is wanted. */
static inline int registry_remove(struct store *from, uint64_t id, struct err *error)
{
	struct registry_removal removal = { .id = id };

	if (store_write(from, registry_remove_work, &removal, error) != 0)
		return -1;
	return removal.result == 0 ? 0 : err_set(error, ERR_CONFLICT, "it is wanted");
}

/* COMPLETED for one; ERR_CONFLICT, ERR_MISSING. */
static inline int registry_complete(struct store *to, const struct registry_move *brought,
				    struct err *error)
{
	struct registry_move completed = *brought;
	enum registry_result result;

	completed.event = REGISTRY_COMPLETED;
	if (registry_move_many(to, &completed, 1, &result, error) != 0)
		return -1;
	if (result == REGISTRY_NO_ROW)
		return err_set(error, ERR_MISSING, "no row");
	return result == REGISTRY_MOVED ? 0 : err_set(error, ERR_CONFLICT, "conflict");
}

#endif
