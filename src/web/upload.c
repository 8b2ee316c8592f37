/*
 * The mirror image of web/flow.c. The sender, one of the threads that serve all
 * connections, fills a block; the worker reads the other, and takes the sender's in
 * exchange for its own when it has read it. If the sender's is full, it leaves the rest
 * to the library and suspends the connection, so the client is held up by its own TCP
 * window; the worker resumes it when there is room.
 *
 * Unlike the other requests that a worker has, this one's connection is not suspended all
 * the time, so the library may end it while the worker reads: if the client goes away, or
 * web/idle.c closes it. This is why nobody touches what is gone:
 *
 * - The library ends a connection on the sender's thread only, and never one that is
 *   suspended. is_suspended is set before the library suspends and cleared before it
 *   resumes, under the mutex. So while it is set there is a connection, and only then
 *   does the worker use it, with the mutex held. (The library's own end of a resumption
 *   touches the daemon only, which outlives the workers.)
 * - When a request ends, its sender leaves, under the mutex: from there on it suspends
 *   nothing, so is_suspended stays false.
 * - What the worker reads of the request is not the library's: headers are copied before
 *   it starts. The request itself, and this with it, belong to both of them, and go with
 *   the last (web/exchange.h).
 *
 * Who waits for bytes is woken by their coming, or by the end of the request. That is
 * enough when the server ends, as well: it closes all sockets when it requests the cut.
 */
#include "web/upload.h"

#include <assert.h>

#include "base/clock.h"

enum { ASK_MS = 1000 };

struct upload {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct upload_path path;             /* as it says */
	const struct web_patience *patience; /* the worker's; or NULL */
	char *spare;                         /* the worker's, as the two below */
	size_t spare_len, at;
	char *block; /* guarded by mutex, as those below */
	size_t len;
	bool is_suspended;
	bool is_whole;    /* nothing follows what is in the block */
	bool is_finished; /* the worker */
	bool is_gone;     /* the sender */
};

struct upload *upload_new(const struct upload_path *path)
{
	struct upload *upload = xcalloc(1, sizeof(*upload));

	mutex_init(&upload->mutex);
	cond_init(&upload->changed);
	upload->path = *path;
	upload->spare = xmalloc(UPLOAD_BLOCK);
	upload->block = xmalloc(UPLOAD_BLOCK);
	return upload;
}

void upload_free(struct upload *upload)
{
	if (!upload)
		return;
	pthread_cond_destroy(&upload->changed);
	pthread_mutex_destroy(&upload->mutex);
	free(upload->spare);
	free(upload->block);
	free(upload);
}

static void suspend_locked(struct upload *upload)
{
	idle_hold(upload->path.idle);
	upload->is_suspended = true;
	MHD_suspend_connection(upload->path.connection);
}

static void upload_resume_locked(struct upload *upload)
{
	if (!upload->is_suspended)
		return;
	upload->is_suspended = false;
	MHD_resume_connection(upload->path.connection);
}

void upload_await_reader(struct upload *upload)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&upload->mutex);

	suspend_locked(upload);
}

/* Until there is something, or somebody is gone. False: patience is over. It is asked
 * without the mutex. */
static bool wait_for_client_locked(struct upload *upload)
{
	const struct web_patience *patience = upload->patience;
	bool may_wait = true;

	while (may_wait && upload->len == 0 && !upload->is_whole && !upload->is_gone) {
		int64_t until = patience ? clock_boot_ms() + ASK_MS : INT64_MAX;
		if (cond_wait_until(&upload->changed, &upload->mutex, until))
			continue;
		unlock(&upload->mutex);
		may_wait = patience->may_wait(patience->arg);
		lock(&upload->mutex);
	}
	return may_wait || upload->len > 0 || upload->is_whole || upload->is_gone;
}

/* Gives the worker the sender's block. 1, 0 at the end of the body, or -1. */
static int upload_fetch_block(struct upload *upload, struct err *err)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&upload->mutex);

	if (upload->len == 0 && !upload->is_whole)
		upload_resume_locked(upload); /* the sender waits for this */
	if (!wait_for_client_locked(upload))
		return err_set(err, ERR_BUSY,
			       "the body comes too slowly while others wait");
	if (stop_is_requested(upload->path.cut))
		return err_set(err, ERR_CANCELED, "this node is ending");
	if (upload->is_gone)
		return err_set(err, ERR_NETWORK,
			       "the client went away, or was too slow, before it had "
			       "sent all of the body");
	if (upload->len == 0)
		return 0;
	char *block = upload->block;
	upload->block = upload->spare;
	upload->spare = block;
	upload->spare_len = upload->len;
	upload->at = upload->len = 0;
	if (!upload->is_whole)
		upload_resume_locked(upload);
	return 1;
}

static ssize_t upload_read_plain(struct upload *upload, void *buffer, size_t size,
				 struct err *err)
{
	if (upload->at == upload->spare_len) {
		int result = upload_fetch_block(upload, err);
		if (result <= 0)
			return result;
	}
	size_t left = upload->spare_len - upload->at;
	size = size < left ? size : left;
	memcpy(buffer, upload->spare + upload->at, size);
	upload->at += size;
	return (ssize_t)size;
}

static ssize_t upload_read_packed(struct upload *upload, void *buffer, size_t size,
				  struct err *err)
{
	struct gunzip *gunzip = upload->path.gunzip;

	for (;;) {
		ssize_t count = gunzip_read(gunzip, buffer, size, err);
		if (count != 0)
			return count;
		int result = upload_fetch_block(upload, err);
		if (result < 0)
			return -1;
		if (result == 0)
			return gunzip_end(gunzip, err);
		gunzip_feed(gunzip, upload->spare, upload->spare_len);
	}
}

void upload_set_patience(struct upload *upload, const struct web_patience *patience)
{
	upload->patience = patience;
}

ssize_t upload_read(struct upload *upload, void *buffer, size_t size, struct err *err)
{
	assert(size > 0);
	return upload->path.gunzip ? upload_read_packed(upload, buffer, size, err)
				   : upload_read_plain(upload, buffer, size, err);
}

bool upload_finish(struct upload *upload)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&upload->mutex);

	upload->is_finished = true;
	upload->len = 0;
	upload_resume_locked(upload);
	return !upload->is_gone;
}

size_t upload_give(struct upload *upload, const char *bytes, size_t len)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&upload->mutex);
	size_t room = UPLOAD_BLOCK - upload->len;

	if (upload->is_finished)
		return len;
	/* Never when all is taken: in chunks, the library would go on at once. */
	if (len > room) {
		len = room;
		suspend_locked(upload);
	}
	memcpy(upload->block + upload->len, bytes, len);
	upload->len += len;
	pthread_cond_signal(&upload->changed);
	return len;
}

bool upload_end(struct upload *upload)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&upload->mutex);

	if (upload->is_finished)
		return true;
	upload->is_whole = true;
	suspend_locked(upload);
	pthread_cond_signal(&upload->changed);
	return false;
}

bool upload_is_finished(struct upload *upload)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&upload->mutex);

	return upload->is_finished;
}

bool upload_leave(struct upload *upload)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&upload->mutex);

	upload->is_gone = true;
	pthread_cond_signal(&upload->changed);
	return upload->is_finished;
}
