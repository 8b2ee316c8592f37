/*
 * What is wrong now: a pure function of what is known of the site and of the bounds of
 * one [alert]. Whether a trouble is told of is alert/state.h.
 */
#ifndef ALERT_RULES_H
#define ALERT_RULES_H

#include "alert/settings.h"
#include "report/report.h"
#include "verify/damage.h"

/* A file system that is written to. */
struct alert_disk {
	const char *what;               /* static: the setting that names it */
	char *path;                     /* owned */
	uint64_t all, room;             /* bytes; room: for others than root */
	uint64_t all_files, room_files; /* 0: it does not count them */
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

/* Rows that failed and are being tried again. */
struct alert_retrying {
	char *kind, *class, *example; /* owned */
};

struct alert_facts {
	const struct report *report; /* NULL: it cannot be made, because of */
	struct err why_not;
	int64_t now;       /* wall ms */
	int64_t uptime_ms; /* of the node */
	VEC(struct alert_retrying) retrying;
	alert_disks disks;
	alert_endings endings;
	bool had_hooks; /* some repository had hooks, once */
	struct damage_met damage;
	int64_t damage_age_ms; /* since damage.at; -1: none was met */
};

struct alert_trouble {
	enum alert_kind kind;
	char *subject; /* owned, as these: with the kind it names the trouble */
	char *text, *remedy;
	int64_t since;    /* wall ms; 0: not known */
	int64_t bound_ms; /* it counts when it is that old */
	/* It is not known, or neither above its upper bound nor below its lower one: what
	 * was there before still is, and nothing begins. */
	bool is_open;
};

typedef VEC(struct alert_trouble) alert_troubles;
#define AUTO_TROUBLES __attribute__((cleanup(alert_troubles_clear)))
void alert_troubles_clear(alert_troubles *troubles);

/* Appends those of the kinds that the alert has. */
void alert_rules(const struct alert_facts *facts, const struct alert *alert,
		 alert_troubles *troubles);

#endif
