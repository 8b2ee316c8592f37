/*
 * Operations on repositories at destinations besides pushing: create, set HEAD, delete.
 * Local paths directly; ssh by one quoted line for the shell there; Gerrit servers by
 * their own commands (gerrit+ssh) or REST (gerrit+http). git:// and http(s):// do not
 * support them: ERR_CONFIG, whose remedy says so. Uses the destination's adminUrls if it
 * has some.
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
	const char *data; /* site.data; NULL: nothing is noted */
};

/* Creates the missing repository, bare, with this HEAD ("refs/heads/main"). An existing
 * one is fine. Where it has several places, it is made at each that can be reached.
 * ERR_DISK: the file system that it belongs on is not mounted, as far as was
 * noted. */
int target_create(const struct target_call *call, const char *head, size_t oid_len,
		  struct err *err);

/* Call after a push: notes the fixed part of a local path. If that is missing or empty
 * later, nothing is created there. */
void target_note_pushed(const struct target_call *call);

/* Makes HEAD a symbolic ref to `head`. ERR_MISSING: the repository does not exist;
 * REASON_NO_WAY, as for the next: no other try will help. */
int target_set_head(const struct target_call *call, const char *head, struct err *err);

/* Deletes it; at local paths it is moved to a trash beside the first directory of the
 * template (format: upkeep/trash.h), for TRASH_KEEP_MS. Does not touch anything but
 * repositories. ERR_MISSING: the repository does not exist. */
int target_delete(const struct target_call *call, struct err *err);

/* Whether the Gerrit of the remote's gerrit+http adminUrl lacks the project. Over HTTP it
 * answers a push to a missing project like one to a forbidden project. */
bool target_lacks(const struct target_call *call);

/* Whether the destination, one of destination_admin(), supports any of these. */
bool target_has_way(const struct destination *destination);

/* The value for GIT_SSH_COMMAND with this remote's options; the caller frees. */
char *target_ssh_command(const struct push_settings *settings,
			 const struct push_remote *remote);

#endif
