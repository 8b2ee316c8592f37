/*
 * What a repository's configuration says about readers: which refs they are shown, what
 * they may ask for, and whether it is read over HTTP at all. A copy has the same, so that
 * nobody is shown there what is hidden at its source. It travels as text in the form of a
 * configuration file, of these keys alone, in the order in which they stand there, which
 * counts. Any thread.
 *
 * Source: git-config(1), transfer.hideRefs, uploadpack.*, http.uploadpack.
 */
#ifndef GIT_READ_SETTINGS_H
#define GIT_READ_SETTINGS_H

#include "base/base.h"
#include "base/str.h"
#include "git/repo.h"

#define READ_SETTINGS_MAX ((size_t)1 << 20)

/* Appends those of the repository as it is now; nothing if it has none. What its config
 * includes counts: then git is asked (git_setup() was called). */
int read_settings_take(const struct repo *repo, struct str *out, struct err *err);

/* Appends those that `text` has, which came from elsewhere. ERR_CONFIG: it is in no such
 * form. */
int read_settings_parse(const char *text, size_t len, struct str *out, struct err *err);

/* Makes those of the copy whose directory is open what read_settings_parse() gave. Its
 * config is only written if they differ; what else it says stays, without comments. */
int read_settings_put(int dir, const char *wanted, struct err *err);

#endif
