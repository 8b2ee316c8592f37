#include "pull/sync_job.h"

#include <sys/stat.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "git/object_files.h"
#include "git/repo.h"
#include "pull/copy_record.h"
#include "pull/decisions.h"
#include "replicable/name.h"
#include "upkeep/tidy.h"

static enum tidy_after manner_of(const struct job *job, const struct sync_call *call)
{
	if (job->is_after_crash)
		return TIDY_AFTER_CRASH;
	return call->request.mends ? TIDY_ALONE : TIDY_AFTER_SUCCESS;
}

/* Whoever held the lease before may have been killed in the middle of anything. */
static int tidy_before(const struct job *job, const struct sync_call *call,
		       const char *path, struct err *err)
{
	AUTO_REPO struct repo copy = REPO_INIT;
	struct stat st;

	if (lstat(path, &st) != 0)
		return 0;
	/* What is wrong with the copy is for the sync itself to say, and to mend. */
	if (repo_open(AT_FDCWD, path, &copy, err) != 0 ||
	    tidy_left_overs(&copy, manner_of(job, call), err) == 0)
		return 0;
	return call->request.mends && copy_is_at_fault(err) ? 0 : -1;
}

static int tidy_after(const struct job *job, const char *path, struct err *err)
{
	AUTO_REPO struct repo copy = REPO_INIT;
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_OBJECT_FILES object_files found = { 0 };

	if (repo_open(AT_FDCWD, path, &copy, err) != 0 ||
	    object_files_take(copy.fd, &found, err) != 0)
		return -1;
	copy_record_read(copy.fd, &record);
	bool was_ours = copy_record_look(&record, copy.fd) == COPY_STAMPS_SAME;
	if (tidy_packs(&job->work, &copy, err) != 0)
		return -1;
	failpoint("sync.tidied");
	if (was_ours && !object_files_changed(&found, copy.fd, true) &&
	    copy_record_look(&record, copy.fd) != COPY_STAMPS_SAME)
		copy_record_renew(copy.fd, &record);
	return 0;
}

/* Half a pack may be as large as a whole one, and the next try makes another. */
static void tidy_after_failure(const struct job *job, const char *path)
{
	AUTO_REPO struct repo copy = REPO_INIT;

	if (lease_check(job->lease, ERR_IGNORED) == 0 &&
	    repo_open(AT_FDCWD, path, &copy, ERR_IGNORED) == 0)
		tidy_left_overs(&copy, TIDY_AFTER_CRASH, ERR_IGNORED);
}

int sync_job(struct job *job, void *arg, struct err *err)
{
	struct sync_call *call = arg;
	AUTO_FREE char *below = name_to_path(call->request.name);
	AUTO_FREE char *path = xasprintf("%s/%s", call->request.root, below);

	free(TAKE(call->result.held_reason));
	if (tidy_before(job, call, path, err) != 0)
		return sync_failed_here(err);
	if (sync_repository(job, &call->request, &call->result, err) != 0) {
		tidy_after_failure(job, path);
		return -1;
	}
	if (call->result.outcome == SYNC_HELD || tidy_after(job, path, err) == 0)
		return 0;
	return sync_failed_here(err);
}
