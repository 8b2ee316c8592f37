/*
 * The inside of the distributor. All of it is its thread's alone.
 */
#ifndef PUSH_DISTRIBUTOR_H
#define PUSH_DISTRIBUTOR_H

#include "push/push_run.h"

/* So soon after tasks came or went, and while others of this host push, running/ is
 * looked at: a node that dies says nothing. */
#define LEFTOVERS_LOOK_MS 1000

struct uri_key {
	char text[URI_KEY_SIZE];
};

struct distributor {
	struct push *push;
	struct push_settings *settings; /* a reference; NULL before the first round */
	struct schedule schedule;
	VEC(struct uri_key) leftovers; /* that were seen in running/ */
	bool must_list_requests, is_broken, has_work;
	/* Boot time. */
	int64_t measured_at, list_at, leftovers_at, presence_at, gauges_at,
		dead_letters_at, sweep_at;
	bool is_news; /* dead letters may have come or gone since they were counted */
	int64_t ending_at; /* 0: it does not end */
	int64_t grace_ms;
};

/* The URI's entry, made if missing; remote and repository are those of its oldest task.
 */
struct schedule_entry *distributor_get_entry(struct distributor *distributor,
					     const char *uri_key, const char *uri,
					     const char *remote, const char *project);
/* Finds its remote and host by the settings. */
void entry_resolve(struct distributor *distributor, struct schedule_entry *entry);
/* Takes its tasks and requests into account; it may be gone then. */
void entry_place(struct distributor *distributor, struct schedule_entry *entry);
/* A task's or request's time as it counts. */
int64_t entry_since(const struct distributor *distributor, int64_t since);
void read_state_again(struct distributor *distributor, struct schedule_entry *entry);

/* Takes over settings, if they are new. */
void settings_obey(struct distributor *distributor);

/* Reads the states of those that wait for another try again. */
void states_read(struct distributor *distributor);

bool requests_heard(struct distributor *distributor);
int requests_list(struct distributor *distributor, struct err *err);

/* A running_uri_seen. */
void leftover_seen(void *distributor, const char *uri_key);
/* Of what was seen, what nobody works on waits again; sets leftovers_at. */
void leftovers_recover(struct distributor *distributor);

#endif
