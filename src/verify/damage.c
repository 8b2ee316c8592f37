#include "verify/damage.h"

#include "base/clock.h"
#include "base/metrics.h"
#include "base/thread.h"

static pthread_mutex_t damage_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct damage_met damage_last; /* guarded by it */

void damage_note(const char *kind, const char *name, const struct err *why)
{
	struct metric *metric =
		metric_counter("refrelay_damage_found_total",
			       "Copies and originals that were found damaged.", "kind");

	metric_add(metric_at(metric, kind), 1);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&damage_mutex);
	damage_last.count++;
	damage_last.at = clock_boot_ms();
	snprintf(damage_last.text, sizeof(damage_last.text), "%s %.150s: %.300s", kind,
		 name, why->text);
}

void damage_look(struct damage_met *met)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&damage_mutex);

	*met = damage_last;
}
