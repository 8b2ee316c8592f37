/*
 * What the tests of the registry share: a store with rows a, b and c, of which a is moved
 * and looked at.
 */
#ifndef UNIT_REGISTRY_TEST_H
#define UNIT_REGISTRY_TEST_H

#include "test.h"

#include "base/clock.h"
#include "replicable/name.h"
#include "replicable/registry.h"

#include "registry_write.h"

static struct store *store;
static struct registry_row row;

static inline void open_with_rows(void)
{
	static const char *const names[] = { "a", "b", "c" };

	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(registry_add(store, KIND_REPOSITORY, names, 3, &err));
}

static inline void close_all(void)
{
	registry_row_clear(&row);
	store_close(store);
}

static inline int move(enum registry_event event, uint64_t generation)
{
	static const struct err failure = { .class = ERR_NETWORK,
					    .text = "it broke",
					    .remedy = "mend it" };
	const struct registry_move change = {
		.id = replicable_id(KIND_REPOSITORY, "a"),
		.event = event,
		.generation = generation,
		.checksum = "1-00",
		.held_reason = "too many",
		.err = &failure,
		/* what is begun must not lapse meanwhile */
		.timeout_ms = event == REGISTRY_BEGUN ? 60000 : 1000,
	};

	return registry_move(store, &change, &err);
}

static inline const struct registry_row *read_row(void)
{
	registry_row_clear(&row);
	assert_ok(registry_get(store, KIND_REPOSITORY, "a", &row, &err));
	return &row;
}

static inline int send(struct registry_move change)
{
	change.id = replicable_id(KIND_REPOSITORY, "a");
	return registry_move(store, &change, &err);
}

static inline int ask(uint64_t generation, const char *timeline, const char *checksum)
{
	return send((struct registry_move){ .event = REGISTRY_ASKED,
					    .generation = generation,
					    .timeline = timeline,
					    .checksum = checksum,
					    .changed_at = (int64_t)generation * 100 });
}

static inline int ask_by_hand(unsigned wishes)
{
	return send((struct registry_move){ .event = REGISTRY_ASKED, .wishes = wishes });
}

static inline int bring(uint64_t generation, const char *timeline)
{
	return send((struct registry_move){ .event = REGISTRY_BROUGHT,
					    .generation = generation,
					    .timeline = timeline });
}

static inline int complete_for(uint64_t generation, const char *checksum,
			       int64_t reverify_ms)
{
	const struct registry_move brought = {
		.id = replicable_id(KIND_REPOSITORY, "a"),
		.generation = generation,
		.timeline = "t1",
		.checksum = checksum,
		.timeout_ms = reverify_ms,
	};

	return registry_complete(store, &brought, &err);
}

static inline int complete(uint64_t generation, const char *checksum)
{
	return complete_for(generation, checksum, 5000);
}

static inline bool is_due(void)
{
	return read_row()->due_at != 0 && row.due_at <= clock_wall_ms();
}

/* Row "a": synced and verified, generation 3 of timeline t1, checksum "1-aa". */
static inline void open_synced(void)
{
	open_with_rows();
	assert_ok(ask(3, "t1", "1-aa"));
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete(3, "1-aa"));
}

#endif
