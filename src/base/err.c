#include "base/err.h"

#include <stdarg.h>

#include "base/base.h"

enum { CLASSES = ERR_INTERNAL + 1 };

static const char *const names[] = {
	[ERR_NONE] = "none",
	[ERR_BUSY] = "busy",
	[ERR_LOST] = "lost",
	[ERR_CANCELED] = "canceled",
	[ERR_AUTH] = "auth",
	[ERR_NETWORK] = "network",
	[ERR_TIMEOUT] = "timeout",
	[ERR_MISSING] = "missing",
	[ERR_CORRUPT] = "corrupt",
	[ERR_CONFLICT] = "conflict",
	[ERR_DISK] = "disk",
	[ERR_CONFIG] = "config",
	[ERR_INTERNAL] = "internal",
	[ERR_LOCK_TIMEOUT] = "lock_timeout",
	[ERR_LOCK_UNAVAILABLE] = "lock_unavailable",
	[CLASSES] = NULL,
};

const char *const *const err_class_names = names + 1;

static const char *const reasons[] = {
	[REASON_NONE] = NULL,
	[REASON_UNKNOWN] = "unknown",
	[REASON_WRONG_NAME] = "wrong_name",
	[REASON_DAMAGED] = "damaged",
	[REASON_LOCAL_REPOSITORY] = "local_repository",
	[REASON_SILENT] = "silent",
	[REASON_NOT_OUR_REF] = "not_our_ref",
	[REASON_CLOSED] = "closed",
	[REASON_FORMAT] = "format_unsupported",
	[REASON_LOST_OBJECT] = "lost_object",
	[REASON_AT_PEER] = "at_peer",
	[REASON_RATE_LIMITED] = "rate_limited",
	[REASON_GONE] = "gone",
	[REASON_HIDDEN] = "hidden",
	[REASON_REFUSED] = "refused",
	[REASON_MOVED] = "moved",
	[REASON_TOO_SLOW] = "too_slow",
	[REASON_TOO_LARGE] = "too_large",
	[REASON_REWRITTEN] = "rewritten",
	[REASON_LOCK_TIMEOUT] = "lock_timeout",
	[REASON_LOCK_UNAVAILABLE] = "lock_unavailable",
	[REASON_LOCK_LOST] = "lock_lost",
	[REASON_WANTED] = "wanted",
	[REASON_NO_WAY] = "no_way",
	[REASON_ELSEWHERE] = "elsewhere",
	[REASON_HERE] = "here",
};

static enum err_class class_of_errno(int code)
{
	switch (code) {
	case ENOENT:
	case ENOTDIR:
		return ERR_MISSING;
	case EACCES:
	case EPERM:
	case EINVAL:
	case ENAMETOOLONG:
	case EISDIR:
	case ELOOP:
	case EXDEV:
		return ERR_CONFIG;
	case EEXIST:
	case ENOTEMPTY:
	case EBUSY:
	case ETXTBSY:
		return ERR_CONFLICT;
	case ENOSPC:
	case EDQUOT:
	case EROFS:
	case EIO:
	case EFBIG:
	case ESTALE:
		return ERR_DISK;
	case ETIMEDOUT:
		return ERR_TIMEOUT;
	case ECONNREFUSED:
	case ECONNRESET:
	case ECONNABORTED:
	case EHOSTUNREACH:
	case EHOSTDOWN:
	case ENETUNREACH:
	case ENETDOWN:
	case ENETRESET:
	case ENOTCONN:
	case EPIPE:
		return ERR_NETWORK;
	case ECANCELED:
		return ERR_CANCELED;
	default:
		return ERR_INTERNAL;
	}
}

static const char *remedy_of_errno(int code)
{
	switch (code) {
	case EACCES:
	case EPERM:
		return "check the owner and the mode of the file and of the directories "
		       "above it";
	case ENOSPC:
	case EDQUOT:
		return "free some space on that file system; the work goes on by itself "
		       "at the next try";
	case EFBIG:
		return "raise the limit of file sizes (ulimit -f)";
	case EROFS:
		return "mount that file system for writing";
	case EXDEV:
		return "mount the file system on the directory that is configured, not "
		       "on a folder below it";
	case EMFILE:
	case ENFILE:
		return "raise the limit of open files (ulimit -n, or LimitNOFILE= in the "
		       "unit)";
	case EIO:
		return "look at the kernel's log: the disk or its file system has errors";
	default:
		return "";
	}
}

/* Formats aside first, since the arguments may be texts of *err itself. */
int err_set(struct err *err, enum err_class class, const char *fmt, ...)
{
	char text[sizeof(err->text)];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	*err = (struct err){ .class = class };
	memcpy(err->text, text, strlen(text) + 1);
	return -1;
}

int err_errno(struct err *err, const char *fmt, ...)
{
	int code = errno;
	char what[384];
	va_list args;

	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	errno = code;
	snprintf(err->text, sizeof(err->text), "%s: %m", what);
	snprintf(err->remedy, sizeof(err->remedy), "%s", remedy_of_errno(code));
	err->class = class_of_errno(code);
	err->reason = REASON_NONE;
	err->sys_errno = code;
	return -1;
}

int err_remedy(struct err *err, const char *fmt, ...)
{
	char remedy[sizeof(err->remedy)];
	va_list args;

	va_start(args, fmt);
	vsnprintf(remedy, sizeof(remedy), fmt, args);
	va_end(args);
	memcpy(err->remedy, remedy, strlen(remedy) + 1);
	return -1;
}

int err_because(struct err *err, enum err_reason reason)
{
	err->reason = reason;
	return -1;
}

int err_prefix(struct err *err, const char *fmt, ...)
{
	char text[sizeof(err->text)];
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (len <= 0)
		return -1; /* an empty name: what is said of it stays */
	if ((size_t)len < sizeof(text))
		snprintf(text + len, sizeof(text) - (size_t)len, ": %s", err->text);
	memcpy(err->text, text, strlen(text) + 1);
	return -1;
}

const char *err_class_name(enum err_class class)
{
	return names[class];
}

void err_class_code(enum err_class class, char code[ERR_CODE_SIZE])
{
	size_t i = 0;

	for (const char *c = err_class_name(class); *c && i < ERR_CODE_SIZE - 1; c++)
		code[i++] = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
	code[i] = '\0';
}

enum err_class err_class_of_name(const char *name)
{
	for (size_t i = 0; i < CLASSES; i++)
		if (strcmp(names[i], name) == 0)
			return (enum err_class)i;
	return ERR_INTERNAL;
}

const char *err_reason_name(enum err_reason reason)
{
	return reasons[reason];
}

enum err_reason err_reason_of_name(const char *name)
{
	if (!name || !name[0])
		return REASON_NONE;
	for (size_t i = REASON_UNKNOWN; i < ARRAY_SIZE(reasons); i++)
		if (strcmp(reasons[i], name) == 0)
			return (enum err_reason)i;
	return REASON_UNKNOWN;
}

bool err_is_deferral(enum err_class class)
{
	return class == ERR_BUSY || class == ERR_LOST || class == ERR_CANCELED ||
	       class == ERR_LOCK_TIMEOUT || class == ERR_LOCK_UNAVAILABLE;
}

bool err_is_transient(enum err_class class)
{
	return class == ERR_LOCK_TIMEOUT || class == ERR_LOCK_UNAVAILABLE ||
	       class == ERR_BUSY || class == ERR_LOST || class == ERR_NETWORK ||
	       class == ERR_TIMEOUT || class == ERR_CONFLICT || class == ERR_DISK;
}

/* ENOTCONN, ESTALE: a file system whose server is gone, or has a new one. EINTR, ENOEXEC:
 * a program was ended by somebody, or could not run (base/proc.c). */
static bool is_of_machine(int code)
{
	return code == EMFILE || code == ENFILE || code == ENOMEM || code == EAGAIN ||
	       code == ENOLCK || code == ENOTCONN || code == ESTALE || code == EINTR ||
	       code == ENOEXEC;
}

bool err_is_of_data(const struct err *err)
{
	if (is_of_machine(err->sys_errno))
		return false;
	switch (err->class) {
	case ERR_CORRUPT:
	case ERR_MISSING:
	case ERR_CONFIG:
	case ERR_INTERNAL:
		return true;
	case ERR_NETWORK: /* git, of a file that ends too early; with a code, the file's
			   * server is away */
		return err->sys_errno == 0;
	case ERR_DISK:
		return err->sys_errno == EIO;
	default:
		return false;
	}
}
