/*
 * The log: one line an event on stderr, in logfmt or as a JSON object,
 *	ts level ev site job repo ref peer dur_ms bytes err code ...
 * or an entry of the journal with the same fields; log_context attaches what the thread
 * works on, never formatted by hand. Event names are listed in docs/events.md. Secrets in
 * values are masked here.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/base.h"
#include "base/str.h"

enum log_level {
	LOG_LEVEL_DEBUG,
	LOG_LEVEL_INFO,  /* a state changed */
	LOG_LEVEL_WARN,  /* retried by itself */
	LOG_LEVEL_ERROR, /* a person should look */
	LOG_LEVEL_NONE,  /* as a threshold: writes nothing */
};

struct log_field {
	const char *name; /* NULL ends a list */
	const char *text; /* NULL: the number counts */
	int64_t number;
};

#define LOG_TEXT(name, value) log_text_field(name, value)
#define LOG_NUMBER(name, value) ((struct log_field){ name, NULL, (int64_t)(value) })

static inline struct log_field log_text_field(const char *name, const char *text)
{
	return (struct log_field){ name, text ? text : "", 0 };
}

/* The fields err and code (the class) of an error. */
#define LOG_ERR(err)                                                                     \
	LOG_TEXT("err", (err)->text), LOG_TEXT("code", err_class_name((err)->class))

#define log_at(level, ev, ...)                                                           \
	log_write(level, ev,                                                             \
		  (const struct log_field[]){ __VA_ARGS__ __VA_OPT__(, ){ 0 } })
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warn(...) log_at(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)

/* Writes one line, fields in the order of the list above, others after them as given.
 * Safe from any thread; errno is kept. */
void log_write(enum log_level level, const char *ev, const struct log_field *fields);

/* What this thread works on; NULL members are left out. Borrowed until changed. */
struct log_context {
	const char *site, *job, *job_id, *repo, *ref, *peer;
};

/* Sets this thread's context and returns the one before, to be restored. */
struct log_context log_set_context(struct log_context context);

/* The least level that is written (default: info). */
void log_set_level(enum log_level level);

/* In the order of the words of log.format. */
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON, LOG_FORMAT_JOURNALD };

/* Default: text. Where stderr is the journal's (by JOURNAL_STREAM), lines of text and
 * JSON begin with their priority, "<4>", which the journal removes. */
void log_set_format(enum log_format format);

/* The socket for entries of LOG_FORMAT_JOURNALD; while it refuses them, they are written
 * as lines of text. For tests; before other threads start. Borrowed. */
void log_set_journal(const char *path);

/* Whether a line of that level would be written: for fields that are costly to
 * compute. */
bool log_is_on(enum log_level level);

/* Appends text with secrets masked: userinfo in URLs, credentials in headers, known
 * forms of tokens. Every text that leaves the program goes through it. */
void log_redact(const char *text, struct str *out);

#endif
