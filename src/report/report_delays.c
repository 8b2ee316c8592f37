/*
 * What keeps waiting work from starting, or slows it down: only what is certain. A slow
 * disk, or a fetch by Git that takes its time, leaves no such sign and is not named.
 */
#include "report/report_parts.h"

/* A request has waited this long for the first byte of its answer. A primary that is well
 * answers within a second, even if it must first look through a large repository. */
#define SLOW_MS 10000

struct report_work {
	int64_t repositories, blobs; /* waiting */
	int64_t unproved;
};

static struct report_work report_delays_count(const struct report *report)
{
	struct report_work work = {
		.repositories = report_waiting(&report->repositories),
		.unproved = report->repositories.all - report_verified(report),
	};

	for (size_t i = 0; i < report->blobs.count; i++) {
		const struct report_kind *kind = &report->blobs.items[i];
		work.blobs += report_waiting(&kind->counts);
		work.unproved += kind->counts.all - report_kind_verified(report, kind);
	}
	return work;
}

typedef void (*report_delay_visit)(const char *cause, const char *text, void *arg);

static void report_delays_by_limits(const struct report *report,
				    const struct report_work *work,
				    report_delay_visit visit, void *arg)
{
	const struct report_limits *limits = &report->limits;
	AUTO_STR struct str text = STR_INIT;

	if (!limits->is_known)
		return;
	if (work->repositories > 0 && limits->repository_capacity == 0)
		visit("repository_capacity",
		      "no repository is being copied: sync.repositoryCapacity is 0", arg);
	if (work->blobs > 0 && limits->blob_capacity == 0)
		visit("blob_capacity", "no blob is being copied: sync.blobCapacity is 0",
		      arg);
	if (work->unproved > 0 && limits->verification_capacity == 0)
		visit("verification_capacity",
		      "nothing is being verified again: sync.verificationCapacity is 0",
		      arg);
	if (work->repositories + work->blobs == 0 || limits->bandwidth == 0)
		return;
	str_add(&text, "limited by sync.bandwidth to ");
	report_size((int64_t)limits->bandwidth, &text);
	str_add(&text, " a second");
	visit("bandwidth", text.data, arg);
}

static void report_delays_each(const struct report *report, report_delay_visit visit,
			       void *arg)
{
	const struct report_work work = report_delays_count(report);
	const struct vital_signs *signs = &report->signs;
	AUTO_STR struct str text = STR_INIT;

	if (work.repositories + work.blobs > 0 && signs->leases_away != 0)
		visit("leases", "no copying starts: the lease server does not answer",
		      arg);
	report_delays_by_limits(report, &work, visit, arg);
	if (work.repositories + work.blobs == 0 || signs->primary_wait_ms < SLOW_MS)
		return;
	str_add(&text, "the primary is slow: a request has been waiting for an answer "
		       "for ");
	report_duration(signs->primary_wait_ms, &text);
	visit("primary_slow", text.data, arg);
}

static void report_delays_add(const char *cause, const char *text, void *arg)
{
	(void)cause;
	str_addf(arg, "; %s", text);
}

void report_delays_sentence(const struct report *report, struct str *out)
{
	report_delays_each(report, report_delays_add, out);
}

static void report_delays_put(const char *cause, const char *text, void *arg)
{
	json_t *object = json_object();

	json_put_text(object, "cause", cause);
	json_put_message(object, "message", text);
	json_array_append_new(arg, object);
}

json_t *report_delays_json(const struct report *report)
{
	json_t *array = json_array();

	report_delays_each(report, report_delays_put, array);
	return array;
}
