/*
 * Who waits for an event first puts itself into the list of waiters, then reads, then
 * waits for its eventfd: an event that is committed after that read wakes it, however
 * the two fall together. While it waits nothing is read.
 *
 * A database that was restored from a backup, or copied, would give ids and generations
 * a second meaning. The file's identity tells.
 */
#include "change/event_log.h"

#include <assert.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "change/event_rows.h"
#include "change/identity.h"
#include "replicable/name.h"
#include "store/site_value.h"

struct waiter {
	int fd; /* an eventfd */
	TAILQ_ENTRY(waiter) link;
};

struct event_log {
	pthread_mutex_t mutex;
	TAILQ_HEAD(, waiter) waiters; /* guarded by mutex */
	struct store *store;          /* borrowed */
};

void event_clear(struct event *event)
{
	free(event->kind);
	free(event->name);
	free(event->checksum);
	free(event->changes);
	*event = (struct event){ 0 };
}

void event_list_clear(event_list *events)
{
	for (size_t i = 0; i < events->count; i++)
		event_clear(&events->items[i]);
	vec_clear(events);
}

struct opening {
	const char *file; /* NULL: in memory */
	bool is_restored;
};

/* Another file than the one that the log was in. */
static int is_another_file(struct store_tx *tx, const char *file, struct err *err)
{
	AUTO_STR struct str known = STR_INIT;
	int found = site_value_get(tx, EVENT_FILE_KEY, &known, err);

	return found > 0 ? strcmp(known.data, file) != 0 : found;
}

static int draw_timeline(struct store_tx *tx, struct err *err)
{
	char timeline[TIMELINE_SIZE];

	random_hex(timeline, (TIMELINE_SIZE - 1) / 2);
	if (site_value_set(tx, EVENT_TIMELINE_KEY, timeline, err) != 0)
		return -1;
	return origin_rows_set_timeline(tx, timeline, err);
}

static int open_work(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_STR struct str timeline = STR_INIT;
	struct opening *opening = arg;
	int is_there = site_value_get(tx, EVENT_TIMELINE_KEY, &timeline, err);
	int is_another = opening->file ? is_another_file(tx, opening->file, err) : 0;

	if (is_there < 0 || is_another < 0)
		return -1;
	opening->is_restored = is_there && is_another;
	if ((!is_there || is_another) && draw_timeline(tx, err) != 0)
		return -1;
	return opening->file ? site_value_set(tx, EVENT_FILE_KEY, opening->file, err) : 0;
}

struct renewal {
	const char *timeline; /* that it is to be */
	bool is_done;
};

static int renew_work(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_STR struct str timeline = STR_INIT;
	struct renewal *renewal = arg;

	if (site_value_get(tx, EVENT_TIMELINE_KEY, &timeline, err) < 0)
		return -1;
	renewal->is_done = strcmp(timeline.data, renewal->timeline) == 0;
	return renewal->is_done ? draw_timeline(tx, err) : 0;
}

int event_log_went_back(struct store *store, const char *timeline, struct err *err)
{
	struct renewal renewal = { .timeline = timeline };

	if (store_write(store, renew_work, &renewal, err) != 0)
		return -1;
	if (renewal.is_done)
		log_warn("log.restored",
			 LOG_TEXT("why",
				  "a secondary has read events that the database has "
				  "no more, as after a rollback to a snapshot: "
				  "secondaries will compare everything"));
	return 0;
}

int event_log_renew(struct store *store, const char *timeline, struct err *err)
{
	struct renewal renewal = { .timeline = timeline };

	return store_write(store, renew_work, &renewal, err);
}

static int open_rows(struct store *store, const char *path, struct err *err)
{
	bool in_memory = strcmp(path, ":memory:") == 0;
	AUTO_FREE char *file = in_memory ? NULL : identity_of(AT_FDCWD, path);
	struct opening opening = { .file = file };

	if (!in_memory && !file)
		return err_errno(err, "cannot look at the database %s", path);
	if (store_write(store, open_work, &opening, err) != 0)
		return -1;
	if (opening.is_restored)
		log_warn("log.restored", LOG_TEXT("path", path),
			 LOG_TEXT("why",
				  "the database is another file than before, as after "
				  "a restore or a copy: secondaries will compare "
				  "everything"));
	return 0;
}

int event_log_open(struct store *store, const char *database_path, struct event_log **log,
		   struct err *err)
{
	*log = NULL;
	if (open_rows(store, database_path, err) != 0)
		return -1;
	struct event_log *opened = xcalloc(1, sizeof(*opened));
	mutex_init(&opened->mutex);
	TAILQ_INIT(&opened->waiters);
	opened->store = store;
	*log = opened;
	return 0;
}

/* Repositories have two keys, of before there were other kinds: each has the timeline if
 * so much was scanned. */
static void event_log_scanned_key(const char *kind, char key[64])
{
	snprintf(key, 64, EVENT_SCANNED_KEY ".%s", kind);
}

static int event_log_read_scanned(struct store_tx *tx, const char *timeline,
				  enum event_scanned *scanned, struct err *err)
{
	AUTO_STR struct str part = STR_INIT;
	AUTO_STR struct str all = STR_INIT;

	if (site_value_get(tx, EVENT_SCANNED_KEY, &part, err) < 0 ||
	    site_value_get(tx, EVENT_SCANNED_ALL_KEY, &all, err) < 0)
		return -1;
	if (strcmp(timeline, all.data) == 0)
		*scanned = SCANNED_ALL;
	else if (strcmp(timeline, part.data) == 0)
		*scanned = SCANNED_PART;
	return 0;
}

int event_log_scanned_in(struct store_tx *tx, const char *kind,
			 enum event_scanned *scanned, struct err *err)
{
	AUTO_STR struct str timeline = STR_INIT;
	AUTO_STR struct str known = STR_INIT;
	char key[64];

	*scanned = SCANNED_NOTHING;
	if (site_value_get(tx, EVENT_TIMELINE_KEY, &timeline, err) < 0)
		return -1;
	if (timeline.len == 0)
		return 0;
	if (strcmp(kind, KIND_REPOSITORY) == 0)
		return event_log_read_scanned(tx, timeline.data, scanned, err);
	event_log_scanned_key(kind, key);
	if (site_value_get(tx, key, &known, err) < 0)
		return -1;
	if (text_starts_with(known.data, timeline.data))
		*scanned = strcmp(known.data + timeline.len, " all") == 0 ? SCANNED_ALL
									  : SCANNED_PART;
	return 0;
}

struct event_scanning {
	const char *kind;
	enum event_scanned scanned;
};

static int event_log_write_scanned(struct store_tx *tx, void *arg, struct err *err)
{
	const struct event_scanning *scanning = arg;
	const bool is_all = scanning->scanned == SCANNED_ALL;
	AUTO_STR struct str timeline = STR_INIT;
	enum event_scanned before;
	char key[64];

	if (event_log_scanned_in(tx, scanning->kind, &before, err) != 0 ||
	    site_value_get(tx, EVENT_TIMELINE_KEY, &timeline, err) < 0)
		return -1;
	if (before >= scanning->scanned)
		return 0;
	if (strcmp(scanning->kind, KIND_REPOSITORY) == 0) {
		if (site_value_set(tx, EVENT_SCANNED_KEY, timeline.data, err) != 0)
			return -1;
		return is_all ? site_value_set(tx, EVENT_SCANNED_ALL_KEY, timeline.data,
					       err)
			      : 0;
	}
	str_add(&timeline, is_all ? " all" : " part");
	event_log_scanned_key(scanning->kind, key);
	return site_value_set(tx, key, timeline.data, err);
}

int event_log_set_scanned(struct store *store, const char *kind,
			  enum event_scanned scanned, struct err *err)
{
	struct event_scanning scanning = { kind, scanned };

	return store_write(store, event_log_write_scanned, &scanning, err);
}

static int event_log_scanned_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct event_scanning *scanning = arg;

	return event_log_scanned_in(tx, scanning->kind, &scanning->scanned, err);
}

int event_log_scanned(struct store *store, const char *kind, enum event_scanned *scanned,
		      struct err *err)
{
	struct event_scanning scanning = { .kind = kind };
	int result = store_read(store, event_log_scanned_work, &scanning, err);

	*scanned = scanning.scanned;
	return result;
}

void event_log_close(struct event_log *log)
{
	if (!log)
		return;
	assert(TAILQ_EMPTY(&log->waiters));
	pthread_mutex_destroy(&log->mutex);
	free(log);
}

void event_log_wake(struct event_log *log)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&log->mutex);
	const struct waiter *waiter;

	TAILQ_FOREACH(waiter, &log->waiters, link)
	eventfd_write(waiter->fd, 1);
}

static int event_log_add_waiter(struct event_log *log, struct waiter *waiter,
				struct err *err)
{
	waiter->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (waiter->fd < 0)
		return err_errno(err, "cannot wait for events");
	AUTO_UNLOCK pthread_mutex_t *held = lock(&log->mutex);
	TAILQ_INSERT_TAIL(&log->waiters, waiter, link);
	return 0;
}

static void leave(struct event_log *log, struct waiter *waiter)
{
	lock(&log->mutex);
	TAILQ_REMOVE(&log->waiters, waiter, link);
	unlock(&log->mutex);
	close(waiter->fd);
}

/* True: woken, there may be something to read. False: time is over, or stop. */
static bool wait_for_wake(const struct waiter *waiter, const struct stop *stop,
			  int64_t until)
{
	struct pollfd fds[2] = { { .fd = waiter->fd, .events = POLLIN },
				 { .fd = stop ? stop->fd : -1, .events = POLLIN } };
	eventfd_t count;
	int64_t left;

	while ((left = until - clock_boot_ms()) > 0 &&
	       !(stop && stop_is_requested(stop))) {
		if (left > 60 * 1000)
			left = 60 * 1000; /* boot time goes on while the machine sleeps */
		if (poll(fds, ARRAY_SIZE(fds), (int)left) <= 0)
			continue;
		if (fds[0].revents) {
			eventfd_read(waiter->fd, &count);
			return true;
		}
	}
	return false;
}

static int event_log_read_work(struct store_tx *tx, void *arg, struct err *err)
{
	return event_rows_read(tx, arg, err);
}

static int wait_and_read(struct event_log *log, struct event_page *page,
			 const struct waiter *waiter, struct err *err)
{
	const struct event_question *question = page->question;
	int64_t until = clock_boot_ms() + question->wait_ms;
	int result;

	do {
		result = store_read(log->store, event_log_read_work, page, err);
	} while (result == 0 && page->how == EVENTS_READ && page->events->count == 0 &&
		 wait_for_wake(waiter, question->stop, until));
	return result;
}

int event_log_read(struct event_log *log, const struct event_question *question,
		   enum event_read *how, event_list *events, struct event_ends *ends,
		   struct err *err)
{
	struct event_page page = { question, EVENTS_READ, events, ends };
	AUTO_FREE struct waiter *waiter = NULL;
	int result;

	if (question->wait_ms <= 0)
		return event_log_read_once(log->store, question, how, events, ends, err);
	*events = (event_list){ 0 };
	waiter = xcalloc(1, sizeof(*waiter));
	if (event_log_add_waiter(log, waiter, err) != 0)
		return -1;
	result = wait_and_read(log, &page, waiter, err);
	leave(log, waiter);
	*how = page.how;
	return result;
}

int event_log_read_once(struct store *store, const struct event_question *question,
			enum event_read *how, event_list *events, struct event_ends *ends,
			struct err *err)
{
	struct event_page page = { question, EVENTS_READ, events, ends };
	int result;

	*events = (event_list){ 0 };
	result = store_read(store, event_log_read_work, &page, err);
	*how = page.how;
	return result;
}

static int prune_work(struct store_tx *tx, void *arg, struct err *err)
{
	return event_rows_prune(tx, arg, err);
}

int event_log_prune(struct store *store, int64_t keep_ms, uint64_t keep_count,
		    uint64_t *dropped, struct err *err)
{
	struct event_pruning pruning = { .before = clock_wall_ms() - keep_ms,
					 .keep_count = keep_count };

	*dropped = 0;
	do {
		if (store_write(store, prune_work, &pruning, err) != 0)
			return -1;
		*dropped += pruning.dropped;
		failpoint("events.pruned");
	} while (pruning.dropped == EVENT_PRUNE_BATCH);
	return 0;
}

static int read_ends(struct store_tx *tx, void *arg, struct err *err)
{
	return event_log_ends(tx, arg, err);
}

int event_log_look(struct store *store, struct event_ends *ends, struct err *err)
{
	return store_read(store, read_ends, ends, err);
}
