/*
 * The configuration reader: git-config syntax as git reads it (config.c of git 2.45),
 * with include.path. Sections and keys ignore case, subsections do not; every entry
 * remembers its file and line, and every error begins with them.
 * A configuration does not change once it is loaded; any thread may then read it.
 */
#ifndef BASE_CONF_H
#define BASE_CONF_H

#include "base/base.h"
#include "base/str.h"

struct conf;

struct conf_entry {
	char *section, *key; /* spelt as in the file */
	char *subsection;    /* NULL: none */
	char *value;         /* NULL: a key without "=", which means true */
	const char *file;    /* static as long as the configuration; NULL: a default */
	unsigned line;       /* where the key stands */
};

/* [section "subsection"], where it stands. */
struct conf_header {
	char *section, *subsection;
	const char *file; /* static as long as the configuration */
	unsigned line;
	bool has_keys; /* below this very header */
};

struct conf_list {
	const struct conf_entry **items;
	size_t count;
	size_t capacity;
};

struct conf_names {
	const char **items;
	size_t count;
	size_t capacity;
};

#define AUTO_CONF __attribute__((cleanup(conf_auto_free))) /* struct conf *, or NULL */

/* Reads a file and its includes; the caller frees *conf. ERR_MISSING: the file itself
 * (not an included one) does not exist; ERR_CONFIG: everything else. */
int conf_load(const char *path, struct conf **conf, struct err *err);

/* Reads text, in which include.path and the like are ordinary entries; `name` stands for
 * the file in errors. */
int conf_load_text(const char *name, const char *text, size_t len, struct conf **conf,
		   struct err *err);
void conf_free(struct conf *conf);
void conf_auto_free(struct conf *const *conf);

/* Every entry, in the order read. Borrowed from the configuration. */
const struct conf_list *conf_entries(const struct conf *conf);

/* The last entry of this name, which counts, or NULL. Subsection NULL: none. */
const struct conf_entry *conf_get(const struct conf *conf, const char *section,
				  const char *subsection, const char *key);

/* All entries of this name in order, for keys that may be given several times; never
 * NULL. */
const struct conf_list *conf_get_all(const struct conf *conf, const char *section,
				     const char *subsection, const char *key);

/* Adds an entry of no file, line 0. It must not be one that is there. */
void conf_add_default(struct conf *conf, const char *section, const char *subsection,
		      const char *key, const char *value);

/* Appends the subsections of a section, each once, in order. As in git, one without
 * any key does not exist. The names are borrowed; the caller clears the array. */
void conf_subsections(const struct conf *conf, const char *section,
		      struct conf_names *names);

/* The next header, from *at on (0: the first), of a subsection that has no key anywhere;
 * NULL: there are no more. */
const struct conf_header *conf_next_empty(const struct conf *conf, size_t *at);

/* Fills *err (ERR_CONFIG) with "<file>:<line>: <section.key>: <text>"; returns -1. For
 * owners of a section with an invalid value. */
PRINTF_LIKE(3, 4)
int conf_error(const struct conf_entry *entry, struct err *err, const char *fmt, ...);

/* Puts the same in front of an error reported by another function about the value; its
 * remedy is kept. */
int conf_prefix(const struct conf_entry *entry, struct err *err);

/*
 * Values without a row in a table (base/setting.h). All leave *value as it is when entry
 * is NULL, so that the caller sets the default first. An invalid value is ERR_CONFIG, and
 * the text says which are accepted.
 */
enum conf_unit {
	CONF_MILLISECOND = 1,
	CONF_SECOND = 1000,
	CONF_MINUTE = 60 * CONF_SECOND,
	CONF_HOUR = 60 * CONF_MINUTE,
	CONF_DAY = 24 * CONF_HOUR,
};

/* Borrowed from the configuration. A key without "=" is an error. */
int conf_read_text(const struct conf_entry *entry, const char **value, struct err *err);

/* Git's words: true yes on 1, false no off 0 or empty after "=". */
int conf_read_bool(const struct conf_entry *entry, bool *value, struct err *err);

/* A decimal number within min..max. */
int conf_read_uint(const struct conf_entry *entry, uint64_t min, uint64_t max,
		   uint64_t *value, struct err *err);

/* A number of bytes; the suffixes k, m and g multiply by powers of 1024. */
int conf_read_size(const struct conf_entry *entry, uint64_t *value, struct err *err);

/* Milliseconds, from a number and ms, s, m, h or d; a bare number counts `bare`. */
int conf_read_duration(const struct conf_entry *entry, enum conf_unit bare,
		       int64_t *value_ms, struct err *err);

/* 0.0 to 1.0, from "5%" or "0.2%". */
int conf_read_share(const struct conf_entry *entry, double *value, struct err *err);

/* The index of the value, in any case, in a list of words that ends in NULL. */
int conf_read_choice(const struct conf_entry *entry, const char *const *words,
		     size_t *value, struct err *err);

/* Appends "section.subsection.key". */
void conf_render_name(const struct conf_entry *entry, struct str *out);

/* Appends the value with secrets masked: all of it if the key ends in password, token or
 * secret; otherwise the parts that log_redact masks. */
void conf_render_value(const struct conf_entry *entry, struct str *out);

/* Appends every entry in order, one line "name=value" each. Values that are not one plain
 * line are quoted as in the file. */
void conf_render(const struct conf *conf, struct str *out);

#endif
