#include "git/git_work.h"

#include "base/clock.h"

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
