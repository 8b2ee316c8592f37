#include "git/git_work.h"

#include "base/clock.h"

#define STEP_MS 1000

struct git_work git_work_for(const struct stop *stop, int64_t timeout_ms)
{
	return (struct git_work){
		.stop = stop,
		.guard_fd = -1,
		.until = timeout_ms > 0 ? clock_boot_ms() + timeout_ms : 0,
	};
}

int git_work_check(const struct git_work *work, struct err *err)
{
	if (work->stop && stop_is_requested(work->stop))
		return err_set(err, ERR_CANCELED, "interrupted");
	if (work->deadline && deadline_at(work->deadline) == 0)
		return err_set(err, ERR_LOST, "the lease was lost");
	if (work->until != 0 && clock_boot_ms() >= work->until)
		return err_set(err, ERR_TIMEOUT, "it took too long");
	return 0;
}

/* A lease may be lost while it waits. */
int git_work_wait(const struct git_work *work, int64_t ms, struct err *err)
{
	const struct stop *stop = work->leaving ? work->leaving : work->stop;

	for (; ms > 0; ms -= STEP_MS) {
		if (git_work_check(work, err) != 0)
			return -1;
		if (stop_wait(stop, ms < STEP_MS ? ms : STEP_MS))
			return err_set(err, ERR_CANCELED, "interrupted");
	}
	return git_work_check(work, err);
}
