/*
 * The metrics of this process: owners register theirs once at start, any thread updates
 * them with a few atomic instructions, and the HTTP server renders them as Prometheus
 * text (https://prometheus.io/docs/instrumenting/exposition_formats/, 0.0.4) or as
 * OpenMetrics (https://prometheus.io/docs/specs/om/open_metrics_spec/, 1.0.0). They are
 * never freed, so pointers stay valid for the life of the process.
 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include "base/base.h"
#include "base/str.h"

enum metrics_format { METRICS_PROMETHEUS, METRICS_OPEN };

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric;
struct metric_series; /* a metric with values for all of its labels */

struct metric_spec {
	enum metric_kind kind;
	const char *name;          /* see metric_name_is_good */
	const char *help;          /* one sentence */
	const char *const *labels; /* at most 3, ends in NULL; of: site kind remote state
				      class, never a repository; of build_info:
				      version schema protocol */
	const double *buckets;     /* of a histogram: upper bounds, rising, ends in 0 */
};

#define METRIC_LIST(...) ((const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL })

/* metric_counter("refrelay_syncs_total", "Syncs that ended.", "kind", "state").
 * All strings must be static. Registering the same again returns the same metric. */
#define metric_counter(name_, help_, ...)                                                \
	metric_register(&(struct metric_spec){ .kind = METRIC_COUNTER,                   \
					       .name = (name_),                          \
					       .help = (help_),                          \
					       .labels = METRIC_LIST(__VA_ARGS__) })
#define metric_gauge(name_, help_, ...)                                                  \
	metric_register(&(struct metric_spec){ .kind = METRIC_GAUGE,                     \
					       .name = (name_),                          \
					       .help = (help_),                          \
					       .labels = METRIC_LIST(__VA_ARGS__) })
#define metric_histogram(name_, help_, buckets_, ...)                                    \
	metric_register(&(struct metric_spec){ .kind = METRIC_HISTOGRAM,                 \
					       .name = (name_),                          \
					       .help = (help_),                          \
					       .labels = METRIC_LIST(__VA_ARGS__),       \
					       .buckets = (buckets_) })
struct metric *metric_register(const struct metric_spec *spec);

/* For buckets: 5 ms to 3 h. */
extern const double metric_buckets_seconds[];

/* The series with these label values, made on first use: metric_at(syncs, "lfs",
 * "failed"). Keep the result where updates are frequent. */
#define metric_at(metric, ...) metric_find(metric, METRIC_LIST(__VA_ARGS__))
struct metric_series *metric_find(struct metric *metric, const char *const *values);

/* Makes the series of all combinations of these words, each list ends in NULL, with as
 * many lists as the metric has labels, 2 at most: so they exist, with 0, from the start.
 * Existing ones stay as they are. */
void metric_begin(struct metric *metric, const char *const *first,
		  const char *const *second);

/* Counters: by >= 0. Gauges: by anything. */
void metric_add(struct metric_series *series, double by);

void metric_set(struct metric_series *gauge, double value);
void metric_observe(struct metric_series *histogram, double value);

/* Sets a value that is counted elsewhere. */
void metric_copy(struct metric_series *counter, double value);

/* Leaves out the series of a gauge until each is set again: for gauges that are counted
 * afresh, where a state or a remote may be gone. */
void metric_forget(struct metric *gauge);

/* Appends all metrics in the order of their names and label values. */
void metrics_render_as(enum metrics_format format, struct str *out);

/* The format preferred by a header Accept; NULL: no header. */
enum metrics_format metrics_negotiate(const char *accept);
const char *metrics_content_type(enum metrics_format format);

/* Begins with refrelay_, or with process_ where that is the common name; has only a-z 0-9
 * and _, in base units: only counters end in _total; no _ms, _minutes, _kilobytes,
 * _percent and the like; a timestamp ends in _timestamp_seconds. */
bool metric_name_is_good(enum metric_kind kind, const char *name);

#endif
