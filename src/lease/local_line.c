/*
 * The line between processes: a ticket for each process that waits for a key (its first
 * waiter's), served in the order of their numbers. Who is dead leaves no gap, and who is
 * merely stopped holds nobody up: a ticket whose owner has not asked for a while is
 * passed over until it asks again.
 */
#include "base/clock.h"
#include "lease/local.h"

/* Those who wait ask about every second. */
#define SILENT_MS 5000
#define SAY_EVERY_MS 1000

struct ticket {
	int64_t number;
	int64_t pid;
	int64_t seen;
	char boot_id[40];
	char alive_file[ALIVE_NAME_SIZE];
};

enum ticket_state { TICKET_WAITS, TICKET_SILENT, TICKET_DEAD };

/* The first one of the key between the two, both excluded: 1 and *ticket, or 0. */
static int find_ticket(struct store_tx *tx, const char *key, int64_t after,
		       int64_t before, struct ticket *ticket, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx,
		       "SELECT ticket, pid, seen, boot_id, alive_file FROM lease_waiter"
		       " WHERE key = ?1 AND ticket > ?2 AND ticket < ?3"
		       " ORDER BY ticket LIMIT 1",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, key);
	query_bind_int(query, 2, after);
	query_bind_int(query, 3, before);
	int found = query_step(query, err);
	if (found <= 0)
		return found;
	const char *boot_id = query_text(query, 3), *alive = query_text(query, 4);
	ticket->number = query_int(query, 0);
	ticket->pid = query_int(query, 1);
	ticket->seen = query_int(query, 2);
	snprintf(ticket->boot_id, sizeof(ticket->boot_id), "%s", boot_id ? boot_id : "");
	snprintf(ticket->alive_file, sizeof(ticket->alive_file), "%s",
		 alive ? alive : "");
	return 1;
}

/* One of our own is a remnant: we have one place a key, and it is not before itself. */
static enum ticket_state judge_ticket(const struct local *local,
				      const struct ticket *ticket)
{
	bool silent = ticket->seen + SILENT_MS <= clock_boot_ms();

	if (strcmp(ticket->boot_id, clock_boot_id()) != 0 ||
	    strcmp(ticket->alive_file, local->files.alive_name) == 0)
		return TICKET_DEAD;
	switch (alive_probe(&local->files, ticket->alive_file)) {
	case ALIVE_NO:
		return TICKET_DEAD;
	case ALIVE_UNKNOWN:
		return silent ? TICKET_DEAD : TICKET_WAITS;
	default:
		return silent ? TICKET_SILENT : TICKET_WAITS;
	}
}

int line_leave(struct store_tx *tx, int64_t place, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx, "DELETE FROM lease_waiter WHERE ticket = ?1", &query, err) !=
	    0)
		return -1;
	query_bind_int(query, 1, place);
	return query_run(query, NULL, err);
}

int line_front(struct store_tx *tx, const struct local *local, const char *key,
	       int64_t place, struct lease_holder *front, struct err *err)
{
	struct ticket ticket = { 0 };
	int found;

	while ((found = find_ticket(tx, key, ticket.number, place ? place : INT64_MAX,
				    &ticket, err)) > 0) {
		enum ticket_state state = judge_ticket(local, &ticket);
		if (state == TICKET_DEAD && line_leave(tx, ticket.number, err) != 0)
			return -1;
		if (state == TICKET_WAITS)
			break;
	}
	if (found <= 0)
		return found;
	*front = (struct lease_holder){ .pid = ticket.pid,
					.operation = "waiting",
					.proof = "alive" };
	snprintf(front->key, sizeof(front->key), "%s", key);
	snprintf(front->node, sizeof(front->node), "%s", local->base.node);
	snprintf(front->boot_id, sizeof(front->boot_id), "%s", ticket.boot_id);
	return 1;
}

/* 1: we have it still. */
static int say_that_we_wait(struct store_tx *tx, int64_t place, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	AUTO_QUERY struct query *update = NULL;
	int64_t now = clock_boot_ms();

	if (query_open(tx, "SELECT seen FROM lease_waiter WHERE ticket = ?1", &query,
		       err) != 0)
		return -1;
	query_bind_int(query, 1, place);
	int found = query_step(query, err);
	if (found <= 0 || query_int(query, 0) + SAY_EVERY_MS > now)
		return found;
	if (query_open(tx, "UPDATE lease_waiter SET seen = ?2 WHERE ticket = ?1", &update,
		       err) != 0)
		return -1;
	query_bind_int(update, 1, place);
	query_bind_int(update, 2, now);
	return query_run(update, NULL, err) == 0 ? 1 : -1;
}

int line_stand(struct store_tx *tx, const struct local *local, const char *key,
	       int64_t *place, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found = *place ? say_that_we_wait(tx, *place, err) : 0;

	if (found != 0)
		return found < 0 ? -1 : 0;
	if (query_open(tx,
		       "INSERT INTO lease_waiter (key, boot_id, pid, alive_file, since,"
		       " seen) VALUES (?1, ?2, ?3, ?4, ?5, ?6) RETURNING ticket",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, key);
	query_bind_text(query, 2, clock_boot_id());
	query_bind_int(query, 3, getpid());
	query_bind_text(query, 4, local->files.alive_name);
	query_bind_int(query, 5, clock_wall_ms());
	query_bind_int(query, 6, clock_boot_ms());
	if (query_step(query, err) < 0)
		return -1;
	*place = query_int(query, 0);
	return query_step(query, err) < 0 ? -1 : 0; /* to its end */
}
