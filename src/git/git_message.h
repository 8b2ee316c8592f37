/*
 * Error messages of other programs: git, ssh, commands behind ssh, Gerrit. Their
 * sentences are compared only here. Pure; any thread.
 *
 * Source: the records of tests/messages, and in git transport.c, send-pack.c,
 * builtin/receive-pack.c; Gerrit's DispatchCommand and commands.
 */
#ifndef GIT_GIT_MESSAGE_H
#define GIT_GIT_MESSAGE_H

#include "base/base.h"
#include "base/str.h"
#include "git/oid.h"

/* The same words mean different things from a source and from a destination. */
enum git_speaker {
	SPEAKER_GIT = 1 << 0,     /* git that works here, or reads from another site */
	SPEAKER_PUSH = 1 << 1,    /* `git push`, or a query of its destination */
	SPEAKER_PACK = 1 << 2,    /* the part of `git push` that reads objects here */
	SPEAKER_SSH = 1 << 3,     /* ssh itself */
	SPEAKER_COMMAND = 1 << 4, /* a command that ssh runs at the other end */
	SPEAKER_GERRIT = 1 << 5,  /* a Gerrit command: conflict is "it exists", config
				     "unknown command" */
	SPEAKER_SITE = 1 << 6, /* as SPEAKER_GIT, but the other side is a refrelay site,
				  which may report an error of its own */
};

/* Fills *err from the end of a stderr: "git: " and the line, class, remedy, reason, and
 * as sys_errno what git met, where that decides (EIO, or what this machine lacks). Of
 * several messages the cause counts, not its consequences. False, and *err as it was:
 * unknown messages only. */
bool git_message_find(enum git_speaker speaker, const char *tail, struct err *err);

/* The same, but keeps the text. */
bool git_message_judge(enum git_speaker speaker, const char *tail, struct err *err);

/* For a push that failed with unknown messages: reports the first line, if git's own last
 * sentence follows, which is always the same. False, and *err as it was: it does not. */
bool git_message_guess(const char *tail, struct err *err);

/* Why a single ref was refused. */
enum git_refusal {
	REFUSAL_OTHER,
	REFUSAL_STALE,     /* the lease does not hold: not the expected value */
	REFUSAL_LOCKED,    /* ... or cannot be written for another reason */
	REFUSAL_CHANGED,   /* meanwhile */
	REFUSAL_UNPACKING, /* the pack did not arrive whole, or an object in it is not
			      wanted: not the fault of each ref */
	REFUSAL_TOGETHER,  /* a hook refused all refs of the push, perhaps for one's sake
			    */
	REFUSAL_PASSING,   /* a temporary failure of the other side */
	REFUSAL_NO_FORCE,  /* only possible by force, or not even so */
	REFUSAL_NO_DELETION,
	REFUSAL_DELETES_HEAD, /* the branch that HEAD names there */
};
enum git_refusal git_message_refusal(const char *reason);

/* Whether git here refused it, before sending anything; `summary` as in its porcelain. */
bool git_message_is_refused_here(const char *summary);

/* Whether `ref` conflicts with a directory of refs, or with a ref where it needs a
 * directory: the reason given for the ref only says that it failed. */
bool git_message_is_in_the_way(const char *tail, const char *ref);

/* Whether the pack was refused for what is in it, by checks that the destination has set:
 * it will be refused again. */
bool git_message_is_unwanted(const char *tail);

/* Whether the answer to a shell command is from Gerrit, which accepts only its own
 * commands. */
bool git_message_is_gerrit(const char *tail);

/* Appends the other side's words, without progress, in one line. */
void git_message_add_words(const char *tail, struct str *out);

/* Appends the last line that is not empty. */
void git_message_add_last(const char *tail, struct str *out);

/* How many bytes a push sent; 0: not given. */
uint64_t git_message_sent(const char *tail);

/* Whether upload-pack refuses an object in its answer to a client, read from the first
 * packet on; *oid is that object. */
bool git_message_refused_object(const char *said, size_t oid_len, struct oid *oid);

/* Whether upload-pack died of what its client sent, and not of what it read here. Fills
 * *err: ERR_CONFIG, and the line. False, and *err as it was: it did not, or that cannot
 * be told. */
bool git_message_blames_client(const char *tail, struct err *err);
/* Whether that error is about a word which another version of git may know. */
bool git_message_may_be_version(const struct err *err);

/* How one site reports an error to another's git, as text of a packet "ERR": it carries
 * the class, so that git_message_find() restores it from a SPEAKER_SITE, with
 * REASON_AT_PEER. Only what is wrong with the other site's repository is reported so. */
bool git_reported_may_be(enum err_class class);
void git_reported_render(const struct err *err, struct str *out);

#endif
