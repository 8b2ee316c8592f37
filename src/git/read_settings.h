/*
 * A repository's settings for readers: which refs they see, what they may ask for, and
 * whether it can be read over HTTP at all. A copy has the same, so that it does not show
 * refs hidden at its source. They are sent as text in the form of a configuration file,
 * with these keys only, in their original order, which matters. Any thread.
 *
 * Source: git-config(1), transfer.hideRefs, uploadpack.*, http.uploadpack.
 */
#ifndef GIT_READ_SETTINGS_H
#define GIT_READ_SETTINGS_H

#include "base/base.h"
#include "base/str.h"
#include "git/repo.h"

#define READ_SETTINGS_MAX ((size_t)1 << 20)

/* Appends the repository's present ones, if any. Included files count: then git is asked
 * (git_setup() was called). */
int read_settings_take(const struct repo *repo, struct str *out, struct err *err);

/* Appends those in `text`, which is untrusted. ERR_CONFIG: not in that form. */
int read_settings_parse(const char *text, size_t len, struct str *out, struct err *err);

/* Sets those of the copy whose directory is open to the result of read_settings_parse().
 * Its config is only written if they differ; its other settings stay, without
 * comments. */
int read_settings_put(int dir, const char *wanted, struct err *err);

/* Whether some of `wanted`, a result as above, hides what the copy may not hide yet: 1, 0
 * or -1. If so, *all gets the settings that hide what both do, for read_settings_put().
 */
int read_settings_find_hiding(int dir, const char *wanted, struct str *all,
			      struct err *err);

#endif
