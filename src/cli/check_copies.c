/*
 * A look at each copy, as the node takes one when it starts; and at a primary at each
 * repository.
 */
#include "change/hook_socket.h"
#include "cli/check.h"
#include "pull/glance.h"
#include "store/data_lock.h"
#include "upkeep/copies_root.h"
#include "verify/verify_origin.h"

#define WAKE_MS 1000

static int check_copies_check_root(const struct checking *checking, struct store *store,
				   const struct blob_kind *kind, struct err *err)
{
	return kind ? copies_root_judge_blobs(store, kind, err)
		    : copies_root_judge(store, checking->site.repositories, err);
}

static void tell_doubted(struct checking *checking, const struct blob_kind *kind,
			 const struct glance_result *result)
{
	bool is_running = data_lock_is_held(checking->site.data);
	struct err err;

	err_set(&err, ERR_CORRUPT,
		"%" PRIu64 " of %" PRIu64
		" copies of %s%s are not as they were left, for instance %.100s: %.300s",
		result->doubted, result->looked, kind ? "blobs of type " : "repositories",
		kind ? kind->type : "", result->example, result->why.text);
	err_remedy(&err, is_running ? "nothing: they are looked through and mended now"
				    : "start the node: it looks through them and mends "
				      "them");
	check_tell(checking, CHECK_WRONG, "copies", &err);
	if (is_running)
		hook_socket_tell(checking->site.data, "wake", WAKE_MS, NULL, 0,
				 ERR_IGNORED);
}

void check_copies(struct checking *checking, struct store *store,
		  const struct blob_kind *kind)
{
	const struct glance_request request = { .store = store,
						.root = checking->site.repositories,
						.kind = kind };
	struct glance_result result = { 0 };
	struct err err;

	if (check_copies_check_root(checking, store, kind, &err) != 0)
		check_tell(checking, CHECK_WRONG, "copies", &err);
	else if (access(kind ? kind->path : request.root, F_OK) != 0)
		return; /* nothing was copied yet */
	else if (glance_all(&request, &result, &err) != 0)
		check_tell(checking, CHECK_WRONG, "copies", &err);
	if (result.doubted > 0)
		tell_doubted(checking, kind, &result);
	else if (result.looked > 0)
		check_tell_good(checking, "copies",
				"%" PRIu64 " %s%sas they were left, by a look at each",
				result.looked, kind ? kind->type : "repositories",
				kind ? ": " : " are ");
	free(result.example);
}

static void check_copies_report_broken(struct checking *checking,
				       const struct verify_glances *glances)
{
	struct err err;

	err_set(&err, ERR_CORRUPT,
		"%" PRIu64 " of %" PRIu64
		" repositories lack objects that their refs name, for instance %.100s: "
		"%.300s",
		glances->broken, glances->looked, glances->example, glances->why.text);
	err_remedy(&err, "restore it; a secondary may have what it lacks");
	check_tell(checking, CHECK_WRONG, "repositories", &err);
	hook_socket_tell(checking->site.data, "wake", WAKE_MS, NULL, 0, ERR_IGNORED);
}

void check_originals(struct checking *checking, struct store *store)
{
	const char *root = checking->site.repositories;
	struct verify_glances glances;
	struct err err;

	if (access(root, F_OK) != 0)
		return; /* said before */
	if (verify_origin_glance_all(store, root, &glances, &err) != 0)
		check_tell(checking, CHECK_WRONG, "repositories", &err);
	if (glances.broken > 0)
		check_copies_report_broken(checking, &glances);
	else if (glances.looked > 0)
		check_tell_good(checking, "repositories",
				"%" PRIu64
				" have what their refs name, by a look at each",
				glances.looked);
	free(glances.example);
}
