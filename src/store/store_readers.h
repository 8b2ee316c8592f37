/*
 * The connections that reads run on: opened when all others are in use, kept until the
 * end, at most STORE_READERS. Safe from any thread. Internal to store/.
 */
#ifndef STORE_STORE_READERS_H
#define STORE_STORE_READERS_H

#include <pthread.h>

#include "store/store_driver.h"

#define STORE_READERS 8

struct store_readers {
	pthread_mutex_t mutex;
	pthread_cond_t returned;
	const struct store_driver *driver;
	const char *place;                      /* borrowed */
	struct store_conn *idle[STORE_READERS]; /* guarded by mutex */
	int idle_count;                         /* guarded by mutex */
	int open_count;                         /* guarded by mutex; idle or in use */
};

/* `place` is borrowed until clear. */
void store_readers_init(struct store_readers *readers, const struct store_driver *driver,
			const char *place);

/* All connections must have been given back. */
void store_readers_clear(struct store_readers *readers);

/* Waits while all are in use. */
int store_readers_take(struct store_readers *readers, struct store_conn **conn,
		       struct err *err);
void store_readers_give(struct store_readers *readers, struct store_conn *conn);

#endif
