/*
 * A copy's record (copy_record.h) has a fingerprint of its files, and maintenance changes
 * these, as a verification does that finds derived ones damaged. While they do,
 * NAME.git/refrelay/maintenance.lock stands, a lock whose owner is known to live or to be
 * dead (git/lock_owner.h). It is taken before the first file is changed, and released
 * after the record was renewed: so whoever finds the copy changed looks for it
 * *afterwards*, and then, if it is not there, whether the record is the one that was
 * read.
 *
 * If its owner is dead, nothing tells what of the change was git's: the copy is doubted
 * like any other, and all of it is read.
 *
 * The record is renewed only if it was true before, and if all files that were there are
 * as they were, or gone, and the refs and settings as they were: nothing here touches
 * them. What was verified stays so: each object that was there has been found in a pack
 * that was read.
 */
#include "pull/repository_maintenance.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "git/objects.h"
#include "job/job.h"
#include "pull/copy_kind.h"
#include "pull/copy_record.h"
#include "pull/sync_repository.h"
#include "replicable/name.h"
#include "upkeep/maintenance.h"

#define MARK "refrelay/maintenance" /* and ".lock" */
#define INDEX "objects/pack/multi-pack-index"
#define BEAT_MS 5000
#define ROW_MS 1000

struct maintaining {
	const struct maintain_call *call;
	struct job *job;
	char *path; /* owned */
	struct repo copy;
	struct copy_record record;
	char refs[CHECKSUM_TEXT_SIZE];
	struct fingerprint refs_before; /* taken before the record was found to be true */
	struct maintenance_plan plan;
	struct maintenance_result result;
	struct repository_mark mark;
	int64_t beat_at, asked_at; /* boot ms */
	bool is_asked_to_end;
	bool has_begun;
	bool is_disturbed; /* somebody else has changed the copy meanwhile */
};

/* Where it cannot be told whether its owner lives, it is dead when it is silent. */
static bool maintaining_is_marked(int dir)
{
	AUTO_CLOSE int owner = -1;

	switch (lock_owner_probe(dir, MARK ".lock", &owner)) {
	case LOCK_OWNER_ALIVE:
		return true;
	case LOCK_OWNER_UNKNOWN:
		return owner >= 0 && !lock_owner_is_old(owner, clock_wall_ms() / 1000);
	default:
		return false;
	}
}

bool repository_is_maintained(int dir, const struct copy_record *before)
{
	AUTO_RECORD struct copy_record now = { 0 };

	if (maintaining_is_marked(dir))
		return true;
	copy_record_read(dir, &now);
	return memcmp(now.end, before->end, sizeof(now.end)) != 0;
}

bool repository_was_cut_off(int dir)
{
	AUTO_CLOSE int owner = -1;

	return lock_owner_probe(dir, MARK ".lock", &owner) == LOCK_OWNER_DEAD;
}

void repository_forget_cut_off(int dir)
{
	if (repository_was_cut_off(dir))
		unlinkat(dir, MARK ".lock", 0);
}

int repository_mark(int dir, struct repository_mark *mark, struct err *err)
{
	if (lock_owner_open(dir, "refrelay", &mark->owner, err) != 0)
		return -1;
	if (lock_file_take(&mark->owner, MARK, 0, &mark->lock, err) == 0)
		return 0;
	lock_owner_close(&mark->owner);
	return -1;
}

void repository_unmark(struct repository_mark *mark)
{
	lock_file_release(&mark->lock);
	lock_owner_close(&mark->owner);
}

static bool maintaining_is_row_idle(const struct maintaining *this)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	return registry_get(this->call->pull->options.store, this->call->kind->type,
			    this->call->name, &row, ERR_IGNORED) == 0 &&
	       maintain_is_idle(&row);
}

/* Copies borrow no objects, and git fetches none of them later; where it is otherwise
 * somebody else keeps it. */
static bool maintaining_open(struct maintaining *this)
{
	if (repo_open(AT_FDCWD, this->path, &this->copy, ERR_IGNORED) != 0 ||
	    this->copy.is_partial || this->copy.has_alternates)
		return false;
	copy_record_read(this->copy.fd, &this->record);
	if (!this->record.is_there || !this->record.files_fingerprint[0] ||
	    this->record.source_fingerprint[0])
		return false;
	checksum_format(&this->record.sum, this->refs);
	return true;
}

/* A new link to a shared file changes its ctime alone: then it is read, and the record
 * renewed. */
static bool maintaining_has_stamps(struct maintaining *this)
{
	struct copy_files files;

	switch (copy_record_look(&this->record, this->copy.fd)) {
	case COPY_STAMPS_SAME:
		return true;
	case COPY_STAMPS_LATER:
		if (copy_files_take(this->copy.fd, &files, ERR_IGNORED) != 0 ||
		    copy_files_check(this->copy.fd, &files, ERR_IGNORED) != 0 ||
		    copy_content_is_sound(&this->copy, this->record.files_changed_ns,
					  this->call->stop, ERR_IGNORED) <= 0)
			return false;
		copy_record_restamp(this->copy.fd, &this->record, &files);
		copy_record_clear(&this->record);
		copy_record_read(this->copy.fd, &this->record);
		return copy_record_look(&this->record, this->copy.fd) == COPY_STAMPS_SAME;
	default:
		return false;
	}
}

/* As copy_record_proves() and the like take it: this is what we left, and nobody has
 * touched it since. */
static bool maintaining_is_ours(struct maintaining *this)
{
	return repo_check_files(&this->copy, ERR_IGNORED) == 0 &&
	       fingerprint_take(this->copy.fd, FINGERPRINT_REFS, &this->refs_before,
				ERR_IGNORED) == 0 &&
	       maintaining_has_stamps(this);
}

static void maintaining_close(struct maintaining *this)
{
	repo_close(&this->copy);
	copy_record_clear(&this->record);
}

/* Of a copy that is ours. That costs more to find out than that nothing is due. */
static bool maintaining_is_due(struct maintaining *this)
{
	struct maintenance_found found;

	if (!maintaining_open(this) ||
	    maintenance_look(&this->copy, this->refs, this->call->is_walk, &found,
			     ERR_IGNORED) != 0)
		return false;
	maintenance_decide(&found, &this->plan);
	return maintenance_is_due(&this->plan) && maintaining_is_ours(this);
}

static bool maintaining_must_end(void *arg)
{
	struct maintaining *this = arg;
	int64_t now = clock_boot_ms();

	if (now - this->beat_at >= BEAT_MS) {
		this->beat_at = now;
		lock_owner_beat(&this->mark.owner);
	}
	if (now - this->asked_at >= ROW_MS) {
		this->asked_at = now;
		this->is_asked_to_end |= lease_is_wanted(this->job->lease) ||
					 !maintaining_is_row_idle(this);
	}
	return this->is_asked_to_end;
}

/* What git has replaced in its place: the multi-pack-index, with what belongs to it, and
 * packs that it made again. */
static bool maintaining_is_gits(const struct maintaining *this, const char *path)
{
	const text_list *renewed = &this->result.renewed;

	if (text_starts_with(path, INDEX))
		return true;
	for (size_t i = 0; i < renewed->count; i++) {
		AUTO_FREE char *pack = xasprintf("objects/pack/%s.", renewed->items[i]);
		if (text_starts_with(path, pack))
			return true;
	}
	return false;
}

static void maintaining_leave_out_gits(const struct maintaining *this,
				       object_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		if (!maintaining_is_gits(this, files->items[i].path))
			continue;
		free(files->items[i].path);
		files->items[i--] = files->items[--files->count];
	}
}

/* Left-overs of locks go from below refs/ too: then the refs themselves tell. */
static bool maintaining_left_refs(const struct maintaining *this)
{
	const int dir = this->copy.fd;
	struct fingerprint now;

	if (fingerprint_take(dir, FINGERPRINT_REFS, &now, ERR_IGNORED) != 0)
		return false;
	return fingerprint_equal(&now, &this->refs_before) ||
	       (this->result.removed > 0 &&
		copy_record_has_settings(&this->record, dir) &&
		copy_record_has_refs(&this->record, &this->copy, ERR_IGNORED));
}

/* The record was true before; it may become so again if nobody else was here. */
static int maintaining_renew(struct maintaining *this, object_files *found,
			     struct err *err)
{
	maintaining_leave_out_gits(this, found);
	const char *other = object_files_changed(found, this->copy.fd, true);
	if (!other && !maintaining_left_refs(this))
		other = "the refs or the settings";
	this->is_disturbed = other != NULL;
	if (other)
		return err_set(err, ERR_CONFLICT, "another program changed %s", other);
	copy_record_renew(this->copy.fd, &this->record);
	return 0;
}

struct gentle_run {
	const struct maintenance_request *request;
	struct maintenance_result *result;
	struct log_context context;
	struct err *err;
	int done;
};

static void *maintaining_run_gently(void *arg)
{
	struct gentle_run *run = arg;

	log_set_context(run->context);
	thread_lower_priority();
	run->done = maintenance_run(run->request, run->result, run->err);
	return NULL;
}

/* In a thread of its own, as the maintainer's also writes to the database, for others
 * that wait there, and so must not be kept from the processors. */
static int maintaining_run_maintenance(struct maintaining *this,
				       const struct maintenance_request *request,
				       struct err *err)
{
	struct gentle_run run = { .request = request,
				  .result = &this->result,
				  .err = err };
	pthread_t thread;

	run.context = log_set_context((struct log_context){ 0 });
	log_set_context(run.context);
	thread_start(&thread, "maintain-run", maintaining_run_gently, &run);
	thread_join(thread);
	return run.done;
}

static int maintaining_change(struct maintaining *this, struct err *err)
{
	const struct maintenance_request request = { .job = this->job,
						     .repo = &this->copy,
						     .refs = this->refs,
						     .plan = this->plan,
						     .must_end = maintaining_must_end,
						     .arg = this };
	AUTO_OBJECT_FILES object_files found = { 0 };
	struct err why;

	if (object_files_take(this->copy.fd, &found, err) != 0)
		return -1;
	this->has_begun = true;
	log_info("maintenance.started", LOG_NUMBER("folds", this->plan.folds),
		 LOG_NUMBER("graph", this->plan.graphs),
		 LOG_NUMBER("index", this->plan.indexes));
	int done = maintaining_run_maintenance(this, &request, err);
	failpoint("maintenance.written");
	if (lease_check(this->job->lease, &why) != 0) {
		*err = why;
		return -1;
	}
	return maintaining_renew(this, &found, err) == 0 ? done : -1;
}

static int maintaining_under_mark(struct maintaining *this, struct err *err)
{
	if (repository_mark(this->copy.fd, &this->mark, err) != 0)
		return -1;
	failpoint("maintenance.marked");
	int done = maintaining_change(this, err);
	repository_unmark(&this->mark);
	return done;
}

/* Since it was looked at, all may be otherwise. */
static int maintaining_leased(struct job *job, void *arg, struct err *err)
{
	struct maintaining *this = arg;
	int done = 0;

	this->job = job;
	this->asked_at = this->beat_at = clock_boot_ms();
	if (pull_check_root(this->call->pull, this->call->kind->type, err) != 0)
		return -1;
	if (maintaining_is_row_idle(this) && maintaining_is_due(this))
		done = maintaining_under_mark(this, err);
	maintaining_close(this);
	return done;
}

static enum maintain_end maintaining_say(const struct maintaining *this, int done,
					 int64_t took_ms, const struct err *err)
{
	const struct maintenance_result *result = &this->result;

	if (done == 0 && !this->has_begun)
		return MAINTAIN_NOTHING;
	if (done == 0) {
		log_info("maintenance.done", LOG_NUMBER("dur_ms", took_ms),
			 LOG_NUMBER("before", result->packs_before),
			 LOG_NUMBER("after", result->packs_after),
			 LOG_NUMBER("removed", result->removed));
		return MAINTAIN_DONE;
	}
	if (err->class != ERR_LOST && err_is_deferral(err->class)) {
		if (!this->has_begun)
			return MAINTAIN_LATER;
		log_info("maintenance.interrupted", LOG_NUMBER("dur_ms", took_ms),
			 LOG_ERR(err));
		return MAINTAIN_INTERRUPTED;
	}
	log_warn("maintenance.failed", LOG_NUMBER("dur_ms", took_ms), LOG_ERR(err),
		 LOG_TEXT("remedy", err->remedy));
	return MAINTAIN_FAILED;
}

static enum maintain_end maintaining_run(struct maintaining *this)
{
	const struct maintain_call *call = this->call;
	struct pull *pull = call->pull;
	const char *root = pull->options.here->root;
	int64_t started = clock_boot_ms();
	char id[LEASE_JOB_SIZE];
	struct err err = { 0 };

	lease_job_new(id);
	int done = job_run(
		&(struct job_request){ .leases = pull->options.leases,
				       .kind = call->kind->type,
				       .name = call->name,
				       .id = id,
				       .operation = "maintenance",
				       .fence_floor = job_fence_floor(root, call->name),
				       .timeout_ms = pull_settings_now(pull).timeout_ms,
				       .stop = call->stop,
				       .run = maintaining_leased,
				       .arg = this },
		&err);

	struct log_context before = log_set_context((struct log_context){
		.repo = call->name, .job = "maintenance", .job_id = id });
	enum maintain_end end =
		maintaining_say(this, done, clock_boot_ms() - started, &err);
	log_set_context(before);
	if (end == MAINTAIN_FAILED && (this->is_disturbed || err.class == ERR_CORRUPT ||
				       (this->has_begun && err_is_of_data(&err))))
		pull_doubt(pull, call->kind->type, call->name, &err);
	return end;
}

enum maintain_end repository_maintain(const struct maintain_call *call)
{
	struct maintaining this = { .call = call,
				    .path = name_to_copy(call->pull->options.here->root,
							 call->name),
				    .copy = REPO_INIT };
	enum maintain_end end = MAINTAIN_NOTHING;
	bool is_due = maintaining_is_row_idle(&this) && maintaining_is_due(&this);

	maintaining_close(&this);
	if (is_due)
		end = maintaining_run(&this);
	maintenance_result_clear(&this.result);
	free(this.path);
	return end;
}
