/*
 * What other programs say when something fails: git, ssh, what runs behind ssh, Gerrit.
 * Their sentences are compared here and nowhere else. Pure; any thread.
 *
 * Source: what tests/messages records, and in git transport.c, send-pack.c,
 * builtin/receive-pack.c; Gerrit's DispatchCommand and commands.
 */
#ifndef GIT_GIT_MESSAGE_H
#define GIT_GIT_MESSAGE_H

#include "base/base.h"
#include "base/str.h"
#include "git/oid.h"

/* The same words mean one thing of a source and another of a destination. */
enum git_speaker {
	SPEAKER_GIT = 1 << 0,     /* git that works here, or reads from another site */
	SPEAKER_PUSH = 1 << 1,    /* `git push`, or a look at where it goes */
	SPEAKER_PACK = 1 << 2,    /* the part of `git push` that reads objects here */
	SPEAKER_SSH = 1 << 3,     /* ssh itself */
	SPEAKER_COMMAND = 1 << 4, /* a command that ssh runs at the other end */
	SPEAKER_GERRIT = 1 << 5,  /* a command of Gerrit's: conflict is "it exists",
				   * config "it has no such command" */
};

/* Fills *err from the end of a stderr: "git: " and the line, class, remedy, reason. Of
 * what is said there the cause counts, not what follows from it. False, and *err as it
 * was: none of it is known. */
bool git_message_find(enum git_speaker speaker, const char *tail, struct err *err);

/* The same, but the text stays. */
bool git_message_judge(enum git_speaker speaker, const char *tail, struct err *err);

/* For a push that failed in words that nobody knows: what was said before git's own last
 * sentence, which is always the same. False, and *err as it was: that was not said. */
bool git_message_guess(const char *tail, struct err *err);

/* Why a single ref was refused. */
enum git_refusal {
	REFUSAL_OTHER,
	REFUSAL_STALE,   /* the lease does not hold: it has another value than expected */
	REFUSAL_LOCKED,  /* or it cannot be written for another reason */
	REFUSAL_CHANGED, /* meanwhile */
	REFUSAL_UNPACKING, /* the pack did not arrive whole: no ref's fault */
	REFUSAL_PASSING,   /* an accident of the other side's */
	REFUSAL_NO_FORCE,  /* it goes only by force, or not even so */
	REFUSAL_NO_DELETION,
};
enum git_refusal git_message_refusal(const char *reason);

/* Whether by git here, before anything was sent; `summary` as in its porcelain. */
bool git_message_is_refused_here(const char *summary);

/* Whether a directory of refs stands where `ref` is to be made, or behind: the reason
 * for the ref only says that it failed. */
bool git_message_is_in_the_way(const char *tail, const char *ref);

/* Whether it is a Gerrit that answers a command for the shell: it takes none but its
 * own. */
bool git_message_is_gerrit(const char *tail);

/* Appends what the other side said, its progress left out, in one line. */
void git_message_add_words(const char *tail, struct str *out);

/* Appends the last line that is not empty. */
void git_message_add_last(const char *tail, struct str *out);

/* How many bytes a push sent; 0: it does not say. */
uint64_t git_message_sent(const char *tail);

/* Whether upload-pack refuses an object in what it says to a client, from its first
 * packet on, and which. */
bool git_message_refused_object(const char *said, size_t oid_len, struct oid *oid);

/* What one site tells another's git of an error, as text of a packet "ERR": the class
 * comes through, so that git_message_find() gives it back, with REASON_AT_PEER. */
void git_reported_render(const struct err *err, struct str *out);

#endif
