/*
 * The parts of push_settings_read(). For push/settings*.c only.
 */
#ifndef PUSH_SETTINGS_PARTS_H
#define PUSH_SETTINGS_PARTS_H

#include "push/settings.h"

/* Where one remote is configured. */
struct remote_source {
	const struct conf *conf;
	const char *subsection; /* NULL: a file of the fan-out directory */
	char *name;             /* owned */
};

/* Whether the entry is one of this remote. */
bool remote_source_has(const struct remote_source *source,
		       const struct conf_entry *entry);

/* The struct of all three tables. */
struct settings_reader {
	struct push_settings settings;
	struct push_remote remote; /* the one being read, ... */
	const struct remote_source *source;
	struct str digested;     /* ... and the digest input of those before */
	bool forces;             /* gerrit.defaultForceUpdate */
	uint64_t batch_size;     /* gerrit.pushBatchSize */
	uint64_t max_retries;    /* replication.maxRetries */
	const struct conf *own;  /* our configuration */
	const char *data;        /* site.data */
	struct conf *gerrit;     /* the file that replication.config names, or NULL;
				    owned */
	const struct conf *main; /* the one of both that has the sections */
	char *site;              /* Gerrit's; NULL without its file; owned */
	struct conf *secure;     /* or NULL; owned */
	VEC(struct conf *) fans; /* files of the fan-out directory; owned */
	VEC(struct remote_source) sources;
};

/* The entry of a key, or NULL. */
const struct conf_entry *settings_get(const struct settings_reader *reader,
				      enum push_section section, const char *key);

/* Makes the path absolute; NULL or an empty one leaves *path unchanged. The caller
 * frees. */
int settings_read_path(const struct conf_entry *entry, char **path, struct err *err);

/* Adds "<file>:<line>: <section.key>: <text>". */
PRINTF_LIKE(3, 4)
void settings_note(struct settings_reader *reader, const struct conf_entry *entry,
		   const char *fmt, ...);

/* settings_files.c: finds and opens the files, and lists the remotes; notes keys that are
 * ignored. */
int settings_open_files(struct settings_reader *reader, struct err *err);
void settings_close_files(struct settings_reader *reader);
void settings_note_keys(struct settings_reader *reader);
void settings_note_remote(struct settings_reader *reader);

/* settings_files.c: for reader->remote, whose projects are read already. */
int settings_read_urls(struct settings_reader *reader, struct err *err);
void push_urls_clear(struct push_url *urls, size_t count);

#endif
