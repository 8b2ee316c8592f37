/*
 * The one error type. A function that can fail takes a `struct err *` last and returns
 * 0, or fills it and returns -1. The class tells the caller what to do next; the text
 * says what failed and why, the remedy what a person can do. No allocation, no
 * thread-local state: an error can be copied and handed to another thread.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>

enum err_class {
	ERR_NONE,
	/* Not failures of the work; the caller branches on them. */
	ERR_BUSY,         /* somebody else has it: later, and no retry is counted */
	ERR_LOST,         /* what we held is no longer ours: stop the work it protected */
	ERR_CANCELED,     /* we were asked to stop: leave quietly */
	ERR_LOCK_TIMEOUT, /* somebody else held the lease for as long as we would wait */
	ERR_LOCK_UNAVAILABLE, /* what keeps the leases is away, or refuses */
	/* Failures, named as users see them. */
	ERR_AUTH,     /* credentials refused: tell a person */
	ERR_NETWORK,  /* peer unreachable or connection broken: back off */
	ERR_TIMEOUT,  /* a deadline passed: back off */
	ERR_MISSING,  /* what was asked for does not exist */
	ERR_CORRUPT,  /* data is damaged: tell a person, never overwrite with it */
	ERR_CONFLICT, /* somebody changed it meanwhile, or holds a lock: look again */
	ERR_DISK,     /* full, read-only or broken: back off, tell a person */
	ERR_CONFIG,   /* wrong input, rights or set-up: tell a person */
	ERR_INTERNAL, /* our own bug, or a limit of this machine */
};

/* What exactly happened, where something is decided by it: a text is for people, and may
 * be reworded. Stored in rows by its name, which therefore never changes. A class alone
 * is enough for most errors; then there is no reason. */
enum err_reason {
	REASON_NONE,
	REASON_UNKNOWN,    /* of a name that this version does not know */
	REASON_WRONG_NAME, /* a blob: its content has another digest than its id says */
	REASON_DAMAGED,    /* a blob: other content, although nobody wrote to it */
	REASON_LOCAL_REPOSITORY, /* what is to be pushed cannot be read here */
	REASON_SILENT,           /* a child or its peer said nothing for too long */
	REASON_NOT_OUR_REF,      /* git: the source no longer offers what was asked for */
	REASON_CLOSED, /* the repository's own settings, or its state, keep clients out */
	REASON_FORMAT, /* a repository in a form that this version cannot read */
	REASON_LOST_OBJECT, /* a ref names an object that is not there: damage for sure */
	REASON_AT_PEER, /* the other site says so of what it has; nothing is wrong here */
	REASON_RATE_LIMITED, /* the other side wants to be asked less often */
	REASON_GONE,         /* an upstream: it has no such repository, whoever asks */
	REASON_HIDDEN,       /* ... for the one credential that was shown */
	REASON_REFUSED,      /* ... the credential, or that there is none */
	REASON_MOVED,        /* ... it redirects elsewhere */
	REASON_TOO_SLOW,     /* ... what it sends takes longer than it may */
	REASON_TOO_LARGE,    /* ... or is more than it may be */
	REASON_REWRITTEN,    /* ... a branch of it does not descend from what it was */
	REASON_LOCK_TIMEOUT, /* as the classes of these names */
	REASON_LOCK_UNAVAILABLE,
	REASON_LOCK_LOST, /* the lease ended before the work */
	REASONS,
};

struct err {
	enum err_class class;
	enum err_reason reason;
	int sys_errno;    /* of the system call that failed, else 0 */
	char text[512];   /* one sentence, no newline */
	char remedy[256]; /* what to do, or "" */
};

/* For calls whose failure changes nothing for the caller. */
#define ERR_IGNORED (&(struct err){ 0 })

/* The result decides whether data is safe: it may not be thrown away. */
#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

/* The names of all classes of errors, ERR_BUSY and above; ends in NULL. */
extern const char *const *const err_class_names;

/* Fills *err (no remedy) and returns -1, so that a function can end in it. */
PRINTF_LIKE(3, 4)
int err_set(struct err *err, enum err_class class, const char *fmt, ...);

/* Reports the system call that has just failed, "<text>: <meaning of errno>", with the
 * class and remedy that errno stands for. Returns -1. */
PRINTF_LIKE(2, 3) int err_errno(struct err *err, const char *fmt, ...);

/* Adds what a person can do about *err. Returns -1. */
PRINTF_LIKE(2, 3) int err_remedy(struct err *err, const char *fmt, ...);

/* Says what exactly happened; kept by err_remedy() and err_prefix(). Returns -1. */
int err_because(struct err *err, enum err_reason reason);

/* Puts "<text>: " before the text of *err: who knows the noun adds it. Returns -1. */
PRINTF_LIKE(2, 3) int err_prefix(struct err *err, const char *fmt, ...);

/* The name that users see ("network"); "none" for ERR_NONE. Static. */
const char *err_class_name(enum err_class class);

/* The code of an answer over HTTP that has this class ("LOCK_TIMEOUT"). */
#define ERR_CODE_SIZE 32
void err_class_code(enum err_class class, char code[ERR_CODE_SIZE]);

/* The class of that name; ERR_INTERNAL if there is none. */
enum err_class err_class_of_name(const char *name);

/* The name that is stored and shown ("wrong_name"); NULL for REASON_NONE. Static. */
const char *err_reason_name(enum err_reason reason);

/* The reason of that name; REASON_NONE for NULL or "", REASON_UNKNOWN if there is none.
 */
enum err_reason err_reason_of_name(const char *name);

/* Whether the work was not begun, or is not counted, since others have the lease, or it
 * was taken away, or a stop was asked for: it is due again, and nothing has failed. */
bool err_is_deferral(enum err_class class);

/* Whether the same work may succeed later without a person doing anything. */
bool err_is_transient(enum err_class class);

#endif
