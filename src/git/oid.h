/*
 * The name of a Git object: 20 bytes (SHA-1) or 32 (SHA-256); and its kind. Plain values.
 */
#ifndef GIT_OID_H
#define GIT_OID_H

#include "base/base.h"
#include "base/str.h"
#include "base/vec.h"

#define OID_MAX_SIZE 32
#define OID_MAX_TEXT (2 * OID_MAX_SIZE + 1)

/* With the numbers used in packs. */
enum object_kind {
	OBJECT_NONE, /* missing or unknown */
	OBJECT_COMMIT,
	OBJECT_TREE,
	OBJECT_BLOB,
	OBJECT_TAG,
};

struct oid {
	unsigned char len; /* 20 or 32; 0: none */
	unsigned char bytes[OID_MAX_SIZE];
};

/* Reads 2 * len hexadecimal digits at the start of text; false if they are missing. */
bool oid_parse(const char *text, size_t len, struct oid *oid);

bool oid_equal(const struct oid *a, const struct oid *b);
bool oid_is_null(const struct oid *oid); /* none, or all zero */

/* Orders by length, then bytes; for qsort of plain struct oid. */
int oid_compare(const void *a, const void *b);

void oid_add_text(const struct oid *oid, struct str *out);

/* Fills text and returns it. */
const char *oid_text(const struct oid *oid, char text[OID_MAX_TEXT]);

typedef VEC(struct oid) oid_list;

/* Sorts and drops duplicates. */
void oid_list_tidy(oid_list *list);

/* Appends a line for each, which begins with `before`. */
void oid_list_add_lines(const oid_list *list, const char *before, struct str *out);

/* Whether a tidy list has it. */
bool oid_list_has(const oid_list *list, const struct oid *oid);

/* Whether it has one of the others. */
bool oid_list_has_any(const oid_list *list, const oid_list *others);

#endif
