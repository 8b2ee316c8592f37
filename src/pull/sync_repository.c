#include "pull/sync_repository.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "git/fence.h"
#include "git/objects.h"
#include "git/packs.h"
#include "git/read_settings.h"
#include "git/refs.h"
#include "git/state.h"
#include "pull/bring.h"
#include "pull/copy_record.h"
#include "pull/decisions.h"
#include "pull/hold.h"
#include "pull/mend.h"
#include "pull/replaced.h"
#include "pull/share.h"
#include "replicable/name.h"
#include "verify/damage.h"
#include "verify/verify_objects.h"

#define TRIES 3
#define DESCRIPTION_LIMIT ((size_t)1 << 20)

static char *staging_of(const struct job *job, const struct sync_request *request)
{
	return xasprintf("%s/" OWN_FOLDER "/staging/%" PRIu64 ".%" PRIu64, request->root,
			 replicable_id(KIND_REPOSITORY, request->name), job->fence);
}

static bool same_description(int copy, const struct source_view *view)
{
	AUTO_STR struct str text = STR_INIT;

	if (file_read(copy, "description", DESCRIPTION_LIMIT, &text, ERR_IGNORED) != 0)
		return !view->description;
	return view->description && strcmp(text.data, view->description) == 0;
}

static bool same_settings(int copy, const struct source_view *view)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	AUTO_STR struct str text = STR_INIT;

	return !view->settings || (repo_open(copy, ".", &repo, ERR_IGNORED) == 0 &&
				   read_settings_take(&repo, &text, ERR_IGNORED) == 0 &&
				   strcmp(text.data, view->settings) == 0);
}

/* The refs of both sides, read in this process. What they are equal to is recorded, so
 * that fingerprints will do next time; a concurrent sync may write the record too, but
 * no record says more than what its writer saw. */
static bool refs_are_equal(const struct sync_request *request, int copy,
			   const struct fingerprint *copy_fingerprint)
{
	AUTO_VIEW struct source_view view = { 0 };
	AUTO_SNAPSHOT struct ref_snapshot found = REF_SNAPSHOT_INIT;
	AUTO_DIFF struct ref_diff diff = { 0 };
	struct checksum sum, refs_sum;

	if (source_read(request->source, request->name, &view, ERR_IGNORED) != 0 ||
	    ref_snapshot_read(copy, view.oid_len, &found, ERR_IGNORED) != 0)
		return false;
	ref_diff_compute(&found, &view.refs, &diff);
	if (!ref_diff_is_empty(&diff) || !same_description(copy, &view) ||
	    !same_settings(copy, &view))
		return false;
	checksum_of(&found, &sum);
	checksum_of_refs(&found, &refs_sum);
	return copy_record_write(
		       copy,
		       &(struct copy_proof){ .source = view.url,
					     .sum = &sum,
					     .refs_sum = &refs_sum,
					     .source_fingerprint = &view.fingerprint,
					     .copy_fingerprint = copy_fingerprint },
		       ERR_IGNORED) == 0;
}

enum currency {
	CURRENT,  /* fingerprints prove it */
	PERHAPS,  /* they were too young to prove it: the refs tell */
	OUTDATED, /* as far as can be seen */
};

/* What the copy looks like now, and what it was last proved to be. */
struct appearance {
	struct fingerprint fingerprint;
	struct checksum sum;
};

static enum currency sync_repository_observe_copy(const struct sync_request *request,
						  int copy, struct appearance *seen)
{
	struct fingerprint source_fingerprint;
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_FREE char *source = source_url(request->source, request->name, ERR_IGNORED);

	if (!source || source_look(request->source, request->name, &source_fingerprint,
				   ERR_IGNORED) != 0)
		return OUTDATED; /* a primary tells none */
	copy_record_read(copy, &record);
	if (!record.is_there || fingerprint_take(copy, FINGERPRINT_COPY,
						 &seen->fingerprint, ERR_IGNORED) != 0)
		return OUTDATED;
	seen->sum = record.sum;
	if (copy_record_proves(&record, source, &source_fingerprint, &seen->fingerprint))
		return CURRENT;
	/* Another look of the copy's disk may mean that packs are gone: a job's work. */
	return !record.is_settled && copy_record_has_copy(&record, &seen->fingerprint)
		       ? PERHAPS
		       : OUTDATED;
}

static bool trusts_records(const struct sync_request *request)
{
	return !request->is_suspect && !request->is_rebuild;
}

bool sync_is_current(const struct sync_request *request)
{
	struct appearance seen;
	AUTO_FREE char *path = name_to_copy(request->root, request->name);
	AUTO_CLOSE int fd = dir_open(AT_FDCWD, path, ERR_IGNORED);
	enum currency now = fd < 0 || !trusts_records(request)
				    ? OUTDATED
				    : sync_repository_observe_copy(request, fd, &seen);

	return now == CURRENT ||
	       (now == PERHAPS && refs_are_equal(request, fd, &seen.fingerprint));
}

static bool sync_repository_is_as_reported(const struct copy_record *record,
					   const struct sync_reported *reported)
{
	struct checksum sum;

	return record->is_there && reported->checksum &&
	       checksum_parse(reported->checksum, &sum) &&
	       checksum_equal(&sum, &record->sum) &&
	       strcmp(record->timeline, reported->timeline) == 0 &&
	       record->generation == reported->generation;
}

/* The copy's disk was too young to prove anything when the record was written. By now it
 * may be old enough: then the refs are read once more, and never again. */
static bool sync_repository_settle_record(const struct repo *copy,
					  const struct copy_record *record,
					  const struct fingerprint *fingerprint,
					  struct err *err)
{
	if (!copy_record_has_refs(record, copy, err))
		return false;
	/* one that proves something is not replaced by one that does not yet */
	if (record->is_settled && !fingerprint_is_settled(fingerprint))
		return true;
	failpoint("copy.settling");
	if (copy_record_stands(record, copy->fd))
		return copy_record_settle(copy->fd, record, fingerprint, err) == 0;
	err_set(err, ERR_BUSY, "somebody works on the copy");
	return false;
}

bool sync_is_as_recorded(const struct repo *copy, const struct copy_record *record,
			 const struct fingerprint *now, struct err *err)
{
	bool has_copy = copy_record_has_copy(record, now);

	if (has_copy && record->is_settled)
		return true;
	err_set(err, ERR_CORRUPT, "the copy is not as its record says");
	return (has_copy || copy_record_has_files(record, copy->fd)) &&
	       sync_repository_settle_record(copy, record, now, err);
}

bool sync_is_recorded(const struct sync_request *request,
		      const struct sync_reported *reported)
{
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_REPO struct repo copy = REPO_INIT;
	struct fingerprint now;
	AUTO_FREE char *path = name_to_copy(request->root, request->name);
	AUTO_FREE char *source = source_url(request->source, request->name, ERR_IGNORED);

	if (!trusts_records(request) || !source ||
	    repo_open(AT_FDCWD, path, &copy, ERR_IGNORED) != 0)
		return false;
	copy_record_read(copy.fd, &record);
	return sync_repository_is_as_reported(&record, reported) &&
	       strcmp(record.source, source) == 0 &&
	       fingerprint_take(copy.fd, FINGERPRINT_COPY, &now, ERR_IGNORED) == 0 &&
	       sync_is_as_recorded(&copy, &record, &now, ERR_IGNORED);
}

/* Whoever held the lease before us may have done it. */
static bool was_done_meanwhile(const struct sync_request *request, struct checksum *sum)
{
	struct appearance seen;
	AUTO_FREE char *path = name_to_copy(request->root, request->name);
	AUTO_CLOSE int fd = dir_open(AT_FDCWD, path, ERR_IGNORED);

	if (fd < 0 || !trusts_records(request) ||
	    sync_repository_observe_copy(request, fd, &seen) != CURRENT)
		return false;
	*sum = seen.sum;
	return true;
}

/* What is done inside a repository, new or old. */
struct filling {
	struct job *job;
	const struct sync_request *request;
	const struct repo *copy;
	const object_files *found; /* what was there, as the record tells it */
	bool is_new;               /* the copy is still empty */
	bool is_as_left;           /* as in struct bring_request */
	bool is_doubtful;          /* each object is read before it is recorded */
};

/* What git does there leaves the files alone that it found: whoever writes into them is
 * somebody else. All of the copy is read then, since a fingerprint was taken that is to
 * say how we left it. */
static int check_found(const struct filling *filling, struct err *err)
{
	const char *path = object_files_changed(filling->found, filling->copy->fd, false);

	if (!path)
		return 0;
	log_warn("sync.disturbed", LOG_TEXT("path", path));
	return mend_look_through(&filling->job->work, filling->copy, err);
}

/* A mirror's upstream has none, though it may be a path. */
static const struct fingerprint *sync_repository_stamps(const struct source_view *view)
{
	return view->is_local && view->fingerprint.taken_ns > 0 ? &view->fingerprint
								: NULL;
}

/* What the record calls as it should be is not looked at again before it changes: what
 * somebody put there meanwhile must not get into it. */
static int check_oddities(const struct filling *filling, const struct copy_files *files,
			  struct err *err)
{
	if (!filling->request->mends ||
	    copy_files_check(filling->copy->fd, files, err) == 0)
		return 0;
	err->class = ERR_CONFLICT;
	return err_prefix(err, "another program changed the copy meanwhile");
}

/* What others have a name for, too, may have changed since it was read. */
static int sync_repository_check_lent(const struct job *job, const struct repo *copy,
				      const struct source_view *view, struct err *err)
{
	int is_sound = view->lent_ns == 0 ? 1
					  : copy_content_is_sound(copy, view->lent_ns,
								  job->work.stop, err);
	if (is_sound > 0)
		return 0;
	if (is_sound < 0 || git_work_check(&job->work, err) != 0)
		return -1;
	return err_set(err, ERR_CORRUPT, "a pack that it shares was changed meanwhile");
}

/* A record of what was not read yet would spare that to whoever comes after a stop or a
 * crash. 1: the copy itself is damaged. */
static int sync_repository_read_doubtful(const struct filling *filling,
					 const struct source_view *view, struct err *err)
{
	if (!filling->is_doubtful ||
	    verify_objects(&filling->job->work, filling->copy, &view->refs, err) == 0)
		return 0;
	return err_is_of_data(err) ? 1 : -1;
}

/* The proof from the copy's own disk, and the record of it. 1: it is damaged. */
static int sync_repository_prove_copy(const struct filling *filling,
				      const struct source_view *view,
				      struct sync_result *result, struct err *err)
{
	const struct job *job = filling->job;
	const struct repo *copy = filling->copy;
	struct checksum refs_sum;
	struct copy_files files;
	bool is_cut = view->refs.cuts.count > 0;

	if (is_cut)
		checksum_of_refs(&view->refs, &refs_sum);
	if (copy_files_take(copy->fd, &files, err) != 0 ||
	    check_oddities(filling, &files, err) != 0 ||
	    verify_repository(copy, &view->refs, &result->sum, err) != 0)
		return -1;
	int damaged = sync_repository_read_doubtful(filling, view, err);
	if (damaged != 0)
		return damaged;
	if (check_found(filling, err) != 0 ||
	    sync_repository_check_lent(job, copy, view, err) != 0 ||
	    (!filling->is_new && !filling->is_as_left &&
	     mend_make_durable(copy->fd, filling->is_doubtful, err) != 0))
		return -1;
	failpoint("sync.verified");
	if (lease_check(job->lease, err) != 0)
		return -1; /* by now somebody else may have recorded something newer */
	return copy_record_write(
		copy->fd,
		&(struct copy_proof){ .source = view->url,
				      .sum = &result->sum,
				      .refs_sum = is_cut ? &refs_sum : NULL,
				      .source_fingerprint = sync_repository_stamps(view),
				      .files = &files,
				      .timeline = view->timeline,
				      .log = view->log,
				      .generation = view->generation,
				      .is_foreign = view->is_foreign,
				      .pushed = view->pushed_settled,
				      .fence = job->fence },
		err);
}

static int update_description(const struct repo *copy, const struct source_view *view,
			      struct err *err)
{
	if (same_description(copy->fd, view))
		return 0;
	if (view->description)
		return file_replace(copy->fd, "description", view->description,
				    strlen(view->description), FILE_SYNC, err);
	if (unlinkat(copy->fd, "description", 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove description");
	return dir_sync(copy->fd, ".", err);
}

/* 1: the copy itself is damaged. */
static int sync_repository_fill_copy(const struct filling *filling,
				     struct source_view *view, struct sync_result *result,
				     struct err *err)
{
	const struct sync_request *request = filling->request;
	const struct repo *copy = filling->copy;
	int done = -1;

	if (copy->oid_len != view->oid_len) {
		err_set(err, ERR_CONFLICT,
			"the copy and its source use different hashes "
			"(SHA-1 and SHA-256)");
		return err_remedy(err, "move the copy away; it is then copied again");
	}
	for (int tries = 0; tries < TRIES && done != 0; tries++) {
		if (tries > 0 && request->mends)
			mend_locks(copy->fd);
		if (tries > 0 && state_recover(copy->fd, err) != 0)
			return -1;
		done = bring_repository(
			&(struct bring_request){ .job = filling->job,
						 .source = request->source,
						 .name = request->name,
						 .copy = copy,
						 .view = view,
						 .is_new = filling->is_new,
						 .is_forced = request->is_forced,
						 .mends = request->mends,
						 .is_suspect = request->is_suspect,
						 .is_as_left = filling->is_as_left,
						 .checksum = request->checksum,
						 .delete_share = request->delete_share },
			result, err);
		if (done != 0 && err->class != ERR_CONFLICT)
			break;
	}
	if (done != 0 || result->outcome == SYNC_HELD)
		return done;
	if (bring_settings(copy, view, err) != 0 ||
	    update_description(copy, view, err) != 0)
		return -1;
	done = sync_repository_prove_copy(filling, view, result, err);
	if (done == 0)
		copy_held_remove(copy->fd);
	return done;
}

int sync_make_durable(int dir, struct err *err)
{
	static const char *const folders[] = { ".", "objects", "objects/pack", "refs",
					       "refrelay" };

	static const char *const files[] = { "HEAD", "config" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (file_flush(dir, files[i], err) != 0)
			return -1;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (dir_sync(dir, folders[i], err) != 0)
			return -1;
	return 0;
}

/* A copy without hooks is a copy all the same: what they would refuse is seen by the
 * watch. */
static void give_hooks(const struct sync_request *request, const struct repo *copy)
{
	struct hook_look look;
	struct err err;

	if (!request->hooks ||
	    (hook_look(copy->fd, request->hooks, &look, &err) == 0 &&
	     hook_look_state(&look, request->hooks) == HOOK_INSTALLED) ||
	    hook_install(copy->fd, request->hooks, &err) == 0)
		return;
	log_warn("copy.no_hooks", LOG_ERR(&err), LOG_TEXT("remedy", err.remedy));
}

/* For a copy that is made anew, since the old one is damaged, nothing is taken over: the
 * damage may be in what is shared. */
static int sync_repository_borrow(struct job *job, const struct sync_request *request,
				  const struct repo *copy, struct source_view *view,
				  struct err *err)
{
	const struct share_request share = { .work = &job->work,
					     .root = request->root,
					     .lenders = &view->lenders,
					     .copy = copy,
					     .doubt = request->doubt,
					     .arg = request->arg };
	const int64_t now = clock_wall_ns();
	int result = share_packs(&share, err);

	view->lent_ns = result > 0 ? now : 0;
	return result < 0 ? -1 : 0;
}

/* One that is about to come is waited for: forks that came before it would each have all
 * objects. */
static bool sync_repository_awaits(const struct sync_request *request,
				   const struct source_view *view)
{
	for (size_t i = 0; i < view->lenders.count; i++)
		if (request->awaits_lender(request->arg, view->lenders.items[i])) {
			log_debug("sync.awaits",
				  LOG_TEXT("lender", view->lenders.items[i]));
			return true;
		}
	return false;
}

static int build(struct job *job, const struct sync_request *request,
		 struct source_view *view, const char *staging, bool may_borrow,
		 struct sync_result *result, struct err *err)
{
	const object_files nothing = { 0 };
	AUTO_REPO struct repo copy = REPO_INIT;

	if (dir_make_parents(AT_FDCWD, staging, err) != 0 ||
	    repo_make(AT_FDCWD, staging, view->oid_len, err) != 0)
		return -1;
	if (repo_open(AT_FDCWD, staging, &copy, err) != 0 ||
	    fence_raise(copy.fd, job->fence, err) != 0 ||
	    (may_borrow && sync_repository_borrow(job, request, &copy, view, err) != 0) ||
	    sync_repository_fill_copy(&(struct filling){ .job = job,
							 .request = request,
							 .copy = &copy,
							 .found = &nothing,
							 .is_new = true },
				      view, result, err) != 0)
		return place_is_cleared(staging, err);
	give_hooks(request, &copy);
	if (sync_make_durable(copy.fd, err) != 0)
		return place_is_cleared(staging, err);
	return 0;
}

enum in_the_place {
	NOTHING_THERE,
	OTHER_THERE,   /* goes, whatever it holds */
	DAMAGED_THERE, /* goes, unless it has commits of its own that can be read */
};

/* What only the old copy has, if it can be read and was not written by us: the new one
 * has all that the source has. 1: it would be lost. -1: that could not be found out, and
 * the old copy is not to blame. */
static int would_lose(struct job *job, const struct sync_request *request,
		      const char *path, const char *staging, struct sync_result *result,
		      struct err *err)
{
	AUTO_SNAPSHOT struct ref_snapshot found = REF_SNAPSHOT_INIT;
	AUTO_REPO struct repo old = REPO_INIT, new = REPO_INIT;

	if (repo_open(AT_FDCWD, path, &old, err) != 0 ||
	    repo_check_files(&old, err) != 0 ||
	    ref_snapshot_read(old.fd, old.oid_len, &found, err) != 0)
		return err_is_of_data(err) ? 0 : -1;
	if (bring_is_ours(old.fd, &found, request->checksum))
		return 0;
	if (repo_open(AT_FDCWD, staging, &new, err) != 0)
		return place_is_cleared(staging, err);
	return hold_lost_tips(&job->work, &old, &new, &found, &result->held_reason, err);
}

static int sync_repository_place_copy(struct job *job, const struct sync_request *request,
				      const char *staging, enum in_the_place there,
				      struct sync_result *result, struct err *err)
{
	AUTO_FREE char *path = name_to_copy(request->root, request->name);
	AUTO_FREE char *below = name_to_path(request->name);
	const struct placing placing = {
		.job = job, .root = request->root, .staging = staging, .below = below
	};
	int is_lost = 0;

	if (there == NOTHING_THERE)
		return place_new(&placing, err);
	if (there == DAMAGED_THERE && !request->is_forced)
		is_lost = would_lose(job, request, path, staging, result, err);
	if (is_lost < 0)
		return -1;
	if (is_lost) {
		result->outcome = SYNC_HELD;
		return tree_remove(AT_FDCWD, staging, err);
	}
	if (git_work_check(&job->work, err) != 0)
		return -1;
	AUTO_CLOSE int old = request->mends ? dir_open(AT_FDCWD, path, ERR_IGNORED) : -1;
	if (old >= 0)
		mend_locks(old);
	result->was_rebuilt = true;
	return place_instead(&placing, err);
}

static int sync_repository_create_copy(struct job *job,
				       const struct sync_request *request,
				       struct source_view *view, enum in_the_place there,
				       struct sync_result *result, struct err *err)
{
	AUTO_FREE char *staging = staging_of(job, request);
	const bool may_borrow = request->awaits_lender && there == NOTHING_THERE &&
				view->lenders.count > 0;
	if (may_borrow && sync_repository_awaits(request, view)) {
		result->outcome = SYNC_AWAITS;
		return 0;
	}
	int done = build(job, request, view, staging, may_borrow, result, err);

	result->outcome = SYNC_CREATED;
	if (done == 0)
		done = sync_repository_place_copy(job, request, staging, there, result,
						  err);
	if (done != 0)
		tree_remove(AT_FDCWD, staging, ERR_IGNORED);
	return done;
}

/* An adopted repository brings a config of its own, which git obeys. */
static int sync_repository_check_copy(const struct repo *copy, struct err *err)
{
	static const char *const files[] = { "config.worktree", "commondir" };

	if (repo_check_files(copy, err) != 0)
		return err_prefix(err, "the copy");
	if (copy->rewrites_urls) {
		err_set(err, ERR_CONFIG,
			"the copy's config has url.*.insteadOf, fetch.bundleURI, a "
			"remote that a URL or path names, or includes: git might fetch "
			"from elsewhere");
		return err_remedy(err, "remove that from the copy's config");
	}
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		if (!file_is_there(copy->fd, files[i]))
			continue;
		err_set(err, ERR_CONFIG,
			"the copy has a file %s, with which git obeys more than its "
			"config: it might fetch from elsewhere",
			files[i]);
		return err_remedy(err, "remove that file, if no working tree needs it");
	}
	return 0;
}

/* A lock that nobody removes is old enough to be removed when it was waited for. */
static int sync_repository_raise_fence(const struct job *job,
				       const struct sync_request *request,
				       const struct repo *copy, struct err *err)
{
	if (request->mends)
		mend_locks(copy->fd);
	if (fence_raise(copy->fd, job->fence, err) == 0)
		return 0;
	if (!request->mends || err->class != ERR_CONFLICT)
		return -1;
	mend_locks(copy->fd);
	return fence_raise(copy->fd, job->fence, err);
}

/* 1: there was something of which git would have been misled. */
static int undivert(const char *path, struct err *err)
{
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, path, ERR_IGNORED);

	return dir < 0 ? 0 : mend_diversions(dir, err);
}

/* Opened and fenced, so that it can be worked on. Whatever fails here is the copy's own.
 * A writer that died may have changed all there was to change: then nothing is left to
 * publish, but its pending file still stands. */
static int sync_repository_open_copy(const struct job *job,
				     const struct sync_request *request, const char *path,
				     struct repo *copy, struct err *err)
{
	if (repo_open(AT_FDCWD, path, copy, err) != 0) {
		err_prefix(err, "the copy");
		return -1;
	}
	if ((request->mends && mend_refs(copy->fd, err) != 0) ||
	    sync_repository_check_copy(copy, err) != 0)
		return -1;
	if (request->mends &&
	    (mend_check_config(copy, err) != 0 || mend_own_files(copy->fd, err) != 0))
		return -1;
	if (sync_repository_raise_fence(job, request, copy, err) != 0 ||
	    state_recover(copy->fd, err) != 0)
		return -1;
	failpoint("sync.fenced");
	give_hooks(request, copy);
	return 0;
}

/* A copy that was brought has the hash of its source: somebody wrote to its config. What
 * a person put there is for a person. */
static bool has_lost_its_format(const struct repo *copy, const struct source_view *view,
				struct err *err)
{
	AUTO_RECORD struct copy_record record = { 0 };

	if (copy->oid_len == view->oid_len)
		return false;
	copy_record_read(copy->fd, &record);
	if (!record.timeline[0])
		return false;
	err_set(err, ERR_CORRUPT, "the copy's config names another hash");
	return true;
}

/* Whether not all of it may be as we left it. */
static bool is_doubtful(const struct sync_request *request, const struct repo *copy,
			const struct stop *stop)
{
	AUTO_RECORD struct copy_record record = { 0 };

	if (request->is_suspect)
		return true;
	copy_record_read(copy->fd, &record);
	if (!record.is_there && !record.is_unread)
		return true; /* a stranger's, or nobody knows how we left it */
	enum copy_stamps stamps = copy_record_look(&record, copy->fd);
	return stamps != COPY_STAMPS_SAME &&
	       (stamps != COPY_STAMPS_LATER ||
		copy_content_is_sound(copy, record.files_changed_ns, stop, ERR_IGNORED) <=
			0);
}

/* Whether the copy may be the reason: not of what its source says, of the way there, or
 * of what is too large. But a damaged pack may say that its objects take more memory than
 * there is. */
static bool may_be_broken(const struct source_view *view, const struct err *err)
{
	if (source_was_outrun(view, err) || err->reason == REASON_AT_PEER ||
	    err->class == ERR_NETWORK)
		return false;
	if (err->class == ERR_INTERNAL && err->sys_errno == ENOMEM)
		return true;
	return err_is_of_data(err) && err->reason != REASON_TOO_LARGE;
}

/* A failure between the sites may be of either: then the copy is read by itself. */
static bool sync_repository_is_broken(const struct job *job, const struct repo *copy,
				      const struct source_view *view, struct err *err)
{
	struct err why;

	if ((!may_be_broken(view, err) && err->sys_errno != ENOMEM) ||
	    mend_look_through(&job->work, copy, &why) == 0 || !err_is_of_data(&why))
		return false;
	*err = why;
	err_prefix(err, "the copy");
	return true;
}

/* All of it is read; what git can do without is mended before git needs it. 1: the copy
 * itself is damaged. */
static int fill_doubtful(struct filling *filling, struct source_view *view,
			 struct sync_result *result, struct err *err)
{
	filling->is_doubtful = true;
	if (verify_derived(&filling->job->work, filling->copy, err) != 0)
		return -1;
	return sync_repository_fill_copy(filling, view, result, err);
}

/* A copy whose files are stamped as its record says has nothing that is to be mended: it
 * is looked at once, with the fence raised. */
static bool open_as_left(const struct job *job, const struct sync_request *request,
			 const char *path, struct repo *copy)
{
	AUTO_RECORD struct copy_record record = { 0 };

	if (!request->mends || request->is_suspect ||
	    repo_open(AT_FDCWD, path, copy, ERR_IGNORED) != 0)
		return false;
	if (!copy->rewrites_urls && !file_is_there(copy->fd, "HEAD.lock") &&
	    !file_is_there(copy->fd, "packed-refs.lock") &&
	    fence_raise(copy->fd, job->fence, ERR_IGNORED) == 0 &&
	    state_recover(copy->fd, ERR_IGNORED) == 0) {
		copy_record_read(copy->fd, &record);
		if (record.files_fingerprint[0] &&
		    copy_record_look(&record, copy->fd) == COPY_STAMPS_SAME)
			return true;
	}
	repo_close(copy);
	return false;
}

static int update_as_left(struct filling *filling, struct source_view *view,
			  struct sync_result *result, struct err *err)
{
	AUTO_OBJECT_FILES object_files found = { 0 };

	failpoint("sync.fenced");
	give_hooks(filling->request, filling->copy);
	if (object_files_take(filling->copy->fd, &found, err) != 0)
		return -1;
	filling->found = &found;
	filling->is_as_left = true;
	return sync_repository_fill_copy(filling, view, result, err);
}

static int update_mending(struct filling *filling, struct repo *copy, const char *path,
			  struct source_view *view, struct sync_result *result,
			  struct err *err)
{
	const struct sync_request *request = filling->request;
	const object_files nothing = { 0 };
	AUTO_OBJECT_FILES object_files found = { 0 };
	int was_diverted = request->mends ? undivert(path, err) : 0;

	if (was_diverted < 0 ||
	    sync_repository_open_copy(filling->job, request, path, copy, err) != 0)
		return request->mends && err_is_of_data(err) ? 1 : -1;
	if (request->mends && has_lost_its_format(copy, view, err))
		return 1;
	if (request->mends && object_files_take(copy->fd, &found, err) != 0)
		return err_is_of_data(err) ? 1 : -1;
	filling->found = &nothing;
	filling->is_as_left = false;
	if (was_diverted ||
	    (request->mends && is_doubtful(request, copy, filling->job->work.stop)))
		return fill_doubtful(filling, view, result, err);
	filling->found = &found;
	return sync_repository_fill_copy(filling, view, result, err);
}

/* The reason may be in what has no stamps: our own files, or an object. */
static bool is_to_be_mended(const struct source_view *view, const struct err *err)
{
	return (err->class == ERR_CONFLICT && err->reason != REASON_AT_PEER) ||
	       may_be_broken(view, err);
}

/* 1: the copy itself is damaged. */
static int update(struct job *job, const struct sync_request *request, const char *path,
		  struct source_view *view, struct sync_result *result, struct err *err)
{
	AUTO_REPO struct repo copy = REPO_INIT;
	struct filling filling = { .job = job, .request = request, .copy = &copy };
	bool is_to_mend = !open_as_left(job, request, path, &copy);
	int done = is_to_mend ? -1 : update_as_left(&filling, view, result, err);

	if (!is_to_mend && done < 0 && is_to_be_mended(view, err)) {
		repo_close(&copy);
		is_to_mend = true;
	}
	if (is_to_mend)
		done = update_mending(&filling, &copy, path, view, result, err);
	if (done >= 0)
		return done;
	return request->mends && copy.fd >= 0 &&
			       sync_repository_is_broken(job, &copy, view, err)
		       ? 1
		       : -1;
}

static int rebuild(struct job *job, const struct sync_request *request,
		   struct source_view *view, struct sync_result *result, struct err *err)
{
	if (!request->may_rebuild) {
		err_remedy(err, "a new copy is made at a later try; if this comes back, "
				"see whether this machine's disk fails");
		return -1;
	}
	log_warn("sync.damaged", LOG_ERR(err));
	damage_note(KIND_REPOSITORY, request->name, err);
	return sync_repository_create_copy(job, request, view, DAMAGED_THERE, result,
					   err);
}

/* 1: the old copy is to be updated after all. */
static int replace_other(struct job *job, const struct sync_request *request,
			 const char *path, struct source_view *view,
			 struct sync_result *result, struct err *err)
{
	const struct git_work *work = &job->work;
	AUTO_FREE char *staging = staging_of(job, request);
	enum replaced_answer answer = REPLACED_NOT;
	int done = build(job, request, view, staging, false, result, err);

	if (done == 0)
		done = replaced_shares_history(work, path, staging, err);
	if (done < 0) {
		done = replaced_may_stay(work, view, err);
		answer = err->class == ERR_DISK ? REPLACED_NO_ROOM : REPLACED_NOT;
	}
	bool is_answered = done > 0;
	if (done == 0 && !replaced_is_likely(request, path, view))
		done = 1; /* somebody wrote to it meanwhile */
	if (done == 0) {
		log_info("sync.replaced");
		result->outcome = SYNC_CREATED;
		done = sync_repository_place_copy(job, request, staging, OTHER_THERE,
						  result, err);
	}
	if (done != 0)
		tree_remove(AT_FDCWD, staging, ERR_IGNORED);
	if (is_answered) /* there is room for it by now */
		replaced_note(path, view, answer);
	return done;
}

static int make_equal(struct job *job, const struct sync_request *request,
		      struct source_view *view, struct sync_result *result,
		      struct err *err)
{
	AUTO_FREE char *path = name_to_copy(request->root, request->name);
	struct stat st;

	if (lstat(path, &st) != 0)
		return errno == ENOENT
			       ? sync_repository_create_copy(job, request, view,
							     NOTHING_THERE, result, err)
			       : err_errno(err, "cannot look at %s", path);
	if (!S_ISDIR(st.st_mode)) {
		err_set(err, ERR_CONFIG, "%s is in the way: it is not a directory", path);
		err_remedy(err, "move it away");
		return request->mends ? rebuild(job, request, view, result, err) : -1;
	}
	if (!view->is_delta && replaced_is_of_other_hash(path, view))
		return sync_repository_create_copy(job, request, view, OTHER_THERE,
						   result, err);
	if (!view->is_delta && replaced_is_of_other_name(request, path, view, err))
		return rebuild(job, request, view, result, err);
	if (request->is_rebuild)
		return sync_repository_create_copy(job, request, view, DAMAGED_THERE,
						   result, err);
	if (!view->is_delta && replaced_is_likely(request, path, view)) {
		int replaced = replace_other(job, request, path, view, result, err);
		if (replaced <= 0)
			return replaced;
		*result = (struct sync_result){ .bytes = result->bytes };
	}
	int done = update(job, request, path, view, result, err);
	return done > 0 ? rebuild(job, request, view, result, err) : done;
}

int sync_failed_here(struct err *err)
{
	if (err->class != ERR_MISSING)
		return -1;
	err->class = ERR_CONFLICT;
	return err_remedy(err, "retried automatically; if this recurs, find out what "
			       "else removes files below site.repositories");
}

/* Nothing at all, if nothing stands at its path. */
static bool sync_repository_has_nothing(const struct sync_request *request,
					struct source_have *have)
{
	AUTO_FREE char *path = name_to_copy(request->root, request->name);
	struct stat st;

	if (!request->takes_deltas || lstat(path, &st) == 0 || errno != ENOENT)
		return false;
	checksum_of(&have->refs, &have->sum);
	return true;
}

/* What the copy is, if it is as it was when it was last proved equal. */
static bool sync_repository_have(const struct sync_request *request,
				 struct source_have *have)
{
	AUTO_FREE char *path = name_to_copy(request->root, request->name);
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_REPO struct repo copy = REPO_INIT;

	if (!trusts_records(request) || !request->takes_deltas ||
	    repo_open(AT_FDCWD, path, &copy, ERR_IGNORED) != 0 || copy.is_shallow)
		return false;
	copy_record_read(copy.fd, &record);
	if (!record.is_there || !record.timeline[0] || record.generation == 0 ||
	    ref_snapshot_read(copy.fd, copy.oid_len, &have->refs, ERR_IGNORED) != 0)
		return false;
	checksum_of(&have->refs, &have->sum);
	have->oid_len = copy.oid_len;
	have->generation = record.generation;
	memcpy(have->timeline, record.timeline, sizeof(have->timeline));
	return checksum_equal(&have->sum, &record.sum);
}

static int sync_read_source(const struct sync_request *request, bool is_first_try,
			    struct source_view *view, struct err *err)
{
	struct source_have have = { .oid_len = 0 };
	int result = 1;

	if (is_first_try && (sync_repository_have(request, &have) ||
			     sync_repository_has_nothing(request, &have)))
		result = source_read_since(request->source, request->name, &have, view,
					   err);
	view->is_delta = result == 0 && have.timeline[0];
	ref_snapshot_clear(&have.refs);
	/* The other way may do. */
	if (result < 0 && (err->class == ERR_CORRUPT || err->class == ERR_NETWORK ||
			   err->class == ERR_TIMEOUT)) {
		log_warn("sync.delta_refused", LOG_ERR(err));
		result = 1;
	}
	if (result > 0)
		result = source_read(request->source, request->name, view, err);
	return result == 0 ? 0 : err_prefix(err, "the source");
}

/* Bringing was refused, as reading was not: whether a new reading may do, with another
 * credential. */
static bool sync_take_refusal(const struct sync_request *request,
			      const struct source_view *view, const struct err *why)
{
	const struct source_ops *ops = request->source->ops;

	return !view->is_local && why->class == ERR_AUTH && ops->take_refusal &&
	       ops->take_refusal(request->source, request->name, why);
}

/* 1: the source dropped what it had just told, or refused to give it; a new picture may
 * do. */
static int sync_once(struct job *job, const struct sync_request *request,
		     bool is_first_try, struct sync_result *result, struct err *err)
{
	AUTO_VIEW struct source_view view = { 0 };

	if (sync_read_source(request, is_first_try, &view, err) != 0)
		return -1;
	failpoint("sync.read");
	if (make_equal(job, request, &view, result, err) != 0) {
		if (sync_take_refusal(request, &view, err))
			return 1;
		if (!source_was_outrun(&view, err))
			return sync_failed_here(err);
		log_warn("sync.outrun", LOG_ERR(err));
		return 1;
	}
	memcpy(result->timeline, view.timeline, sizeof(result->timeline));
	result->generation = view.generation;
	result->changed_at = view.changed_at;
	return 0;
}

int sync_repository(struct job *job, const struct sync_request *request,
		    struct sync_result *result, struct err *err)
{
	AUTO_FREE char *below = name_to_path(request->name);
	int done = 1;

	*result = (struct sync_result){ 0 };
	failpoint("sync.leased");
	if (job->is_after_crash && place_sync_left(request->root, below, err) != 0)
		return -1;
	if (was_done_meanwhile(request, &result->sum))
		return 0;
	for (int tries = 0; tries < TRIES && done > 0; tries++) {
		*result = (struct sync_result){ .bytes = result->bytes };
		done = sync_once(job, request, tries == 0, result, err);
	}
	return done == 0 ? 0 : -1;
}
