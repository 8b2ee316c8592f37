/*
 * The command that git runs in place of `ssh`. It does not prompt (BatchMode) and does
 * not trust unknown hosts.
 */
#ifndef GIT_SSH_COMMAND_H
#define GIT_SSH_COMMAND_H

#include "base/base.h"
#include "base/str.h"
#include "base/vec.h"

/* Files are absolute; NULL: none. */
struct ssh_options {
	const char *config; /* in place of the user's configuration */
	const char *key;    /* the only identity */
	const char *known_hosts;
	int64_t connect_ms; /* 0: ssh's own */
};

/* The value for GIT_SSH_COMMAND; the caller frees. */
char *ssh_command_make(const struct ssh_options *options);

/* The same as words of argv, "ssh" first; and a further option, whose value is taken
 * over. */
void ssh_command_add(const struct ssh_options *options, text_list *list);
void ssh_command_add_option(text_list *list, const char *flag, char *value);

/* Appends text as one word for a POSIX shell. */
void ssh_command_quote(const char *text, struct str *out);

#endif
