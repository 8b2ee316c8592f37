/*
 * Each kind of blobs by itself: its directory, then what the node remembers of that, then
 * what the other site says of it.
 */
#include "blob/file.h"
#include "change/blob_notice.h"
#include "change/scan_record.h"
#include "cli/check.h"
#include "store/data_lock.h"

static bool writes(const struct checking *checking)
{
	return checking->site.role == SITE_SECONDARY;
}

static int try_kind(const struct checking *checking, const struct blob_kind *kind,
		    struct err *err)
{
	AUTO_CLOSE int root = blob_root_open(kind, err);

	if (root < 0)
		return -1;
	if (access(kind->path, R_OK | X_OK | (writes(checking) ? W_OK : 0)) == 0)
		return 0;
	return err_errno(err, "blobs of type %s: %s cannot be %s", kind->type, kind->path,
			 writes(checking) ? "written" : "read");
}

/* Objects of LFS come through the server; other files may come by other ways. */
static void check_uploads(struct checking *checking, const struct blob_kind *kind)
{
	struct err err;

	if (writes(checking) || kind->layout != BLOB_LFS || access(kind->path, W_OK) == 0)
		return;
	err_errno(&err, "blobs of type %s: %s cannot be written", kind->type, kind->path);
	err_remedy(&err, "let the node write there, or clients of LFS cannot upload");
	check_tell(checking, CHECK_NOTE, "blobs", &err);
}

static void check_kind(struct checking *checking, const struct blob_kind *kind)
{
	struct err err;

	if (writes(checking) && access(kind->path, F_OK) != 0 && errno == ENOENT) {
		err_set(&err, ERR_MISSING,
			"blobs of type %s: %s is not there yet: serve will make it",
			kind->type, kind->path);
		check_tell(checking, CHECK_NOTE, "blobs", &err);
		return;
	}
	if (try_kind(checking, kind, &err) != 0) {
		check_tell(checking, CHECK_WRONG, "blobs", &err);
		return;
	}
	check_tell_good(checking, "blobs", "of type %s: %s can be %s", kind->type,
			kind->path, writes(checking) ? "written" : "read");
	check_uploads(checking, kind);
	check_room(checking, "blobs", kind->path);
}

static void each_kind(struct checking *checking, void *arg,
		      void (*look)(struct checking *checking,
				   const struct blob_kind *kind, void *arg))
{
	struct blob_kinds kinds = { 0 };

	/* what is wrong with the sections was said before */
	if (blob_kinds_read(checking->conf, &kinds, ERR_IGNORED) == 0)
		for (size_t i = 0; i < kinds.items.count; i++)
			look(checking, &kinds.items.items[i], arg);
	blob_kinds_clear(&kinds);
}

static void look_at_directory(struct checking *checking, const struct blob_kind *kind,
			      void *arg)
{
	(void)arg;
	check_kind(checking, kind);
}

void check_blobs_directories(struct checking *checking)
{
	each_kind(checking, NULL, look_at_directory);
}

struct reading {
	const char *type;
	struct scan_record record;
};

static int read_record(struct store_tx *tx, void *arg, struct err *err)
{
	struct reading *reading = arg;

	return scan_record_read(tx, reading->type, &reading->record, err);
}

/* What the node said last is true only while it runs. */
static int judge_scan(const struct checking *checking, struct store *store,
		      const struct blob_kind *kind, struct err *err)
{
	struct reading reading = { .type = kind->type };

	if (blob_notice_judge_root(store, kind, err) != 0 ||
	    store_read(store, read_record, &reading, err) != 0)
		return -1;
	if (reading.record.failing_since == 0 || !data_lock_is_held(checking->site.data))
		return 0;
	*err = reading.record.failure;
	return -1;
}

static void look_at_root(struct checking *checking, const struct blob_kind *kind,
			 void *arg)
{
	bool is_copy = checking->site.role == SITE_SECONDARY;
	struct store *store = arg;
	struct leftovers_found found;
	struct err err;

	if (is_copy && leftovers_count_blobs(store, kind, &found, ERR_IGNORED) == 0)
		check_foreign(checking, kind->type, &found);
	if (is_copy)
		check_copies(checking, store, kind);
	else if (checking->site.role == SITE_PRIMARY &&
		 judge_scan(checking, store, kind, &err) != 0)
		check_tell(checking, CHECK_WRONG, "blobs", &err);
}

void check_blob_roots(struct checking *checking, struct store *store)
{
	each_kind(checking, store, look_at_root);
}

static const char *layout_name(const struct blob_kind *kind)
{
	return kind->layout == BLOB_LFS ? "lfs" : "plain";
}

static void compare_kind(struct checking *checking, const struct blob_kind *ours,
			 void *arg)
{
	const struct blob_kind *its = blob_kinds_find(arg, ours->type);
	struct err err;

	if (!its) {
		err_set(&err, ERR_CONFIG, "the primary has no blobs of type %s",
			ours->type);
		err_remedy(&err, "name the same types of blobs at both sites");
	} else if (its->layout != ours->layout) {
		err_set(&err, ERR_CONFIG,
			"blobs of type %s have the layout %s here and %s at the primary",
			ours->type, layout_name(ours), layout_name(its));
		err_remedy(&err, "set blob.%s.layout alike at both sites", ours->type);
	} else {
		return;
	}
	check_tell(checking, CHECK_WRONG, "blobs", &err);
}

/* A site need not follow all that there is. */
static void check_blobs_note_missing_kinds(struct checking *checking,
					   const struct blob_kinds *theirs)
{
	struct blob_kinds ours = { 0 };
	struct err err;

	if (blob_kinds_read(checking->conf, &ours, ERR_IGNORED) != 0)
		return;
	for (size_t i = 0; i < theirs->items.count; i++) {
		const char *type = theirs->items.items[i].type;
		if (blob_kinds_find(&ours, type))
			continue;
		err_set(&err, ERR_MISSING,
			"the primary has blobs of type %s, which are not copied", type);
		err_remedy(&err, "if they are to be, set blob.%s.path here", type);
		check_tell(checking, CHECK_NOTE, "blobs", &err);
	}
	blob_kinds_clear(&ours);
}

void check_blobs_of_primary(struct checking *checking, struct blob_kinds *theirs)
{
	each_kind(checking, theirs, compare_kind);
	check_blobs_note_missing_kinds(checking, theirs);
}
