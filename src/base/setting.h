/*
 * The settings that a configuration may have: a row each, in tables that stand beside the
 * struct that a section is read into. By the rows a section is read, with defaults,
 * bounds and errors, and unknown keys are found; a test holds refrelay.conf(5) against
 * them. Several tables of one section add up, and a section that comes both with and
 * without subsection has two. Any thread.
 */
#ifndef BASE_SETTING_H
#define BASE_SETTING_H

#include "base/conf.h"

enum setting_type {
	SETTING_OWN,  /* what `read` makes of it; without one the owner's code reads it */
	SETTING_BOOL, /* bool */
	SETTING_NUMBER,   /* uint64_t or size_t, min to max */
	SETTING_SIZE,     /* uint64_t, bytes */
	SETTING_DURATION, /* int64_t, milliseconds, min or more */
	SETTING_SHARE,    /* double, 0 to 1 */
	SETTING_CHOICE,   /* an enum, the index of one of `words` */
	SETTING_TEXT,     /* char *, owned; may be empty */
	SETTING_PATH,     /* char *, owned; absolute */
	SETTING_IGNORED,  /* has no meaning here, as `remark` says */
	SETTING_LATER, /* not built yet, but for the value `initial`, if there is one */
};

struct setting {
	const char *key; /* spelt as documented; NULL ends a table */
	enum setting_type type;
	size_t offset;       /* of the field in the table's struct */
	const char *initial; /* the default, as one would write it; NULL: the field as it
				was before */
	uint64_t min, max;   /* max 0: none */
	enum conf_unit unit; /* of a bare number; 0: seconds */
	const char *const *words; /* end in NULL */
	bool is_required;
	bool is_repeated; /* may be given several times: each is read, in order */
	bool at_start;    /* a running node keeps what it started with */
	bool is_own;      /* of push: stands in our file, also when Gerrit's is read */
	const char *remark;
	/* Reads it in place of the type's own way. Of a default the entry has no file. */
	int (*read)(const struct setting *row, const struct conf_entry *entry,
		    void *target, struct err *err);
	/* Adds the field to what the digest is made of; NULL: it is no part of that. */
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
	bool is_lenient; /* what is unknown here is none of our business */
};

/* Puts the defaults into *target, then what the configuration says. Fields without a
 * default are left as they are. ERR_CONFIG names file, line and key; then, too, the
 * caller clears. Subsection NULL: none. */
int settings_read(const struct setting_table *table, const struct conf *conf,
		  const char *subsection, void *target, struct err *err);

/* The parts of that. Of a key that is set twice the last entry counts, unless it may be
 * repeated. */
void settings_init(const struct setting_table *table, void *target);
int setting_read_all(const struct setting *row, const struct conf_list *all, void *target,
		     struct err *err);
int setting_read(const struct setting *row, const struct conf_entry *entry, void *target,
		 struct err *err);

/* For a row's own reader: where its field is. */
void *setting_field(const struct setting *row, void *target);

/* A row's reader where the field is a text_list: adds one, which is not empty. */
int setting_add_text(const struct setting *row, const struct conf_entry *entry,
		     void *target, struct err *err);

/* Frees texts and paths. */
void settings_clear(const struct setting_table *table, void *target);

/* What the field of the row has as a text, or NULL; and whether two have the same. */
const char *setting_text(const struct setting *row, const void *target);
bool setting_is_same(const struct setting *row, const void *one, const void *other);

/* Of all rows that have a type: SETTING_OWN is for the caller to compare. */
bool settings_are_same(const struct setting_table *table, const void *one,
		       const void *other);

/* Adds each row that has a digest, in the order of the table. */
void settings_digest(const struct setting_table *table, const void *target,
		     struct str *out);

/* A key in one table, in any case; or that of an entry in tables that end in NULL. NULL:
 * it is unknown. */
const struct setting *setting_find(const struct setting_table *table, const char *key);
const struct setting *settings_find(const struct setting_table *const *tables,
				    const struct conf_entry *entry);

/* Finds the first entry that no table knows: ERR_CONFIG, with the nearest name that is
 * known. */
int settings_check(const struct setting_table *const *tables, const struct conf *conf,
		   struct err *err);

/* Whether what the entry asks for is built. */
bool setting_is_built(const struct setting_table *const *tables,
		      const struct conf_entry *entry);

#endif
