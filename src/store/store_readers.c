#include "store/store_readers.h"

#include <assert.h>

#include "base/thread.h"
#include "store/store_conn.h"

void store_readers_init(struct store_readers *readers, const struct store_driver *driver,
			const char *place)
{
	*readers = (struct store_readers){ .driver = driver, .place = place };
	mutex_init(&readers->mutex);
	cond_init(&readers->returned);
}

void store_readers_clear(struct store_readers *readers)
{
	assert(readers->idle_count == readers->open_count);
	while (readers->idle_count > 0)
		store_conn_close(readers->idle[--readers->idle_count]);
	pthread_cond_destroy(&readers->returned);
	pthread_mutex_destroy(&readers->mutex);
}

/* An idle connection, or NULL with a place reserved for a new one. */
static struct store_conn *take_idle(struct store_readers *readers)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&readers->mutex);

	while (readers->idle_count == 0 && readers->open_count == STORE_READERS)
		cond_wait_until(&readers->returned, &readers->mutex, INT64_MAX);
	if (readers->idle_count > 0)
		return readers->idle[--readers->idle_count];
	readers->open_count++;
	return NULL;
}

/* conn NULL: there is one less. */
static void store_readers_put_back(struct store_readers *readers, struct store_conn *conn)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&readers->mutex);

	if (conn)
		readers->idle[readers->idle_count++] = conn;
	else
		readers->open_count--;
	pthread_cond_signal(&readers->returned);
}

int store_readers_take(struct store_readers *readers, struct store_conn **conn,
		       struct err *err)
{
	*conn = take_idle(readers);
	if (*conn)
		return 0;
	if (readers->driver->open(readers->place, STORE_READER, conn, err) == 0)
		return 0;
	store_readers_put_back(readers, NULL);
	return -1;
}

void store_readers_give(struct store_readers *readers, struct store_conn *conn)
{
	if (conn->driver->in_transaction(conn)) {
		store_conn_close(conn); /* it could not even roll back */
		conn = NULL;
	}
	store_readers_put_back(readers, conn);
}
