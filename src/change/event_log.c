/*
 * Who waits for an event first puts itself into the list of waiters, then reads, then
 * waits for its eventfd: an event that is committed after that read wakes it, however
 * the two fall together. While it waits nothing is read.
 *
 * A database that was restored from a backup, or copied, would give ids and generations a
 * second meaning, so the log begins another timeline then. To know it, the log has an
 * identity of its own in the database ("log.identity"), wherever that is; and each node
 * keeps beside it, in the file "log.seen" of its data directory, which log it saw, and
 * what its newest event was, with its mark. When the log is opened, it is another one
 *
 *	if it has not the identity that was seen: another database stands in its place;
 *	if it has not the event that was seen: it is an older state of the same;
 *	if the file is not there, or is a copy (it names its own inode and time of birth),
 *	and the database is a file, too: they were brought here from elsewhere. Of one on
 *	a server this says only that the node is new.
 *
 * Another timeline comes with another identity, or the copy and its original would pass
 * for each other. An event is written into the file after it is committed, without
 * waiting for the disk: what was seen may be older than the log, and then is no proof
 * against it, but never newer, unless the log went back. A reader who has seen more, as a
 * secondary, finds out what the node cannot (event_log_went_back()). Former versions had
 * no identity: there the file that the database was stands in "log.file".
 */
#include "change/event_log.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "change/origin_root.h"
#include "replicable/kind.h"
#include "replicable/kind_names.h"
#include "replicable/name.h"
#include "store/site_value.h"

/* Site values of the log. */
#define EVENT_TIMELINE_KEY "log.timeline"
#define EVENT_SCANNED_KEY "log.scanned"         /* the timeline in which it was */
#define EVENT_SCANNED_ALL_KEY "log.scanned_all" /* likewise, with nothing hidden */
#define EVENT_IDENTITY_KEY "log.identity"       /* drawn with the first timeline */
#define EVENT_FILE_KEY "log.file"               /* of former versions */
#define EVENT_LAST_KEY "log.last"     /* "ID MARK AT" of the newest event ever */
#define EVENT_PRUNED_KEY "log.pruned" /* "ID MARK" of the newest that was dropped */

/* One answer, from one picture of the database. `how` and `events` as event_log_read. */
struct event_page {
	const struct event_question *question;
	enum event_read how;
	event_list *events;
	struct event_ends *ends;
};

/* Drops the oldest, some at a time, as long as they are older than `before` or at most
 * `up_to`; *dropped: how many; fewer than EVENT_PRUNE_BATCH: it is done. */
#define EVENT_PRUNE_BATCH 1000
struct event_pruning {
	int64_t before;
	uint64_t keep_count;
	size_t dropped;
};

/*
 * Writes are one after another, whoever makes them, so the next id is the last one and
 * one more: dense, in the order of commits, and a reader who sees id N sees all below
 * it. What the newest and the newest dropped event were stands in site values, so that
 * a log without any event goes on where it was and can still tell a reader whether its
 * position is of this very log.
 */

/* A page ends when it has so much of changes, whatever its limit: at least one event. */
#define PAGE_BYTES ((size_t)4 << 20)
#define WENT_BACK_MS 600000

struct position {
	uint64_t id;
	char mark[EVENT_MARK_SIZE];
	int64_t at;
};

/* Zeroes when there is none. */
static int read_position(struct store_tx *tx, const char *key, struct position *position,
			 struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	int found = site_value_get(tx, key, &text, err);

	*position = (struct position){ 0 };
	if (found <= 0)
		return found;
	if (sscanf(text.data, "%" SCNu64 " %16s %" SCNd64, &position->id, position->mark,
		   &position->at) >= 2)
		return 0;
	return err_set(err, ERR_CORRUPT, "the database's value %s is damaged", key);
}

static int write_position(struct store_tx *tx, const char *key, uint64_t id,
			  const char *mark, int64_t at, struct err *err)
{
	char text[80];

	snprintf(text, sizeof(text), "%" PRIu64 " %s %" PRId64, id, mark, at);
	return site_value_set(tx, key, text, err);
}

static int event_rows_insert(struct store_tx *tx, const struct event *event,
			     struct err *err)
{
	return query_write(
		tx, err,
		"INSERT INTO event (id, mark, at, kind, name, what, timeline,"
		" generation, checksum, changes, size)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
		QUERY_INT((int64_t)event->id), QUERY_TEXT(event->mark),
		QUERY_INT(event->at), QUERY_TEXT(event->kind), QUERY_TEXT(event->name),
		QUERY_INT(event->what), QUERY_TEXT(event->timeline),
		QUERY_INT((int64_t)event->generation), QUERY_TEXT(event->checksum),
		QUERY_TEXT(event->changes), QUERY_INT((int64_t)event->size));
}

int event_log_append(struct store_tx *tx, struct event *event, struct err *err)
{
	struct position last;

	if (read_position(tx, EVENT_LAST_KEY, &last, err) != 0)
		return -1;
	event->id = last.id + 1;
	event->at = clock_wall_ms();
	random_hex(event->mark, (EVENT_MARK_SIZE - 1) / 2);
	if (event_rows_insert(tx, event, err) != 0)
		return -1;
	return write_position(tx, EVENT_LAST_KEY, event->id, event->mark, event->at, err);
}

int event_log_ends(struct store_tx *tx, struct event_ends *ends, struct err *err)
{
	AUTO_STR struct str timeline = STR_INIT;
	struct position last, pruned;

	*ends = (struct event_ends){ 0 };
	if (read_position(tx, EVENT_LAST_KEY, &last, err) != 0 ||
	    read_position(tx, EVENT_PRUNED_KEY, &pruned, err) != 0 ||
	    site_value_get(tx, EVENT_TIMELINE_KEY, &timeline, err) < 0)
		return -1;
	ends->first = pruned.id + 1;
	ends->last = last.id;
	ends->last_at = last.at;
	memcpy(ends->mark, last.mark, sizeof(ends->mark));
	snprintf(ends->timeline, sizeof(ends->timeline), "%s", timeline.data);
	return 0;
}

/* 1: event `id` has this mark; 0: not. It is kept, or the newest that was dropped. */
static int has_mark(struct store_tx *tx, uint64_t id, const char *mark, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	struct position pruned;
	int found;

	if (read_position(tx, EVENT_PRUNED_KEY, &pruned, err) != 0)
		return -1;
	if (pruned.id == id)
		return strcmp(pruned.mark, mark) == 0;
	if (query_ask(tx, &query, err, "SELECT mark FROM event WHERE id = ?1",
		      QUERY_INT((int64_t)id)) != 0)
		return -1;
	found = query_step(query, err);
	return found > 0 ? strcmp(query_text(query, 0), mark) == 0 : found;
}

/* Whether the reader's position is one of this log, and what follows is still kept. */
static int check_position(struct store_tx *tx, const struct event_question *question,
			  const struct event_ends *ends, enum event_read *how,
			  struct err *err)
{
	bool is_marked = question->mark && *question->mark && question->after > 0;
	int is_ours = 1;

	*how = EVENTS_READ;
	if (question->after > ends->last)
		*how = EVENTS_OTHER_TIMELINE;
	else if (question->after + 1 < ends->first)
		*how = EVENTS_GONE;
	else if (is_marked)
		is_ours = has_mark(tx, question->after, question->mark, err);
	if (is_ours == 0)
		*how = EVENTS_OTHER_TIMELINE;
	return is_ours < 0 ? -1 : 0;
}

static void event_rows_fill_event(struct query *query, struct event *event)
{
	*event = (struct event){
		.id = (uint64_t)query_int(query, 0),
		.at = query_int(query, 2),
		.kind = query_copy_text(query, 3),
		.name = query_copy_text(query, 4),
		.what = (enum event_what)query_int(query, 5),
		.generation = (uint64_t)query_int(query, 7),
		.checksum = query_copy_text(query, 8),
		.changes = query_copy_text(query, 9),
		.size = (uint64_t)query_int(query, 10),
	};
	snprintf(event->mark, sizeof(event->mark), "%s", query_text(query, 1));
	snprintf(event->timeline, sizeof(event->timeline), "%s", query_text(query, 6));
}

static int read_after(struct store_tx *tx, uint64_t after, size_t limit,
		      event_list *events, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	struct event event;
	size_t bytes = 0;
	int found = 0;

	if (query_ask(tx, &query, err,
		      "SELECT id, mark, at, kind, name, what, timeline, generation,"
		      " checksum, changes, size FROM event WHERE id > ?1 ORDER BY id "
		      "LIMIT ?2",
		      QUERY_INT((int64_t)after), QUERY_INT((int64_t)limit)) != 0)
		return -1;
	while (bytes < PAGE_BYTES && (found = query_step(query, err)) > 0) {
		event_rows_fill_event(query, &event);
		bytes += event.changes ? strlen(event.changes) : 0;
		vec_add(events, event);
	}
	return found < 0 ? -1 : 0;
}

static int event_rows_read_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct event_page *page = arg;
	struct event_question question = *page->question;

	event_list_clear(page->events);
	if (event_log_ends(tx, page->ends, err) != 0)
		return -1;
	if (question.after == EVENTS_FROM_OLDEST)
		question.after = page->ends->first - 1;
	if (check_position(tx, &question, page->ends, &page->how, err) != 0)
		return -1;
	if (page->how != EVENTS_READ || question.after == page->ends->last)
		return 0;
	return read_after(tx, question.after, question.limit, page->events, err);
}

struct event_spanning {
	const struct event_span *span;
	text_list *changes;
};

static int event_changes_read_work(struct store_tx *tx, void *arg, struct err *err)
{
	const struct event_spanning *spanning = arg;
	const struct event_span *span = spanning->span;
	AUTO_QUERY struct query *query = NULL;
	int found;

	text_list_clear(spanning->changes);
	if (query_ask(tx, &query, err,
		      "SELECT changes, timeline FROM event WHERE kind = ?1 AND name = ?2"
		      " AND generation > ?3 AND generation <= ?4 AND what = ?5"
		      " AND changes IS NOT NULL ORDER BY generation, id",
		      QUERY_TEXT(KIND_REPOSITORY), QUERY_TEXT(span->name),
		      QUERY_INT((int64_t)span->after), QUERY_INT((int64_t)span->until),
		      QUERY_INT(EVENT_UPDATED)) != 0)
		return -1;
	while ((found = query_step(query, err)) > 0)
		if (strcmp(query_text(query, 1), span->timeline) == 0)
			vec_add(spanning->changes, query_copy_text(query, 0));
	return found;
}

int event_log_changes(struct store *store, const struct event_span *span,
		      text_list *changes, struct err *err)
{
	struct event_spanning spanning = { span, changes };

	if (span->until < span->after || span->until - span->after > span->most)
		return 0;
	if (span->until == span->after)
		return 1;
	if (store_read(store, event_changes_read_work, &spanning, err) != 0)
		return -1;
	return changes->count == span->until - span->after;
}

struct event_latest {
	const char *name;
	size_t most;
	event_list *events;
};

static int event_latest_read_work(struct store_tx *tx, void *arg, struct err *err)
{
	const struct event_latest *latest = arg;
	AUTO_QUERY struct query *query = NULL;
	struct event event;
	int found;

	event_list_clear(latest->events);
	if (query_ask(tx, &query, err,
		      "SELECT id, mark, at, kind, name, what, timeline, generation,"
		      " checksum, changes, size FROM event WHERE kind = ?1 AND name = ?2"
		      " AND changes IS NOT NULL ORDER BY id DESC LIMIT ?3",
		      QUERY_TEXT(KIND_REPOSITORY), QUERY_TEXT(latest->name),
		      QUERY_INT((int64_t)latest->most)) != 0)
		return -1;
	while ((found = query_step(query, err)) > 0) {
		event_rows_fill_event(query, &event);
		vec_add(latest->events, event);
	}
	return found;
}

int event_log_latest(struct store *store, const char *name, size_t most,
		     event_list *events, struct err *err)
{
	struct event_latest latest = { name, most, events };

	return store_read(store, event_latest_read_work, &latest, err);
}

/* The newest of the events that go, in one batch; id 0: none goes. Only what is oldest
 * can go, so that ids stay dense: an event with a time of a wrong clock waits for the
 * count. */
static int find_last_to_go(struct store_tx *tx, struct event_pruning *pruning,
			   struct position *to_go, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	struct position last;
	int found = 0;

	*to_go = (struct position){ 0 };
	pruning->dropped = 0;
	if (read_position(tx, EVENT_LAST_KEY, &last, err) != 0 ||
	    query_open(tx, "SELECT id, mark, at FROM event ORDER BY id LIMIT ?1", &query,
		       err) != 0)
		return -1;
	query_bind_int(query, 1, EVENT_PRUNE_BATCH);
	while ((found = query_step(query, err)) > 0) {
		uint64_t id = (uint64_t)query_int(query, 0);
		int64_t at = query_int(query, 2);
		if (at >= pruning->before && last.id - id < pruning->keep_count)
			break;
		*to_go = (struct position){ .id = id, .at = at };
		snprintf(to_go->mark, sizeof(to_go->mark), "%s", query_text(query, 1));
		pruning->dropped++;
	}
	return found < 0 ? -1 : 0;
}

static int event_rows_prune_work(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	struct event_pruning *pruning = arg;
	struct position to_go;

	if (find_last_to_go(tx, pruning, &to_go, err) != 0)
		return -1;
	if (to_go.id == 0)
		return 0;
	if (query_ask(tx, &query, err, "DELETE FROM event WHERE id <= ?1",
		      QUERY_INT((int64_t)to_go.id)) != 0)
		return -1;
	if (query_run(query, NULL, err) != 0)
		return -1;
	return write_position(tx, EVENT_PRUNED_KEY, to_go.id, to_go.mark, to_go.at, err);
}

struct waiter {
	int fd; /* an eventfd */
	TAILQ_ENTRY(waiter) link;
};

struct event_log {
	pthread_mutex_t mutex;
	TAILQ_HEAD(, waiter) waiters;        /* guarded by mutex */
	struct store *store;                 /* borrowed */
	int seen;                            /* the file; -1: there is none */
	char identity[TIMELINE_SIZE], *file; /* as written there; file is owned */
	uint64_t seen_id;                    /* guarded by mutex; likewise */
	atomic_int_fast64_t went_back_at;    /* boot ms; 0: never */
};

/* What is in data/log.seen. */
struct event_memory {
	char identity[TIMELINE_SIZE];
	uint64_t id;
	char mark[EVENT_MARK_SIZE]; /* "-" of id 0 */
	char file[64];              /* which file it was written into */
};

#define SEEN_TEXT_MOST 512

/* False: it cannot be understood. */
static bool event_memory_read(int fd, struct event_memory *memory)
{
	char text[SEEN_TEXT_MOST] = "";

	return pread(fd, text, sizeof(text) - 1, 0) > 0 &&
	       sscanf(text, "log %16s event %" SCNu64 " %16s file %63[^\n]",
		      memory->identity, &memory->id, memory->mark, memory->file) == 4;
}

/* In its place: the file stays the one that it names. While a log is open the text only
 * grows. */
static int event_memory_write(int fd, const struct event_memory *memory)
{
	char text[SEEN_TEXT_MOST];
	int len = snprintf(text, sizeof(text), "log %s\nevent %" PRIu64 " %s\nfile %s\n",
			   memory->identity, memory->id,
			   memory->id > 0 ? memory->mark : "-", memory->file);

	return pwrite(fd, text, (size_t)len, 0) == len ? len : -1;
}

struct opening {
	const struct event_memory *seen; /* NULL: nothing was */
	const char *file;                /* that the database is; NULL: none */
	const char *why;                 /* it is another one; NULL: it is the same */
	char identity[TIMELINE_SIZE];    /* that it has now */
	struct event_ends ends;          /* likewise */
};

/* A log of a former version, or none. */
static int judge_by_file(struct store_tx *tx, struct opening *opening, struct err *err)
{
	AUTO_STR struct str known = STR_INIT;
	AUTO_FREE char *file =
		opening->file ? identity_of(AT_FDCWD, opening->file) : NULL;
	int found = site_value_get(tx, EVENT_FILE_KEY, &known, err);

	if (found > 0 && (!file || strcmp(known.data, file) != 0))
		opening->why = "the database is another file than before";
	return found < 0 ? -1 : site_value_remove(tx, EVENT_FILE_KEY, err);
}

static int judge_by_event(struct store_tx *tx, struct opening *opening, struct err *err)
{
	const struct event_memory *seen = opening->seen;
	const struct event_question question = { .after = seen->id, .mark = seen->mark };
	enum event_read how;

	if (check_position(tx, &question, &opening->ends, &how, err) != 0)
		return -1;
	if (how == EVENTS_OTHER_TIMELINE)
		opening->why = "the database has not the newest event that was seen";
	return 0;
}

static int judge(struct store_tx *tx, struct opening *opening, struct err *err)
{
	AUTO_STR struct str identity = STR_INIT;
	int found = site_value_get(tx, EVENT_IDENTITY_KEY, &identity, err);

	snprintf(opening->identity, sizeof(opening->identity), "%s", identity.data);
	if (found <= 0)
		return found < 0 ? -1 : judge_by_file(tx, opening, err);
	if (!opening->seen && opening->file)
		opening->why = "the database was brought here from elsewhere";
	if (!opening->seen)
		return 0;
	if (strcmp(opening->identity, opening->seen->identity) == 0)
		return judge_by_event(tx, opening, err);
	opening->why = "the database is another one than before";
	return 0;
}

static int draw_timeline(struct store_tx *tx, struct err *err)
{
	char timeline[TIMELINE_SIZE];

	random_hex(timeline, (TIMELINE_SIZE - 1) / 2);
	if (site_value_set(tx, EVENT_TIMELINE_KEY, timeline, err) != 0)
		return -1;
	return origin_rows_draw_timelines(tx, err);
}

static int draw_identity(struct store_tx *tx, struct opening *opening, struct err *err)
{
	random_hex(opening->identity, (TIMELINE_SIZE - 1) / 2);
	return site_value_set(tx, EVENT_IDENTITY_KEY, opening->identity, err);
}

static int open_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct opening *opening = arg;

	opening->why = NULL;
	if (event_log_ends(tx, &opening->ends, err) != 0 || judge(tx, opening, err) != 0)
		return -1;
	if ((!opening->identity[0] || opening->why) &&
	    draw_identity(tx, opening, err) != 0)
		return -1;
	if (opening->ends.timeline[0] && !opening->why)
		return 0;
	if (!opening->ends.timeline[0])
		opening->why = NULL; /* there was none */
	return draw_timeline(tx, err);
}

struct renewal {
	const char *timeline; /* that it is to be */
	bool is_too_soon;     /* after the last one */
	bool is_done;
};

static int renew_work(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_STR struct str timeline = STR_INIT;
	struct renewal *renewal = arg;

	if (site_value_get(tx, EVENT_TIMELINE_KEY, &timeline, err) < 0)
		return -1;
	renewal->is_done = strcmp(timeline.data, renewal->timeline) == 0;
	if (!renewal->is_done)
		return 0;
	if (!renewal->is_too_soon)
		return draw_timeline(tx, err);
	err_set(err, ERR_BUSY, "a secondary claims again that the event log went back");
	return err_remedy(err,
			  "if it did, wait for %d minutes; else find out which "
			  "secondary asks for events that never were",
			  WENT_BACK_MS / 60000);
}

/* Nothing but a secondary's word proves it. */
int event_log_went_back(struct event_log *log, const char *timeline, struct err *err)
{
	const int64_t before = atomic_load(&log->went_back_at);
	struct renewal renewal = { .timeline = timeline,
				   .is_too_soon = before > 0 && clock_boot_ms() - before <
									WENT_BACK_MS };

	if (store_write(log->store, renew_work, &renewal, err) != 0)
		return -1;
	if (!renewal.is_done)
		return 0;
	atomic_store(&log->went_back_at, clock_boot_ms());
	log_warn("log.restored",
		 LOG_TEXT("why", "a secondary has read events that the database has "
				 "no more, as after a rollback to a snapshot: "
				 "secondaries will compare everything"));
	return 0;
}

int event_log_renew(struct store *store, const char *timeline, struct err *err)
{
	struct renewal renewal = { .timeline = timeline };

	return store_write(store, renew_work, &renewal, err);
}

static int open_rows(struct store *store, const struct event_memory *seen,
		     struct opening *opening, struct err *err)
{
	*opening = (struct opening){ .seen = seen, .file = store_file(store) };
	if (store_write(store, open_work, opening, err) != 0)
		return -1;
	if (opening->why)
		log_warn("log.restored",
			 LOG_TEXT("path", opening->file ? opening->file : ""),
			 LOG_TEXT("why", opening->why));
	return 0;
}

/* How long it is; -1. */
static int write_seen(struct event_log *log, uint64_t id, const char *mark)
{
	struct event_memory memory = { .id = id };

	memcpy(memory.identity, log->identity, sizeof(memory.identity));
	memcpy(memory.mark, mark, sizeof(memory.mark));
	snprintf(memory.file, sizeof(memory.file), "%s", log->file);
	log->seen_id = id;
	return event_memory_write(log->seen, &memory);
}

/* Durable, so that a machine that loses power does not lose the identity. */
static int remember_opening(struct event_log *log, const struct opening *opening,
			    const char *path, struct err *err)
{
	const struct event_memory *seen = opening->seen;
	bool is_known = seen && strcmp(seen->identity, opening->identity) == 0;

	memcpy(log->identity, opening->identity, sizeof(log->identity));
	if (is_known && seen->id == opening->ends.last) {
		log->seen_id = seen->id;
		return 0;
	}
	int len = write_seen(log, opening->ends.last, opening->ends.mark);
	if (len < 0 || ftruncate(log->seen, len) != 0 ||
	    (!is_known && fsync(log->seen) != 0))
		return err_errno(err, "cannot write %s", path);
	return 0;
}

static int open_remembered(struct event_log *log, const char *data, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/log.seen", data);
	struct event_memory memory = { 0 };
	struct opening opening;

	log->seen = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	log->file = log->seen < 0 ? NULL : identity_of(log->seen, "");
	if (!log->file)
		return err_errno(err, "cannot open %s", path);
	bool is_ours = event_memory_read(log->seen, &memory) &&
		       strcmp(memory.file, log->file) == 0;
	if (open_rows(log->store, is_ours ? &memory : NULL, &opening, err) != 0)
		return -1;
	return remember_opening(log, &opening, path, err);
}

int event_log_open(struct store *store, const char *data, struct event_log **log,
		   struct err *err)
{
	struct event_log *opened = xcalloc(1, sizeof(*opened));
	struct opening opening;

	*log = NULL;
	mutex_init(&opened->mutex);
	TAILQ_INIT(&opened->waiters);
	opened->store = store;
	opened->seen = -1;
	if ((data ? open_remembered(opened, data, err)
		  : open_rows(store, NULL, &opening, err)) != 0) {
		event_log_close(opened);
		return -1;
	}
	*log = opened;
	return 0;
}

/* Of writes at the same time the later event counts. */
static void see_newest(struct event_log *log, uint64_t id, const char *mark)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&log->mutex);

	if (log->seen >= 0 && id > log->seen_id)
		(void)!write_seen(log, id, mark); /* with the next one then */
}

/* Repositories have two keys, of before there were other kinds: each has the timeline if
 * so much was scanned. The first of them is set by any scan. */
static void event_log_scanned_key(const char *kind, char key[64])
{
	if (kind_is_repository(kind))
		snprintf(key, 64, EVENT_SCANNED_KEY);
	else
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
	if (kind_is_repository(kind))
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
	if (kind_is_repository(scanning->kind)) {
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

int event_log_was_scanned(struct store *store, const char *kind, bool *was_scanned,
			  struct err *err)
{
	AUTO_STR struct str timeline = STR_INIT;
	char key[64];

	event_log_scanned_key(kind, key);
	int found = site_value_read(store, key, &timeline, err);
	*was_scanned = found > 0;
	return found < 0 ? -1 : 0;
}

void event_log_close(struct event_log *log)
{
	if (!log)
		return;
	assert(TAILQ_EMPTY(&log->waiters));
	pthread_mutex_destroy(&log->mutex);
	if (log->seen >= 0)
		close(log->seen);
	free(log->file);
	free(log);
}

void event_log_wake(struct event_log *log, const struct event_mark *newest)
{
	const struct waiter *waiter;
	struct event_ends ends;

	lock(&log->mutex);
	TAILQ_FOREACH(waiter, &log->waiters, link)
	eventfd_write(waiter->fd, 1);
	unlock(&log->mutex);
	if (newest)
		see_newest(log, newest->id, newest->mark);
	else if (event_log_look(log->store, &ends, ERR_IGNORED) == 0)
		see_newest(log, ends.last, ends.mark);
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

static int wait_and_read(struct event_log *log, struct event_page *page,
			 const struct waiter *waiter, struct err *err)
{
	const struct event_question *question = page->question;
	int64_t until = clock_boot_ms() + question->wait_ms;
	int result;

	do {
		result = store_read(log->store, event_rows_read_work, page, err);
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
	result = store_read(store, event_rows_read_work, &page, err);
	*how = page.how;
	return result;
}

int event_log_prune(struct store *store, int64_t keep_ms, uint64_t keep_count,
		    uint64_t *dropped, struct err *err)
{
	struct event_pruning pruning = { .before = clock_wall_ms() - keep_ms,
					 .keep_count = keep_count };

	*dropped = 0;
	do {
		if (store_write(store, event_rows_prune_work, &pruning, err) != 0)
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
