/*
 * The sections [remote], [gerrit] and [replication], with the meaning of Gerrit's
 * replication plugin: from our own configuration, or from the file that
 * replication.config names, with its fan-out directory `replication/` and its
 * `secure.config`. Read once and immutable afterwards: any thread may use it while it
 * holds a reference.
 *
 * Source: replication.config of Gerrit's replication plugin; docs/man/refrelay.conf.5
 * has every key with its meaning here.
 */
#ifndef PUSH_SETTINGS_H
#define PUSH_SETTINGS_H

#include "base/base.h"
#include "base/json.h"
#include "base/setting.h"
#include "base/str.h"
#include "base/vec.h"

enum name_style { NAME_SLASH, NAME_DASH, NAME_UNDERSCORE, NAME_BASENAME };

/* "+refs/heads/x:refs/heads/y"; at most one "*" a side. */
struct push_spec {
	char *src, *dst; /* owned; dst is never NULL */
	bool force;
};

/* A project pattern: "^..." a regular expression for the whole name, "...*" a prefix,
 * else the name itself. Also for excludedRefsPattern (a regular expression always). */
struct name_pattern;
typedef VEC(struct name_pattern *) name_patterns;

struct push_url {
	char *template; /* without credentials; owned, as all of these */
	char *uri_user; /* for HTTP: the URL's own, which its URIs have; NULL: none */
	char *user;     /* for HTTP: from secure.config or the URL; NULL: none */
	char *password; /* likewise */
};

struct push_remote {
	char *name;                /* owned, as all of these */
	VEC(struct push_url) urls; /* at least one */
	VEC(struct push_url) admin_urls;
	VEC(struct push_spec) specs; /* in the order of the file; at least one */
	name_patterns projects;      /* empty: all */
	name_patterns excluded_projects;
	name_patterns excluded_refs;
	char *receive_pack; /* for ssh; NULL: git's own */
	char *upload_pack;
	char *git_path;          /* at the destination; "git" */
	char *ssh_key;           /* sshKey: identity file; NULL: ssh's own choice */
	char *ssh_known_hosts;   /* sshKnownHosts; NULL: ssh's own */
	char *ca_file;           /* of https, adminUrl too; NULL: the system's */
	int64_t silence_ms;      /* timeout: a push without progress for this long is
				    killed; 0: never */
	int64_t delay_ms;        /* replicationDelay */
	int64_t reschedule_ms;   /* rescheduleDelay */
	int64_t retry_ms;        /* replicationRetry: the first of growing delays */
	uint64_t max_retries;    /* 0: unlimited */
	uint64_t drain_attempts; /* drainQueueAttempts */
	size_t threads;
	size_t batch_size; /* refs in one push; 0: all */
	int64_t slow_ms;   /* slowLatencyThreshold */
	enum name_style style;
	bool creates_missing, replicates_permissions, replicates_deletions, mirrors;
	bool replicates_note_db_meta, stores_ref_log;
	size_t first_note, notes; /* private: its part of the settings' notes */
};

struct push_settings {
	VEC(struct push_remote) remotes;
	char *directory;           /* eventsDirectory; absolute; owned */
	char *webhook;             /* replication.webhook; NULL: none; owned */
	char *webhook_ca_file;     /* NULL: the system's; owned */
	struct str webhook_secret; /* empty: none */
	char *ssh_config;          /* replication.sshConfig; NULL: ssh's own */
	bool replicates_on_startup;
	uint64_t max_refs_to_log, max_refs_to_show; /* 0: all */
	int64_t ssh_command_ms;      /* gerrit.sshCommandTimeout; 0: remote's silence */
	int64_t ssh_connect_ms;      /* gerrit.sshConnectionTimeout */
	int64_t interval_ms;         /* distributionInterval; 0: none */
	int64_t random_ms;           /* randomDelay */
	int64_t lock_max_retries;    /* updateRefErrorMaxRetries; -1: as other failures */
	size_t repository_transfers; /* replication.repositoryTransfers: concurrent pushes
					of one repository in a node; default 4 */
	uint64_t bytes_in_flight;    /* replication.bytesInFlight: of all repositories
					being pushed by a node; 0: no limit */
	char digest[65];             /* of everything that decides which tasks an event
					makes */
	VEC(char *)
	notes;             /* settings without effect here, or with another one than an
			      administrator may expect; each a sentence with file and
			      line; owned */
	size_t references; /* private */
};

enum push_section { PUSH_REMOTE, PUSH_REPLICATION, PUSH_GERRIT, PUSH_SECTIONS };
extern const struct setting_table push_settings_tables[PUSH_SECTIONS];

/* Whether any of the three sections exists. */
bool push_is_configured(const struct conf *conf);

/* data: site.data, for relative paths and for the default directory. ERR_CONFIG names
 * file and line. *settings has one reference. Also succeeds without any remote. */
int push_settings_read(const struct conf *conf, const char *data,
		       struct push_settings **settings, struct err *err);

/* Of the task store, in site.data. The caller frees it. */
char *push_default_directory(const char *data);

struct push_settings *push_settings_ref(struct push_settings *settings);
void push_settings_unref(struct push_settings *settings); /* NULL is allowed */

const struct push_remote *push_remote_find(const struct push_settings *settings,
					   const char *name);

/* Whether it is among those names, which end in NULL; NULL: always true. */
bool push_remote_is_named(const char *const *names, const char *remote);

/* How long a new task of the remote waits. */
int64_t push_delay_ms(const struct push_settings *settings,
		      const struct push_remote *remote);

/* Whether the remote replicates the repository, and its ref: `dst` and `force` of the
 * first spec that matches. */
bool push_remote_takes(const struct push_remote *remote, const char *project);
bool push_remote_takes_ref(const struct push_remote *remote, const char *ref);
bool push_remote_maps(const struct push_remote *remote, const char *ref, char **dst,
		      bool *force);

/* Whether that (NULL: none) is the ref of permissions, and these are not replicated: then
 * neither it nor a repository whose HEAD names it is pushed. */
bool push_remote_leaves_out_permissions(const struct push_remote *remote,
					const char *ref);

/* For `check`, the effect for these repositories: "remotes" [{name, urls (without
 * credentials), push, repositories (count), examples [{name, uri}], notes}], other
 * "notes", "collisions" [{uri, names, remotes}] at one destination ("collisions_count"),
 * "failures" [{name, remote, failure}]: without a destination. The caller owns it. */
json_t *push_settings_explain(const struct push_settings *settings,
			      const char *const *names, size_t count);

#endif
