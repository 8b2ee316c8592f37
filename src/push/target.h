/*
 * What is done to repositories at destinations besides pushing: made, given another HEAD,
 * deleted. Local paths directly; by ssh one line for the shell there, quoted; Gerrit
 * servers by their own commands (gerrit+ssh) or REST (gerrit+http). git:// and http(s)://
 * have no way: ERR_CONFIG, whose remedy says so. Uses the destination's adminUrls where
 * there are.
 */
#ifndef PUSH_TARGET_H
#define PUSH_TARGET_H

#include "base/base.h"
#include "git/git_child.h"
#include "push/destination.h"

struct target_call {
	const struct push_settings *settings;
	const struct destination *destination;
	const char *directory; /* for temporary files: site.data/tmp */
	const struct git_work *work;
};

/* Makes the missing repository, bare, with this HEAD ("refs/heads/main"). One that is
 * there already is fine. */
int target_create(const struct target_call *call, const char *head, size_t oid_len,
		  struct err *err);

/* Makes HEAD a symbolic ref to `head`. ERR_MISSING: no such repository there. */
int target_set_head(const struct target_call *call, const char *head, struct err *err);

/* Deletes it; at local paths it goes to a trash beside the first directory of the
 * template (upkeep/trash.h has the form), for TRASH_KEEP_MS. What is no repository is not
 * touched. ERR_MISSING: no such repository there. */
int target_delete(const struct target_call *call, struct err *err);

/* Whether a Gerrit that the remote has a gerrit+http adminUrl of has no such project. By
 * HTTP it answers a push to one that is missing as it does to one that is forbidden. */
bool target_lacks(const struct target_call *call);

/* Whether any of it can be done there, for one of destination_admin(). */
bool target_has_way(const struct destination *destination);

/* The value for GIT_SSH_COMMAND with this remote's options; the caller frees. */
char *target_ssh_command(const struct push_settings *settings,
			 const struct push_remote *remote);

#endif
