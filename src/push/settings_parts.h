/*
 * The parts of push_settings_read. For push/settings*.c only.
 */
#ifndef PUSH_SETTINGS_PARTS_H
#define PUSH_SETTINGS_PARTS_H

#include "push/settings.h"

/* Where one remote stands. */
struct remote_source {
	const struct conf *conf;
	const char *subsection; /* NULL: a file of the fan-out directory */
	char *name;             /* owned */
};

struct settings_reader {
	const struct conf *own; /* our configuration */
	const char *data;       /* site.data */
	struct push_settings *settings;
	struct conf *gerrit;     /* that replication.config names, or NULL; owned */
	const struct conf *main; /* of both, the one that has the sections */
	char *site;              /* Gerrit's; NULL without its file; owned */
	struct conf *secure;     /* or NULL; owned */
	VEC(struct conf *) fans; /* files of the fan-out directory; owned */
	VEC(struct remote_source) sources;
	bool forces;          /* gerrit.defaultForceUpdate */
	uint64_t batch_size;  /* gerrit.pushBatchSize */
	uint64_t max_retries; /* replication.maxRetries */
};

/* settings_files.c: finds and opens the files, and lists the remotes. */
int settings_open_files(struct settings_reader *reader, struct err *err);
void settings_close_files(struct settings_reader *reader);

/* settings_remote.c, settings_url.c: reads one remote; *is_used false: it is none to
 * push to, as a note says. */
int settings_read_remote(struct settings_reader *reader,
			 const struct remote_source *source, struct push_remote *remote,
			 bool *is_used, struct err *err);
int settings_read_urls(struct settings_reader *reader, const struct remote_source *source,
		       struct push_remote *remote, struct err *err);
void push_remote_clear(struct push_remote *remote);
void push_urls_clear(struct push_url *urls, size_t count);

/* One remote while it is read. */
struct remote_reader {
	struct settings_reader *reader;
	const struct remote_source *source;
	struct push_remote *remote;
};

/* settings_lists.c */
const struct conf_list *remote_get_all(const struct remote_reader *at, const char *key);
int remote_read_lists(const struct remote_reader *at, struct err *err);

/* settings_notes.c */
void settings_note_keys(struct settings_reader *reader);
void settings_note_remote(struct settings_reader *reader,
			  const struct remote_source *source);

/* settings_digest.c */
void settings_make_digest(struct push_settings *settings);

/* settings_values.c: values as Gerrit has them; all leave *value if entry is NULL. */

/* Adds "<file>:<line>: <section.key>: <text>". */
PRINTF_LIKE(3, 4)
void settings_note(struct push_settings *settings, const struct conf_entry *entry,
		   const char *fmt, ...);

/* A duration; Gerrit's words for units, too ("5 minutes"). Below zero is zero. */
int settings_read_time(const struct conf_entry *entry, enum conf_unit bare,
		       int64_t *value_ms, struct err *err);

/* A number with k, m or g. */
int settings_read_count(const struct conf_entry *entry, uint64_t *value, struct err *err);

/* Likewise; below zero is zero. */
int settings_read_count_or_less(const struct conf_entry *entry, uint64_t *value,
				struct err *err);

/* An absolute path; the caller frees. An empty value is none. */
int settings_read_path(const struct conf_entry *entry, char **value, struct err *err);

/* A text; the caller frees. An empty one is none. */
int settings_read_text(const struct conf_entry *entry, char **value, struct err *err);

/* An own key: from our file, else from Gerrit's. */
const struct conf_entry *settings_own(const struct settings_reader *reader,
				      const char *section, const char *subsection,
				      const char *key);

#endif
