/*
 * The change that a push makes, as others see it: announced before git may change refs,
 * made durable, and told when git is done (git/state.h has the order and why it is
 * right). One thread at a time.
 */
#ifndef SERVE_RECEIVE_CHANGE_H
#define SERVE_RECEIVE_CHANGE_H

#include "git/lock_owner.h"
#include "serve/receive_sync.h"

struct receive_change {
	const char *path; /* of the repository, for messages; borrowed as all of these */
	int dir;          /* ... its directory */
	int (*recorded)(void *arg, struct err *err); /* called once, if there was one */
	void *arg;
	struct receive_sync names;
	struct lock_owner writer;
	int64_t beat_at;  /* boot ms of the next sign of life; 0: not announced */
	bool is_possible; /* git was given commands */
	bool is_settled;  /* its end was told */
	bool is_recorded; /* ... and `recorded` did not fail */
};

/* Makes the writer's file, whose flock git is to inherit (writer.fd). */
int receive_change_ready(struct receive_change *change, struct err *err);
void receive_change_clear(struct receive_change *change);

/* Before git may change refs; more than once does no harm. */
int receive_change_announce(struct receive_change *change, struct err *err);

/* When it has to be called next; 0: not at all. */
int64_t receive_change_beat_at(const struct receive_change *change);
void receive_change_beat(struct receive_change *change);

/* Git has said how it went, or is dead. The second time does nothing. An error is that of
 * the disk, or of `recorded`, which was called all the same. */
int receive_change_settle(struct receive_change *change, struct err *err);

#endif
