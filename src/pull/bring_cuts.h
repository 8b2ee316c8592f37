/*
 * Brings objects of a history that is, was or will be cut short; for pull/bring.c. Once
 * they are here, the cuts of the copy's history are known: for a mirror, from how its
 * upstream applied the depth; for a copy, from what its primary says.
 */
#ifndef PULL_BRING_CUTS_H
#define PULL_BRING_CUTS_H

#include "pull/bring.h"

struct bring_cuts {
	const struct bring_request *request; /* its view gets the cuts */
	const struct ref_snapshot *from;     /* the copy's refs and cuts */
	const struct ref_diff *diff;         /* from there to the view's */
	bool is_ours, is_sure;               /* only we have changed its refs, its disk */
};

/* Whether there are cuts; if not, do not call the functions below. */
bool bring_cuts_are_any(const struct bring_request *request,
			const struct ref_snapshot *from);

/* Complete and durable, up to the view's cuts, when it returns 0. */
int bring_cuts(const struct bring_cuts *cuts, struct sync_result *result,
	       struct err *err);

/* Makes the file with old and new cuts, for use as repo.shallow_file, so that a walk does
 * not fail where parents are missing; NULL: nothing is cut. The caller frees. */
int bring_cuts_for_both(const struct bring_request *request,
			const struct ref_snapshot *from, char **file, struct err *err);

/* Removes the temporary files made for this, also those of dead processes. */
void bring_cuts_clear(const struct bring_request *request);

#endif
