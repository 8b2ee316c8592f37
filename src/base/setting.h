/*
 * The settings of a configuration: a row each, in tables beside the struct that a section
 * is read into. The rows control how a section is read, with defaults, bounds and errors,
 * and reveal unknown keys; a test compares refrelay.conf(5) with them. Several tables of
 * one section add up, and a section that occurs both with and without subsection has two.
 * Any thread.
 */
#ifndef BASE_SETTING_H
#define BASE_SETTING_H

#include "base/conf.h"

enum setting_type {
	SETTING_OWN,      /* by `read`; without one the owner's code reads it */
	SETTING_BOOL,     /* bool */
	SETTING_NUMBER,   /* uint64_t or size_t, min to max */
	SETTING_SIZE,     /* uint64_t, bytes */
	SETTING_DURATION, /* int64_t, milliseconds, min or more */
	SETTING_SHARE,    /* double, 0 to 1 */
	SETTING_CHOICE,   /* an enum, the index of one of `words` */
	SETTING_TEXT,     /* char *, owned; may be empty */
	SETTING_PATH,     /* char *, owned; absolute */
	SETTING_IGNORED,  /* not used here, as `remark` says */
	SETTING_LATER,    /* not built yet, except the value `initial`, if any */
};

struct setting {
	const char *key; /* spelt as documented; NULL ends a table */
	enum setting_type type;
	size_t offset;       /* of the field in the table's struct */
	const char *initial; /* the default, in the syntax of the file; NULL: leaves the
				field as it was */
	/* The default instead, if it depends on other things; the caller frees it. NULL:
	 * it is `initial`. */
	char *(*derive)(const struct conf *conf);
	uint64_t min, max;        /* max 0: none */
	enum conf_unit unit;      /* for a bare number; 0: seconds */
	const char *const *words; /* end in NULL */
	bool is_required;
	bool is_repeated; /* may occur several times: each is read, in order */
	bool at_start;    /* a running node keeps its initial value */
	bool is_own;      /* of push: is in our file, even when Gerrit's is read */
	const char *remark;
	/* Reads it in place of the type's reader. For a default the entry has no file. */
	int (*read)(const struct setting *row, const struct conf_entry *entry,
		    void *target, struct err *err);
	/* Adds the field to the input of the digest; NULL: not part of it. */
	void (*digest)(const void *field, struct str *out);
};

typedef bool setting_BOOL_field;
typedef uint64_t setting_NUMBER_field, setting_SIZE_field;
typedef int64_t setting_DURATION_field;
typedef double setting_SHARE_field;
typedef unsigned setting_CHOICE_field;
typedef char *setting_TEXT_field, *setting_PATH_field;

/* SETTING_AT(NUMBER, struct x, member): type and offset; does not compile for a field of
 * another type. */
#define SETTING_AT(kind, structure, member)                                              \
	.type = SETTING_##kind,                                                          \
	.offset = offsetof(structure, member) +                                          \
		  0 * sizeof(char[__builtin_types_compatible_p(                          \
					  __typeof__(((structure *)0)->member),          \
					  setting_##kind##_field)                        \
					  ? 1                                            \
					  : -1])

struct setting_table {
	const char *section;
	const struct setting *rows; /* ends with a key of NULL */
	bool has_subsection;
	bool is_lenient; /* unknown keys here are ignored */
	bool needs_keys; /* a subsection without any is an error, not as if absent */
};

/* Sets the defaults in *target, then the configured values. Fields without a default are
 * left as they are. ERR_CONFIG names file, line and key; the caller clears in that case,
 * too. Subsection NULL: none. */
int settings_read(const struct setting_table *table, const struct conf *conf,
		  const char *subsection, void *target, struct err *err);

/* Adds the defaults of all that is not set: of sections that need not be there, and of
 * those that are. The tables end in NULL. */
void settings_add_defaults(const struct setting_table *const *tables, struct conf *conf);

/* The parts of settings_read(). If a key is set twice the last entry counts, unless it
 * may be repeated. */
void settings_init(const struct setting_table *table, void *target);
int setting_read_all(const struct setting *row, const struct conf_list *all, void *target,
		     struct err *err);
int setting_read(const struct setting *row, const struct conf_entry *entry, void *target,
		 struct err *err);

/* For a row's own reader: the address of its field. */
void *setting_field(const struct setting *row, void *target);

/* A row's reader for a field of type text_list: adds a text, which must not be empty. */
int setting_add_text(const struct setting *row, const struct conf_entry *entry,
		     void *target, struct err *err);

/* Frees texts and paths. */
void settings_clear(const struct setting_table *table, void *target);

/* The row's field as a text, or NULL; and whether two are the same. */
const char *setting_text(const struct setting *row, const void *target);
bool setting_is_same(const struct setting *row, const void *one, const void *other);

/* For all rows that have a type: the caller compares SETTING_OWN. */
bool settings_are_same(const struct setting_table *table, const void *one,
		       const void *other);

/* Adds each row that has a digest, in the order of the table. */
void settings_digest(const struct setting_table *table, const void *target,
		     struct str *out);

/* Finds a key in one table, in any case; or an entry's key in tables that end in NULL.
 * NULL: unknown. */
const struct setting *setting_find(const struct setting_table *table, const char *key);
const struct setting *settings_find(const struct setting_table *const *tables,
				    const struct conf_entry *entry);

/* Finds the first entry that is not in a table: ERR_CONFIG, with the nearest known
 * name; and a section that needs keys, but has none. */
int settings_check(const struct setting_table *const *tables, const struct conf *conf,
		   struct err *err);

/* Whether the feature of the entry is built; and ERR_CONFIG for the first one that is
 * not. */
bool setting_is_built(const struct setting_table *const *tables,
		      const struct conf_entry *entry);
int settings_check_built(const struct setting_table *const *tables,
			 const struct conf *conf, struct err *err);

#endif
