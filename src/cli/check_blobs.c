#include "blob/file.h"
#include "cli/check.h"
#include "upkeep/copies_root.h"

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

void check_copied_blobs(struct checking *checking, struct store *store)
{
	struct blob_kinds kinds = { 0 };
	struct err err;

	if (blob_kinds_read(checking->conf, &kinds, &err) == 0)
		for (size_t i = 0; i < kinds.items.count; i++)
			if (copies_root_judge_blobs(store, &kinds.items.items[i], &err) !=
			    0)
				check_tell(checking, CHECK_WRONG, "copies", &err);
	blob_kinds_clear(&kinds);
}
