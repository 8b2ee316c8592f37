#include "base/clock.h"
#include "lease/local.h"

#define SELECT_ROW                                                                       \
	"SELECT key, fence, nonce, node, boot_id, pid, alive_file, job, operation,"      \
	" acquired_at, expires_at, ttl, ended FROM lease"

#define COPY(to, query, column) local_row_copy_text((to), sizeof(to), (query), (column))

static void local_row_copy_text(char *to, size_t size, struct query *query, int column)
{
	const char *text = query_text(query, column);

	snprintf(to, size, "%s", text ? text : "");
}

static void local_row_read_columns(struct query *query, struct lease_row *row)
{
	struct lease_holder *holder = &row->holder;
	const char *ended = query_text(query, 12);

	*row = (struct lease_row){ 0 };
	COPY(holder->key, query, 0);
	holder->fence = (uint64_t)query_int(query, 1);
	COPY(row->nonce, query, 2);
	COPY(holder->node, query, 3);
	COPY(holder->boot_id, query, 4);
	holder->pid = query_int(query, 5);
	COPY(row->alive_file, query, 6);
	COPY(holder->job, query, 7);
	COPY(holder->operation, query, 8);
	holder->acquired_at = query_int(query, 9);
	row->expires_at = query_int(query, 10);
	row->ttl = query_int(query, 11);
	row->forced = ended && strcmp(ended, "forced") == 0;
}

int row_load(struct store_tx *tx, const char *key, struct lease_row *row, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	*row = (struct lease_row){ 0 };
	if (query_open(tx, SELECT_ROW " WHERE key = ?1", &query, err) != 0)
		return -1;
	query_bind_text(query, 1, key);
	int found = query_step(query, err);
	if (found > 0)
		local_row_read_columns(query, row);
	return found < 0 ? -1 : 0;
}

static void local_row_set_verdict(struct lease_row *row, bool is_free,
				  enum lease_predecessor predecessor, const char *proof)
{
	row->free = is_free;
	row->predecessor = predecessor;
	row->holder.is_dead = predecessor == LEASE_AFTER_DEATH;
	snprintf(row->holder.proof, sizeof(row->holder.proof), "%s", proof);
}

static void judge_by_process(const struct local *local, struct lease_row *row,
			     bool lapsed)
{
	switch (alive_probe(&local->files, row->alive_file)) {
	case ALIVE_NO:
		local_row_set_verdict(row, true, LEASE_AFTER_DEATH,
				      "dead: process is gone");
		break;
	case ALIVE_YES:
		local_row_set_verdict(row, lapsed, LEASE_AFTER_LAPSE,
				      lapsed ? "lapsed: alive but silent" : "alive");
		break;
	case ALIVE_UNKNOWN: /* no proof of anything: its ttl counts */
		local_row_set_verdict(row, lapsed, LEASE_AFTER_LAPSE, "unknown");
		break;
	}
}

void row_judge(const struct local *local, struct lease_row *row)
{
	struct lease_holder *holder = &row->holder;

	if (holder->fence == 0) {
		local_row_set_verdict(row, true, LEASE_AFTER_NOBODY, "unknown");
	} else if (row->nonce[0] == '\0') {
		local_row_set_verdict(
			row, true, row->forced ? LEASE_AFTER_FORCE : LEASE_AFTER_RELEASE,
			"released");
	} else if (strcmp(holder->boot_id, clock_boot_id()) != 0) {
		local_row_set_verdict(row, true, LEASE_AFTER_DEATH, "dead: other boot");
	} else {
		holder->ttl_left_ms = row->expires_at - clock_boot_ms();
		holder->held = holder->ttl_left_ms > 0;
		judge_by_process(local, row, !holder->held);
	}
}

int row_list(struct store_tx *tx, const struct local *local, lease_holders *holders,
	     struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	struct lease_row row;
	int found;

	if (query_open(tx, SELECT_ROW " ORDER BY key", &query, err) != 0)
		return -1;
	while ((found = query_step(query, err)) > 0) {
		local_row_read_columns(query, &row);
		row_judge(local, &row);
		vec_add(holders, row.holder);
	}
	return found;
}
