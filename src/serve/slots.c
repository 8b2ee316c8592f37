#include "serve/slots.h"

#include <stdatomic.h>

#include "base/metrics.h"

struct slots {
	struct fair *fair;
	_Atomic int64_t wait_ms;
	atomic_uint refused;
	struct metric_series *refused_counter;
};

static struct fair_limits fair_part(const struct slots_limits *limits)
{
	return (struct fair_limits){ .places = limits->running,
				     .waiting = limits->waiting,
				     .each = limits->each };
}

struct slots *slots_new(const char *name, const struct slots_limits *limits)
{
	struct slots *slots = xcalloc(1, sizeof(*slots));
	struct fair_limits part = fair_part(limits);

	slots->fair = fair_new(&part);
	atomic_init(&slots->wait_ms, limits->wait_ms);
	fair_show(slots->fair,
		  metric_at(metric_gauge("refrelay_upload_pack_running",
					 "Children that serve readers and run now.",
					 "kind"),
			    name),
		  metric_at(metric_gauge("refrelay_upload_pack_waiting",
					 "Requests that wait until such a child may "
					 "start.",
					 "kind"),
			    name));
	slots->refused_counter =
		metric_at(metric_counter("refrelay_upload_pack_refused_total",
					 "Requests sent away because too many waited, or "
					 "because they had waited for too long.",
					 "kind"),
			  name);
	return slots;
}

void slots_free(struct slots *slots)
{
	if (!slots)
		return;
	fair_free(slots->fair);
	free(slots);
}

void slots_set(struct slots *slots, const struct slots_limits *limits)
{
	struct fair_limits part = fair_part(limits);

	atomic_store(&slots->wait_ms, limits->wait_ms);
	fair_set(slots->fair, &part);
}

/* Clients that are sent away together come back one after another. */
static unsigned slots_retry_after(struct slots *slots)
{
	int64_t wait_s = atomic_load(&slots->wait_ms) / 1000;
	unsigned spread = wait_s < 2 ? 1 : wait_s > 60 ? 30 : (unsigned)wait_s / 2;

	return spread + atomic_fetch_add(&slots->refused, 1) % spread;
}

static int slots_refuse(struct slots *slots, const struct slots_request *request,
			const char *why, struct err *err)
{
	unsigned seconds = slots_retry_after(slots);

	metric_add(slots->refused_counter, 1);
	if (request->retry_after_s)
		*request->retry_after_s = seconds;
	err_set(err, ERR_BUSY, "%s", why);
	return err_remedy(err, "come again in %u s", seconds);
}

int slots_enter(struct slots *slots, const struct slots_request *request,
		struct fair_place *place, struct err *err)
{
	switch (fair_enter(slots->fair, place, request->client,
			   atomic_load(&slots->wait_ms), request->stop)) {
	case FAIR_ENTERED:
		return 0;
	case FAIR_STOPPED:
		return err_set(err, ERR_CANCELED, "stopped while it waited for its turn");
	case FAIR_TOO_MANY:
		return slots_refuse(slots, request, "too many requests wait already",
				    err);
	default:
		return slots_refuse(slots, request,
				    "too many requests are being answered", err);
	}
}

void slots_leave(struct slots *slots, struct fair_place *place)
{
	fair_leave(slots->fair, place);
}

bool slots_is_wanted(struct slots *slots, const struct fair_place *place)
{
	return fair_is_wanted(slots->fair, place);
}
