#include "lease/lease_backend.h"

#include "base/clock.h"
#include "base/retry.h"

#define POLL_MS 1000        /* should a hint fail us */
#define BLIND_POLL_MS 200   /* without any */
#define BEHIND_WAITER_MS 50 /* the lease is free, but another's turn */
#define TOLD_POLL_MS 200    /* the same, and we are told of ours */
#define ORPHAN_POLL_MS 100

void lease_backend_describe(const struct lease_backend *backend,
			    const struct lease_request *request,
			    struct lease_holder *holder)
{
	*holder =
		(struct lease_holder){ .pid = getpid(), .acquired_at = clock_wall_ms() };
	snprintf(holder->node, sizeof(holder->node), "%s", backend->node);
	snprintf(holder->boot_id, sizeof(holder->boot_id), "%s", clock_boot_id());
	snprintf(holder->operation, sizeof(holder->operation), "%s", request->operation);
	snprintf(holder->job, sizeof(holder->job), "%s",
		 request->job ? request->job : "");
}

int64_t lease_retry_ms(const struct lease_attempt *attempt, enum lease_in_the_way what)
{
	const bool is_told = attempt->hint_fd >= 0;
	int64_t ms = is_told ? POLL_MS : BLIND_POLL_MS;

	if (what == LEASE_BEHIND_WAITER)
		ms = is_told ? TOLD_POLL_MS : BEHIND_WAITER_MS;
	else if (what == LEASE_BEHIND_ORPHANS)
		ms = ORPHAN_POLL_MS;
	return random_between(ms * 8 / 10, ms * 12 / 10);
}

int lease_report_never_granted(const char *key, struct err *err)
{
	return err_set(err, ERR_MISSING, "no lease %.300s was ever granted", key);
}

int lease_report_other_fence(const char *key, bool is_held, uint64_t is, uint64_t fence,
			     struct err *err)
{
	return err_set(err, ERR_CONFLICT,
		       "lease %.300s: %s at fence %" PRIu64 ", not %" PRIu64, key,
		       is_held ? "held" : "released", is, fence);
}
