/*
 * The one error type. A function that can fail takes a `struct err *` last and returns 0,
 * or fills it and returns -1. The class tells the caller what to do next; the text says
 * what failed and why, the remedy what a person can do. No allocation, no thread-local
 * state: an error can be copied and passed to another thread.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>

enum err_class {
	ERR_NONE,
	/* Not failures of the work; the caller branches on them. */
	ERR_BUSY,             /* held by another: later, without counting a retry */
	ERR_LOST,             /* our lease or lock is no longer ours: stop the work */
	ERR_CANCELED,         /* we were asked to stop: leave quietly */
	ERR_LOCK_TIMEOUT,     /* another held the lease for as long as we would wait */
	ERR_LOCK_UNAVAILABLE, /* the lease store is away, or refuses */
	/* Failures, named as users see them. */
	ERR_AUTH,     /* credentials refused: tell a person */
	ERR_NETWORK,  /* peer unreachable or connection broken: back off */
	ERR_TIMEOUT,  /* a deadline passed: back off */
	ERR_MISSING,  /* the requested thing does not exist */
	ERR_CORRUPT,  /* data is damaged: tell a person, never overwrite with it */
	ERR_CONFLICT, /* it was changed meanwhile, or is locked: look again */
	ERR_DISK,     /* full, read-only or broken: back off, tell a person */
	ERR_CONFIG,   /* wrong input, rights or set-up: tell a person */
	ERR_INTERNAL, /* our own bug, or a limit of this machine */
};

/* The exact cause, where a decision depends on it: the text is for people, and may be
 * reworded. Stored in rows by its name, which therefore never changes. For most errors
 * the class is enough; they have no reason. */
enum err_reason {
	REASON_NONE,
	REASON_UNKNOWN,          /* a name unknown to this version */
	REASON_WRONG_NAME,       /* a blob: its digest differs from its id's */
	REASON_DAMAGED,          /* a blob: content changed without a write */
	REASON_LOCAL_REPOSITORY, /* the refs or objects to push cannot be read here */
	REASON_SILENT,           /* a child or its peer was silent for too long */
	REASON_NOT_OUR_REF,      /* git: the source no longer offers a wanted object */
	REASON_CLOSED,       /* the repository's own settings or state keep clients out */
	REASON_FORMAT,       /* a repository in a form that this version cannot read */
	REASON_LOST_OBJECT,  /* a ref names a missing object: certainly damage */
	REASON_AT_PEER,      /* the other site reports it of its data; no fault here */
	REASON_RATE_LIMITED, /* the other side wants fewer requests */
	REASON_GONE,         /* an upstream: it has no such repository, for any client */
	REASON_HIDDEN,       /* ... for the credential we sent */
	REASON_REFUSED,      /* ... it refuses our credential, or wants one */
	REASON_MOVED,        /* ... it redirects elsewhere */
	REASON_TOO_SLOW,     /* ... its answer takes too long */
	REASON_TOO_LARGE,    /* ... or is too large */
	REASON_REWRITTEN,    /* ... a branch of it does not descend from its former tip */
	REASON_LOCK_TIMEOUT, /* as the classes of these names */
	REASON_LOCK_UNAVAILABLE,
	REASON_LOCK_LOST, /* the lease ended before the work */
	REASON_WANTED,    /* not to be removed: the primary has it */
	REASON_NO_WAY,    /* a destination: what is asked of it cannot be done there */
	REASON_ELSEWHERE, /* ... another host than its own could not be reached */
	REASON_HERE,      /* ... this node's own directory for it cannot be used */
	REASONS,
};

struct err {
	enum err_class class;
	enum err_reason reason;
	int sys_errno;    /* of the system call that failed, else 0 */
	char text[512];   /* one sentence, no newline */
	char remedy[256]; /* what to do, or "" */
};

/* For calls whose failure does not matter to the caller. */
#define ERR_IGNORED (&(struct err){ 0 })

/* The result decides whether data is safe: it must not be ignored. */
#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

/* The names of all classes of errors, ERR_BUSY and above; ends in NULL. */
extern const char *const *const err_class_names;

/* Fills *err (no remedy) and returns -1, so that a function can end in it. */
PRINTF_LIKE(3, 4)
int err_set(struct err *err, enum err_class class, const char *fmt, ...);

/* Reports the system call that has just failed, "<text>: <meaning of errno>", with the
 * class and remedy for errno. Returns -1. */
PRINTF_LIKE(2, 3) int err_errno(struct err *err, const char *fmt, ...);

/* Adds a remedy to *err for people. Returns -1. */
PRINTF_LIKE(2, 3) int err_remedy(struct err *err, const char *fmt, ...);

/* Sets the exact cause; kept by err_remedy() and err_prefix(). Returns -1. */
int err_because(struct err *err, enum err_reason reason);

/* Puts "<text>: " before the text of *err: the caller that knows the noun adds it.
 * Returns -1. */
PRINTF_LIKE(2, 3) int err_prefix(struct err *err, const char *fmt, ...);

/* The name that users see ("network"); "none" for ERR_NONE. Static. */
const char *err_class_name(enum err_class class);

/* The code for this class in an HTTP answer ("LOCK_TIMEOUT"). */
#define ERR_CODE_SIZE 32
void err_class_code(enum err_class class, char code[ERR_CODE_SIZE]);

/* The class of that name; ERR_INTERNAL if there is none. */
enum err_class err_class_of_name(const char *name);

/* The name that is stored and shown ("wrong_name"); NULL for REASON_NONE. Static. */
const char *err_reason_name(enum err_reason reason);

/* The reason of that name; REASON_NONE for NULL or "", REASON_UNKNOWN if there is none.
 */
enum err_reason err_reason_of_name(const char *name);

/* Whether the work was not begun, or is not counted, because the lease is held by another
 * or was lost, or a stop was requested: it is due again, and is not a failure. */
bool err_is_deferral(enum err_class class);

/* Whether the same work may succeed later without a person's action. */
bool err_is_transient(enum err_class class);

/* Whether an error, met while only the files of a repository or blob were read or
 * written, means that it is damaged: not if work was ended from outside, others were at
 * work, or this machine lacks space, memory, descriptors or the program. */
bool err_is_of_data(const struct err *err);

#endif
