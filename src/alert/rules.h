/*
 * The present troubles: a pure function of the site's state and of the bounds of one
 * [alert]. alert/state.h decides whether to send them.
 */
#ifndef ALERT_RULES_H
#define ALERT_RULES_H

#include "alert/settings.h"
#include "report/report.h"
#include "verify/damage.h"

/* A file system to which refrelay writes. */
struct alert_disk {
	const char *what;               /* static: the setting with its path */
	char *path;                     /* owned */
	uint64_t all, room;             /* bytes; room: for users other than root */
	uint64_t all_files, room_files; /* 0: it does not count files */
};

/* A certificate, or a credential. */
struct alert_ending {
	char *what;         /* owned: "the token ci" */
	int64_t at_ms;      /* wall ms; 0: not known */
	const char *remedy; /* static */
};

typedef VEC(struct alert_disk) alert_disks;
typedef VEC(struct alert_ending) alert_endings;
void alert_endings_clear(alert_endings *endings);
void alert_endings_copy(const alert_endings *from, alert_endings *to); /* appends */
void alert_disks_clear(alert_disks *disks);

/* Failed rows that are being retried. */
struct alert_retrying {
	char *kind, *class, *example; /* owned */
};

struct alert_facts {
	const struct report *report; /* NULL: it could not be made, because of */
	struct err why_not;
	int64_t now;       /* wall ms */
	int64_t uptime_ms; /* of the node */
	VEC(struct alert_retrying) retrying;
	alert_disks disks;
	alert_endings endings;
	bool had_hooks; /* some repository had hooks, once */
	struct damage_met damage;
	int64_t damage_age_ms; /* since damage.at; -1: no damage found */
	int64_t look_ms; /* between the last look and this one; 0: it is the first */
};

struct alert_trouble {
	enum alert_kind kind;
	char *subject; /* owned, as these; with the kind it identifies the trouble */
	char *text, *remedy;
	int64_t since;    /* wall ms; 0: not known */
	int64_t bound_ms; /* it counts from this age on */
	/* Undecided: unknown, or neither above its upper bound nor below its lower one:
	 * an existing trouble continues, a new one does not begin. */
	bool is_open;
	bool is_reworded; /* of an open one: its text replaces that of the existing */
	bool is_past;     /* it happened, and counts at once */
};

typedef VEC(struct alert_trouble) alert_troubles;
#define AUTO_TROUBLES __attribute__((cleanup(alert_troubles_clear)))
void alert_troubles_clear(alert_troubles *troubles);

/* Appends those of the alert's kinds. */
void alert_rules(const struct alert_facts *facts, const struct alert *alert,
		 alert_troubles *troubles);

#endif
