#include "blob/file.h"
#include "change/blob_notice.h"
#include "change/scan_record.h"
#include "cli/check.h"
#include "store/data_lock.h"

static int try_kind(const struct checking *checking, const struct blob_kind *kind,
		    struct err *err)
{
	bool writes = checking->site.role == SITE_SECONDARY;
	AUTO_CLOSE int root = blob_root_open(kind, err);

	if (root < 0)
		return -1;
	if (access(kind->path, R_OK | X_OK | (writes ? W_OK : 0)) == 0)
		return 0;
	return err_errno(err, "blobs of type %s: %s cannot be %s", kind->type, kind->path,
			 writes ? "written" : "read");
}

static void check_kind(struct checking *checking, const struct blob_kind *kind)
{
	struct err err;

	if (try_kind(checking, kind, &err) != 0) {
		check_tell(checking, CHECK_WRONG, "blobs", &err);
		return;
	}
	check_tell_good(checking, "blobs", "of type %s: %s can be %s", kind->type,
			kind->path,
			checking->site.role == SITE_SECONDARY ? "written" : "read");
	check_room(checking, "blobs", kind->path);
}

struct reading {
	const struct blob_kind *kind;
	struct scan_record scan;
};

static int read_scan(struct store_tx *tx, void *arg, struct err *err)
{
	struct reading *reading = arg;

	return scan_record_read_blobs(tx, reading->kind->type, &reading->scan, err);
}

/* As of repositories: what the node said last is true only while it runs. A directory
 * that cannot be opened was told before. */
static void check_scan(struct checking *checking, struct store *store,
		       const struct blob_kind *kind)
{
	struct reading reading = { .kind = kind };
	AUTO_CLOSE int root = blob_root_open(kind, ERR_IGNORED);
	struct err err;

	if (root < 0)
		return;
	if (blob_notice_judge_root(store, kind, &err) != 0 ||
	    store_read(store, read_scan, &reading, &err) != 0)
		check_tell(checking, CHECK_WRONG, "blobs", &err);
	else if (reading.scan.failing_since > 0 && data_lock_is_held(checking->site.data))
		check_tell(checking, CHECK_WRONG, "blobs", &reading.scan.failure);
}

void check_blob_scans(struct checking *checking, struct store *store)
{
	AUTO_BLOB_KINDS struct blob_kinds kinds = { 0 };

	if (blob_kinds_read(checking->conf, &kinds, ERR_IGNORED) != 0)
		return; /* said before */
	for (size_t i = 0; i < kinds.items.count; i++)
		check_scan(checking, store, &kinds.items.items[i]);
}

void check_blobs(struct checking *checking)
{
	struct blob_kinds kinds = { 0 };
	struct err err;

	/* what is wrong with the sections was said before */
	if (blob_kinds_read(checking->conf, &kinds, &err) == 0)
		for (size_t i = 0; i < kinds.items.count; i++)
			check_kind(checking, &kinds.items.items[i]);
	blob_kinds_clear(&kinds);
}
