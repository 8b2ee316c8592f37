#include "alert/facts.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "net/http.h"
#include "store/site_value.h"

#define HAD_HOOKS "alert.had_hooks"
#define PEER_MS 15000

void alert_peers_clear(alert_peers *peers)
{
	for (size_t i = 0; i < peers->count; i++) {
		free(peers->items[i].what);
		free(peers->items[i].url);
		free(peers->items[i].ca_file);
	}
	vec_clear(peers);
}

/*
 * Disks.
 */

typedef VEC(dev_t) seen_disks;

static bool facts_is_new_disk(seen_disks *seen, dev_t disk)
{
	for (size_t i = 0; i < seen->count; i++)
		if (seen->items[i] == disk)
			return false;
	vec_add(seen, disk);
	return true;
}

/* Of directories on one file system the first stands for all. */
static void facts_add_disk(const char *what, const char *path, seen_disks *seen,
			   alert_disks *disks)
{
	struct statvfs room;
	struct stat st;

	if (!path || stat(path, &st) != 0 || statvfs(path, &room) != 0 ||
	    room.f_blocks == 0 || !facts_is_new_disk(seen, st.st_dev))
		return;
	const struct alert_disk disk = {
		.what = what,
		.path = xstrdup(path),
		.all = (uint64_t)room.f_blocks * room.f_frsize,
		.room = (uint64_t)room.f_bavail * room.f_frsize,
		.all_files = room.f_files,
		.room_files = room.f_favail,
	};
	vec_add(disks, disk);
}

static void facts_add_disks(const struct alert_sources *sources, alert_disks *disks)
{
	const struct kind *kind = NULL;
	seen_disks seen = { 0 };

	facts_add_disk("site.repositories", sources->root, &seen, disks);
	facts_add_disk("site.data", sources->data, &seen, disks);
	while (sources->here && (kind = kinds_next(sources->here, kind)) != NULL)
		facts_add_disk("blobs", kind->path, &seen, disks);
	facts_add_disk("replication.eventsDirectory", sources->push_data, &seen, disks);
	vec_clear(&seen);
}

/*
 * Rows.
 */

/* The words of the partial indexes, so that they are used. */
static const char *const retrying_sql[] = {
	"SELECT kind, failure_class, MIN(name) FROM registry"
	" WHERE due_at IS NOT NULL AND last_attempt_at IS NOT NULL AND state <> 0"
	" AND state = 1 AND failure_class IS NOT NULL GROUP BY kind, failure_class",
	"SELECT kind, failure_class, MIN(name) FROM origin"
	" WHERE claim_token IS NOT NULL AND failure_class IS NOT NULL"
	" GROUP BY kind, failure_class",
};

static int facts_read_rows(struct store_tx *tx, const char *sql,
			   struct alert_facts *facts, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_open(tx, sql, &query, err) != 0)
		return -1;
	while ((found = query_step(query, err)) > 0) {
		const struct alert_retrying one = { .kind = query_copy_text(query, 0),
						    .class = query_copy_text(query, 1),
						    .example =
							    query_copy_text(query, 2) };
		vec_add(&facts->retrying, one);
	}
	return found;
}

static void facts_clear_retrying(struct alert_facts *facts)
{
	for (size_t i = 0; i < facts->retrying.count; i++) {
		free(facts->retrying.items[i].kind);
		free(facts->retrying.items[i].class);
		free(facts->retrying.items[i].example);
	}
	vec_clear(&facts->retrying);
}

static int facts_read(struct store_tx *tx, void *arg, struct err *err)
{
	struct alert_facts *facts = arg;
	AUTO_STR struct str had_hooks = STR_INIT;

	facts_clear_retrying(facts);
	for (size_t i = 0; i < ARRAY_SIZE(retrying_sql); i++)
		if (facts_read_rows(tx, retrying_sql[i], facts, err) != 0)
			return -1;
	if (site_value_get(tx, HAD_HOOKS, &had_hooks, err) < 0)
		return -1;
	facts->had_hooks = had_hooks.len > 0;
	return 0;
}

/* Who never had hooks wants none, or is told by check. */
static void facts_note_hooks(const struct alert_sources *sources,
			     const struct report *report, struct alert_facts *facts)
{
	if (facts->had_hooks || !report->scan.has_hooks ||
	    report->scan.hooks.states[HOOK_INSTALLED] == 0)
		return;
	facts->had_hooks = true;
	site_value_write(sources->store, HAD_HOOKS, "yes", ERR_IGNORED);
}

void alert_facts_gather(const struct alert_sources *sources, struct report *report,
			struct alert_facts *facts)
{
	const int64_t now = clock_boot_ms();

	*facts = (struct alert_facts){ .now = clock_wall_ms(),
				       .uptime_ms = now - sources->started_at };
	if (sources->report(sources->arg, report, &facts->why_not) != 0)
		return;
	if (store_read(sources->store, facts_read, facts, &facts->why_not) != 0) {
		report_clear(report);
		return;
	}
	facts->report = report;
	facts_note_hooks(sources, report, facts);
	facts_add_disks(sources, &facts->disks);
	damage_look(&facts->damage);
	/* it may have been found since this began */
	facts->damage_age_ms =
		facts->damage.at > 0 ? int64_max(now - facts->damage.at, 0) : -1;
}

void alert_facts_clear(struct alert_facts *facts, struct report *report)
{
	if (facts->report)
		report_clear(report);
	facts_clear_retrying(facts);
	alert_disks_clear(&facts->disks);
	alert_endings_clear(&facts->endings);
}

/*
 * Certificates of others.
 */

static int facts_drop_bytes(void *arg, const char *bytes, size_t count, struct err *err)
{
	(void)arg, (void)bytes, (void)count, (void)err;
	return 0;
}

/* 0: not known. What is wrong with it already, others say who go there for more. */
static int64_t facts_ask_peer(const struct alert_peer *peer, const struct stop *stop)
{
	struct http_call call = {
		.line = http_line_open(),
		.request = { .method = "HEAD",
			     .url = peer->url,
			     .ca_file = peer->ca_file,
			     .connect_ms = PEER_MS,
			     .until = clock_boot_ms() + PEER_MS,
			     .stop = stop },
		.peer = peer->url,
		.remedy = "",
		.take = facts_drop_bytes,
		.wants_certificate = true,
	};
	int64_t at_ms = 0;

	if (http_begin(&call, ERR_IGNORED) == 0 &&
	    http_run(&call, http_has_ended, ERR_IGNORED) == 0)
		at_ms = http_get_certificate_end(&call);
	http_end(&call);
	http_line_close(&call.line);
	return at_ms;
}

bool alert_peers_ask(const alert_peers *peers, const struct stop *stop, int64_t *at_ms)
{
	bool are_known = true;

	for (size_t i = 0; i < peers->count && !stop_is_requested(stop); i++) {
		at_ms[i] = facts_ask_peer(&peers->items[i], stop);
		are_known = are_known && at_ms[i] > 0;
	}
	return are_known;
}
