/*
 * Metrics and their series are lists that only grow at the head, under the mutex; so a
 * look-up walks them without it. Values are single atomics: a rendering may show one
 * update and not yet another, but each series is consistent enough for Prometheus,
 * whose _count we take from the buckets that we print.
 */
#include "base/metrics.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <strings.h>

#include "base/thread.h"
#include "base/vec.h"

#define LABELS 3

struct metric_series {
	struct metric *metric;
	struct metric_series *next;
	char *values[LABELS];
	_Atomic double value; /* of a histogram: the sum */
	atomic_bool shown;
	atomic_uint_fast64_t *buckets; /* one more than there are bounds */
};

struct metric {
	struct metric_spec spec;
	const char *labels[LABELS + 1];
	size_t label_count;
	size_t bucket_count;
	struct metric *next;
	_Atomic(struct metric_series *) series;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct metric *metrics; /* guarded by mutex */

const double metric_buckets_seconds[] = { 0.005, 0.01, 0.025, 0.05, 0.1,   0.25,
					  0.5,   1,    2.5,   5,    10,    30,
					  60,    300,  900,   3600, 10800, 0 };

static bool metrics_is_in_list(const char *const *list, size_t count, const char *text,
			       size_t len)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(list[i]) == len && memcmp(list[i], text, len) == 0)
			return true;
	return false;
}

static bool is_wrong_unit(const char *word, size_t len)
{
	static const char *const wrong[] = {
		"ms",        "msec",      "milliseconds", "us",        "microseconds",
		"ns",        "sec",       "secs",         "second",    "minutes",
		"hours",     "days",      "kb",           "mb",        "gb",
		"kilobytes", "megabytes", "gigabytes",    "kibibytes", "mebibytes",
		"gibibytes", "byte",      "bits",         "percent",   "timestamp",
		"count",     "sum",       "bucket",
	};

	return metrics_is_in_list(wrong, ARRAY_SIZE(wrong), word, len);
}

/* The unit is the last word, or the one before "total". */
bool metric_name_is_good(enum metric_kind kind, const char *name)
{
	static const char total[] = "_total";
	size_t len = strlen(name);

	if (!(text_starts_with(name, "refrelay_") ||
	      text_starts_with(name, "process_")) ||
	    text_ends_with(name, "_") ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != len)
		return false;
	if (text_ends_with(name, total) != (kind == METRIC_COUNTER))
		return false;
	if (kind == METRIC_COUNTER)
		len -= strlen(total);
	if (len <= strlen("refrelay_"))
		return false;

	size_t start = len;
	while (name[start - 1] != '_')
		start--;
	return !is_wrong_unit(name + start, len - start);
}

static size_t count_labels(const char *const *labels)
{
	static const char *const allowed[] = { "site",  "kind",    "remote", "state",
					       "class", "version", "schema", "protocol" };
	size_t count = 0;

	for (; labels[count]; count++)
		assert(metrics_is_in_list(allowed, ARRAY_SIZE(allowed), labels[count],
					  strlen(labels[count])));
	assert(count <= LABELS);
	return count;
}

static size_t count_buckets(const double *buckets)
{
	size_t count = 0;

	for (; buckets[count] > 0; count++)
		assert(count == 0 || buckets[count - 1] < buckets[count]);
	return count;
}

static struct metric_series *find_series(struct metric *metric, const char *const *values)
{
	struct metric_series *series = atomic_load(&metric->series);

	for (; series; series = series->next) {
		size_t same = 0;
		while (same < metric->label_count &&
		       strcmp(series->values[same], values[same]) == 0)
			same++;
		if (same == metric->label_count)
			break;
	}
	return series;
}

/* Requires the mutex. */
static struct metric_series *add_series(struct metric *metric, const char *const *values)
{
	struct metric_series *series = xcalloc(1, sizeof(*series));

	series->metric = metric;
	for (size_t i = 0; i < metric->label_count; i++)
		series->values[i] = xstrdup(values[i]);
	atomic_init(&series->value, 0);
	atomic_init(&series->shown, true);
	if (metric->spec.kind == METRIC_HISTOGRAM)
		series->buckets =
			xcalloc(metric->bucket_count + 1, sizeof(*series->buckets));
	series->next = atomic_load(&metric->series);
	atomic_store(&metric->series, series);
	return series;
}

struct metric_series *metric_find(struct metric *metric, const char *const *values)
{
	for (size_t i = 0; i < metric->label_count; i++)
		assert(values[i]);
	assert(!values[metric->label_count]);

	struct metric_series *series = find_series(metric, values);
	if (series)
		return series;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&mutex);
	series = find_series(metric, values); /* another thread may have been faster */
	return series ? series : add_series(metric, values);
}

static struct metric *new_metric(const struct metric_spec *spec)
{
	struct metric *metric = xcalloc(1, sizeof(*metric));

	metric->spec = *spec;
	metric->label_count = count_labels(spec->labels);
	for (size_t i = 0; i < metric->label_count; i++)
		metric->labels[i] = spec->labels[i];
	metric->spec.labels = metric->labels;
	if (spec->kind == METRIC_HISTOGRAM)
		metric->bucket_count = count_buckets(spec->buckets);
	atomic_init(&metric->series, NULL);
	return metric;
}

static bool same_labels(const char *const *one, const char *const *two)
{
	while (*one && *two && strcmp(*one, *two) == 0)
		one++, two++;
	return !*one && !*two;
}

struct metric *metric_register(const struct metric_spec *spec)
{
	assert(metric_name_is_good(spec->kind, spec->name));

	AUTO_UNLOCK pthread_mutex_t *held = lock(&mutex);
	for (struct metric *old = metrics; old; old = old->next) {
		if (strcmp(old->spec.name, spec->name) != 0)
			continue;
		assert(old->spec.kind == spec->kind);
		assert(same_labels(old->spec.labels, spec->labels));
		return old;
	}

	struct metric *metric = new_metric(spec);
	metric->next = metrics;
	metrics = metric;
	if (metric->label_count == 0) /* so that it is there, with 0, from the start */
		add_series(metric, METRIC_LIST());
	return metric;
}

void metric_begin(struct metric *metric, const char *const *first,
		  const char *const *second)
{
	assert(metric->label_count == (second ? 2 : 1));
	for (; *first; first++) {
		if (!second)
			metric_at(metric, *first);
		for (const char *const *word = second; word && *word; word++)
			metric_at(metric, *first, *word);
	}
}

static void add_atomically(_Atomic double *value, double by)
{
	double before = atomic_load_explicit(value, memory_order_relaxed);

	while (!atomic_compare_exchange_weak_explicit(
		value, &before, before + by, memory_order_relaxed, memory_order_relaxed))
		;
}

void metric_add(struct metric_series *series, double by)
{
	assert(series->metric->spec.kind != METRIC_HISTOGRAM);
	assert(by >= 0 || series->metric->spec.kind == METRIC_GAUGE);
	add_atomically(&series->value, by);
	atomic_store_explicit(&series->shown, true, memory_order_relaxed);
}

void metric_set(struct metric_series *gauge, double value)
{
	assert(gauge->metric->spec.kind == METRIC_GAUGE);
	atomic_store_explicit(&gauge->value, value, memory_order_relaxed);
	atomic_store_explicit(&gauge->shown, true, memory_order_relaxed);
}

void metric_copy(struct metric_series *counter, double value)
{
	assert(counter->metric->spec.kind == METRIC_COUNTER);
	atomic_store_explicit(&counter->value, value, memory_order_relaxed);
}

void metric_observe(struct metric_series *histogram, double value)
{
	const struct metric *metric = histogram->metric;
	size_t at = 0;

	assert(metric->spec.kind == METRIC_HISTOGRAM);
	while (at < metric->bucket_count && value > metric->spec.buckets[at])
		at++;
	atomic_fetch_add_explicit(&histogram->buckets[at], 1, memory_order_relaxed);
	add_atomically(&histogram->value, value);
}

void metric_forget(struct metric *gauge)
{
	struct metric_series *series = atomic_load(&gauge->series);

	assert(gauge->spec.kind == METRIC_GAUGE);
	for (; series; series = series->next) {
		atomic_store(&series->value, 0);
		atomic_store(&series->shown, false);
	}
}

/* The shortest form that reads back as the same number. */
static void metrics_add_number(struct str *out, double value)
{
	char text[40];

	if (isnan(value) || isinf(value)) {
		str_add(out, isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
		return;
	}
	snprintf(text, sizeof(text), "%.15g", value);
	if (strtod(text, NULL) != value)
		snprintf(text, sizeof(text), "%.17g", value);
	str_add(out, text);
}

/* A backslash, a newline, and in label values a quote would end the text early. */
static void metrics_add_escaped(struct str *out, const char *text, const char *escaped)
{
	AUTO_STR struct str clean = STR_INIT;

	str_add_utf8(&clean, text, strlen(text));
	for (const char *at = clean.data; *at; at++) {
		if (*at == '\n')
			str_add(out, "\\n");
		else if (strchr(escaped, *at))
			str_addf(out, "\\%c", *at);
		else
			str_add_char(out, *at);
	}
}

/* OpenMetrics wants the bound of a bucket to be seen to be no integer. */
static void add_bound(struct str *out, double bound, enum metrics_format format)
{
	size_t before = out->len;

	metrics_add_number(out, bound);
	if (format == METRICS_OPEN && !strpbrk(out->data + before, ".einfINF"))
		str_add(out, ".0");
}

/* The name with labels; `le` is the bound of a histogram's bucket, or NULL. */
static void add_series_name(struct str *out, const struct metric_series *series,
			    const char *suffix, const char *le)
{
	const struct metric *metric = series->metric;
	const char *before = "{";

	str_addf(out, "%s%s", metric->spec.name, suffix);
	for (size_t i = 0; i < metric->label_count; i++) {
		str_addf(out, "%s%s=\"", before, metric->labels[i]);
		metrics_add_escaped(out, series->values[i], "\\\"");
		str_add_char(out, '"');
		before = ",";
	}
	if (le) {
		str_addf(out, "%sle=\"%s\"", before, le);
		before = ",";
	}
	str_add(out, *before == ',' ? "} " : " ");
}

static void render_histogram(const struct metric_series *series,
			     enum metrics_format format, struct str *out)
{
	const struct metric *metric = series->metric;
	uint64_t count = 0;

	for (size_t i = 0; i <= metric->bucket_count; i++) {
		AUTO_STR struct str le = STR_INIT;

		count += atomic_load(&series->buckets[i]);
		add_bound(&le,
			  i < metric->bucket_count ? metric->spec.buckets[i]
						   : (double)INFINITY,
			  format);
		add_series_name(out, series, "_bucket", le.data);
		str_addf(out, "%" PRIu64 "\n", count);
	}
	add_series_name(out, series, "_sum", NULL);
	metrics_add_number(out, atomic_load(&series->value));
	str_add_char(out, '\n');
	add_series_name(out, series, "_count", NULL);
	str_addf(out, "%" PRIu64 "\n", count);
}

static void render_series(const struct metric_series *series, enum metrics_format format,
			  struct str *out)
{
	if (series->metric->spec.kind == METRIC_HISTOGRAM) {
		render_histogram(series, format, out);
		return;
	}
	add_series_name(out, series, "", NULL);
	metrics_add_number(out, atomic_load(&series->value));
	str_add_char(out, '\n');
}

static int compare_series(const void *left, const void *right)
{
	const struct metric_series *one = *(const struct metric_series *const *)left;
	const struct metric_series *two = *(const struct metric_series *const *)right;
	int order = 0;

	for (size_t i = 0; i < one->metric->label_count && order == 0; i++)
		order = strcmp(one->values[i], two->values[i]);
	return order;
}

/* In OpenMetrics a counter's family is called without the end that its samples have. */
static size_t family_length(const struct metric *metric, enum metrics_format format)
{
	size_t len = strlen(metric->spec.name);

	return format == METRICS_OPEN && metric->spec.kind == METRIC_COUNTER
		       ? len - strlen("_total")
		       : len;
}

static void render_metric(struct metric *metric, enum metrics_format format,
			  struct str *out)
{
	static const char *const kinds[] = { "counter", "gauge", "histogram" };
	VEC(const struct metric_series *) all = { 0 };
	struct metric_series *series = atomic_load(&metric->series);

	for (; series; series = series->next)
		if (atomic_load(&series->shown))
			vec_add(&all, series);
	vec_sort(&all, compare_series);
	int len = (int)family_length(metric, format);
	str_addf(out, "# HELP %.*s ", len, metric->spec.name);
	metrics_add_escaped(out, metric->spec.help,
			    format == METRICS_OPEN ? "\\\"" : "\\");
	str_addf(out, "\n# TYPE %.*s %s\n", len, metric->spec.name,
		 kinds[metric->spec.kind]);
	for (size_t i = 0; i < all.count; i++)
		render_series(all.items[i], format, out);
	vec_clear(&all);
}

static int compare_metrics(const void *left, const void *right)
{
	const struct metric *const *one = left, *const *two = right;

	return strcmp((*one)->spec.name, (*two)->spec.name);
}

void metrics_render_as(enum metrics_format format, struct str *out)
{
	VEC(struct metric *) all = { 0 };
	AUTO_UNLOCK pthread_mutex_t *held = lock(&mutex);

	for (struct metric *metric = metrics; metric; metric = metric->next)
		vec_add(&all, metric);
	vec_sort(&all, compare_metrics);
	for (size_t i = 0; i < all.count; i++)
		render_metric(all.items[i], format, out);
	vec_clear(&all);
	if (format == METRICS_OPEN)
		str_add(out, "# EOF\n");
}

const char *metrics_content_type(enum metrics_format format)
{
	return format == METRICS_OPEN
		       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		       : "text/plain; version=0.0.4; charset=utf-8";
}

/* The value behind "; NAME=" in one part of the header, without quotes; its length is 0
 * if it is not there. */
static size_t find_accept_value(const char *part, size_t len, const char *name,
				const char **value)
{
	size_t name_len = strlen(name);

	for (const char *at = memchr(part, ';', len); at;
	     at = memchr(at, ';', len - (size_t)(at - part))) {
		at++;
		while (at < part + len && (*at == ' ' || *at == '\t'))
			at++;
		size_t left = len - (size_t)(at - part);
		if (left <= name_len || strncasecmp(at, name, name_len) != 0 ||
		    at[name_len] != '=')
			continue;
		*value = at + name_len + 1;
		size_t end = 0;
		left -= name_len + 1;
		if (left > 0 && **value == '"')
			(*value)++, left--;
		while (end < left && !strchr(";\" \t", (*value)[end]))
			end++;
		return end;
	}
	return 0;
}

/* In thousandths; what is none counts as one. */
static int accept_weight(const char *part, size_t len)
{
	const char *value;
	char text[8] = "";
	size_t value_len = find_accept_value(part, len, "q", &value);

	if (value_len == 0 || value_len >= sizeof(text))
		return 1000;
	memcpy(text, value, value_len);
	return (int)(strtod(text, NULL) * 1000 + 0.5);
}

/* Of a version that is not known here it is no offer. */
static bool is_open_metrics(const char *part, size_t len)
{
	static const char type[] = "application/openmetrics-text";
	const char *version;
	size_t version_len;

	if (len < strlen(type) || strncasecmp(part, type, strlen(type)) != 0 ||
	    (len > strlen(type) && !strchr("; \t", part[strlen(type)])))
		return false;
	version_len = find_accept_value(part, len, "version", &version);
	return version_len == 0 || (version_len == 5 && memcmp(version, "1.0.0", 5) == 0);
}

static bool is_plain_text(const char *part, size_t len)
{
	size_t type = strcspn(part, "; \t,");

	return type <= len && ((type == 10 && strncasecmp(part, "text/plain", 10) == 0) ||
			       (type == 6 && strncasecmp(part, "text/*", 6) == 0) ||
			       (type == 3 && memcmp(part, "*/*", 3) == 0));
}

enum metrics_format metrics_negotiate(const char *accept)
{
	int open = 0, plain = 0;

	for (const char *at = accept ? accept : ""; *at;) {
		at += strspn(at, " \t,");
		size_t len = strcspn(at, ",");
		int weight = accept_weight(at, len);
		if (is_open_metrics(at, len) && weight > open)
			open = weight;
		else if (is_plain_text(at, len) && weight > plain)
			plain = weight;
		at += len;
	}
	return open > 0 && open >= plain ? METRICS_OPEN : METRICS_PROMETHEUS;
}
