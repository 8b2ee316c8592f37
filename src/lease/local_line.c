#include "lease/local_line.h"

#include "base/clock.h"

#define SILENT_MS 5000

_Static_assert(LEASE_NEXT_SIZE == ALIVE_NAME_SIZE, "it is the next one's alive file");

enum ticket_state { TICKET_WAITS, TICKET_SILENT, TICKET_DEAD };

static void take_ticket(struct query *query, void *arg)
{
	const char *boot_id = query_text(query, 3), *alive = query_text(query, 4);
	struct ticket *ticket = arg;

	ticket->number = query_int(query, 0);
	ticket->pid = query_int(query, 1);
	ticket->seen = query_int(query, 2);
	snprintf(ticket->boot_id, sizeof(ticket->boot_id), "%s", boot_id ? boot_id : "");
	snprintf(ticket->alive_file, sizeof(ticket->alive_file), "%s",
		 alive ? alive : "");
}

int local_line_find(struct store_tx *tx, const char *key, int64_t after, int64_t before,
		    struct ticket *ticket, struct err *err)
{
	return query_one(tx, take_ticket, ticket, err,
			 "SELECT ticket, pid, seen, boot_id, alive_file FROM lease_waiter"
			 " WHERE key = ?1 AND ticket > ?2 AND ticket < ?3"
			 " ORDER BY ticket LIMIT 1",
			 QUERY_TEXT(key), QUERY_INT(after), QUERY_INT(before));
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

int local_line_leave(struct store_tx *tx, int64_t place, struct err *err)
{
	return query_write(tx, err, "DELETE FROM lease_waiter WHERE ticket = ?1",
			   QUERY_INT(place));
}

int local_line_front(struct store_tx *tx, const struct local *local, const char *key,
		     int64_t place, enum line_look how, struct ticket *front,
		     struct err *err)
{
	int found;

	*front = (struct ticket){ 0 };
	while ((found = local_line_find(tx, key, front->number, place ? place : INT64_MAX,
					front, err)) > 0) {
		enum ticket_state state = judge_ticket(local, front);
		if (state == TICKET_WAITS)
			break;
		if (state == TICKET_DEAD && how == LINE_REMOVE_DEAD &&
		    local_line_leave(tx, front->number, err) != 0)
			return -1;
	}
	return found;
}

void local_line_describe(const struct local *local, const char *key,
			 const struct ticket *ticket, struct lease_holder *front)
{
	*front = (struct lease_holder){ .pid = ticket->pid,
					.operation = "waiting",
					.proof = "alive" };
	snprintf(front->key, sizeof(front->key), "%s", key);
	snprintf(front->node, sizeof(front->node), "%s", local->base.node);
	snprintf(front->boot_id, sizeof(front->boot_id), "%s", ticket->boot_id);
}

int local_line_next(struct store_tx *tx, const struct local *local, const char *key,
		    char next[ALIVE_NAME_SIZE], struct err *err)
{
	struct ticket front;
	int found = local_line_front(tx, local, key, 0, LINE_REMOVE_DEAD, &front, err);

	snprintf(next, ALIVE_NAME_SIZE, "%s", found > 0 ? front.alive_file : "");
	return found < 0 ? -1 : 0;
}

/* 1: we have it still. */
static int say_that_we_wait(struct store_tx *tx, int64_t place, struct err *err)
{
	int64_t now = clock_boot_ms();
	int64_t seen = -1;

	if (query_number(tx, &seen, err,
			 "SELECT seen FROM lease_waiter WHERE ticket = ?1",
			 QUERY_INT(place)) != 0)
		return -1;
	if (seen < 0 || seen + SAY_EVERY_MS > now)
		return seen >= 0;
	return query_write(tx, err, "UPDATE lease_waiter SET seen = ?2 WHERE ticket = ?1",
			   QUERY_INT(place), QUERY_INT(now)) == 0
		       ? 1
		       : -1;
}

int local_line_stand(struct store_tx *tx, const struct local *local, const char *key,
		     int64_t *place, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found = *place ? say_that_we_wait(tx, *place, err) : 0;

	if (found != 0)
		return found < 0 ? -1 : 0;
	if (query_ask(tx, &query, err,
		      "INSERT INTO lease_waiter (key, boot_id, pid, alive_file, seen)"
		      " VALUES (?1, ?2, ?3, ?4, ?5) RETURNING ticket",
		      QUERY_TEXT(key), QUERY_TEXT(clock_boot_id()), QUERY_INT(getpid()),
		      QUERY_TEXT(local->files.alive_name),
		      QUERY_INT(clock_boot_ms())) != 0 ||
	    query_step(query, err) < 0)
		return -1;
	*place = query_int(query, 0);
	return query_step(query, err) < 0 ? -1 : 0; /* to its end */
}
