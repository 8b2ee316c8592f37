/*
 * A job does not ask whether maintenance is under way in vain: what is maintained is
 * noted before its row is looked at, under the same mutex, and a job claims its row
 * before it asks. So either maintenance finds the row claimed, or the job finds the note.
 */
#include "pull/maintainer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"

#define IDLE_MS 2000 /* without a sync */
#define LOOK_MOST_MS 5000
#define FIRST_WALK_MS 60000
#define WAY_MS 15000  /* git's children are dead within some seconds */
#define REST_TIMES 20 /* as long as the last maintenance took */
#define REST_LEAST_MS 1000
#define LATER_MS 30000 /* after it gave way */
#define FAILED_LEAST_MS ((int64_t)10 * 60 * 1000)
#define FAILED_MOST_MS ((int64_t)24 * 3600 * 1000)
#define PAGE 200

/* Why a copy is not looked at for a while. */
struct maintain_rest {
	int64_t until; /* boot ms */
	unsigned failures;
};

/* One that was synced. */
struct maintain_report {
	const struct kind *kind; /* of pull->options.here */
	int64_t at;              /* boot ms: not before */
};

struct maintainer {
	struct pull *pull;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	/* Guarded by mutex: */
	bool stopping;
	struct map reported; /* name -> struct maintain_report, owned */
	const char *running; /* the copy's name; NULL: none */
	struct stop stop;    /* its */
	/* Own thread only: */
	struct map rests; /* name -> struct maintain_rest, owned */
	int64_t walk_at;  /* boot ms */
	int64_t interval_ms;
	bool is_on;
};

bool maintain_is_idle(const struct registry_row *row)
{
	return row->name && row->state == REGISTRY_SYNCED && !row->is_gone &&
	       row->wishes == 0 && row->claim_token[0] == '\0' &&
	       row->verification != VERIFICATION_STARTED;
}

void maintainer_make_way(struct maintainer *maintainer, const char *name)
{
	const int64_t until = clock_boot_ms() + WAY_MS;

	if (!maintainer)
		return;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&maintainer->mutex);
	while (maintainer->running && strcmp(maintainer->running, name) == 0) {
		stop_request(&maintainer->stop);
		if (!cond_wait_until(&maintainer->changed, &maintainer->mutex, until))
			return;
	}
}

static void maintainer_report_at(struct maintainer *maintainer, const struct kind *kind,
				 const char *name, int64_t at)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&maintainer->mutex);
	struct maintain_report *report = map_get(&maintainer->reported, name);

	if (!report) {
		report = xcalloc(1, sizeof(*report));
		map_put(&maintainer->reported, name, report);
	}
	report->kind = kind;
	report->at = at;
}

/* The thread need not wake for it: it looks often enough. */
void maintainer_report(struct maintainer *maintainer, const char *kind, const char *name)
{
	const struct kind *known =
		maintainer ? kinds_find(maintainer->pull->options.here, kind) : NULL;

	if (known && known->copies && known->copies->maintain)
		maintainer_report_at(maintainer, known, name, clock_boot_ms() + IDLE_MS);
}

/* One whose turn it is. */
struct maintain_due {
	const struct kind *kind;
	char *name; /* owned */
};
typedef VEC(struct maintain_due) maintain_dues;

/* All at once: after a site was filled there are very many. Those that are reported
 * meanwhile come later. */
static void maintainer_take_reports(struct maintainer *maintainer, maintain_dues *dues)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&maintainer->mutex);
	const struct map_entry *entry;
	int64_t now = clock_boot_ms();
	size_t at = 0;

	while ((entry = map_next(&maintainer->reported, &at)) != NULL) {
		const struct maintain_report *report = entry->value;
		if (report->at <= now)
			vec_add(dues, ((struct maintain_due){ report->kind,
							      xstrdup(entry->key) }));
	}
	for (size_t i = 0; i < dues->count; i++)
		free(map_remove(&maintainer->reported, dues->items[i].name));
	if (maintainer->reported.count == 0)
		map_clear(&maintainer->reported); /* the table has no use any more */
}

/* False: the thread is to end. */
static bool maintainer_begin(struct maintainer *maintainer, const char *name)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&maintainer->mutex);

	if (maintainer->stopping)
		return false;
	stop_init(&maintainer->stop);
	maintainer->running = name;
	return true;
}

static void maintainer_end(struct maintainer *maintainer)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&maintainer->mutex);

	maintainer->running = NULL;
	stop_clear(&maintainer->stop);
	pthread_cond_broadcast(&maintainer->changed);
}

static struct metric *maintainer_runs(void)
{
	return metric_counter("refrelay_maintenance_total",
			      "Maintenance of copies' object stores that ended.", "kind",
			      "state");
}

static void maintainer_count(const struct kind *kind, enum maintain_end end)
{
	static const char *const words[] = { [MAINTAIN_DONE] = "done",
					     [MAINTAIN_INTERRUPTED] = "interrupted",
					     [MAINTAIN_FAILED] = "failed" };

	metric_add(metric_at(maintainer_runs(), kind->type, words[end]), 1);
}

static void maintainer_begin_metrics(const struct kinds_here *here)
{
	const struct kind *kind = NULL;

	while ((kind = kinds_next_copied(here, kind)) != NULL)
		if (kind->copies->maintain)
			metric_begin(maintainer_runs(), METRIC_LIST(kind->type),
				     METRIC_LIST("done", "interrupted", "failed"));
}

static bool maintainer_gave_way(enum maintain_end end)
{
	return end == MAINTAIN_LATER || end == MAINTAIN_INTERRUPTED;
}

/* What takes long, or fails, comes back later. */
static void maintainer_rest(struct maintainer *maintainer, const char *name,
			    enum maintain_end end, int64_t took_ms)
{
	struct maintain_rest *rest = map_get(&maintainer->rests, name);
	int64_t rest_ms = took_ms * REST_TIMES;

	if (!rest) {
		rest = xcalloc(1, sizeof(*rest));
		map_put(&maintainer->rests, name, rest);
	}
	rest->failures = end == MAINTAIN_FAILED ? rest->failures + 1 : 0;
	if (rest_ms < REST_LEAST_MS)
		rest_ms = REST_LEAST_MS;
	if (maintainer_gave_way(end) && rest_ms < LATER_MS)
		rest_ms = LATER_MS;
	if (end == MAINTAIN_FAILED) {
		rest_ms = FAILED_LEAST_MS
			  << (rest->failures < 8 ? rest->failures - 1 : 7);
		rest_ms = rest_ms < FAILED_MOST_MS ? rest_ms : FAILED_MOST_MS;
	}
	rest->until = clock_boot_ms() + rest_ms;
}

/* 0: it may be looked at. */
static int64_t maintainer_rests_until(struct maintainer *maintainer, const char *name)
{
	const struct maintain_rest *rest = map_get(&maintainer->rests, name);

	return rest && rest->until > clock_boot_ms() ? rest->until : 0;
}

static void maintainer_visit(struct maintainer *maintainer, const struct kind *kind,
			     const char *name, bool is_walk)
{
	const struct maintain_call call = { .pull = maintainer->pull,
					    .kind = kind,
					    .name = name,
					    .stop = &maintainer->stop,
					    .is_walk = is_walk };
	int64_t rests_until = maintainer_rests_until(maintainer, name);
	int64_t started = clock_boot_ms();

	if (rests_until > 0) {
		maintainer_report_at(maintainer, kind, name, rests_until);
		return;
	}
	if (!maintainer_begin(maintainer, name))
		return;
	enum maintain_end end = kind->copies->maintain(&call);
	maintainer_end(maintainer);
	if (end == MAINTAIN_NOTHING) {
		free(map_remove(&maintainer->rests, name));
		return;
	}
	if (end != MAINTAIN_LATER)
		maintainer_count(kind, end);
	maintainer_rest(maintainer, name, end, clock_boot_ms() - started);
	if (maintainer_gave_way(end)) /* it is not forgotten if nobody reports it */
		maintainer_report_at(maintainer, kind, name, clock_boot_ms() + LATER_MS);
}

static bool maintainer_is_stopping(struct maintainer *maintainer)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&maintainer->mutex);

	return maintainer->stopping;
}

static void maintainer_work_off(struct maintainer *maintainer)
{
	maintain_dues dues = { 0 };

	maintainer_take_reports(maintainer, &dues);
	for (size_t i = 0; i < dues.count; i++) {
		if (!maintainer_is_stopping(maintainer))
			maintainer_visit(maintainer, dues.items[i].kind,
					 dues.items[i].name, false);
		free(dues.items[i].name);
	}
	vec_clear(&dues);
}

/* 1: more may follow. */
static int maintainer_walk_page(struct maintainer *maintainer, const struct kind *kind,
				char **after)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	const struct registry_filter filter = { .kind = kind->type,
						.after = *after,
						.limit = PAGE,
						.state = REGISTRY_SYNCED };
	struct err err;

	if (registry_list(maintainer->pull->options.store, &filter, &rows, &err) != 0) {
		log_error("registry.failed", LOG_ERR(&err));
		return 0;
	}
	for (size_t i = 0; i < rows.count && !maintainer_is_stopping(maintainer); i++)
		if (maintain_is_idle(&rows.items[i]))
			maintainer_visit(maintainer, kind, rows.items[i].name, true);
	maintainer_work_off(maintainer);
	if (rows.count < PAGE || maintainer_is_stopping(maintainer))
		return 0;
	free(*after);
	*after = xstrdup(rows.items[PAGE - 1].name);
	return 1;
}

static void maintainer_walk(struct maintainer *maintainer)
{
	const struct kind *kind = NULL;

	while ((kind = kinds_next_copied(maintainer->pull->options.here, kind)) != NULL) {
		AUTO_FREE char *after = NULL;
		while (kind->copies->maintain &&
		       maintainer_walk_page(maintainer, kind, &after) > 0)
			;
	}
}

static void maintainer_obey(struct maintainer *maintainer)
{
	struct pull_settings settings = pull_settings_now(maintainer->pull);
	int64_t now = clock_boot_ms();

	if (settings.maintenance_ms != maintainer->interval_ms) {
		maintainer->interval_ms = settings.maintenance_ms;
		maintainer->walk_at = now + (maintainer->interval_ms < FIRST_WALK_MS
						     ? maintainer->interval_ms
						     : FIRST_WALK_MS);
	}
	maintainer->is_on = settings.is_maintained;
}

static void maintainer_wait(struct maintainer *maintainer)
{
	int64_t until = clock_boot_ms() + LOOK_MOST_MS;

	if (maintainer->is_on && maintainer->walk_at < until)
		until = maintainer->walk_at;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&maintainer->mutex);
	const struct map_entry *entry;
	size_t at = 0;
	while ((entry = map_next(&maintainer->reported, &at)) != NULL)
		if (((struct maintain_report *)entry->value)->at < until)
			until = ((struct maintain_report *)entry->value)->at;
	while (!maintainer->stopping)
		if (!cond_wait_until(&maintainer->changed, &maintainer->mutex, until))
			break;
}

static void maintainer_forget_reports(struct maintainer *maintainer)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&maintainer->mutex);

	map_clear_owned(&maintainer->reported);
}

static void *maintainer_run(void *arg)
{
	struct maintainer *maintainer = arg;

	while (!maintainer_is_stopping(maintainer)) {
		maintainer_obey(maintainer);
		if (!maintainer->is_on)
			maintainer_forget_reports(maintainer);
		maintainer_work_off(maintainer);
		if (maintainer->is_on && clock_boot_ms() >= maintainer->walk_at) {
			maintainer_walk(maintainer);
			maintainer->walk_at = clock_boot_ms() + maintainer->interval_ms;
		}
		maintainer_wait(maintainer);
	}
	return NULL;
}

struct maintainer *maintainer_start(struct pull *pull)
{
	struct maintainer *maintainer = xcalloc(1, sizeof(*maintainer));

	maintainer->pull = pull;
	maintainer_begin_metrics(pull->options.here);
	mutex_init(&maintainer->mutex);
	cond_init(&maintainer->changed);
	thread_start(&maintainer->thread, "maintenance", maintainer_run, maintainer);
	return maintainer;
}

void maintainer_stop(struct maintainer *maintainer)
{
	if (!maintainer)
		return;
	lock(&maintainer->mutex);
	maintainer->stopping = true;
	if (maintainer->running)
		stop_request(&maintainer->stop);
	pthread_cond_broadcast(&maintainer->changed);
	unlock(&maintainer->mutex);
	thread_join(maintainer->thread);
}

void maintainer_free(struct maintainer *maintainer)
{
	if (!maintainer)
		return;
	map_clear_owned(&maintainer->reported);
	map_clear_owned(&maintainer->rests);
	pthread_cond_destroy(&maintainer->changed);
	pthread_mutex_destroy(&maintainer->mutex);
	free(maintainer);
}
