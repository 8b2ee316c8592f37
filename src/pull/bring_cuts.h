/*
 * Objects of a history that is cut short, was, or will be; for pull/bring.c. Once they
 * are here it is known where the copy's history will be cut: of a mirror by what its
 * upstream made of the depth; of a copy by what its primary says.
 */
#ifndef PULL_BRING_CUTS_H
#define PULL_BRING_CUTS_H

#include "pull/bring.h"

struct bring_cuts {
	const struct bring_request *request; /* its view gets the cuts */
	const struct ref_snapshot *from;     /* the copy's refs and cuts */
	const struct ref_diff *diff;         /* from there to the view's */
	bool is_ours, is_sure; /* nobody else has changed its refs, its disk */
};

/* Whether that is so; else none of these is for it. */
bool bring_cuts_are_any(const struct bring_request *request,
			const struct ref_snapshot *from);

/* Complete and durable, up to the view's cuts, when it returns 0. */
int bring_cuts(const struct bring_cuts *cuts, struct sync_result *result,
	       struct err *err);

/* The file with old and new cuts, so that no walk ends where parents are missing: as
 * repo.shallow_file; NULL: nothing is cut. The caller frees. */
int bring_cuts_for_both(const struct bring_request *request,
			const struct ref_snapshot *from, char **file, struct err *err);

/* Removes what was laid down for it, also by those who died. */
void bring_cuts_clear(const struct bring_request *request);

#endif
