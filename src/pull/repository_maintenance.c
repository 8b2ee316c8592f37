/*
 * A copy's record (copy_record.h) has a fingerprint of its files, and maintenance changes
 * these. While it does, NAME.git/refrelay/maintenance.lock stands, a lock whose owner is
 * known to live or to be dead (git/lock_owner.h). It is taken before the first file is
 * changed, and released after the record was renewed: so whoever finds the copy changed
 * looks for it *afterwards*, and then, if it is not there, whether the record is the one
 * that was read.
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

#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "git/lock_file.h"
#include "git/objects.h"
#include "job/job.h"
#include "pull/copy_kind.h"
#include "pull/copy_record.h"
#include "pull/sync_repository.h"
#include "replicable/name.h"
#include "upkeep/maintenance.h"

#define MARK "refrelay/maintenance" /* and ".lock" */
#define RECORD "refrelay/copy"
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
	struct lock_owner owner;
	struct lock_file mark;
	int64_t beat_at, asked_at; /* boot ms */
	bool is_asked_to_end;
	bool has_begun;
	bool is_disturbed; /* somebody else has changed the copy meanwhile */
};

void repository_glimpse_take(int dir, struct repository_glimpse *glimpse)
{
	struct stat st;

	*glimpse = (struct repository_glimpse){ 0 };
	if (fstatat(dir, RECORD, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return;
	glimpse->inode = st.st_ino;
	glimpse->changed_ns =
		(int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
}

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

bool repository_is_maintained(int dir, const struct repository_glimpse *before)
{
	struct repository_glimpse now;

	if (maintaining_is_marked(dir))
		return true;
	repository_glimpse_take(dir, &now);
	return now.inode != before->inode || now.changed_ns != before->changed_ns;
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

static bool maintaining_is_row_idle(const struct maintaining *this)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	return registry_get(this->call->pull->options.store, this->call->kind->type,
			    this->call->name, &row, ERR_IGNORED) == 0 &&
	       maintain_is_idle(&row);
}

/* As copy_record_proves() and the like take it: this is what we left, and nobody has
 * touched it since. Copies borrow no objects, and git fetches none of them later; where
 * it is otherwise somebody else keeps it. */
static bool maintaining_is_ours(struct maintaining *this)
{
	if (repo_open(AT_FDCWD, this->path, &this->copy, ERR_IGNORED) != 0 ||
	    this->copy.is_partial || this->copy.has_alternates ||
	    repo_check_files(&this->copy, ERR_IGNORED) != 0)
		return false;
	if (fingerprint_take(this->copy.fd, FINGERPRINT_REFS, &this->refs_before,
			     ERR_IGNORED) != 0)
		return false;
	copy_record_read(this->copy.fd, &this->record);
	if (!this->record.is_there || !this->record.files_fingerprint[0] ||
	    this->record.source_fingerprint[0])
		return false;
	checksum_format(&this->record.sum, this->refs);
	return copy_record_look(&this->record, this->copy.fd) == COPY_STAMPS_SAME;
}

static void maintaining_close(struct maintaining *this)
{
	repo_close(&this->copy);
	copy_record_clear(&this->record);
}

/* Of a copy that is ours. */
static bool maintaining_is_due(struct maintaining *this)
{
	struct maintenance_found found;

	if (!maintaining_is_ours(this) ||
	    maintenance_look(&this->copy, this->refs, &found, ERR_IGNORED) != 0)
		return false;
	maintenance_decide(&found, &this->plan);
	return maintenance_is_due(&this->plan);
}

static bool maintaining_must_end(void *arg)
{
	struct maintaining *this = arg;
	int64_t now = clock_boot_ms();

	if (now - this->beat_at >= BEAT_MS) {
		this->beat_at = now;
		lock_owner_beat(&this->owner);
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
		copy_record_has_refs(&this->record, &this->copy));
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
	int done = maintenance_run(&request, &this->result, err);
	failpoint("maintenance.written");
	if (lease_check(this->job->lease, &why) != 0) {
		*err = why;
		return -1;
	}
	return maintaining_renew(this, &found, err) == 0 ? done : -1;
}

/* Readers, and who watches the copy, wait for the end of what they see. */
static int maintaining_under_mark(struct maintaining *this, struct err *err)
{
	int done = -1;

	if (lock_owner_open(this->copy.fd, "refrelay", &this->owner, err) != 0)
		return -1;
	if (lock_file_take(&this->owner, MARK, 0, &this->mark, err) == 0) {
		failpoint("maintenance.marked");
		done = maintaining_change(this, err);
		lock_file_release(&this->mark);
	}
	lock_owner_close(&this->owner);
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
				       .fence_floor = sync_fence_floor(root, call->name),
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
	if (end == MAINTAIN_FAILED && (this->is_disturbed || err.class == ERR_CORRUPT))
		pull_doubt(pull, call->kind->type, call->name, &err);
	return end;
}

enum maintain_end repository_maintain(const struct maintain_call *call)
{
	struct maintaining this = { .call = call,
				    .path = name_to_copy(call->pull->options.here->root,
							 call->name),
				    .copy = REPO_INIT,
				    .owner = { .fd = -1 } };
	enum maintain_end end = MAINTAIN_NOTHING;
	bool is_due = maintaining_is_row_idle(&this) && maintaining_is_due(&this);

	maintaining_close(&this);
	if (is_due)
		end = maintaining_run(&this);
	maintenance_result_clear(&this.result);
	free(this.path);
	return end;
}
