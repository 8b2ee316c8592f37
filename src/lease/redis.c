/*
 * Leases on Redis: one server, or several independent ones (Redlock). One code: with one
 * server, a majority is one of one, and needs no confirmation.
 *
 * Why at most one living, unlapsed holder, as long as servers keep memory and clock:
 *
 * - A server has one value a lease, and a script sets it only when there is none. Of
 *   several servers a majority must have it, each two majorities share a server, and
 *   what failed to get one is taken back everywhere.
 * - It ends at the server by its ttl; for its holder, counted from before the request was
 *   sent, a hundredth and 2 ms earlier (lease/manager.c).
 * - A server that began to run within the ttl may have forgotten to whom it gave its
 *   vote: of several, it has none until then. (One that is alone and keeps nothing on
 * disk loses its leases; so does one that fails over to a replica. What makes the former
 *   holder harmless then is its fence.)
 * - An answer that does not come in time may mean a grant: it is taken back by its nonce
 *   until the server has answered that (redis_wake.c).
 *
 * Why fences grow: a server's counter is below each that it grants. Of several servers,
 * the grant takes the greatest of those that a majority offers, and counts only once a
 * majority has it as its counter; as it has at once if all offered the same. Each, but
 * for those that follow what was given up, is also above the server's clock in
 * microseconds, so that it grows although data was lost: no two grants are in one of
 * them.
 *
 * Waiting: who finds the lease held stands in a line at the server, for as long as it
 * asks again within 3 seconds. Whoever releases tells the first in the line, which asks
 * at once; all others are refused. Everybody asks once a second anyway. If the holder
 * knows who is next, and that is of its kernel, it gives that one its grant
 * (lease_give.h), or if that cannot be, its nonce: then the request of the next one
 * releases, too.
 */
#include <assert.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/retry.h"
#include "lease/lease_give.h"
#include "lease/redis_round.h"

#define SPLIT_LEAST_MS 10
#define SPLIT_MOST_MS 100
#define REDLOCK_POLL_MS 150
#define REDLOCK_JITTER_MS 100
#define FENCE_MOST 9007199254740990 /* what Lua counts exactly */
#define DEATHS_MOST 4               /* found in one attempt */

/* ------------------------------------------------------------------ taking */

/* One attempt; of several tries, when it comes upon the dead. */
struct redis_try {
	struct redis_backend *backend;
	struct lease_attempt *attempt;
	const char *key;
	char nonce[LEASE_NONCE_SIZE];
	char give_up[LEASE_NONCE_SIZE];
	struct lease_offer offer;
	char dead_waiter[LEASE_SERVER_ID_SIZE];
	bool is_after_death;
	struct owner owner;
	struct redis_round round;
	struct redis_view in_the_way;
	struct redis_view dead; /* whom we take it from */

	/* The votes of the last round. */
	size_t granted, held, queued;
	size_t agreed; /* granted what was given up, with try->fence */
	size_t taken;  /* granted, whether it counts or not */
	bool has_others;
	const struct redisReply *grant, *holder, *front;
	uint64_t fence;
	int64_t place;
};

static uint64_t redis_fence_in(const char *value)
{
	const char *at = strstr(value, " fence=");

	return at ? strtoull(at + strlen(" fence="), NULL, 10) : 0;
}

/* The one that has seen the latest grant knows how that ended; of two, the one that does
 * not just lack its end. */
static bool redis_try_knows_better(const struct redisReply *old,
				   const struct redisReply *new)
{
	uint64_t a = redis_fence_in(redis_reply_text(old, 5));
	uint64_t b = redis_fence_in(redis_reply_text(new, 5));

	return b > a || (b == a && strcmp(redis_reply_text(old, 4), "held") == 0);
}

static void redis_try_count_vote(struct redis_try *try, size_t server)
{
	const struct redisReply *reply = redis_round_reply(&try->round, server, 0);

	if (!reply)
		return;
	int64_t status = redis_reply_number(reply, 0);
	int64_t place = redis_reply_number(reply, 3);
	if (place > try->place)
		try->place = place;
	try->taken += status == 1;
	if (!try->round.may_vote[server]) {
		err_set(&try->round.err, ERR_NETWORK,
			"leases: %.200s began to run less than a ttl ago, or does not "
			"tell since when it runs",
			try->backend->addresses[server].text);
		err_because(&try->round.err, REASON_LOCK_UNAVAILABLE);
		err_remedy(&try->round.err, "wait; its user needs the right to INFO");
	} else if (status == 1) {
		uint64_t fence = strtoull(redis_reply_text(reply, 1), NULL, 10);
		try->granted++;
		try->has_others |= redis_reply_number(reply, 6) > 0;
		if (!try->grant || redis_try_knows_better(try->grant, reply))
			try->grant = reply;
		if (fence > try->fence) {
			try->agreed = 0;
			try->fence = fence;
		}
		try->agreed += fence == try->fence &&
			       strcmp(redis_reply_text(reply, 4), "given") == 0;
	} else if (status == 0) {
		try->held++;
		try->holder = reply;
	} else {
		try->queued++;
		try->front = reply;
	}
}

static void redis_try_count_votes(struct redis_try *try)
{
	try->granted = try->held = try->queued = try->taken = try->agreed = 0;
	try->grant = try->holder = try->front = NULL;
	try->has_others = false;
	try->fence = 0;
	for (size_t i = 0; i < try->round.count; i++)
		redis_try_count_vote(try, i);
	if (try->attempt->request->wait_ms > 0 && try->place > 0)
		try->attempt->place = try->place;
}

static void redis_try_ask(struct redis_try *try)
{
	const struct redis_backend *backend = try->backend;
	const struct lease_attempt *attempt = try->attempt;
	char text[OWNER_TEXT_SIZE], waiter[OWNER_TEXT_SIZE];
	char ttl[24], floor[24], place[24];
	struct owner waiting = try->owner;

	owner_format(&try->owner, text);
	snprintf(waiting.holder.operation, sizeof(waiting.holder.operation), "waiting");
	owner_format(&waiting, waiter);
	snprintf(ttl, sizeof(ttl), "%" PRId64, backend->base.ttl_ms);
	snprintf(floor, sizeof(floor), "%" PRIu64, lease_attempt_floor(attempt));
	snprintf(place, sizeof(place), "%" PRId64, attempt->place);
	const bool waits = attempt->request->wait_ms > 0 && !backend->is_redlock_format;
	const struct redis_call call = {
		.script = REDIS_ACQUIRE,
		.key = try->key,
		.arguments = { try->nonce, backend->is_redlock_format ? "" : text, ttl,
			       floor, try->give_up, try->dead_waiter, waits ? place : "",
			       waits ? waiter : "", backend->count > 1 ? "1" : "",
			       try->is_after_death ? "" : "1" },
		.count = 10,
	};
	redis_round_run(try->backend, &try->round, &call, 1, redis_until(backend));
	redis_try_count_votes(try);
}

/* Servers that may have granted it without our hearing of it. */
static void redis_note_leftovers(struct redis_backend *backend,
				 const struct redis_round *round, const char *key,
				 const char *nonce)
{
	for (size_t i = 0; i < round->count; i++) {
		const struct redis_request *request = &round->requests[i];
		if (!request->was_sent || request->replies.count >= request->wanted)
			continue;
		redis_wake_start(backend);
		lease_server_add_leftover(&backend->server, key, nonce, i);
	}
}

/* Takes votes back. A server that does not answer is asked until it does: it may still
 * have what another round gave. */
static void redis_take_back(struct redis_backend *backend, struct redis_round *round,
			    const char *key, const char *nonce)
{
	const struct redis_call call = {
		.script = REDIS_RELEASE, .key = key, .arguments = { nonce }, .count = 1
	};

	redis_round_run(backend, round, &call, 1, redis_until(backend));
	for (size_t i = 0; i < round->count; i++) {
		if (redis_round_reply(round, i, 0))
			continue;
		redis_wake_start(backend);
		lease_server_add_leftover(&backend->server, key, nonce, i);
	}
}

static void redis_try_undo(struct redis_try *try)
{
	struct redis_round round;

	redis_note_leftovers(try->backend, &try->round, try->key, try->nonce);
	if (try->taken == 0)
		return;
	redis_take_back(try->backend, &round, try->key, try->nonce);
	redis_round_clear(&round);
}

/* What was given up for us has the same next fence at all servers. */
static bool redis_try_is_confirmed(const struct redis_try *try)
{
	return try->backend->count == 1 ||
	       (try->agreed >= try->backend->quorum && try->agreed == try->granted &&
		try->held + try->queued == 0);
}

/* Of several servers: the fence counts once a majority has it. 1: it has; 0: others were
 * quicker; -1. */
static int redis_try_confirm(struct redis_try *try, struct err *err)
{
	struct redis_round round;
	size_t confirmed = 0, quorum = try->backend->quorum;
	char fence[24];

	if (redis_try_is_confirmed(try))
		return 1;
	snprintf(fence, sizeof(fence), "%" PRIu64, try->fence);
	const struct redis_call call = { .script = REDIS_CONFIRM,
					 .key = try->key,
					 .arguments = { try->nonce, fence },
					 .count = 2 };
	redis_round_run(try->backend, &round, &call, 1, redis_until(try->backend));
	for (size_t i = 0; i < round.count; i++) {
		const struct redisReply *reply = redis_round_reply(&round, i, 0);
		confirmed += reply && redis_reply_number(reply, 0) == 1;
	}
	int result = confirmed >= quorum;
	if (!result && round.answered < quorum)
		result = redis_unavailable(try->backend, &round, err);
	redis_round_clear(&round);
	return result;
}

static enum lease_predecessor redis_try_predecessor(const struct redis_try *try,
						    const char *state)
{
	if (try->is_after_death)
		return LEASE_AFTER_DEATH;
	if (strcmp(state, "held") == 0)
		return LEASE_AFTER_LAPSE;
	if (strcmp(state, "forced") == 0)
		return LEASE_AFTER_FORCE;
	return strcmp(state, "none") == 0 ? LEASE_AFTER_NOBODY : LEASE_AFTER_RELEASE;
}

static void redis_try_grant(struct redis_try *try)
{
	struct lease_attempt *attempt = try->attempt;
	struct lease_grant *grant = &attempt->grant;

	attempt->outcome = LEASE_GRANTED;
	attempt->has_others = try->has_others;
	lease_server_keep_next(&try->backend->server, try->key,
			       redis_reply_text(try->grant, 7));
	attempt->place = 0;
	attempt->predecessor =
		redis_try_predecessor(try, redis_reply_text(try->grant, 4));
	if (!try->is_after_death) {
		redis_view_read(redis_reply_text(try->grant, 5), -1, &try->dead);
		try->dead.owner.holder.held = false;
	}
	attempt->holder = try->dead.owner.holder;
	attempt->silent_ms =
		try->is_after_death ? try->dead.owner.ttl_ms - try->dead.ttl_left_ms : -1;
	snprintf(grant->key, sizeof(grant->key), "%s", attempt->request->key);
	snprintf(grant->nonce, sizeof(grant->nonce), "%s", try->nonce);
	grant->fence = try->fence;
	grant->guard_fd = TAKE_FD(attempt->guard_fd);
}

/* Whether who is in the way is dead, and can be passed with one more try. */
static bool redis_try_look_at_dead(struct redis_try *try, const struct redisReply *reply,
				   bool is_holder)
{
	struct lease_attempt *attempt = try->attempt;
	AUTO_FREE char *waiter = NULL;

	if (is_holder) {
		redis_view_read(redis_reply_text(reply, 1), redis_reply_number(reply, 2),
				&try->in_the_way);
	} else { /* it has no fence yet, nor a nonce */
		waiter = xasprintf("- fence=1 %s", redis_reply_text(reply, 1));
		redis_view_read(waiter, 0, &try->in_the_way);
		try->in_the_way.owner.holder.fence = 0;
		try->in_the_way.owner.holder.mark = 0;
	}
	struct owner *owner = &try->in_the_way.owner;
	lease_server_judge(&try->backend->server, owner, attempt->hint_fd,
			   &attempt->orphans);
	attempt->silent_ms =
		owner->ttl_ms ? owner->ttl_ms - owner->holder.ttl_left_ms : -1;
	if (!owner->holder.is_dead || attempt->orphans)
		return false;
	if (is_holder) {
		snprintf(try->give_up, sizeof(try->give_up), "%.32s",
			 try->in_the_way.nonce);
		try->is_after_death = true;
		try->dead = try->in_the_way;
	} else {
		snprintf(try->dead_waiter, sizeof(try->dead_waiter), "%s",
			 redis_reply_text(reply, 4));
	}
	return true;
}

static bool redis_try_found_dead(struct redis_try *try)
{
	if (try->holder)
		return redis_try_look_at_dead(try, try->holder, true);
	return try->front && redis_try_look_at_dead(try, try->front, false);
}

static void redis_try_set_retry(struct redis_try *try, bool is_split)
{
	const struct redis_backend *backend = try->backend;
	struct lease_attempt *attempt = try->attempt;
	int64_t left = try->holder ? redis_reply_number(try->holder, 2) : -1;
	int64_t retry;

	if (is_split)
		retry = random_between(SPLIT_LEAST_MS, SPLIT_MOST_MS);
	else if (backend->is_redlock_format)
		retry = random_between(backend->poll_ms - backend->poll_jitter_ms,
				       backend->poll_ms + backend->poll_jitter_ms);
	else
		retry = lease_retry_ms(attempt, !try->holder       ? LEASE_BEHIND_WAITER
						: attempt->orphans ? LEASE_BEHIND_ORPHANS
								   : LEASE_BEHIND_HOLDER);
	if (left >= 0 && left < retry)
		retry = left + 1;
	attempt->retry_ms = retry;
}

/* 1: granted; 0: held by others, or their turn; -1. */
static int redis_try_once(struct redis_try *try, struct err *err)
{
	size_t quorum = try->backend->quorum;

	/* What is taken back by its nonce, later, must never be granted. */
	random_hex(try->nonce, (LEASE_NONCE_SIZE - 1) / 2);
	redis_try_ask(try);
	int result = try->granted >= quorum ? redis_try_confirm(try, err) : 0;
	/* A server that has not answered may have it as well: the release sees to that.
	 */
	if (result > 0)
		return 1;
	redis_try_undo(try);
	if (result < 0)
		return -1;
	if (try->granted + try->held + try->queued < quorum)
		return redis_unavailable(try->backend, &try->round, err);
	/* What was given up is at no server any more. */
	try->give_up[0] = '\0';
	return 0;
}

/* Tells who is in the way. True: somebody dead, so that another try is worth it. */
static bool redis_try_look(struct redis_try *try)
{
	struct lease_attempt *attempt = try->attempt;

	attempt->orphans = false;
	bool is_dead = redis_try_found_dead(try);
	attempt->holder = try->in_the_way.owner.holder;
	snprintf(attempt->holder.key, sizeof(attempt->holder.key), "%s",
		 attempt->request->key);
	redis_try_set_retry(try, try->granted > 0);
	return is_dead;
}

static void redis_try_init(struct redis_try *try, struct redis_backend *backend,
			   struct lease_attempt *attempt, const char *key)
{
	*try = (struct redis_try){ .backend = backend, .attempt = attempt, .key = key };
	lease_server_hint(&backend->server, key, attempt->hint_fd, &try->offer);
	memcpy(try->give_up,
	       attempt->handed.nonce[0] ? attempt->handed.nonce : try->offer.nonce,
	       sizeof(try->give_up));
	attempt->outcome = LEASE_HELD;
	attempt->grant = LEASE_NO_GRANT;
	if (!backend->is_redlock_format)
		lease_server_describe(&backend->server, &backend->base, attempt,
				      &try->owner);
}

/* What was given up for us, as it is or by the servers. */
static bool redis_try_take(struct redis_try *try)
{
	struct redis_backend *backend = try->backend;

	return !try->attempt->handed.nonce[0] &&
	       lease_give_take(&backend->server, try->key, &try->offer,
			       backend->base.ttl_ms, try->attempt);
}

static int redis_try_run(struct redis_try *try, struct err *err)
{
	int result = 0;

	for (int i = 0; i < DEATHS_MOST; i++) {
		result = redis_try_once(try, err);
		if (result > 0)
			redis_try_grant(try);
		bool is_dead = result == 0 && redis_try_look(try);
		redis_round_clear(&try->round);
		if (!is_dead)
			break;
	}
	return result;
}

/* Other programs only poll. Were the lease handed on within this process, none of them
 * would ever find it free: it is given up, and asked for as they ask. */
static void redis_try_give_way(struct redis_backend *backend,
			       struct lease_attempt *attempt, const char *key)
{
	struct redis_round round;

	redis_take_back(backend, &round, key, attempt->handed.nonce);
	redis_round_clear(&round);
	attempt->handed = LEASE_NO_GRANT;
	attempt->outcome = LEASE_HELD;
	attempt->grant = LEASE_NO_GRANT;
	attempt->retry_ms = random_between(backend->poll_ms - backend->poll_jitter_ms,
					   backend->poll_ms + backend->poll_jitter_ms);
}

static int redis_hint_open(struct lease_backend *base)
{
	struct redis_backend *backend = redis_of(base);

	if (backend->is_redlock_format)
		return -1;
	redis_wake_start(backend);
	return lease_server_hint_open(&backend->server);
}

/* A place that stays behind is passed over after 3 seconds. */
static void redis_leave_line(struct redis_backend *backend, const char *key)
{
	const struct redis_call call = { .script = REDIS_LEAVE, .key = key };
	struct redis_round round;

	redis_round_run(backend, &round, &call, 1, redis_until(backend));
	redis_round_clear(&round);
}

static void redis_leave(struct lease_backend *base, struct lease_attempt *attempt)
{
	struct redis_backend *backend = redis_of(base);
	AUTO_FREE char *key = redis_server_key(attempt->request->key, ERR_IGNORED);

	lease_server_drop_hint(&backend->server, attempt->hint_fd);
	lease_server_drop_guard(&backend->server, TAKE_FD(attempt->guard_fd));
	attempt->place = 0;
	redis_leave_line(backend, key);
}

/* ------------------------------------------------------------------ what we hold */

static void redis_note_extended(const struct redis_backend *backend,
				const struct redis_round *round,
				struct lease_extension *all, size_t count,
				struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		int decided = redis_round_decide(backend, round, i);
		all[i].lost = decided == 0;
		all[i].unknown = decided < 0;
		if (decided < 0)
			err_set(err, ERR_LOCK_UNAVAILABLE,
				"lease %.300s: a server does not answer, and another "
				"does not have it",
				all[i].grant.key);
	}
}

static int redis_extend_all(struct lease_backend *base, struct lease_extension *all,
			    size_t count, int64_t sent_at, struct err *err)
{
	struct redis_backend *backend = redis_of(base);
	struct redis_call *calls = xcalloc(count, sizeof(*calls));
	struct redis_round round;
	char ttl[24];
	int result = 0;

	(void)sent_at;
	snprintf(ttl, sizeof(ttl), "%" PRId64, base->ttl_ms);
	for (size_t i = 0; i < count; i++)
		calls[i] = (struct redis_call){ .script = REDIS_EXTEND,
						.key = redis_server_key(all[i].grant.key,
									ERR_IGNORED),
						.arguments = { all[i].grant.nonce, ttl },
						.count = 2 };
	redis_round_run(backend, &round, calls, count, redis_until(backend));
	redis_note_extended(backend, &round, all, count, err);
	if (round.answered < backend->quorum)
		result = redis_unavailable(backend, &round, err);
	for (size_t i = 0; i < count; i++)
		free((char *)(uintptr_t)calls[i].key);
	redis_round_clear(&round);
	free(calls);
	return result;
}

/* Servers that did not hear of the new nonce: there the former one is in the way. */
static void redis_forget_former(struct redis_backend *backend,
				const struct redis_round *round, const char *key,
				const char *former)
{
	for (size_t i = 0; i < round->count; i++) {
		if (redis_round_reply(round, i, 0))
			continue;
		redis_wake_start(backend);
		lease_server_add_leftover(&backend->server, key, former, i);
	}
}

/* The grant is the holder's that the text describes, with its fence, and a nonce that
 * follows the one that the servers know; else that. 1: a majority knows it now; 0: it is
 * another's by now; -1. */
static int redis_tell(struct redis_backend *backend, const struct lease_grant *grant,
		      const char *key, const char *text, bool *has_others,
		      struct err *err)
{
	char former[LEASE_NONCE_SIZE], fence[24];
	const bool is_given =
		lease_give_is_untold(&backend->server, grant->nonce, former);
	const struct redis_call call = { .script = REDIS_PASS,
					 .key = key,
					 .arguments = { is_given ? former : grant->nonce,
							fence, text, grant->nonce,
							is_given ? "1" : "" },
					 .count = 5 };
	const char *next = "";
	struct redis_round round;
	size_t known = 0, refused = 0;

	snprintf(fence, sizeof(fence), "%" PRIu64, grant->fence);
	redis_round_run(backend, &round, &call, 1, redis_until(backend));
	for (size_t i = 0; i < round.count; i++) {
		const struct redisReply *reply = redis_round_reply(&round, i, 0);
		refused += reply && redis_reply_number(reply, 0) < 0;
		if (!reply || redis_reply_number(reply, 0) < 0)
			continue;
		known++;
		*has_others |= redis_reply_number(reply, 0) > 0;
		next = next[0] ? next : redis_reply_text(reply, 1);
	}
	int result = known >= backend->quorum                     ? 1
		     : refused > backend->count - backend->quorum ? 0
								  : -1;
	if (result > 0 && is_given) {
		lease_server_keep_next(&backend->server, key, next);
		redis_forget_former(backend, &round, key, former);
		lease_give_settle(&backend->server, grant->nonce, true);
	} else if (result < 0 && redis_unavailable(backend, &round, err) < 0 &&
		   err->class == ERR_NONE) {
		err_set(err, ERR_NETWORK, "leases: too few servers know who has %.300s",
			key);
	}
	redis_round_clear(&round);
	return result;
}

static int redis_pass(struct lease_backend *base, const struct lease_grant *grant,
		      const struct lease_holder *holder, bool *has_others,
		      struct err *err)
{
	struct redis_backend *backend = redis_of(base);
	AUTO_FREE char *key = redis_server_key(grant->key, err);
	char text[OWNER_TEXT_SIZE];

	if (!key ||
	    !lease_server_describe_passed(&backend->server, base, grant, holder, text))
		return -1;
	int known = redis_tell(backend, grant, key, text, has_others, err);
	return known < 0 ? -1 : !known;
}

/* What was handed on to us was given to this process a moment before, and the servers may
 * not have heard of it. */
static int redis_try_tell(struct redis_try *try, struct err *err)
{
	const struct lease_grant *handed = &try->attempt->handed;
	struct redis_backend *backend = try->backend;
	char former[LEASE_NONCE_SIZE], text[OWNER_TEXT_SIZE];
	bool has_others = false;

	if (!handed->nonce[0] ||
	    !lease_give_is_untold(&backend->server, handed->nonce, former))
		return 0;
	owner_format(&try->owner, text);
	if (redis_tell(backend, handed, try->key, text, &has_others, err) < 0)
		return -1;
	lease_give_settle(&backend->server, handed->nonce, true);
	return 0;
}

static int redis_try_acquire(struct lease_backend *base, struct lease_attempt *attempt,
			     struct err *err)
{
	struct redis_backend *backend = redis_of(base);
	AUTO_FREE char *key = redis_server_key(attempt->request->key, err);
	struct redis_try try;

	if (!key)
		return -1;
	if (attempt->request->fence_floor >= FENCE_MOST)
		return err_set(err, ERR_CORRUPT, "lease %.300s: its fences are used up",
			       key);
	if (backend->is_redlock_format && attempt->handed.nonce[0]) {
		redis_try_give_way(backend, attempt, key);
		return 0;
	}
	redis_try_init(&try, backend, attempt, key);
	int result = redis_try_take(&try) ? 1 : redis_try_tell(&try, err);
	if (result == 0)
		result = redis_try_run(&try, err);
	if (result != 0 || attempt->place == 0) {
		lease_server_drop_hint(&backend->server, attempt->hint_fd);
		lease_server_drop_guard(&backend->server, TAKE_FD(attempt->guard_fd));
	}
	if (result < 0)
		return -1;
	lease_server_drop_guard(&backend->server, attempt->handed.guard_fd);
	attempt->handed = LEASE_NO_GRANT;
	return 0;
}

/* As redis_round_decide(). */
static int redis_release_nonce(struct redis_backend *backend, const char *key,
			       const char *nonce, struct err *err)
{
	struct redis_round round;

	redis_take_back(backend, &round, key, nonce);
	int decided = redis_round_decide(backend, &round, 0);
	if (decided < 0)
		redis_unavailable(backend, &round, err);
	redis_round_clear(&round);
	return decided;
}

/* Servers that have not heard that it was given to us have it by the former nonce, and
 * show our place in the line. */
static int redis_give_back(struct redis_backend *backend, const char *key,
			   const char *nonce, struct err *err)
{
	char former[LEASE_NONCE_SIZE];

	if (!lease_give_is_untold(&backend->server, nonce, former))
		return redis_release_nonce(backend, key, nonce, err);
	int decided = redis_release_nonce(backend, key, former, err);
	if (!lease_server_has_hint(&backend->server, key)) /* of another waiter of ours */
		redis_leave_line(backend, key);
	int own = redis_release_nonce(backend, key, nonce, err);
	lease_give_settle(&backend->server, nonce, decided >= 0 && own >= 0);
	if (decided > 0 || own > 0)
		return 1;
	return decided < 0 || own < 0 ? -1 : 0;
}

/* The guard stays locked until the server has heard: nobody takes us for dead. */
static int redis_release(struct lease_backend *base, struct lease_grant *grant,
			 enum lease_released *how, struct err *err)
{
	struct redis_backend *backend = redis_of(base);
	AUTO_FREE char *key = redis_server_key(grant->key, ERR_IGNORED);
	struct lease_giving giving;
	int decided = 1;

	if (!lease_give(&backend->server, key, grant, &giving))
		decided = redis_give_back(backend, key, grant->nonce, err);
	lease_give_end(&giving);
	*how = decided > 0 || giving.was_told ? LEASE_RELEASED : LEASE_GONE;
	lease_server_drop_guard(&backend->server, grant->guard_fd);
	*grant = LEASE_NO_GRANT;
	return decided < 0 ? -1 : 0;
}

/* Who waits stands in the line of a majority, and soon in that of all. Those who poll in
 * other programs' format stand in none. */
static int redis_is_wanted(struct lease_backend *base, const char *key, struct err *err)
{
	struct redis_backend *backend = redis_of(base);
	AUTO_FREE char *server_key = redis_server_key(key, err);
	const struct redis_call call = { .script = REDIS_WANTED, .key = server_key };
	struct redis_round round;
	int wanted = 0;

	if (!server_key)
		return -1;
	if (backend->is_redlock_format)
		return 0;
	redis_round_run(backend, &round, &call, 1, redis_until(backend));
	for (size_t i = 0; i < round.count; i++) {
		const struct redisReply *reply = redis_round_reply(&round, i, 0);
		wanted |= reply && redis_reply_number(reply, 0) > 0;
	}
	if (!wanted && round.answered < backend->quorum)
		wanted = redis_unavailable(backend, &round, err);
	redis_round_clear(&round);
	return wanted;
}

/* ------------------------------------------------------------------ life */

static void redis_close(struct lease_backend *base)
{
	struct redis_backend *backend = redis_of(base);

	redis_wake_stop(backend);
	for (size_t i = 0; i < backend->count; i++) {
		for (int j = 0; j < LEASE_SERVER_CHANNELS; j++)
			redis_connection_free(backend->channels[j][i]);
		redis_address_clear(&backend->addresses[i]);
	}
	lease_server_clear(&backend->server);
	vec_clear_owned(&backend->doubts);
	free(backend->user);
	free(backend->password_file);
	free(backend->ca_file);
	free(backend->prefix);
	free(backend->pattern);
	free(backend);
}

static const struct lease_backend_ops ops = {
	.name = "redis",
	.hint_open = redis_hint_open,
	.try_acquire = redis_try_acquire,
	.leave = redis_leave,
	.extend_all = redis_extend_all,
	.pass = redis_pass,
	.release = redis_release,
	.is_wanted = redis_is_wanted,
	.list = redis_list,
	.inspect = redis_inspect,
	.force_release = redis_force_release,
	.close = redis_close,
};

static int redis_parse_urls(struct redis_backend *backend,
			    const struct lease_options *options, struct err *err)
{
	size_t count = options->url_count;

	if (count == 0 || count % 2 == 0 || count > REDIS_SERVERS_MOST) {
		err_set(err, ERR_CONFIG,
			"leases on %zu Redis servers: a majority takes an odd number, of "
			"at most %d",
			count, REDIS_SERVERS_MOST);
		return err_remedy(err, "name one server in lease.url, or 3 or 5");
	}
	for (size_t i = 0; i < count; i++) {
		if (redis_address_parse(options->urls[i], &backend->addresses[i], err) !=
		    0)
			return -1;
		backend->count = i + 1;
		for (size_t j = 0; j < i; j++) {
			if (strcmp(options->urls[i], options->urls[j]) == 0)
				return err_set(err, ERR_CONFIG,
					       "lease.url: %.300s is there twice",
					       options->urls[i]);
		}
	}
	backend->quorum = count / 2 + 1;
	return 0;
}

/* A server that is slow is not to cost others the lease: a twentieth of its time. */
static void redis_set_times(struct redis_backend *backend,
			    const struct lease_options *options)
{
	int64_t share = backend->base.ttl_ms / 20;

	backend->command_ms = REDIS_COMMAND_MS;
	if (options->url_count > 1 && share < REDIS_COMMAND_MS)
		backend->command_ms = share > 100 ? share : 100;
	backend->is_redlock_format = options->redlock_format;
	backend->base.is_never_passed = options->redlock_format;
	backend->poll_ms = options->poll_ms > 0 ? options->poll_ms : REDLOCK_POLL_MS;
	backend->poll_jitter_ms =
		options->poll_ms > 0 ? options->poll_jitter_ms : REDLOCK_JITTER_MS;
	if (backend->poll_jitter_ms > backend->poll_ms)
		backend->poll_jitter_ms = backend->poll_ms;
}

static struct redis_backend *redis_new(const struct lease_options *options)
{
	struct redis_backend *backend = xcalloc(1, sizeof(*backend));

	lease_backend_init(&backend->base, &ops, options);
	lease_server_init(&backend->server, options);
	backend->user = xstrdup_or_null(options->user);
	backend->password_file = xstrdup_or_null(options->password_file);
	backend->ca_file = xstrdup_or_null(options->ca_file);
	backend->prefix = xstrdup(options->prefix ? options->prefix : "");
	backend->pattern = xstrdup_or_null(options->pattern);
	backend->logs_doubts = options->logs_doubts;
	backend->access = (struct redis_access){
		.user = backend->user,
		.password_file = backend->password_file,
		.ca_file = backend->ca_file,
		.is_one_of_several = options->url_count > 1,
		.judge = redis_judge,
		.judge_arg = backend,
	};
	redis_set_times(backend, options);
	redis_scripts_init(backend);
	return backend;
}

int lease_manager_open_redis(const struct lease_options *options,
			     struct lease_manager **manager, struct err *err)
{
	struct redis_backend *backend = redis_new(options);

	*manager = NULL;
	if (redis_parse_urls(backend, options, err) != 0) {
		redis_close(&backend->base);
		return -1;
	}
	for (size_t i = 0; i < backend->count; i++) {
		for (int j = 0; j < LEASE_SERVER_CHANNELS; j++)
			backend->channels[j][i] = redis_connection_new(
				&backend->addresses[i], &backend->access);
		backend->wake.connections[i] =
			redis_connection_new(&backend->addresses[i], &backend->access);
	}
	*manager = lease_manager_new(&backend->base);
	return 0;
}
