/*
 * What the servers have of leases, for operators: shown, listed, taken away.
 */
#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/map.h"
#include "lease/redis_round.h"

#define LIST_MS 10000
#define LIST_AT_ONCE 200

/* Never 0. Two with the same mark cost a line in the log. */
static uint64_t redis_mark_of(const char *nonce)
{
	const uint64_t sum = map_hash(nonce);

	return sum ? sum : 1;
}

void redis_view_read(const char *value, int64_t ttl_left_ms, struct redis_view *view)
{
	const char *space = strchr(value, ' ');
	AUTO_FREE char *text = space ? xstrdup(space + 1) : NULL;
	struct lease_holder *holder = &view->owner.holder;

	*view = (struct redis_view){ .ttl_left_ms = ttl_left_ms };
	view->is_foreign = !text || !owner_parse(text, &view->owner);
	if (view->is_foreign) {
		view->owner = (struct owner){ 0 };
		snprintf(holder->node, sizeof(holder->node), "unknown");
		snprintf(holder->operation, sizeof(holder->operation), "unknown");
		snprintf(view->nonce, sizeof(view->nonce), "%s", value);
	} else {
		snprintf(view->nonce, sizeof(view->nonce), "%.*s", (int)(space - value),
			 value);
	}
	snprintf(holder->proof, sizeof(holder->proof), "unknown");
	holder->mark = redis_mark_of(view->nonce);
	holder->held = true;
	holder->ttl_left_ms = ttl_left_ms;
}

/* "43 released <value>" */
static void redis_read_latest(const char *latest, uint64_t *fence, char state[16],
			      const char **value)
{
	char *rest;

	*fence = strtoull(latest, &rest, 10);
	state[0] = '\0';
	*value = "";
	int used = 0;
	if (sscanf(rest, " %15s %n", state, &used) == 1 && used > 0)
		*value = rest + used;
}

/* What most servers have as the value, or NULL; and how many. */
static const struct redisReply *redis_round_most(const struct redis_round *round,
						 size_t call, size_t *count)
{
	const struct redisReply *most = NULL;

	*count = 0;
	for (size_t i = 0; i < round->count; i++) {
		const struct redisReply *one = redis_round_reply(round, i, call);
		size_t same = 0;
		for (size_t j = 0; one && j < round->count; j++) {
			const struct redisReply *other =
				redis_round_reply(round, j, call);
			same += other && strcmp(redis_reply_text(one, 0),
						redis_reply_text(other, 0)) == 0;
		}
		if (same > *count) {
			*count = same;
			most = one;
		}
	}
	return most;
}

static const char *redis_round_latest(const struct redis_round *round, size_t call,
				      uint64_t *fence, char state[16])
{
	const char *latest = "", *value;
	uint64_t greatest = 0;

	for (size_t i = 0; i < round->count; i++) {
		const struct redisReply *reply = redis_round_reply(round, i, call);
		const char *text = reply ? redis_reply_text(reply, 2) : "";
		redis_read_latest(text, fence, state, &value);
		if (*fence <= greatest || strcmp(state, "none") == 0)
			continue;
		greatest = *fence;
		latest = text;
	}
	redis_read_latest(latest, fence, state, &value);
	return value;
}

/* Fills in the view from all answers. False: never granted. */
static bool redis_round_look(struct redis_backend *backend,
			     const struct redis_round *round, size_t call,
			     const char *key, struct redis_view *view)
{
	struct lease_holder *holder = &view->owner.holder;
	char state[16];
	uint64_t fence;
	size_t same;
	bool orphans;

	const struct redisReply *most = redis_round_most(round, call, &same);
	const char *latest = redis_round_latest(round, call, &fence, state);
	const char *value = most ? redis_reply_text(most, 0) : "";
	bool is_held = value[0] && same >= backend->quorum;
	if (!is_held && fence == 0)
		return false;
	redis_view_read(is_held ? value : latest,
			is_held ? redis_reply_number(most, 1) : 0, view);
	holder->held = is_held;
	/* In the format of other programs, the value does not tell it. */
	if (!is_held || strcmp(value, latest) == 0)
		holder->fence = fence;
	snprintf(holder->key, sizeof(holder->key), "%s", key);
	if (is_held)
		lease_server_judge(&backend->server, &view->owner, -1, &orphans);
	else if (strcmp(state, "held") != 0)
		snprintf(holder->proof, sizeof(holder->proof), "released");
	return true;
}

static int redis_look(struct redis_backend *backend, const char *key,
		      struct redis_view *view, struct err *err)
{
	AUTO_FREE char *server_key = redis_server_key(key, err);
	const struct redis_call call = { .script = REDIS_INSPECT, .key = server_key };
	struct redis_round round;

	if (!server_key)
		return -1;
	redis_round_run(backend, &round, &call, 1, redis_until(backend));
	int result = 0;
	if (round.answered < backend->quorum)
		result = redis_unavailable(backend, &round, err);
	else if (!redis_round_look(backend, &round, 0, key, view))
		result = lease_report_never_granted(key, err);
	redis_round_clear(&round);
	return result;
}

int redis_inspect(struct lease_backend *base, const char *key,
		  struct lease_holder *holder, struct err *err)
{
	struct redis_view view;

	if (redis_look(redis_of(base), key, &view, err) != 0)
		return -1;
	*holder = view.owner.holder;
	return 0;
}

int redis_force_release(struct lease_backend *base, const char *key, uint64_t fence,
			struct err *err)
{
	struct redis_backend *backend = redis_of(base);
	struct redis_round round;
	struct redis_view view;
	const struct lease_holder *is = &view.owner.holder;
	char text[24];

	if (redis_look(backend, key, &view, err) != 0)
		return -1;
	if (!is->held || is->fence != fence)
		return lease_report_other_fence(key, is->held, is->fence, fence, err);
	AUTO_FREE char *server_key = redis_server_key(key, err);
	snprintf(text, sizeof(text), "%" PRIu64, fence);
	const struct redis_call call = { .script = REDIS_FORCE,
					 .key = server_key,
					 .arguments = { view.nonce, text },
					 .count = 2 };
	redis_round_run(backend, &round, &call, 1, redis_until(backend));
	int decided = redis_round_decide(backend, &round, 0);
	if (decided < 0)
		redis_unavailable(backend, &round, err);
	else if (decided == 0)
		lease_report_other_fence(key, is->held, is->fence, fence, err);
	redis_round_clear(&round);
	return decided > 0 ? 0 : -1;
}

/* ------------------------------------------------------------------ listing */

/* What begins with the prefix, or is as the pattern of others says. */
static char *redis_list_pattern(const struct redis_backend *backend, bool is_of_others)
{
	AUTO_STR struct str pattern = STR_INIT;

	if (is_of_others)
		return backend->pattern ? xasprintf("%s#fence", backend->pattern) : NULL;
	for (const char *c = backend->prefix; *c; c++) {
		if (strchr("*?[]\\", *c))
			str_add_char(&pattern, '\\');
		str_add_char(&pattern, *c);
	}
	str_add(&pattern, "*#fence");
	return str_take(&pattern);
}

static void redis_list_take(const struct redisReply *names, text_list *keys)
{
	size_t suffix = strlen("#fence");

	for (size_t i = 0; i < names->elements; i++) {
		const char *name = names->element[i]->str;
		size_t len = name ? strlen(name) : 0;
		if (len > suffix && len < suffix + LEASE_KEY_SIZE)
			vec_add(keys, xstrndup(name, len - suffix));
	}
}

/* One step of SCAN, which gives some names, maybe twice. */
static int redis_list_step(struct redis_backend *backend,
			   struct redis_connection *connection, size_t server,
			   const char *pattern, char cursor[24], text_list *keys,
			   struct err *err)
{
	struct redis_request request;
	int result = -1;

	redis_request_init(&request, connection);
	redis_request_add(
		&request, 6,
		(const char *[]){ "SCAN", cursor, "MATCH", pattern, "COUNT", "1000" });
	redis_exchange(&request, 1, 1, redis_until(backend), 0);
	if (request.progress != REDIS_ANSWERED) {
		*err = request.err;
	} else if (redis_reply_check(request.replies.items[0],
				     backend->addresses[server].text, err) == 0) {
		const redisReply *reply = request.replies.items[0];
		snprintf(cursor, 24, "%s", redis_reply_text(reply, 0));
		if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
			redis_list_take(reply->element[1], keys);
		result = 0;
	}
	redis_request_clear(&request);
	return result;
}

static int redis_list_server(struct redis_backend *backend, size_t server,
			     const char *pattern, text_list *keys, struct err *err)
{
	int64_t until = clock_boot_ms() + LIST_MS;
	int channel = lease_server_borrow(&backend->server, redis_until(backend));
	char cursor[24] = "0";
	int result = channel < 0 ? err_set(err, ERR_TIMEOUT,
					   "leases: all connections are in use")
				 : 0;

	while (result == 0) {
		result = redis_list_step(backend, backend->channels[channel][server],
					 server, pattern, cursor, keys, err);
		if (strcmp(cursor, "0") == 0)
			break;
		if (result == 0 && clock_boot_ms() > until)
			result = err_set(err, ERR_TIMEOUT,
					 "leases: the server has too many keys to list");
	}
	if (channel >= 0)
		lease_server_give_back(&backend->server, channel);
	if (result != 0)
		err_because(err, REASON_LOCK_UNAVAILABLE);
	return result;
}

static int redis_list_names(struct redis_backend *backend, text_list *keys,
			    struct err *err)
{
	AUTO_FREE char *ours = redis_list_pattern(backend, false);
	AUTO_FREE char *others = redis_list_pattern(backend, true);
	size_t answered = 0, kept = 0;

	for (size_t i = 0; i < backend->count; i++)
		answered += redis_list_server(backend, i, ours, keys, err) == 0 &&
			    (!others ||
			     redis_list_server(backend, i, others, keys, err) == 0);
	vec_sort(keys, text_list_order);
	for (size_t i = 0; i < keys->count; i++) {
		if (kept > 0 && strcmp(keys->items[kept - 1], keys->items[i]) == 0)
			free(keys->items[i]);
		else
			keys->items[kept++] = keys->items[i];
	}
	keys->count = kept;
	return answered >= backend->quorum ? 0 : -1;
}

static int redis_list_some(struct redis_backend *backend, char *const *keys, size_t count,
			   lease_holders *holders, struct err *err)
{
	struct redis_call calls[LIST_AT_ONCE];
	struct redis_round round;
	struct redis_view view;
	int result = 0;

	for (size_t i = 0; i < count; i++)
		calls[i] = (struct redis_call){ .script = REDIS_INSPECT, .key = keys[i] };
	redis_round_run(backend, &round, calls, count, redis_until(backend));
	if (round.answered < backend->quorum)
		result = redis_unavailable(backend, &round, err);
	for (size_t i = 0; i < count; i++) {
		if (result == 0 && redis_round_look(backend, &round, i, keys[i], &view))
			vec_add(holders, view.owner.holder);
	}
	redis_round_clear(&round);
	return result;
}

int redis_list(struct lease_backend *base, lease_holders *holders, struct err *err)
{
	struct redis_backend *backend = redis_of(base);
	AUTO_TEXT_LIST text_list keys = { 0 };
	int result = redis_list_names(backend, &keys, err);

	holders->count = 0;
	for (size_t at = 0; result == 0 && at < keys.count; at += LIST_AT_ONCE) {
		size_t left = keys.count - at;
		result = redis_list_some(backend, keys.items + at,
					 left < LIST_AT_ONCE ? left : LIST_AT_ONCE,
					 holders, err);
	}
	return result;
}
