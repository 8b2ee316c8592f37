#include "pull/primary.h"

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/clock.h"

#define API "/api/v1/"
/* On top of the time that the primary may wait for an event. */
#define EVENTS_TIMEOUT_MS 20000
#define REFS_LIMIT ((size_t)1 << 30)
#define SLOW_TIMEOUT_MS 120000
#define STALL_MS SLOW_TIMEOUT_MS /* without a byte, however long the answer is */
#define NO_END (INT64_MAX / 2)   /* the line's limit, and the stall, end it */

struct primary {
	pthread_mutex_t mutex;
	char *url;                    /* without slashes at the end */
	char *ca_file;                /* NULL: the authorities of the system */
	struct site_key key;          /* guarded by mutex */
	bool has_key;                 /* guarded by mutex */
	unsigned key_version;         /* guarded by mutex; one more with each key */
	struct primary_health health; /* guarded by mutex */
	atomic_uint_fast64_t bandwidth;
	bool knows_time; /* guarded by mutex; skew_ms is exact */
	/* Guarded by mutex: requests that have no byte of their answer. */
	TAILQ_HEAD(primary_waits, primary_wait) waits;
};

struct primary_wait {
	struct primary *primary;
	int64_t since; /* boot ms; 0: it does not wait, and is in no list */
	TAILQ_ENTRY(primary_wait) link;
};

struct primary_line {
	struct primary *primary;
	const struct stop *stop;
	struct site_client *client;
	unsigned key_version; /* with which the client was opened */
	int64_t most_ms;      /* 0: no limit of its own */
	bool was_answered;
};

static void copy_key(const struct site_key *from, struct site_key *to)
{
	*to = (struct site_key){ .secret = STR_INIT };
	snprintf(to->site, sizeof(to->site), "%s", from->site);
	str_add_bytes(&to->secret, from->secret.data, from->secret.len);
}

/* The present key. False: there is none. The caller clears it. */
static bool take_key(struct primary *primary, struct site_key *key, unsigned *version)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&primary->mutex);

	if (version)
		*version = primary->key_version;
	if (!primary->has_key)
		return false;
	copy_key(&primary->key, key);
	return true;
}

static int open_client(struct primary *primary, struct site_client **client,
		       unsigned *version, struct err *err)
{
	AUTO_SITE_KEY struct site_key key = { .secret = STR_INIT };
	bool has_key = take_key(primary, &key, version);

	if (site_client_open(primary->url, has_key ? &key : NULL, client, err) != 0)
		return -1;
	site_client_trust(*client, primary->ca_file);
	return 0;
}

int primary_open(const char *url, const struct site_key *key, struct primary **primary,
		 struct err *err)
{
	struct primary *made = xcalloc(1, sizeof(*made));
	struct site_client *client;
	size_t len = strlen(url);

	while (len > 0 && url[len - 1] == '/')
		len--;
	mutex_init(&made->mutex);
	TAILQ_INIT(&made->waits);
	made->url = xstrndup(url, len);
	made->key.secret = (struct str)STR_INIT;
	primary_set_key(made, key);
	if (open_client(made, &client, NULL, err) != 0) { /* it knows what a URL is */
		primary_close(made);
		return -1;
	}
	site_client_close(client);
	*primary = made;
	return 0;
}

void primary_trust(struct primary *primary, const char *ca_file)
{
	primary->ca_file = ca_file ? xstrdup(ca_file) : NULL;
}

const char *primary_ca_file(const struct primary *primary)
{
	return primary->ca_file;
}

void primary_close(struct primary *primary)
{
	if (!primary)
		return;
	site_key_clear(&primary->key);
	pthread_mutex_destroy(&primary->mutex);
	free(primary->url);
	free(primary->ca_file);
	free(primary);
}

void primary_set_key(struct primary *primary, const struct site_key *key)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&primary->mutex);

	site_key_clear(&primary->key);
	primary->has_key = key != NULL;
	if (key)
		copy_key(key, &primary->key);
	primary->key_version++;
}

void primary_health(struct primary *primary, struct primary_health *health)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&primary->mutex);

	*health = primary->health;
}

int64_t primary_now_ms(struct primary *primary)
{
	struct primary_health health;

	primary_health(primary, &health);
	return clock_wall_ms() + health.skew_ms;
}

int primary_line_open(struct primary *primary, const struct stop *stop,
		      struct primary_line **line, struct err *err)
{
	struct primary_line *made = xcalloc(1, sizeof(*made));

	made->primary = primary;
	made->stop = stop;
	if (open_client(primary, &made->client, &made->key_version, err) != 0) {
		free(made);
		return -1;
	}
	*line = made;
	return 0;
}

void primary_line_close(struct primary_line *line)
{
	if (!line)
		return;
	site_client_close(line->client);
	free(line);
}

void primary_line_limit(struct primary_line *line, int64_t most_ms)
{
	line->most_ms = most_ms;
}

bool primary_line_was_answered(const struct primary_line *line)
{
	return line->was_answered;
}

static void note_heard(struct primary *primary, const struct site_answer *answer)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&primary->mutex);

	primary->health.heard_at = clock_wall_ms();
	primary->health.is_failing = false;
	primary->health.failing_since = 0;
	if (answer->time_ms == 0 || (primary->knows_time && !answer->is_time_exact))
		return;
	primary->health.skew_ms = answer->skew_ms;
	primary->knows_time = answer->is_time_exact;
}

/* Returns -1, so that a function can end in it. That we were asked to stop says nothing
 * about the primary. */
static int primary_note_failure(struct primary *primary, const struct err *err)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&primary->mutex);

	if (err->class == ERR_CANCELED)
		return -1;
	if (!primary->health.is_failing)
		primary->health.failing_since = clock_wall_ms();
	primary->health.is_failing = true;
	primary->health.err = *err;
	return -1;
}

void primary_set_bandwidth(struct primary *primary, uint64_t rate)
{
	atomic_store(&primary->bandwidth, rate);
}

static int renew_key(struct primary_line *line, struct err *err)
{
	struct site_client *client;
	unsigned version;

	lock(&line->primary->mutex);
	version = line->primary->key_version;
	unlock(&line->primary->mutex);
	if (version == line->key_version)
		return 0;
	if (open_client(line->primary, &client, &version, err) != 0)
		return -1;
	site_client_close(line->client);
	line->client = client;
	line->key_version = version;
	return 0;
}

/* What a refrelay primary says of one replicable is no failure of the primary. Only its
 * own word makes one missing: a 404 may be anybody's. */
static int primary_classify_answer(const struct site_answer *answer, struct err *err)
{
	enum err_class class;

	site_answer_error(answer, err);
	if (wire_code_class(answer->code, &class)) {
		err->class = class;
		err_because(err, REASON_AT_PEER);
		return 1;
	}
	if (strcmp(answer->code, "WRONG_ROLE") == 0) {
		err->class = ERR_CONFIG; /* it may be about to become one */
		err_because(err, REASON_AT_PEER);
	} else if (err->class == ERR_MISSING || err->class == ERR_CONFLICT)
		err->class = ERR_NETWORK;
	if (answer->status != 412)
		return 0;
	err->class = ERR_CONFLICT; /* a condition that we set does not hold */
	return 1;
}

/* There is no part of an empty file that could be asked for. */
static bool primary_is_empty(const struct site_answer *answer)
{
	return answer->status == 416 && strcmp(answer->range, "bytes */0") == 0;
}

/* For `held_ms` the primary may hold its answer back. */
static void primary_wait_begin(struct primary *primary, int64_t held_ms,
			       struct primary_wait *wait)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&primary->mutex);

	*wait = (struct primary_wait){ .primary = primary,
				       .since = clock_boot_ms() + held_ms };
	TAILQ_INSERT_TAIL(&primary->waits, wait, link);
}

/* May be called again. */
static void primary_wait_end(void *arg)
{
	struct primary_wait *wait = arg;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&wait->primary->mutex);

	if (wait->since > 0)
		TAILQ_REMOVE(&wait->primary->waits, wait, link);
	wait->since = 0;
}

int64_t primary_wait_ms(struct primary *primary)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&primary->mutex);
	const int64_t now = clock_boot_ms();
	int64_t longest = 0;
	const struct primary_wait *wait;

	TAILQ_FOREACH(wait, &primary->waits, link)
	if (now - wait->since > longest)
		longest = now - wait->since;
	return longest;
}

/* Signs, asks, judges: 0: an answer of status 200, 206 or 304, or that a file is empty;
 * -1 with *err and the answer that it came from. */
static int primary_call_held(struct primary_line *line, struct site_request *request,
			     int64_t held_ms, struct site_answer *answer, struct err *err)
{
	struct primary_wait wait;
	int result;

	line->was_answered = false;
	request->stop = line->stop;
	request->reports_bandwidth = true;
	request->bandwidth = atomic_load(&line->primary->bandwidth);
	if (line->most_ms > 0 &&
	    (request->timeout_ms == 0 || request->timeout_ms > line->most_ms))
		request->timeout_ms = line->most_ms;
	if (renew_key(line, err) != 0)
		return primary_note_failure(line->primary, err);
	primary_wait_begin(line->primary, held_ms, &wait);
	request->begun = primary_wait_end;
	request->begun_arg = &wait;
	result = site_client_call(line->client, request, answer, err);
	line->was_answered = wait.since == 0; /* ended by an answer */
	primary_wait_end(&wait);
	if (result != 0)
		return primary_note_failure(line->primary, err);
	if (answer->status == 200 || answer->status == 206 || answer->status == 304 ||
	    primary_is_empty(answer)) {
		note_heard(line->primary, answer);
		return 0;
	}
	if (answer->status < 400)
		err_set(err, ERR_NETWORK, "the primary answers with status %d",
			answer->status);
	else if (primary_classify_answer(answer, err) == 1) {
		note_heard(line->primary, answer);
		return -1;
	}
	return primary_note_failure(line->primary, err);
}

static int primary_call(struct primary_line *line, struct site_request *request,
			struct site_answer *answer, struct err *err)
{
	return primary_call_held(line, request, 0, answer, err);
}

static int fill_events(const struct site_answer *reply,
		       const struct wire_events_question *question,
		       struct primary_events *answer, struct err *err)
{
	answer->time_ms = reply->time_ms;
	if (wire_ends_parse(reply->timeline, reply->last_event, &answer->ends, err) != 0)
		return -1;
	return answer->how == EVENTS_READ
		       ? wire_events_parse(&reply->body, question, &answer->ends,
					   &answer->events, err)
		       : 0;
}

/* False: it is an error. */
static bool primary_is_position_gone(const struct site_answer *reply,
				     enum event_read *how)
{
	if (reply->status != 410)
		return false;
	*how = strcmp(reply->code, WIRE_EVENTS_GONE) == 0 ? EVENTS_GONE
							  : EVENTS_OTHER_TIMELINE;
	return *how == EVENTS_GONE || strcmp(reply->code, WIRE_OTHER_TIMELINE) == 0;
}

int primary_events(struct primary_line *line, const struct wire_events_question *question,
		   struct primary_events *answer, struct err *err)
{
	AUTO_STR struct str target = STR_INIT;
	AUTO_ANSWER struct site_answer reply = { .body = STR_INIT };

	*answer = (struct primary_events){ .how = EVENTS_READ };
	str_add(&target, API);
	wire_events_target(question, &target);
	struct site_request request = {
		.target = target.data,
		.report = question->report,
		.timeout_ms = question->wait_s * 1000 + EVENTS_TIMEOUT_MS,
	};
	if (primary_call_held(line, &request, question->wait_s * 1000, &reply, err) !=
		    0 &&
	    !primary_is_position_gone(&reply, &answer->how))
		return -1;
	if (fill_events(&reply, question, answer, err) == 0)
		return 0;
	event_list_clear(&answer->events);
	return primary_note_failure(line->primary, err);
}

/* Without a position: that gives the oldest event, and with it where the newest is. */
int primary_last_event(struct primary_line *line, struct event_ends *ends,
		       struct err *err)
{
	const struct wire_events_question question = { .limit = 1 };
	struct primary_events answer;

	if (primary_events(line, &question, &answer, err) != 0)
		return -1;
	*ends = answer.ends;
	event_list_clear(&answer.events);
	return 0;
}

/* Whether the refusal says something of a kind, rather than of the primary. */
static int answer_without_page(const struct site_answer *reply)
{
	if (strcmp(reply->code, WIRE_KIND_NOT_FOUND) == 0)
		return INVENTORY_NO_KIND;
	return strcmp(reply->code, WIRE_NOT_SCANNED) == 0 ? INVENTORY_NOT_SCANNED : -1;
}

static void primary_add_rows(struct str *target, const char *type)
{
	if (kind_is_repository(type))
		str_add(target, API "repositories");
	else
		str_addf(target, API "blobs/%s", type);
}

int primary_inventory(struct primary_line *line, const struct kind *kind,
		      const struct page_question *question, struct inventory_page *page,
		      struct err *err)
{
	AUTO_STR struct str target = STR_INIT;
	AUTO_ANSWER struct site_answer reply = { .body = STR_INIT };

	*page = (struct inventory_page){ 0 };
	primary_add_rows(&target, kind->type);
	str_addf(&target, "?limit=%zu", question->limit);
	if (question->after) {
		str_add(&target, "&after=");
		url_add_encoded(&target, question->after);
	}
	struct site_request request = { .target = target.data,
					.if_none_match = question->etag };
	if (primary_call(line, &request, &reply, err) != 0)
		return kind_is_repository(kind->type) ? -1 : answer_without_page(&reply);
	if (reply.status == 304 && question->etag)
		return INVENTORY_UNCHANGED;
	if (reply.status != 200)
		wire_lied(err, "status %d, though no ETag was named", reply.status);
	else if (wire_inventory_parse(&reply.body, kind, question, page, err) == 0) {
		snprintf(page->etag, sizeof(page->etag), "%s", reply.etag);
		return INVENTORY_PAGE;
	}
	return primary_note_failure(line->primary, err);
}

int primary_refs(struct primary_line *line, const char *name, struct wire_refs *refs,
		 struct err *err)
{
	AUTO_STR struct str target = STR_INIT;
	AUTO_ANSWER struct site_answer reply = { .body = STR_INIT };

	*refs = (struct wire_refs){ 0 };
	str_add(&target, API "repositories/");
	url_add_encoded(&target, name);
	str_add(&target, "/refs");
	struct site_request request = {
		.target = target.data,
		.limit = REFS_LIMIT,
		.timeout_ms = NO_END,
		.stall_ms = STALL_MS,
	};
	if (primary_call(line, &request, &reply, err) != 0)
		return -1;
	if (reply.status != 200)
		return wire_lied(err, "status %d for refs", reply.status);
	return wire_refs_parse(&reply.body, refs, err);
}

static void primary_ask_delta(const struct primary_delta *delta, struct str *target,
			      struct str *body)
{
	struct wire_delta_question question = { .generation = delta->generation,
						.limit = delta->limit };

	snprintf(question.timeline, sizeof(question.timeline), "%s", delta->timeline);
	checksum_format(delta->base.sum, question.checksum);
	wire_delta_ask(&question, body);
	str_add(target, API "repositories/");
	url_add_encoded(target, delta->name);
	str_add(target, "/delta");
}

static int primary_take_delta(struct primary_line *line,
			      const struct primary_delta *delta,
			      struct site_answer *reply, struct err *err)
{
	AUTO_STR struct str target = STR_INIT, body = STR_INIT;

	primary_ask_delta(delta, &target, &body);
	struct site_request request = { .method = "POST",
					.target = target.data,
					.body = body.data,
					.body_len = body.len,
					.content_type = "application/json",
					.limit = REFS_LIMIT,
					.timeout_ms = NO_END,
					.stall_ms = STALL_MS };
	if (primary_call(line, &request, reply, err) == 0)
		return 0;
	return strcmp(reply->code, WIRE_DELTA_UNAVAILABLE) == 0 ||
			       strcmp(reply->code, WIRE_NOT_FOUND) == 0
		       ? 1
		       : -1; /* one of 0.1.0 has no such URL */
}

int primary_delta(struct primary_line *line, const struct primary_delta *delta,
		  struct wire_refs *refs, struct str *pack, struct err *err)
{
	AUTO_ANSWER struct site_answer reply = { .body = STR_INIT };
	int result = primary_take_delta(line, delta, &reply, err);

	*refs = (struct wire_refs){ 0 };
	if (result != 0) {
		ref_snapshot_clear(delta->base.refs);
		return result;
	}
	if (wire_delta_parse(&reply.body, &delta->base, refs, pack, err) != 0)
		return -1;
	if (pack->len > 2 * delta->limit) { /* what does not deflate grows a bit */
		wire_refs_clear(refs);
		return wire_lied(err,
				 "a pack of %zu bytes, where %" PRIu64 " were asked for",
				 pack->len, delta->limit);
	}
	if (!delta->timeline[0] || (strcmp(refs->timeline, delta->timeline) == 0 &&
				    refs->generation >= delta->generation))
		return 0;
	wire_refs_clear(refs);
	return wire_lied(err, "the delta is of another generation");
}

char *primary_url(const struct primary *primary, const char *name)
{
	AUTO_STR struct str url = STR_INIT;

	str_add(&url, primary->url);
	url_add_path(&url, name);
	str_add(&url, ".git");
	return str_take(&url);
}

int primary_git(struct primary *primary, const char *name, int64_t valid_s, char **url,
		char **header, struct err *err)
{
	AUTO_SITE_KEY struct site_key key = { .secret = STR_INIT };
	AUTO_FREE char *token = NULL;

	*url = *header = NULL;
	if (take_key(primary, &key, NULL)) {
		token = wire_token_for_git(&key, "git-upload-pack", name, valid_s, err);
		if (!token)
			return -1;
		*header = xasprintf("Authorization: Bearer %s", token);
	}
	*url = primary_url(primary, name);
	return 0;
}

struct reading {
	const struct blob_part *part;
	const struct blob_part_sink *sink;
	struct blob_head head;
	bool has_head;
};

static int primary_blob_read_head(struct reading *reading,
				  const struct site_answer *answer, struct err *err)
{
	const struct wire_blob_headers headers = {
		.etag = answer->etag,
		.checksum = answer->checksum,
		.range = answer->status == 206 ? answer->range : NULL,
		.length = primary_is_empty(answer) ? 0 : answer->length,
	};

	if (wire_blob_parse(&headers, reading->part->offset, &reading->head, err) != 0)
		return -1;
	reading->has_head = true;
	return 0;
}

static int primary_blob_take_part(void *arg, const struct site_answer *answer,
				  const void *bytes, size_t len, struct err *err)
{
	struct reading *reading = arg;

	if (!reading->has_head && primary_blob_read_head(reading, answer, err) != 0)
		return -1;
	return reading->sink->take(reading->sink->arg, &reading->head, bytes, len, err);
}

int primary_blob_read(struct primary_line *line, const struct blob_part *part,
		      const struct blob_part_sink *sink, struct err *err)
{
	AUTO_STR struct str target = STR_INIT;
	AUTO_ANSWER struct site_answer answer = { .body = STR_INIT };
	AUTO_FREE char *range = xasprintf("bytes=%" PRIu64 "-%" PRIu64, part->offset,
					  part->offset + part->length - 1);
	AUTO_FREE char *etag = part->version ? xasprintf("\"%s\"", part->version) : NULL;
	struct reading reading = { .part = part, .sink = sink };
	const struct site_sink into = { primary_blob_take_part, &reading };

	str_addf(&target, API "retrieve/%s/", part->type);
	url_add_encoded(&target, part->id);
	struct site_request request = { .target = target.data,
					.range = range,
					.if_match = etag,
					.timeout_ms = NO_END,
					.stall_ms = part->stall_ms,
					.sink = &into };
	if (primary_call(line, &request, &answer, err) != 0)
		return -1;
	return reading.has_head ? 0
				: primary_blob_take_part(&reading, &answer, "", 0, err);
}

static int take_frames(void *arg, const struct site_answer *answer, const void *bytes,
		       size_t len, struct err *err)
{
	(void)answer;
	return wire_frames_take(arg, bytes, len, err);
}

int primary_blob_read_many(struct primary_line *line, const struct blob_many *many,
			   const struct wire_frame_sink *sink, struct err *err)
{
	AUTO_STR struct str target = STR_INIT, body = STR_INIT;
	AUTO_ANSWER struct site_answer answer = { .body = STR_INIT };
	struct wire_frames frames;
	const struct site_sink into = { take_frames, &frames };
	int result;

	str_addf(&target, API "retrieve/%s", many->type);
	wire_frames_ask(many->ids, many->count, &body);
	struct site_request request = { .method = "POST",
					.target = target.data,
					.body = body.data,
					.body_len = body.len,
					.content_type = "application/json",
					.timeout_ms = NO_END,
					.stall_ms = many->stall_ms,
					.sink = &into };
	wire_frames_init(&frames, sink);
	result = primary_call(line, &request, &answer, err);
	if (result == 0)
		result = wire_frames_finish(&frames, err);
	wire_frames_clear(&frames);
	return result;
}

static void primary_add_packs(struct str *target, const char *name)
{
	str_add(target, API "repositories/");
	url_add_encoded(target, name);
	str_add(target, "/packs");
}

int primary_packs(struct primary_line *line, const char *name, wire_packs *packs,
		  struct err *err)
{
	AUTO_STR struct str target = STR_INIT;
	AUTO_ANSWER struct site_answer answer = { .body = STR_INIT };

	*packs = (wire_packs){ 0 };
	primary_add_packs(&target, name);
	struct site_request request = { .target = target.data,
					.timeout_ms = SLOW_TIMEOUT_MS };
	if (primary_call(line, &request, &answer, err) != 0)
		return -1;
	return wire_packs_parse(&answer.body, packs, err);
}

struct pack_reading {
	const struct pack_part *part;
	const struct pack_part_sink *sink;
};

static int primary_pack_take(void *arg, const struct site_answer *answer,
			     const void *bytes, size_t len, struct err *err)
{
	const struct pack_reading *reading = arg;
	struct blob_head range = { .size = (uint64_t)answer->length };

	if (answer->status == 206 ? !wire_blob_parse_range(answer->range, &range)
				  : answer->length < 0)
		return wire_lied(err, "it does not tell how long %s is",
				 reading->part->file);
	if (range.offset != reading->part->offset)
		return wire_lied(err, "it sends another part of %s", reading->part->file);
	const struct pack_head head = { .etag = answer->etag, .size = range.size };
	return reading->sink->take(reading->sink->arg, &head, bytes, len, err);
}

int primary_pack_read(struct primary_line *line, const struct pack_part *part,
		      const struct pack_part_sink *sink, struct err *err)
{
	AUTO_STR struct str target = STR_INIT;
	AUTO_ANSWER struct site_answer answer = { .body = STR_INIT };
	AUTO_FREE char *range = xasprintf("bytes=%" PRIu64 "-%" PRIu64, part->offset,
					  part->offset + part->length - 1);
	struct pack_reading reading = { part, sink };
	const struct site_sink into = { primary_pack_take, &reading };

	primary_add_packs(&target, part->repository);
	str_addf(&target, "/%s", part->file);
	struct site_request request = { .target = target.data,
					.range = range,
					.if_match = part->etag,
					.timeout_ms = NO_END,
					.stall_ms = part->stall_ms,
					.sink = &into };
	return primary_call(line, &request, &answer, err);
}

int primary_reverify(struct primary_line *line, const char *type, const char *name,
		     struct err *err)
{
	AUTO_STR struct str target = STR_INIT;
	AUTO_ANSWER struct site_answer answer = { .body = STR_INIT };

	primary_add_rows(&target, type);
	str_add_char(&target, '/');
	url_add_encoded(&target, name);
	str_add(&target, "/reverify");
	struct site_request request = { .method = "POST",
					.target = target.data,
					.timeout_ms = SLOW_TIMEOUT_MS };
	if (primary_call(line, &request, &answer, err) != 0)
		return -1;
	if (!wire_inventory_is_verified(&answer.body)) /* it answers with its row */
		return 0;
	return err_set(err, ERR_BUSY, "the primary read %s a moment ago", name);
}

int primary_blob_kinds(struct primary_line *line, struct blob_kinds *kinds,
		       struct err *err)
{
	AUTO_ANSWER struct site_answer answer = { .body = STR_INIT };
	struct site_request request = { .target = API "blobs" };

	if (primary_call(line, &request, &answer, err) != 0)
		return -1;
	return wire_kinds_parse(&answer.body, kinds, err);
}
