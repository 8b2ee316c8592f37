/*
 * Where the history of a repository is cut short: commits whose parents are left out. Git
 * keeps them in the file `shallow`, and obeys it; they are recorded only there. A shallow
 * repository is replicated only if refrelay has cut it, as a mirror with `depth` or a
 * copy of one. A file of ours beside it shows this, and also whether a change is under
 * way:
 *
 *	refrelay/cuts		"settled" or "changing", and a line feed
 *
 * Any `shallow` without it is foreign.
 *
 * Refs and cuts change in this order (git/publish.h):
 *	1. refrelay/cuts says "changing"
 *	2. shallow has the old cuts and the new ones
 *	3. the refs change
 *	4. shallow has the new cuts alone, or goes
 *	5. refrelay/cuts says "settled", or goes
 * Each is durable before the next. With more cuts less can be reached, so between 1 and 5
 * everything that the old or the new refs reach is there; git never meets a commit whose
 * parents are missing. Refs and cuts read while it says "changing" are not a state of the
 * source, and are not recorded as one (ref_reading_take).
 *
 * Source: gitformat-shallow, Documentation/technical/shallow.txt.
 */
#ifndef GIT_CUTS_H
#define GIT_CUTS_H

#include "base/base.h"
#include "git/oid.h"

#define CUTS_FILE "shallow"
#define CUTS_MARK "refrelay/cuts"

/* Whether the repository whose directory is open was cut by refrelay. */
bool cuts_are_ours(int dir);

/* Reads ours, tidy; foreign ones are ignored. ERR_CORRUPT: the file is damaged. The
 * caller clears the list in any case. */
int cuts_read(int dir, size_t oid_len, oid_list *cuts, bool *is_changing,
	      struct err *err);

/* The file's form: one object name a line. Adds to the list. */
int cuts_parse(const char *text, size_t oid_len, oid_list *cuts, struct err *err);
void cuts_format(const oid_list *cuts, struct str *out);

/* For tidy lists. `all` is a third one. */
bool cuts_equal(const oid_list *a, const oid_list *b);
void cuts_unite(const oid_list *a, const oid_list *b, oid_list *all);

/* Steps 1 and 2, and 4 and 5. Durable when they return 0. */
int cuts_begin(int dir, const oid_list *from, const oid_list *to, struct err *err);
int cuts_end(int dir, const oid_list *to, struct err *err);

#endif
