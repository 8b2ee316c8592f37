/*
 * Credentials in text files of a clone that another program made: its config, and git's
 * records of its fetches. Pure functions; any thread.
 *
 * What goes: the part between "://" and "@" of an http(s) URL, wherever it stands,
 * comments included; and in a config also variables that hold a credential
 * (http.*.extraHeader, and any that is named token or password), all of [credential], and
 * all of a [url "..."] with a credential in its URL, which was written for that alone.
 *
 * Source: git-config(1), "Syntax", http.extraHeader, credential.*, url.*.insteadOf.
 */
#ifndef PULL_CLONE_SECRETS_H
#define PULL_CLONE_SECRETS_H

#include "base/str.h"

enum clone_secret {
	CLONE_SECRET_URL,  /* "user:password", as a URL writes it */
	CLONE_SECRET_TEXT, /* lines of a config, whole */
};

struct clone_secrets_sink {
	/* Called for each that goes; the text is borrowed for the call. */
	void (*found)(void *arg, enum clone_secret form, const char *text, size_t len);
	void *arg;
};

/* Appends the text without them. True: there were some. `sink` may be NULL. */
bool clone_secrets_strip_config(const char *text, const struct clone_secrets_sink *sink,
				struct str *clean);
bool clone_secrets_strip_urls(const char *text, const struct clone_secrets_sink *sink,
			      struct str *clean);

/* Whether that secret is the one that went. */
bool clone_secrets_are(enum clone_secret form, const char *text, size_t len,
		       const struct str *secret);

#endif
