/*
 * The receivers of troubles, and which ones they get: the sections [alert "NAME"].
 * Constant once read. Any thread.
 */
#ifndef ALERT_SETTINGS_H
#define ALERT_SETTINGS_H

#include "base/setting.h"
#include "base/vec.h"

/* The kinds of troubles. Names are stored and sent: they never change. */
enum alert_kind {
	ALERT_LAG,      /* something is behind for too long */
	ALERT_FAILURES, /* something fails for too long */
	ALERT_HELD,     /* something waits for a person */
	ALERT_DAMAGE,   /* damage was found */
	ALERT_DISK,     /* little is free */
	ALERT_EXPIRY,   /* a certificate or token is near its end */
	ALERT_SILENCE,  /* another site was not heard from */
	ALERT_HOOKS,    /* hooks are gone */
	ALERT_LEASES,   /* the server of the leases is unreachable */
	ALERT_STORAGE,  /* database or copies cannot be written or found */
	ALERT_KINDS,
};

const char *alert_kind_name(enum alert_kind kind); /* static */
int alert_kind_of_name(const char *name);          /* -1: unknown */

enum alert_format { ALERT_JSON, ALERT_SLACK };

struct alert {
	char *name; /* owned, as all of these texts; those of settings may be NULL */
	char *url, *secret_file, *ca_file;
	unsigned format; /* enum alert_format */
	char *command;
	text_list mail; /* addresses */
	char *smtp, *from, *user_name, *password_file;
	unsigned kinds; /* a bit each */
	int64_t lag_ms, failures_ms, silence_ms, expiry_ms;
	double disk_share;            /* 0: no limit by share */
	uint64_t disk_bytes;          /* 0: no limit by bytes */
	int64_t settle_ms, repeat_ms; /* repeat 0: never */
	char *heartbeat;
	int64_t heartbeat_ms;
};

struct alerts {
	VEC(struct alert *) list; /* in the file's order; owned */
};

extern const struct setting_table alert_settings_table;

#define AUTO_ALERTS __attribute__((cleanup(alerts_clear)))

/* ERR_CONFIG names file, line and key. Does not read the files that they name. The caller
 * clears in any case. */
int alerts_read(const struct conf *conf, struct alerts *alerts, struct err *err);
void alerts_clear(struct alerts *alerts);

/* The one of that name, or NULL. */
const struct alert *alerts_find(const struct alerts *alerts, const char *name);

/* How it sends: "url", "command", "mail"; "none": only a heartbeat. Static. */
const char *alert_way(const struct alert *alert);

/* Appends the destination of messages, without possible secrets: host of the URL, path of
 * the command, addresses; nothing if it does not send any. */
void alert_target(const struct alert *alert, struct str *out);

/* Whether the section's settings work here: secrets can be read, the command run. */
int alert_check(const struct alert *alert, struct err *err);

#endif
