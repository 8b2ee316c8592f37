#include "pull/replaced.h"

#include "base/file.h"
#include "base/log.h"
#include "git/cuts.h"
#include "git/objects.h"
#include "git/packs.h"
#include "mirror/upstream.h"
#include "pull/bring.h"
#include "pull/hold.h"

/* At the primary another repository has taken the name, and objects of one hash cannot
 * stand beside those of the other. What was brought there goes to the trash, as with any
 * repository that was deleted; what somebody else put there is for a person. */
bool replaced_is_of_other_hash(const char *path, const struct source_view *view)
{
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_REPO struct repo copy = REPO_INIT;

	if (!view->timeline[0] || repo_open(AT_FDCWD, path, &copy, ERR_IGNORED) != 0 ||
	    copy.oid_len == view->oid_len)
		return false;
	copy_record_read(copy.fd, &record);
	return record.timeline[0] && copy_record_has_refs(&record, &copy, ERR_IGNORED);
}

static bool replaced_has_timeline_of(const struct copy_record *record, char *url)
{
	const struct mirror upstream = { .url = url };
	char timeline[UPSTREAM_TIMELINE_SIZE];

	upstream_timeline(&upstream, timeline);
	return strcmp(record->timeline, timeline) == 0;
}

/* Records of earlier versions do not tell. Their source may be the path of a URL; and
 * where a mirror was cut, its timeline was made of a depth, too, which nobody knows. */
static bool replaced_is_of_upstream(const struct copy_record *record, int copy)
{
	AUTO_FREE char *url = xasprintf("file://%s", record->source);

	return record->is_foreign || replaced_has_timeline_of(record, record->source) ||
	       replaced_has_timeline_of(record, url) ||
	       (record->generation == UPSTREAM_GENERATION && cuts_are_ours(copy));
}

/* The URL of an upstream need not end in the name, and its timeline is that URL, which
 * people change: a copy of another upstream counts as moved here unless it is what was
 * proved of this name. At a former primary a mirror's copy is what it had at this name,
 * where the primary of now has the same. */
static bool replaced_may_be_of_any_name(const struct sync_request *request,
					const struct copy_record *record, int copy,
					const struct source_view *view)
{
	char sum[CHECKSUM_TEXT_SIZE];

	if (!view->is_foreign)
		return replaced_is_of_upstream(record, copy);
	checksum_format(&record->sum, sum);
	return !request->checksum || strcmp(request->checksum, sum) == 0;
}

/* Somebody has moved it here: it has all that it was brought for, under another name. One
 * that the primary renamed keeps its timeline. */
bool replaced_is_of_other_name(const struct sync_request *request, const char *path,
			       const struct source_view *view, struct err *err)
{
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_CLOSE int copy = dir_open(AT_FDCWD, path, ERR_IGNORED);

	if (!request->mends || copy < 0)
		return false;
	copy_record_read(copy, &record);
	if (!record.timeline[0] || copy_record_is_of_name(&record, request->name) ||
	    strcmp(record.timeline, view->timeline) == 0 ||
	    strcmp(record.source, view->url) == 0 ||
	    replaced_may_be_of_any_name(request, &record, copy, view))
		return false;
	err_set(err, ERR_CORRUPT, "in its place stands the copy of %s", record.source);
	return true;
}

#define COMPARED "refrelay/compared"
#define NO_ROOM " no room"
#define NO_ROOM_SECONDS (24 * 3600)

static bool replaced_was_written_lately(int copy)
{
	struct stat st;

	return fstatat(copy, COMPARED, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       llabs((long long)(time(NULL) - st.st_mtime)) < NO_ROOM_SECONDS;
}

/* Not known to be another: until the copy is equal, which may take a person's word, its
 * record has the timeline that it had. A disk may be full for a while only. */
static bool replaced_was_compared(int copy, const struct source_view *view)
{
	AUTO_STR struct str note = STR_INIT;
	const size_t len = strlen(view->timeline);

	return file_read(copy, COMPARED, TIMELINE_SIZE + strlen(NO_ROOM), &note,
			 ERR_IGNORED) == 0 &&
	       strncmp(note.data, view->timeline, len) == 0 &&
	       (!note.data[len] || (strcmp(note.data + len, NO_ROOM) == 0 &&
				    replaced_was_written_lately(copy)));
}

/* Without the note all is compared once more. */
void replaced_note(const char *path, const struct source_view *view,
		   enum replaced_answer answer)
{
	AUTO_CLOSE int copy = dir_open(AT_FDCWD, path, ERR_IGNORED);
	AUTO_FREE char *note = xasprintf("%s%s", view->timeline,
					 answer == REPLACED_NO_ROOM ? NO_ROOM : "");

	if (copy >= 0)
		file_replace(copy, COMPARED, note, strlen(note), FILE_SYNC, ERR_IGNORED);
}

/* An upstream's timeline is its address, which people change; and what another primary
 * never had is for a person. */
static bool replaced_has_other_timeline(const struct copy_record *record,
					const struct source_view *view)
{
	return !view->is_foreign && record->timeline[0] && view->timeline[0] &&
	       strcmp(record->timeline, view->timeline) != 0 &&
	       strcmp(record->source, view->url) == 0;
}

/* Many refs do not vanish without a person's word. */
static bool replaced_may_vanish(const struct sync_request *request,
				const struct ref_snapshot *found)
{
	const size_t count = found->refs.count;

	return request->is_forced ||
	       !hold_limit_stops(HOLD_REFS(request->delete_share), count, count);
}

/* A copy without refs may still have objects that they named. Of a primary that was
 * restored, an empty repository is none that took the name. */
static bool replaced_has_other_refs(const struct sync_request *request,
				    const struct copy_record *record,
				    const struct repo *copy,
				    const struct ref_snapshot *found,
				    const struct source_view *view)
{
	oid_list before = { 0 }, now = { 0 };
	bool has_other;

	oid_list_add_tips(&before, found);
	oid_list_add_tips(&now, &view->refs);
	if (before.count == 0)
		has_other = packs_size(copy->fd) > 0;
	else if (now.count == 0)
		has_other = !bring_is_of_other_log(record, view) &&
			    replaced_may_vanish(request, found);
	else
		has_other = !oid_list_has_any(&before, &now);
	vec_clear(&before);
	vec_clear(&now);
	return has_other;
}

/* What others wrote to the copy is for a person; and where history is cut, nobody can
 * tell where it begins. */
bool replaced_is_likely(const struct sync_request *request, const char *path,
			const struct source_view *view)
{
	AUTO_SNAPSHOT struct ref_snapshot found = REF_SNAPSHOT_INIT;
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_REPO struct repo copy = REPO_INIT;

	if (repo_open(AT_FDCWD, path, &copy, ERR_IGNORED) != 0)
		return false;
	copy_record_read(copy.fd, &record);
	return replaced_has_other_timeline(&record, view) &&
	       ref_snapshot_read(copy.fd, copy.oid_len, &found, ERR_IGNORED) == 0 &&
	       found.cuts.count == 0 && view->refs.cuts.count == 0 &&
	       bring_is_ours(copy.fd, &found, request->checksum) &&
	       !replaced_was_compared(copy.fd, view) &&
	       replaced_has_other_refs(request, &record, &copy, &found, view);
}

static int replaced_list_roots(const struct git_work *work, const char *path,
			       oid_list *roots, struct err *err)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	AUTO_REPO struct repo repo = REPO_INIT;
	oid_list tips = { 0 };
	int result;

	if (repo_open(AT_FDCWD, path, &repo, err) != 0 ||
	    repo_check_files(&repo, err) != 0 ||
	    ref_snapshot_read(repo.fd, repo.oid_len, &refs, err) != 0)
		return -1;
	oid_list_add_tips(&tips, &refs);
	result = objects_list_roots(work, &repo, &tips, roots, err);
	vec_clear(&tips);
	return result;
}

int replaced_shares_history(const struct git_work *work, const char *old_path,
			    const char *new_path, struct err *err)
{
	oid_list before = { 0 }, now = { 0 };
	int result = replaced_list_roots(work, old_path, &before, err);

	if (result != 0)
		result = err_is_of_data(err) ? 1 : -1;
	else if (replaced_list_roots(work, new_path, &now, err) != 0)
		result = -1;
	else
		result = oid_list_has_any(&before, &now);
	vec_clear(&before);
	vec_clear(&now);
	return result;
}

/* What a later attempt would meet again, where a few objects may do for the old copy. An
 * attempt that has no time left leaves that to the next one. */
int replaced_may_stay(const struct git_work *work, const struct source_view *view,
		      const struct err *why)
{
	bool is_out_of_time =
		why->class == ERR_TIMEOUT && git_work_check(work, ERR_IGNORED) != 0;
	bool is_damaged_there =
		why->class == ERR_CORRUPT && why->reason == REASON_AT_PEER;
	bool is_lasting = why->class == ERR_DISK || why->reason == REASON_TOO_LARGE ||
			  is_out_of_time || is_damaged_there;

	if (!is_lasting || source_was_outrun(view, why))
		return -1;
	log_warn("sync.not_compared", LOG_ERR(why));
	return 1;
}
