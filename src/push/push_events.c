/*
 * The thread that delivers holds no event: it reads the log above the id that was taken
 * last. So a webhook that is away costs no memory, and its queue is as long as the log.
 * Ids go on above the last that was sent, also if the log is removed or has lost its end:
 * one that was used is never another event's.
 * Events are posted one by one in their order; the next only after this one was taken, or
 * refused for good (4xx but 408 and 429).
 */
#include "push/push_events.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "base/thread.h"
#include "net/http.h"
#include "net/http_ask.h"
#include "push/push_run.h"
#include "push/task_list.h"

/*
 * A ref is done when no task for it is left at any destination of its repository. Two
 * pushes that end together may both find that, and tell it twice.
 *
 * Source: RefReplicatedEvent, RefReplicationDoneEvent and ReplicationState of Gerrit's
 * replication plugin.
 */

static json_t *new_event(const char *type, const struct push_group *group,
			 const char *ref)
{
	json_t *event = json_object();

	json_put_text(event, "type", type);
	json_put_text(event, "project", group->project);
	json_put_text(event, "ref", ref);
	return event;
}

/* How it went: NULL is "not-attempted". A whole push is as bad as its worst ref. */
static const enum ref_status *ref_events_find_status(const struct transfer_result *result,
						     const char *ref)
{
	static const enum ref_status ok = REF_OK, other = REF_REJECTED_OTHER_REASON;
	bool is_all = strcmp(ref, TASK_ALL_REFS) == 0;

	if (!result)
		return &other;
	for (size_t i = 0; i < result->refs.count; i++) {
		const struct ref_result *one = &result->refs.items[i];
		if (is_all ? !ref_status_is_good(one->status)
			   : strcmp(one->ref, ref) == 0)
			return &one->status;
	}
	return is_all ? &ok : NULL;
}

/* The plugin's name of a node: host and port, or a path. */
static void put_node(json_t *event, const struct destination *destination)
{
	const char *host = destination->host;
	const char *at = host ? strrchr(host, '@') : NULL;
	AUTO_FREE char *port = destination->port
				       ? xasprintf(":%u", (unsigned)destination->port)
				       : xstrdup("");
	AUTO_FREE char *node = host ? xasprintf("%s%s", at ? at + 1 : host, port)
				    : xstrdup(destination->path);

	json_put_text(event, "targetNode", node);
	json_put_text(event, "targetUri", destination->uri);
}

static void add_replicated(const struct push_run *run, const struct push_group *group,
			   const struct transfer_result *result, const char *ref)
{
	json_t *event = new_event("ref-replicated", group, ref);
	const enum ref_status *status = ref_events_find_status(result, ref);

	put_node(event, &group->destination);
	json_put_text(event, "status",
		      !status                       ? "not-attempted"
		      : ref_status_is_good(*status) ? "succeeded"
						    : "failed");
	json_put_text(event, "refStatus", status ? ref_status_name(*status) : NULL);
	push_events_add(run->push->options.events, event);
}

/* A destination of the repository, and what its tasks are for: there may be thousands, so
 * that is read once, and only if it is asked for. */
struct node_left {
	const struct destination *destination;
	struct map refs;
	bool is_read;
};
typedef VEC(struct node_left) nodes_left;

static bool has_left(const struct push_run *run, struct node_left *node, const char *ref)
{
	if (!node->is_read)
		task_store_add_refs(run->push->options.tasks, node->destination->uri,
				    &node->refs);
	node->is_read = true;
	return map_get(&node->refs, ref) || map_get(&node->refs, TASK_ALL_REFS);
}

static void add_if_done(const struct push_run *run, const struct push_group *group,
			const nodes_left *left, const char *ref)
{
	size_t nodes = 0;

	for (size_t i = 0; i < left->count; i++) {
		if (strcmp(ref, TASK_ALL_REFS) != 0 &&
		    !push_remote_takes_ref(left->items[i].destination->remote, ref))
			continue;
		if (has_left(run, &left->items[i], ref))
			return;
		nodes++;
	}
	json_t *event = new_event("ref-replication-done", group, ref);
	json_put_number(event, "nodesCount", (int64_t)nodes);
	push_events_add(run->push->options.events, event);
}

void ref_events_add(const struct push_run *run, const struct push_group *group,
		    const struct transfer_result *result)
{
	AUTO_DESTINATIONS destination_list list = { 0 };
	nodes_left left = { 0 };
	struct map seen = { 0 };

	if (!run->push->options.events)
		return;
	destinations_of(run->settings, group->project, &list);
	for (size_t i = 0; i < list.count; i++)
		vec_add(&left, ((struct node_left){ .destination = &list.items[i] }));
	for (size_t i = 0; i < group->tasks.count; i++) {
		const text_list *refs = &group->tasks.items[i]->task.refs;
		for (size_t k = 0; k < refs->count; k++) {
			if (map_put(&seen, refs->items[k], &seen))
				continue;
			add_replicated(run, group, result, refs->items[k]);
			add_if_done(run, group, &left, refs->items[k]);
		}
	}
	for (size_t i = 0; i < left.count; i++)
		map_clear(&left.items[i].refs);
	vec_clear(&left);
	map_clear(&seen);
}

#define LOG "push-events"
#define LOG_SIZE_MAX (2 << 20)
#define LINE_MAX_BYTES (1 << 20)
#define PAGE 100
#define RETRY_FIRST_MS 1000
#define RETRY_LAST_MS 300000
#define TIMEOUT_MS 30000

struct push_events {
	pthread_mutex_t mutex; /* the last: takes nothing; a line is written under it */
	char *data;            /* owned */
	int directory, fd;
	uint64_t last;                  /* guarded by mutex */
	bool is_failing;                /* guarded by mutex */
	struct push_settings *settings; /* a reference; guarded by mutex */
	pthread_cond_t news;            /* with mutex: an event, settings, or the end */
	bool is_ending;                 /* guarded by mutex */
	uint64_t wakes;                 /* guarded by mutex */
	struct stop stop;
	pthread_t thread;
};

static uint64_t push_events_parse_id(const char *line)
{
	static const char begin[] = "{\"id\":";

	return text_starts_with(line, begin) ? strtoull(line + strlen(begin), NULL, 10)
					     : 0;
}

/* A line that was torn, as by a full disk, has no end, or no id. */
static void push_events_add_lines(const char *text, uint64_t *after, size_t *left,
				  struct str *lines)
{
	const char *end;

	for (; *left > 0 && (end = strchr(text, '\n')) != NULL; text = end + 1) {
		uint64_t id = push_events_parse_id(text);
		if (id <= *after || end[-1] != '}')
			continue;
		str_add_bytes(lines, text, (size_t)(end - text) + 1);
		*after = id;
		--*left;
	}
}

static int push_events_read_file(int directory, const char *name, struct str *text,
				 struct err *err)
{
	if (file_read(directory, name, LOG_SIZE_MAX + LINE_MAX_BYTES, text, err) == 0)
		return 0;
	return err->class == ERR_MISSING ? 0 : -1;
}

/* Nobody waits for who rotates. The log is read first: if it becomes the old one then,
 * that has it all, and what was read of it is skipped by its ids. The other way round, a
 * whole file would be. */
static int push_events_read_files(int directory, struct str *old, struct str *log,
				  struct err *err)
{
	if (push_events_read_file(directory, LOG, log, err) != 0)
		return -1;
	return push_events_read_file(directory, LOG ".old", old, err);
}

static int read_above(int directory, uint64_t *after, size_t limit, struct str *lines,
		      struct err *err)
{
	AUTO_STR struct str log = STR_INIT, old = STR_INIT;

	if (push_events_read_files(directory, &old, &log, err) != 0)
		return -1;
	push_events_add_lines(old.data, after, &limit, lines);
	push_events_add_lines(log.data, after, &limit, lines);
	return 0;
}

static uint64_t read_sent(int directory)
{
	AUTO_STR struct str text = STR_INIT;

	if (file_read(directory, LOG ".sent", 32, &text, ERR_IGNORED) != 0)
		return 0;
	return strtoull(text.data, NULL, 10);
}

static void push_events_find_ends(const char *text, struct event_ends *ends)
{
	const char *end;

	for (; (end = strchr(text, '\n')) != NULL; text = end + 1) {
		uint64_t id = push_events_parse_id(text);
		if (id == 0 || end[-1] != '}')
			continue;
		if (ends->first == 0 || id < ends->first)
			ends->first = id;
		if (id > ends->last)
			ends->last = id;
	}
}

static enum event_read push_events_judge(const struct push_events_page *page)
{
	if (page->after > page->ends.last)
		return EVENTS_OTHER_TIMELINE;
	return page->after + 1 < page->ends.first ? EVENTS_GONE : EVENTS_READ;
}

/* What was sent is read first: it is in the log then, or was lost with it. */
int push_events_read(const char *data, struct push_events_page *page, struct err *err)
{
	AUTO_CLOSE int directory = dir_open(AT_FDCWD, data, err);
	AUTO_STR struct str log = STR_INIT, old = STR_INIT;
	size_t left = page->limit;

	if (directory < 0)
		return -1;
	page->ends = (struct event_ends){ .last = read_sent(directory) };
	if (push_events_read_files(directory, &old, &log, err) != 0)
		return -1;
	push_events_find_ends(old.data, &page->ends);
	push_events_find_ends(log.data, &page->ends);
	if (page->ends.first == 0)
		page->ends.first = page->ends.last + 1;
	if (page->after == EVENTS_FROM_OLDEST)
		page->after = page->ends.first - 1;
	page->how = push_events_judge(page);
	if (page->how != EVENTS_READ)
		return 0;
	push_events_add_lines(old.data, &page->after, &left, page->lines);
	push_events_add_lines(log.data, &page->after, &left, page->lines);
	return 0;
}

static int open_log(struct push_events *events, struct err *err)
{
	int fd = openat(events->directory, LOG,
			O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_errno(err, "cannot open %s/" LOG, events->data);
	if (events->fd >= 0)
		close(events->fd);
	events->fd = fd;
	return 0;
}

/* A line that a kill has cut off goes, lest the next event becomes a part of it. */
static int drop_torn_line(const struct push_events *events, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	const char *end;
	size_t len;

	if (file_read(events->directory, LOG, LOG_SIZE_MAX + LINE_MAX_BYTES, &text,
		      err) != 0)
		return -1;
	end = memrchr(text.data, '\n', text.len);
	len = end ? (size_t)(end - text.data) + 1 : 0;
	if (len < text.len && ftruncate(events->fd, (off_t)len) != 0)
		return err_errno(err, "cannot truncate %s/" LOG, events->data);
	return 0;
}

/* Where the next one could not be opened before, this one has its old name already. */
static int rotate_if_full(struct push_events *events, struct err *err)
{
	struct stat st;

	if (fstat(events->fd, &st) != 0 || st.st_size < LOG_SIZE_MAX)
		return 0;
	if (renameat(events->directory, LOG, events->directory, LOG ".old") != 0 &&
	    errno != ENOENT)
		return err_errno(err, "cannot rename %s/" LOG, events->data);
	return open_log(events, err);
}

/* All of it, or nothing. */
static int append(const struct push_events *events, const struct str *line,
		  struct err *err)
{
	struct stat st;

	if (fstat(events->fd, &st) != 0)
		return err_errno(err, "cannot look at %s/" LOG, events->data);
	if (file_write_all(events->fd, line->data, line->len, LOG, err) == 0)
		return 0;
	if (ftruncate(events->fd, st.st_size) != 0)
		return err_errno(err, "cannot truncate %s/" LOG, events->data);
	return -1;
}

static int write_locked(struct push_events *events, json_t *object, struct err *err)
{
	AUTO_STR struct str line = STR_INIT;
	json_auto_t *whole = json_object();

	if (rotate_if_full(events, err) != 0)
		return -1;
	json_put_number(whole, "id", (int64_t)events->last + 1);
	json_object_update(whole, object);
	json_put_number(whole, "eventCreatedOn", clock_wall_ms() / 1000);
	json_render(whole, &line);
	str_add_char(&line, '\n');
	if (append(events, &line, err) != 0)
		return -1;
	events->last++;
	return 0;
}

void push_events_add(struct push_events *events, json_t *object)
{
	struct err err;
	bool is_news;

	lock(&events->mutex);
	bool is_failing = write_locked(events, object, &err) != 0;
	is_news = is_failing && !events->is_failing;
	events->is_failing = is_failing;
	events->wakes++;
	pthread_cond_signal(&events->news);
	unlock(&events->mutex);
	json_decref(object);
	if (is_news)
		log_error("push.events_failed", LOG_ERR(&err));
}

static void push_events_wake(struct push_events *events)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&events->mutex);

	events->wakes++;
	pthread_cond_signal(&events->news);
}

/* "sha256=" and the HMAC of the body, as GitHub's and Gitea's webhooks have it. */
static char *signature_of(const struct push_settings *settings, const char *body)
{
	AUTO_STR struct str line = STR_INIT;

	if (settings->webhook_secret.len == 0)
		return NULL;
	hash_sign(&settings->webhook_secret, body, strlen(body), &line);
	return str_take(&line);
}

/* 1: taken; 0: refused for good; -1: to be tried again. */
static int post(struct push_events *events, const struct push_settings *settings,
		const char *body, struct err *err)
{
	AUTO_FREE char *signature = signature_of(settings, body);
	AUTO_STR struct str host = STR_INIT, said = STR_INIT;
	int status = 0;

	http_check_url(settings->webhook, true, &host); /* a secret may follow it */
	if (http_ask(&(struct http_ask_request){ .method = "POST",
						 .url = settings->webhook,
						 .peer = host.data,
						 .setting = "replication.webhook",
						 .ca_file = settings->webhook_ca_file,
						 .body = body,
						 .signature = signature,
						 .timeout_ms = TIMEOUT_MS,
						 .stop = &events->stop },
		     &status, &said, err) != 0)
		return -1;
	if (status < 300)
		return 1;
	err_set(err, ERR_NETWORK, "%.200s answers %d", host.data, status);
	return status < 500 && status != 408 && status != 429 ? 0 : -1;
}

static void note_sent(const struct push_events *events, uint64_t id)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "%" PRIu64 "\n", id);
	struct err err;

	if (file_replace(events->directory, LOG ".sent", text, (size_t)len, FILE_NO_SYNC,
			 &err) != 0)
		log_warn("push.webhook_failed", LOG_ERR(&err));
}

/* False: the settings are no longer these, or the node ends. */
static bool wait_to_retry(struct push_events *events,
			  const struct push_settings *settings, int64_t wait_ms)
{
	int64_t until = clock_boot_ms() + wait_ms;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&events->mutex);

	while (!events->is_ending && events->settings == settings)
		if (!cond_wait_until(&events->news, &events->mutex, until))
			return true;
	return false;
}

/* Reports why it goes wrong, and waits. False: as above. */
static bool rest_after(struct push_events *events, const struct push_settings *settings,
		       const struct err *why, int64_t *wait_ms)
{
	log_warn("push.webhook_failed", LOG_ERR(why),
		 LOG_NUMBER("retry_in_ms", *wait_ms));
	if (!wait_to_retry(events, settings, *wait_ms))
		return false;
	*wait_ms = int64_min(*wait_ms * 2, RETRY_LAST_MS);
	return true;
}

/* Until it is taken (true), or other settings have come, or the node ends. */
static bool deliver_one(struct push_events *events, const struct push_settings *settings,
			const char *body)
{
	int64_t wait_ms = RETRY_FIRST_MS;
	struct err err;
	int result;

	while ((result = post(events, settings, body, &err)) < 0) {
		if (stop_is_requested(&events->stop))
			return false;
		if (!rest_after(events, settings, &err, &wait_ms))
			return false;
	}
	if (result == 0)
		log_error("push.webhook_refused", LOG_ERR(&err));
	return true;
}

/* Again until the log could be read: no other event may come to ask for it. */
static bool read_page(struct push_events *events, const struct push_settings *settings,
		      uint64_t after, struct str *lines)
{
	int64_t wait_ms = RETRY_FIRST_MS;
	struct err err;

	while (read_above(events->directory, &after, PAGE, lines, &err) != 0)
		if (!rest_after(events, settings, &err, &wait_ms))
			return false;
	return true;
}

/* How many were delivered; 0 also if it was stopped. */
static size_t deliver_page(struct push_events *events,
			   const struct push_settings *settings, uint64_t *sent)
{
	AUTO_STR struct str lines = STR_INIT;
	uint64_t before = *sent;
	size_t count = 0;
	char *save = NULL;

	if (!read_page(events, settings, *sent, &lines))
		return 0;
	for (char *line = strtok_r(lines.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		uint64_t id = push_events_parse_id(line);
		if (id > before + 1)
			log_warn("push.webhook_dropped",
				 LOG_NUMBER("events", (int64_t)(id - before - 1)));
		if (!deliver_one(events, settings, line))
			return 0;
		*sent = before = id;
		note_sent(events, id);
		count++;
	}
	return count;
}

static struct push_settings *settings_of(struct push_events *events)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&events->mutex);

	return push_settings_ref(events->settings);
}

static bool push_events_wait_for_news(struct push_events *events, uint64_t *seen)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&events->mutex);

	while (!events->is_ending && events->wakes == *seen)
		pthread_cond_wait(&events->news, &events->mutex);
	*seen = events->wakes;
	return !events->is_ending;
}

/* Without a webhook, what is there is not for the one that comes later. */
static void skip_all(struct push_events *events, uint64_t *sent)
{
	lock(&events->mutex);
	*sent = events->last;
	unlock(&events->mutex);
	note_sent(events, *sent);
}

/* By the settings of now; whether there may be more. */
static bool deliver_some(struct push_events *events, uint64_t *sent)
{
	struct push_settings *settings = settings_of(events);
	size_t count = 0;

	if (settings->webhook)
		count = deliver_page(events, settings, sent);
	else
		skip_all(events, sent);
	push_settings_unref(settings);
	return count > 0;
}

static void *deliver(void *arg)
{
	struct push_events *events = arg;
	uint64_t sent = read_sent(events->directory), seen = UINT64_MAX;

	while (push_events_wait_for_news(events, &seen))
		while (deliver_some(events, &sent))
			;
	return NULL;
}

void push_events_set(struct push_events *events, struct push_settings *settings)
{
	struct push_settings *before;

	lock(&events->mutex);
	before = events->settings;
	events->settings = push_settings_ref(settings);
	unlock(&events->mutex);
	push_settings_unref(before);
	push_events_wake(events);
}

static void events_free(struct push_events *events)
{
	push_settings_unref(events->settings);
	pthread_cond_destroy(&events->news);
	pthread_mutex_destroy(&events->mutex);
	stop_clear(&events->stop);
	if (events->fd >= 0)
		close(events->fd);
	if (events->directory >= 0)
		close(events->directory);
	free(events->data);
	free(events);
}

int push_events_open(const char *data, struct push_settings *settings,
		     struct push_events **opened, struct err *err)
{
	struct push_events *events = xcalloc(1, sizeof(*events));
	AUTO_STR struct str lines = STR_INIT;
	uint64_t sent;

	events->data = xstrdup(data);
	events->fd = -1;
	events->settings = push_settings_ref(settings);
	mutex_init(&events->mutex);
	cond_init(&events->news);
	stop_init(&events->stop);
	events->directory = dir_open(AT_FDCWD, data, err);
	if (events->directory < 0 || open_log(events, err) != 0 ||
	    drop_torn_line(events, err) != 0 ||
	    read_above(events->directory, &events->last, SIZE_MAX, &lines, err) != 0) {
		events_free(events);
		return err_prefix(err, "the log of push events");
	}
	sent = read_sent(events->directory);
	if (events->last < sent)
		events->last = sent;
	thread_start(&events->thread, "push webhook", deliver, events);
	*opened = events;
	return 0;
}

void push_events_close(struct push_events *events)
{
	if (!events)
		return;
	stop_request(&events->stop);
	lock(&events->mutex);
	events->is_ending = true;
	unlock(&events->mutex);
	push_events_wake(events);
	thread_join(events->thread);
	events_free(events);
}
