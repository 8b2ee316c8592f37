/*
 * What a secondary tells its primary with each request for events, so that `status` can
 * say it there, too.
 */
#include "report/report_exchange.h"

#include "base/clock.h"

#define WRITE_EACH_MS 5000
#define REPORT_LIMIT 4096

struct sighting {
	const char *site;
	uint64_t cursor;
	const char *report;
	bool is_known; /* written less than WRITE_EACH_MS ago, and says the same */
};

static int report_exchange_look_up(struct store_tx *tx, void *arg, struct err *err)
{
	struct sighting *sighting = arg;
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_open(tx,
		       "SELECT cursor_id, report, seen_at FROM secondary WHERE site = ?1",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, sighting->site);
	found = query_step(query, err);
	sighting->is_known = false;
	if (found <= 0)
		return found;
	const char *report = query_text(query, 1);
	bool is_same = (uint64_t)query_int(query, 0) == sighting->cursor &&
		       strcmp(report ? report : "", sighting->report) == 0;
	sighting->is_known =
		is_same && clock_wall_ms() - query_int(query, 2) < WRITE_EACH_MS;
	return 0;
}

static int write_sighting(struct store_tx *tx, void *arg, struct err *err)
{
	const struct sighting *sighting = arg;
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx,
		       "INSERT INTO secondary (site, cursor_id, report, seen_at)"
		       " VALUES (?1, ?2, ?3, ?4) ON CONFLICT (site) DO UPDATE SET"
		       " cursor_id = ?2, report = ?3, seen_at = ?4",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, sighting->site);
	query_bind_int(query, 2, (int64_t)sighting->cursor);
	query_bind_text(query, 3, sighting->report);
	query_bind_int(query, 4, clock_wall_ms());
	return query_run(query, NULL, err);
}

int report_secondary_seen(struct store *store, const char *site, uint64_t cursor,
			  const char *report_json_text, struct err *err)
{
	struct sighting sighting = { .site = site,
				     .cursor = cursor,
				     .report = report_json_text ? report_json_text : "" };
	json_auto_t *said = NULL;

	if (sighting.report[0]) {
		said = json_parse_object(sighting.report, strlen(sighting.report),
					 REPORT_LIMIT, err);
		if (!said)
			return err_prefix(err, "Refrelay-Report");
	}
	if (store_read(store, report_exchange_look_up, &sighting, err) != 0)
		return -1;
	if (sighting.is_known)
		return 0;
	return store_write(store, write_sighting, &sighting, err);
}

/* Of all kinds together. */
static void count_all(const struct report *report, struct registry_counts *all)
{
	*all = report->repositories;
	for (size_t k = 0; k < report->blobs.count; k++) {
		const struct registry_counts *one = &report->blobs.items[k].counts;
		for (int i = 0; i < REGISTRY_STATES; i++)
			all->states[i] += one->states[i];
		all->all += one->all;
		all->held += one->held;
	}
}

void report_for_primary(const struct report *report, const char *node, struct str *out)
{
	struct registry_counts counts;
	struct verdict verdict;
	json_auto_t *object = json_object();

	report_judge(report, &verdict);
	count_all(report, &counts);
	json_put_number(object, "behind", report_waiting(&counts));
	json_put_number(object, "failing", counts.states[REGISTRY_FAILED]);
	json_put_number(object, "held", counts.held);
	json_put_seconds(object, "lag", report->lag_ms);
	json_put_number(object, "synced", counts.states[REGISTRY_SYNCED]);
	json_put_number(object, "replicables", counts.all);
	json_put_bool(object, "in_sync", verdict.code == VERDICT_IN_SYNC);
	json_put_text(object, "reason",
		      verdict.code == VERDICT_IN_SYNC ? NULL
						      : verdict_code_name(verdict.code));
	json_put_text(object, "node", node);
	json_render(object, out);
}
