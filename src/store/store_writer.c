/*
 * Group commit without a timer: while one commit waits for the disk, the next requests
 * gather, so batches grow with the load, and a write on an idle store waits for nothing
 * but its own commit.
 *
 * A work that fails is undone alone (savepoint). Some failures, such as a full disk,
 * make the database roll back everything; then each request of the batch is run anew in
 * a transaction of its own, so that the work which is at fault fails alone.
 */
#include "store/store_writer.h"

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/thread.h"
#include "base/vec.h"
#include "store/store_conn.h"

struct request {
	store_work work;
	void *arg;
	struct err *err; /* the sleeping caller's */
	int result;      /* writer thread only until done */
	bool done;       /* guarded by the writer's mutex */
	pthread_cond_t finished;
	TAILQ_ENTRY(request) link;
};

struct store_writer {
	pthread_mutex_t mutex;
	pthread_cond_t queued;
	TAILQ_HEAD(, request) queue; /* guarded by mutex */
	bool ending;                 /* guarded by mutex */
	pthread_t thread;
	struct store_conn *conn;     /* borrowed; writer thread only */
	VEC(struct request *) batch; /* writer thread only */
	atomic_uint_fast64_t commits;
};

static void store_writer_fail_all(struct request **requests, size_t count,
				  const struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		if (requests[i]->result == 0)
			*requests[i]->err = *err;
		requests[i]->result = -1;
	}
}

/* False: the transaction is gone and nothing of it was written. */
static bool run_all(struct store_conn *conn, struct request **requests, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct request *request = requests[i];
		request->result = store_conn_run_nested(conn, request->work, request->arg,
							request->err);
		if (conn->torn)
			return false;
	}
	return true;
}

static void run_batch(struct store_writer *writer, struct request **requests,
		      size_t count)
{
	struct err err;

	for (size_t i = 0; i < count; i++)
		requests[i]->result = 0;
	if (store_conn_begin(writer->conn, STORE_WRITER, &err) != 0) {
		store_writer_fail_all(requests, count, &err);
		return;
	}
	if (!run_all(writer->conn, requests, count)) {
		for (size_t i = 0; count > 1 && i < count; i++)
			run_batch(writer, &requests[i], 1);
		return;
	}
	if (store_conn_commit(writer->conn, &err) != 0)
		store_writer_fail_all(requests, count, &err);
	else
		atomic_fetch_add(&writer->commits, 1);
}

/* Moves the queue into the batch, waiting for one to come; false at the end. */
static bool take_queue(struct store_writer *writer)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&writer->mutex);
	struct request *request;

	while (TAILQ_EMPTY(&writer->queue) && !writer->ending)
		cond_wait_until(&writer->queued, &writer->mutex, INT64_MAX);
	writer->batch.count = 0;
	while ((request = TAILQ_FIRST(&writer->queue)) != NULL) {
		TAILQ_REMOVE(&writer->queue, request, link);
		vec_add(&writer->batch, request);
	}
	return writer->batch.count > 0;
}

/* Under the mutex to the end: a request is gone as soon as its caller sees done. */
static void wake_callers(struct store_writer *writer)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&writer->mutex);

	for (size_t i = 0; i < writer->batch.count; i++) {
		writer->batch.items[i]->done = true;
		pthread_cond_signal(&writer->batch.items[i]->finished);
	}
}

static void *write_until_end(void *arg)
{
	struct store_writer *writer = arg;

	while (take_queue(writer)) {
		run_batch(writer, writer->batch.items, writer->batch.count);
		wake_callers(writer);
	}
	return NULL;
}

struct store_writer *store_writer_start(struct store_conn *conn)
{
	struct store_writer *writer = xcalloc(1, sizeof(*writer));

	mutex_init(&writer->mutex);
	cond_init(&writer->queued);
	TAILQ_INIT(&writer->queue);
	atomic_init(&writer->commits, 0);
	writer->conn = conn;
	thread_start(&writer->thread, "store-writer", write_until_end, writer);
	return writer;
}

void store_writer_stop(struct store_writer *writer)
{
	lock(&writer->mutex);
	writer->ending = true;
	pthread_cond_signal(&writer->queued);
	unlock(&writer->mutex);
	thread_join(writer->thread);
	vec_clear(&writer->batch);
	pthread_cond_destroy(&writer->queued);
	pthread_mutex_destroy(&writer->mutex);
	free(writer);
}

static void wait_until_done(struct store_writer *writer, struct request *request)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&writer->mutex);

	TAILQ_INSERT_TAIL(&writer->queue, request, link);
	pthread_cond_signal(&writer->queued);
	while (!request->done)
		cond_wait_until(&request->finished, &writer->mutex, INT64_MAX);
}

int store_writer_run(struct store_writer *writer, store_work work, void *arg,
		     struct err *err)
{
	struct request request = { .work = work, .arg = arg, .err = err };

	cond_init(&request.finished);
	wait_until_done(writer, &request);
	pthread_cond_destroy(&request.finished);
	return request.result;
}

uint64_t store_writer_commits(struct store_writer *writer)
{
	return atomic_load(&writer->commits);
}
