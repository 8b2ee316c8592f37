#include "pull/primary.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "pull/primary_line.h"
#include "pull/primary_parse.h"

#define API PRIMARY_API
/* On top of the time that the primary may wait for an event. */
#define EVENTS_TIMEOUT_MS 20000
#define REFS_LIMIT ((size_t)1 << 30)
#define REFS_TIMEOUT_MS 120000

struct primary {
	pthread_mutex_t mutex;
	char *url;                    /* without slashes at the end */
	struct site_key key;          /* guarded by mutex */
	bool has_key;                 /* guarded by mutex */
	unsigned key_version;         /* guarded by mutex; one more with each key */
	struct primary_health health; /* guarded by mutex */
	atomic_uint_fast64_t bandwidth;
	bool knows_time; /* guarded by mutex; skew_ms is exact */
};

struct primary_line {
	struct primary *primary;
	const struct stop *stop;
	struct site_client *client;
	unsigned key_version; /* with which the client was opened */
	int64_t most_ms;      /* 0: no limit of its own */
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

	return site_client_open(primary->url, has_key ? &key : NULL, client, err);
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

void primary_close(struct primary *primary)
{
	if (!primary)
		return;
	site_key_clear(&primary->key);
	pthread_mutex_destroy(&primary->mutex);
	free(primary->url);
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

/* What a refrelay primary says of one repository is no failure of the primary. Only its
 * own word makes a repository missing: a 404 may be anybody's. */
static int primary_classify_answer(const struct site_answer *answer, struct err *err)
{
	static const struct {
		const char *code;
		enum err_class class;
	} words[] = {
		{ "REPOSITORY_NOT_FOUND", ERR_MISSING },
		{ "FILE_NOT_FOUND", ERR_MISSING },
		{ "BLOB_NOT_FOUND", ERR_MISSING },
		{ "KIND_NOT_FOUND", ERR_CONFIG },
		{ "NOT_SCANNED", ERR_NETWORK },
		{ "CORRUPT", ERR_CORRUPT },
		{ "CONFLICT", ERR_CONFLICT },
		{ "CONFIG", ERR_CONFIG },
		{ "EVENTS_GONE", ERR_CONFLICT },
		{ "OTHER_TIMELINE", ERR_CONFLICT },
	};

	site_answer_error(answer, err);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcmp(answer->code, words[i].code) == 0) {
			err->class = words[i].class;
			err_because(err, REASON_AT_PEER);
			return 1;
		}
	}
	if (err->class == ERR_MISSING || err->class == ERR_CONFLICT)
		err->class = ERR_NETWORK;
	if (answer->status != 412)
		return 0;
	err->class = ERR_CONFLICT; /* a condition that we set does not hold */
	return 1;
}

int primary_call_failed(struct primary_line *line, const struct err *err)
{
	return primary_note_failure(line->primary, err);
}

int primary_call(struct primary_line *line, struct site_request *request,
		 struct site_answer *answer, struct err *err)
{
	request->stop = line->stop;
	request->tells_bandwidth = true;
	request->bandwidth = atomic_load(&line->primary->bandwidth);
	if (line->most_ms > 0 &&
	    (request->timeout_ms == 0 || request->timeout_ms > line->most_ms))
		request->timeout_ms = line->most_ms;
	if (renew_key(line, err) != 0 ||
	    site_client_call(line->client, request, answer, err) != 0)
		return primary_note_failure(line->primary, err);
	if (answer->status == 200 || answer->status == 206 || answer->status == 304) {
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

static int fill_events(const struct site_answer *reply,
		       const struct primary_events_question *question,
		       struct primary_events *answer, struct err *err)
{
	answer->time_ms = reply->time_ms;
	if (primary_parse_ends(reply->timeline, reply->last_event, &answer->ends, err) !=
	    0)
		return -1;
	return answer->how == EVENTS_READ
		       ? primary_parse_events(&reply->body, question, answer, err)
		       : 0;
}

/* False: it is an error. */
static bool primary_is_position_gone(const struct site_answer *reply,
				     enum event_read *how)
{
	if (reply->status != 410)
		return false;
	*how = strcmp(reply->code, "EVENTS_GONE") == 0 ? EVENTS_GONE
						       : EVENTS_OTHER_TIMELINE;
	return *how == EVENTS_GONE || strcmp(reply->code, "OTHER_TIMELINE") == 0;
}

static void events_target(const struct primary_events_question *question,
			  struct str *target)
{
	str_addf(target, API "events?limit=%zu&wait=%" PRId64, question->limit,
		 question->wait_s);
	if (!question->has_cursor)
		return;
	str_addf(target, "&after=%" PRIu64, question->after);
	if (question->mark && question->mark[0])
		str_addf(target, "&mark=%s", question->mark);
	if (question->timeline && question->timeline[0])
		str_addf(target, "&timeline=%s", question->timeline);
}

int primary_events(struct primary_line *line,
		   const struct primary_events_question *question,
		   struct primary_events *answer, struct err *err)
{
	AUTO_STR struct str target = STR_INIT;
	AUTO_ANSWER struct site_answer reply = { .body = STR_INIT };

	*answer = (struct primary_events){ .how = EVENTS_READ };
	events_target(question, &target);
	struct site_request request = {
		.target = target.data,
		.report = question->report,
		.timeout_ms = question->wait_s * 1000 + EVENTS_TIMEOUT_MS,
	};
	if (primary_call(line, &request, &reply, err) != 0 &&
	    !primary_is_position_gone(&reply, &answer->how))
		return -1;
	if (fill_events(&reply, question, answer, err) == 0)
		return 0;
	primary_events_clear(answer);
	return primary_note_failure(line->primary, err);
}

/* Without a position: that gives the oldest event, and with it where the newest is. */
int primary_last_event(struct primary_line *line, struct event_ends *ends,
		       struct err *err)
{
	const struct primary_events_question question = { .limit = 1 };
	struct primary_events answer;

	if (primary_events(line, &question, &answer, err) != 0)
		return -1;
	*ends = answer.ends;
	primary_events_clear(&answer);
	return 0;
}

/* Whether the refusal says something of a kind of blobs, rather than of the primary. */
static int answer_without_page(const struct site_answer *reply)
{
	if (strcmp(reply->code, "KIND_NOT_FOUND") == 0)
		return INVENTORY_NO_KIND;
	return strcmp(reply->code, "NOT_SCANNED") == 0 ? INVENTORY_NOT_SCANNED : -1;
}

int primary_inventory_at(struct primary_line *line, const char *target,
			 const struct blob_kind *kind,
			 const struct page_question *question,
			 struct inventory_page *page, struct err *err)
{
	AUTO_STR struct str whole = STR_INIT;
	AUTO_ANSWER struct site_answer reply = { .body = STR_INIT };

	*page = (struct inventory_page){ 0 };
	str_addf(&whole, "%s?limit=%zu", target, question->limit);
	if (question->after) {
		str_add(&whole, "&after=");
		url_add_encoded(&whole, question->after);
	}
	struct site_request request = { .target = whole.data,
					.if_none_match = question->etag };
	if (primary_call(line, &request, &reply, err) != 0)
		return kind ? answer_without_page(&reply) : -1;
	if (reply.status == 304 && question->etag)
		return INVENTORY_UNCHANGED;
	if (reply.status != 200)
		primary_lied(err, "status %d, though no ETag was named", reply.status);
	else if (primary_parse_inventory(&reply.body, kind, question, page, err) == 0) {
		snprintf(page->etag, sizeof(page->etag), "%s", reply.etag);
		return INVENTORY_PAGE;
	}
	return primary_note_failure(line->primary, err);
}

int primary_inventory(struct primary_line *line, const struct page_question *question,
		      struct inventory_page *page, struct err *err)
{
	return primary_inventory_at(line, API "repositories", NULL, question, page, err);
}

int primary_refs(struct primary_line *line, const char *name, struct primary_refs *refs,
		 struct err *err)
{
	AUTO_STR struct str target = STR_INIT;
	AUTO_ANSWER struct site_answer reply = { .body = STR_INIT };

	*refs = (struct primary_refs){ 0 };
	str_add(&target, API "repositories/");
	url_add_encoded(&target, name);
	str_add(&target, "/refs");
	struct site_request request = {
		.target = target.data,
		.limit = REFS_LIMIT,
		.timeout_ms = REFS_TIMEOUT_MS,
	};
	if (primary_call(line, &request, &reply, err) != 0)
		return -1;
	if (reply.status != 200)
		return primary_lied(err, "status %d for refs", reply.status);
	return primary_parse_refs(&reply.body, refs, err);
}

int primary_reverify(struct primary_line *line, const char *name, struct err *err)
{
	AUTO_STR struct str target = STR_INIT;
	AUTO_ANSWER struct site_answer reply = { .body = STR_INIT };

	str_add(&target, API "repositories/");
	url_add_encoded(&target, name);
	str_add(&target, "/reverify");
	struct site_request request = {
		.method = "POST",
		.target = target.data,
		.timeout_ms = REFS_TIMEOUT_MS,
	};
	return primary_call(line, &request, &reply, err);
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
