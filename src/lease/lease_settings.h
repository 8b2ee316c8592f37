/*
 * The section [lease], and the backend it selects.
 */
#ifndef LEASE_LEASE_SETTINGS_H
#define LEASE_LEASE_SETTINGS_H

#include "base/json.h"
#include "base/setting.h"
#include "lease/lease.h"

enum lease_kind { LEASE_LOCAL, LEASE_DIRECTORY, LEASE_REDIS, LEASE_POSTGRESQL };

struct lease_settings {
	unsigned backend; /* enum lease_kind */
	char *urls; /* owned, as all texts here; one, or several separated by blanks */
	char *path;
	char *prefix; /* NULL: the default */
	char *key_format;
	char *user_file, *password_file, *ca_file;
	int64_t ttl_ms,
		wait_ms; /* 0: LEASE_TTL_MS, LEASE_WAIT_MS, or derived from the other */
	unsigned compatibility; /* 1: docora */
	unsigned format;        /* 1: redlock */
	bool is_of_node; /* set by a node: doubtful settings of the server are logged */
};

extern const struct setting_table lease_settings_table;

/* ERR_CONFIG: settings that contradict or lack each other; a key format in which two
 * replicables could share a key. The caller clears in any case. */
int lease_settings_read(const struct conf *conf, struct lease_settings *settings,
			struct err *err);

/* The first key that the backend has no use for; NULL: none. */
const char *lease_settings_unused(const struct lease_settings *settings);
void lease_settings_clear(struct lease_settings *settings);

/* Where the leases belong. All borrowed for the call except the store. */
struct lease_place {
	struct store *store;
	const char *directory; /* of this data directory: alive files and guards */
	const char *node;      /* NULL: the host's name */
	const char *site, *repositories;
};

/* Opens the manager that the settings choose; NULL: of the local backend. A server that
 * is away is reported by the attempts. ERR_CONFIG: an unreadable credential; other errors
 * as from the backends' own functions. */
int lease_manager_open(const struct lease_settings *settings,
		       const struct lease_place *place, struct lease_manager **manager,
		       struct err *err);

/* Sets the same names and times for a manager that was opened another way. */
void lease_settings_apply(const struct lease_settings *settings,
			  const struct lease_place *place, struct lease_manager *manager);

/* Everything that makes two nodes' leases the same leases, for comparison: "backend",
 * "format", "compatibility", "prefix", "keyFormat" and "ttl" as texts, "key": that of a
 * certain repository, and "place": a digest of where they are kept, which may be written
 * in several ways. No URLs or secrets. The caller owns it. */
json_t *lease_settings_json(const struct lease_settings *settings,
			    const struct lease_place *place);

/* Reports problems of the server, and what could not be checked: `say` gets the remedy,
 * and is_error false for a mere warning. No reports for other backends. */
typedef void (*lease_finding)(void *arg, bool is_error, const char *what,
			      const char *remedy);
void lease_settings_try(const struct lease_settings *settings,
			const struct lease_place *place, lease_finding say, void *arg);

/* The same for each Redis server (redis_check.c). The key is one that no lease has, and
 * that need not begin with the prefix; NULL: there are no such keys. -1: at least one
 * finding is an error. */
int lease_redis_check(const struct lease_options *options, const char *key,
		      lease_finding say, void *arg);

#endif
