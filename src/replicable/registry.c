#include "replicable/registry.h"

#include "base/clock.h"
#include "replicable/registry_row.h"
#include "store/site_value.h"

/* In counters, of a kind. */
#define ORDERED "ordered_removals"

static const char *const state_names[] = { "pending", "started", "synced", "failed",
					   "missing_on_primary" };
static const char *const verification_names[] = { "pending", "started", "succeeded",
						  "failed", "disabled" };

const char *registry_state_name(enum registry_state state)
{
	return state_names[state];
}

const char *registry_verification_name(enum registry_verification state)
{
	return verification_names[state];
}

struct addition {
	const char *kind;
	const char *const *names;
	size_t count;
};

static int registry_add_rows(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_REGISTRY_SHIFT struct registry_shift shift = { 0 };
	const struct addition *addition = arg;

	for (size_t i = 0; i < addition->count; i++)
		if (stored_row_add(tx, addition->kind, addition->names[i], 1, &shift,
				   err) < 0)
			return -1;
	return registry_shift_apply(tx, &shift, err);
}

int registry_add(struct store *store, const char *kind, const char *const *names,
		 size_t count, struct err *err)
{
	struct addition addition = { kind, names, count };

	return store_write(store, registry_add_rows, &addition, err);
}

struct removal {
	uint64_t id;
	bool is_wanted;
};

/* Its copy is in the trash already, but somebody wants it (again): from nothing. */
static int registry_begin_anew(struct store_tx *tx, struct stored_row *stored,
			       struct registry_shift *shift, struct err *err)
{
	struct registry_row *row = &stored->row;

	row->state = REGISTRY_PENDING;
	row->verification = VERIFICATION_DISABLED;
	row->is_proved = false;
	row->generation = 0;
	row->verification_due_at = row->retry_at = row->retry_count = 0;
	row->due_at = clock_wall_ms();
	registry_set_text(&row->checksum, NULL);
	registry_set_text(&row->held_reason, NULL);
	stored->wishes = stored_row_wishes(stored);
	return stored_row_save(tx, stored, shift, err);
}

int registry_remove_in(struct store_tx *tx, uint64_t id, struct err *err)
{
	AUTO_REGISTRY_SHIFT struct registry_shift shift = { 0 };
	AUTO_STORED_ROW struct stored_row stored = { 0 };
	int found = stored_row_load(tx, id, &stored, err);

	if (found <= 0)
		return found;
	if ((stored.row.is_gone ? stored_row_remove(tx, &stored, &shift, err)
				: registry_begin_anew(tx, &stored, &shift, err)) != 0 ||
	    registry_shift_apply(tx, &shift, err) != 0)
		return -1;
	return !stored.row.is_gone;
}

static int registry_remove_row(struct store_tx *tx, void *arg, struct err *err)
{
	struct removal *removal = arg;
	AUTO_STORED_ROW struct stored_row stored = { 0 };
	int found = stored_row_load(tx, removal->id, &stored, err);
	int result = found < 0 ? -1 : registry_remove_in(tx, removal->id, err);

	removal->is_wanted = result > 0;
	if (result < 0 || found == 0 || removal->is_wanted)
		return result < 0 ? -1 : 0;
	return registry_note_ordered(tx, stored.row.kind, err);
}

int registry_note_ordered(struct store_tx *tx, const char *kind, struct err *err)
{
	return counter_add(tx, kind, ORDERED, 1, err);
}

int registry_ordered_in(struct store_tx *tx, const char *kind, int64_t *count,
			struct err *err)
{
	return counter_get(tx, kind, ORDERED, count, err);
}

int registry_remove(struct store *store, uint64_t id, struct err *err)
{
	struct removal removal = { .id = id };

	if (store_write(store, registry_remove_row, &removal, err) != 0)
		return -1;
	if (removal.is_wanted)
		return err_set(err, ERR_CONFLICT,
			       "the registry's row %" PRIu64
			       " is wanted, and its copy will be brought again",
			       id);
	return 0;
}
