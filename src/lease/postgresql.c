/*
 * Leases in a PostgreSQL database: a row a key, a line of those who wait, and functions
 * which decide in one statement (postgresql_schema.c).
 *
 * Why at most one living, unlapsed holder, as long as the server loses nothing that it
 * has committed and its clock does not jump: the row is changed under a lock for its key,
 * and by the server's clock. A holder counts from before its request was sent, and ends
 * earlier (lease/manager.c). A failover to a standby that lacks the last commits, or a
 * clock that is set forward, may give a lease to two; then the fence makes the former
 * harmless, and since fences are above the clock in microseconds, too, they grow although
 * rows were lost.
 *
 * Nothing is held open: each request is a statement of its own, which a pooler may serve
 * by any session. Only the thread that is woken listens, and needs a session of its own;
 * without one, those who wait ask once a second.
 *
 * A holder that knows who waits behind it, on this kernel, gives that one the nonce of
 * its grant when it is done: the successor's request releases and takes the lease, so
 * that it waits for one transaction and not for two.
 *
 * Requests have deadlines; what answers too late is cut off, and a grant that it may have
 * been is taken back by its nonce.
 */
#include "lease/postgresql.h"

#include "base/clock.h"
#include "base/file.h"
#include "lease/lease_give.h"
#include "lease/postgresql_client.h"
#include "lease/postgresql_statements.h"

#define LIST_MS 10000
#define DEATHS_MOST 4 /* found in one attempt */

/* ------------------------------------------------------------------ taking */

enum outcome { NOT_OUR_TURN = -1, HELD_BY_OTHER = 0, GRANTED = 1 };

enum { OUTCOME, FENCE, OWNER, NONCE, LEFT_MS, TICKET, WAITER, ENDED, NEXT, IS_OLDER };

_Static_assert(LEASE_FENCES == 32, "the function has the number as well");

/* One attempt; of several tries, when it comes upon the dead. */
struct
try {
	struct postgresql *postgresql;
	struct lease_attempt *attempt;
	const char *key;
	char nonce[LEASE_NONCE_SIZE], give_up[LEASE_NONCE_SIZE];
	char dead_waiter[LEASE_SERVER_ID_SIZE];
	bool is_after_death;
	bool is_after_ours; /* a grant of this attempt whose answer was lost */
	struct owner owner, in_the_way;
	PGresult *answer;
};

static const char *postgresql_value(const PGresult *result, int row, int column)
{
	return pq.getvalue(result, row, column);
}

static int64_t postgresql_number(const PGresult *result, int row, int column)
{
	return strtoll(postgresql_value(result, row, column), NULL, 10);
}

static void postgresql_read_owner(const char *text, uint64_t fence, struct owner *owner)
{
	lease_server_read_waiter(text, owner);
	owner->holder.fence = fence;
}

static int postgresql_try_ask(struct try *try, struct err *err)
{
	struct postgresql *postgresql = try->postgresql;
	const struct lease_request *request = try->attempt->request;
	char text[OWNER_TEXT_SIZE], waiting[OWNER_TEXT_SIZE], ttl[24], floor[24];
	struct owner waiter = try->owner;
	bool was_sent;

	owner_format(&try->owner, text);
	snprintf(waiter.holder.operation, sizeof(waiter.holder.operation), "waiting");
	owner_format(&waiter, waiting);
	snprintf(ttl, sizeof(ttl), "%" PRId64, postgresql->base.ttl_ms);
	snprintf(floor, sizeof(floor), "%" PRIu64, lease_attempt_floor(try->attempt));
	const struct postgresql_statement statement = {
		.prepared = PREPARED_ACQUIRE,
		.text = POSTGRESQL_ACQUIRE,
		.values = { try->key, try->nonce, text, ttl, floor,
			    try->give_up[0] ? try->give_up : NULL,
			    try->is_after_death ? "true" : "false",
			    try->dead_waiter[0] ? try->dead_waiter : NULL,
			    postgresql->server.me,
			    request->wait_ms > 0 ? waiting : NULL },
		.count = 10,
	};
	if (postgresql_run(postgresql, &statement, postgresql->command_ms, &try->answer,
			   &was_sent, err) == 0)
		return 0;
	if (was_sent) {
		postgresql_wake_start(postgresql);
		lease_server_add_leftover(&postgresql->server, try->key, try->nonce, 0);
	}
	return -1;
}

static enum lease_predecessor postgresql_predecessor_of(const struct try *try)
{
	const char *ended = postgresql_value(try->answer, 0, ENDED);

	if (try->is_after_death)
		return LEASE_AFTER_DEATH;
	if (strcmp(ended, "held") == 0 || try->is_after_ours)
		return LEASE_AFTER_LAPSE; /* or nobody knows any more */
	if (strcmp(ended, "forced") == 0)
		return LEASE_AFTER_FORCE;
	return ended[0] ? LEASE_AFTER_RELEASE : LEASE_AFTER_NOBODY;
}

static void postgresql_try_grant(struct try *try)
{
	struct lease_attempt *attempt = try->attempt;
	struct lease_grant *grant = &attempt->grant;

	attempt->outcome = LEASE_GRANTED;
	attempt->has_others = !pq.getisnull(try->answer, 0, NEXT);
	lease_server_keep_next(
		&try->postgresql->server, attempt->request->key,
		attempt->has_others ? postgresql_value(try->answer, 0, NEXT) : NULL);
	attempt->place = 0;
	attempt->predecessor = postgresql_predecessor_of(try);
	if (!try->is_after_death)
		postgresql_read_owner(postgresql_value(try->answer, 0, OWNER), 0,
				      &try->in_the_way);
	attempt->holder = try->in_the_way.holder;
	if (!try->is_after_death)
		attempt->silent_ms = -1;
	snprintf(grant->key, sizeof(grant->key), "%s", attempt->request->key);
	snprintf(grant->nonce, sizeof(grant->nonce), "%s", try->nonce);
	grant->fence = (uint64_t)postgresql_number(try->answer, 0, FENCE);
	grant->guard_fd = TAKE_FD(attempt->guard_fd);
	attempt->valid_ms = postgresql_number(try->answer, 0, LEFT_MS);
}

/* Whether who is in the way is dead, and can be passed with one more try. */
static bool postgresql_try_look_at_dead(struct try *try, enum outcome outcome)
{
	struct lease_attempt *attempt = try->attempt;
	struct owner *owner = &try->in_the_way;

	postgresql_read_owner(postgresql_value(try->answer, 0, OWNER),
			      (uint64_t)postgresql_number(try->answer, 0, FENCE), owner);
	owner->holder.held = outcome == HELD_BY_OTHER;
	owner->holder.ttl_left_ms = postgresql_number(try->answer, 0, LEFT_MS);
	lease_server_judge(&try->postgresql->server, owner, attempt->hint_fd,
			   &attempt->orphans);
	if (outcome == HELD_BY_OTHER &&
	    postgresql_value(try->answer, 0, IS_OLDER)[0] == 't')
		owner->holder.is_dead = false;
	attempt->silent_ms =
		owner->ttl_ms ? owner->ttl_ms - owner->holder.ttl_left_ms : -1;
	if (!owner->holder.is_dead || attempt->orphans)
		return false;
	try->is_after_death |= outcome == HELD_BY_OTHER;
	if (outcome == HELD_BY_OTHER)
		snprintf(try->give_up, sizeof(try->give_up), "%s",
			 postgresql_value(try->answer, 0, NONCE));
	else
		snprintf(try->dead_waiter, sizeof(try->dead_waiter), "%s",
			 postgresql_value(try->answer, 0, WAITER));
	return true;
}

static void postgresql_try_set_retry(struct try *try, enum outcome outcome)
{
	struct lease_attempt *attempt = try->attempt;
	int64_t left = try->in_the_way.holder.ttl_left_ms;
	int64_t retry =
		lease_retry_ms(attempt, outcome == NOT_OUR_TURN ? LEASE_BEHIND_WAITER
					: attempt->orphans      ? LEASE_BEHIND_ORPHANS
								: LEASE_BEHIND_HOLDER);

	attempt->retry_ms = outcome == HELD_BY_OTHER && left < retry ? left + 1 : retry;
}

/* The answer to a grant was lost with its connection, and the request was repeated on
 * another one: that grant is given up for another. */
static bool postgresql_try_was_granted(struct try *try, enum outcome outcome)
{
	if (outcome != HELD_BY_OTHER ||
	    strcmp(postgresql_value(try->answer, 0, NONCE), try->nonce) != 0)
		return false;
	memcpy(try->give_up, try->nonce, sizeof(try->give_up));
	try->is_after_ours = true;
	random_hex(try->nonce, (LEASE_NONCE_SIZE - 1) / 2);
	return true;
}

/* 1: granted; 0: held by others, or their turn; -1. True in *again: somebody dead is in
 * the way, or a lost grant of ours, so that another try is worth it. */
static int postgresql_try_once(struct try *try, bool *again, struct err *err)
{
	struct lease_attempt *attempt = try->attempt;

	*again = false;
	if (postgresql_try_ask(try, err) != 0)
		return -1;
	enum outcome outcome = (enum outcome)postgresql_number(try->answer, 0, OUTCOME);
	if (outcome == GRANTED) {
		postgresql_try_grant(try);
		return 1;
	}
	try->give_up[0] = '\0'; /* the row says so by now */
	attempt->place = postgresql_number(try->answer, 0, TICKET);
	*again = postgresql_try_was_granted(try, outcome) ||
		 postgresql_try_look_at_dead(try, outcome);
	attempt->holder = try->in_the_way.holder;
	snprintf(attempt->holder.key, sizeof(attempt->holder.key), "%s",
		 attempt->request->key);
	postgresql_try_set_retry(try, outcome);
	return 0;
}

static int postgresql_try_run(struct try *try, struct err *err)
{
	bool again = true;
	int result = 0;

	for (int i = 0; i < DEATHS_MOST && again && result == 0; i++) {
		result = postgresql_try_once(try, &again, err);
		pq.clear(TAKE(try->answer));
	}
	return result;
}

static int postgresql_hint_open(struct lease_backend *base)
{
	postgresql_wake_start(postgresql_of(base));
	return lease_server_hint_open(&postgresql_of(base)->server);
}

/* A place that stays behind is passed over after 3 seconds. */
static void postgresql_leave(struct lease_backend *base, struct lease_attempt *attempt)
{
	struct postgresql *postgresql = postgresql_of(base);
	const char *key = attempt->request->key;
	const struct postgresql_statement statement = {
		.text = POSTGRESQL_LEAVE,
		.values = { key, postgresql->server.me },
		.count = 2,
	};
	PGresult *result;

	lease_server_drop_hint(&postgresql->server, attempt->hint_fd);
	lease_server_drop_guard(&postgresql->server, TAKE_FD(attempt->guard_fd));
	attempt->place = 0;
	postgresql_run_short(postgresql, &statement, &result, ERR_IGNORED);
	pq.clear(result);
}

/* ------------------------------------------------------------------ what we hold */

/* As an element of an array's text. */
static void postgresql_add_element(struct str *out, const char *text)
{
	str_add(out, out->len > 1 ? ",\"" : "\"");
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			str_add_char(out, '\\');
		str_add_char(out, *text);
	}
	str_add_char(out, '"');
}

static void postgresql_note_extended(const PGresult *result, struct lease_extension *all,
				     size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const char *key = all[i].grant.key;
		all[i].lost = true;
		for (int row = 0; row < pq.ntuples(result); row++)
			if (strcmp(postgresql_value(result, row, 0), key) == 0)
				all[i].lost = false;
	}
}

static int postgresql_extend_all(struct lease_backend *base, struct lease_extension *all,
				 size_t count, int64_t sent_at, struct err *err)
{
	struct postgresql *postgresql = postgresql_of(base);
	AUTO_STR struct str keys = STR_INIT;
	AUTO_STR struct str nonces = STR_INIT;
	char ttl[24];
	PGresult *result;

	(void)sent_at;
	snprintf(ttl, sizeof(ttl), "%" PRId64, base->ttl_ms);
	str_add_char(&keys, '{');
	str_add_char(&nonces, '{');
	for (size_t i = 0; i < count; i++) {
		const char *key = all[i].grant.key;
		postgresql_add_element(&keys, key);
		postgresql_add_element(&nonces, all[i].grant.nonce);
	}
	str_add_char(&keys, '}');
	str_add_char(&nonces, '}');
	const struct postgresql_statement statement = {
		.text = POSTGRESQL_EXTEND,
		.values = { keys.data, nonces.data, ttl },
		.count = 3,
	};
	int done = postgresql_run_short(postgresql, &statement, &result, err);
	if (done == 0)
		postgresql_note_extended(result, all, count);
	pq.clear(result);
	return done;
}

/* The grant is the holder's that the text describes, with its fence, and a nonce that
 * follows the one that the server knows; else that. 1: the server knows it now; 0: it is
 * another's by now; -1. */
static int postgresql_tell(struct postgresql *postgresql, const struct lease_grant *grant,
			   const char *text, bool *has_others, struct err *err)
{
	char former[LEASE_NONCE_SIZE], fence[24];
	const bool is_given =
		lease_give_is_untold(&postgresql->server, grant->nonce, former);
	const struct postgresql_statement statement = {
		.prepared = PREPARED_PASS,
		.text = POSTGRESQL_PASS,
		.values = { grant->key, is_given ? former : grant->nonce, fence, text,
			    grant->nonce, is_given ? postgresql->server.me : "" },
		.count = 6,
	};
	PGresult *result;

	snprintf(fence, sizeof(fence), "%" PRIu64, grant->fence);
	int done = postgresql_run_short(postgresql, &statement, &result, err);
	if (done == 0 && pq.ntuples(result) > 0) {
		*has_others = !pq.getisnull(result, 0, 0);
		if (is_given)
			lease_server_keep_next(
				&postgresql->server, grant->key,
				*has_others ? postgresql_value(result, 0, 0) : NULL);
		if (is_given)
			lease_give_settle(&postgresql->server, grant->nonce, true);
		done = 1;
	}
	pq.clear(result);
	return done;
}

static int postgresql_pass(struct lease_backend *base, const struct lease_grant *grant,
			   const struct lease_holder *holder, bool *has_others,
			   struct err *err)
{
	struct postgresql *postgresql = postgresql_of(base);
	char text[OWNER_TEXT_SIZE];

	if (!lease_server_describe_passed(&postgresql->server, base, grant, holder, text))
		return -1;
	int known = postgresql_tell(postgresql, grant, text, has_others, err);
	return known < 0 ? -1 : !known;
}

/* Tells who is first in the line, if it is of this kernel. */
static void postgresql_tell_neighbour(struct postgresql *postgresql, const char *key,
				      const PGresult *released)
{
	const struct postgresql_statement wake = { .text = POSTGRESQL_WAKE,
						   .values = { key },
						   .count = 1 };
	struct owner owner;
	PGresult *result;

	if (pq.getisnull(released, 0, 1))
		return;
	lease_server_read_waiter(postgresql_value(released, 0, 1), &owner);
	if (lease_server_tell(&owner, key))
		return;
	postgresql_run_short(postgresql, &wake, &result, ERR_IGNORED);
	pq.clear(result);
}

/* What was handed on to us was given to this process a moment before, and the server may
 * not have heard of it. */
static int postgresql_try_tell(struct try *try, struct err *err)
{
	const struct lease_grant *handed = &try->attempt->handed;
	struct postgresql *postgresql = try->postgresql;
	char former[LEASE_NONCE_SIZE], text[OWNER_TEXT_SIZE];
	bool has_others = false;

	if (!handed->nonce[0] ||
	    !lease_give_is_untold(&postgresql->server, handed->nonce, former))
		return 0;
	owner_format(&try->owner, text);
	if (postgresql_tell(postgresql, handed, text, &has_others, err) < 0)
		return -1;
	lease_give_settle(&postgresql->server, handed->nonce, true);
	return 0;
}

static int postgresql_try_acquire(struct lease_backend *base,
				  struct lease_attempt *attempt, struct err *err)
{
	struct postgresql *postgresql = postgresql_of(base);
	const char *key = attempt->request->key;
	struct try try = { .postgresql = postgresql, .attempt = attempt, .key = key };
	const char *handed = attempt->handed.nonce;
	struct lease_offer offer;

	random_hex(try.nonce, (LEASE_NONCE_SIZE - 1) / 2);
	attempt->outcome = LEASE_HELD;
	attempt->grant = LEASE_NO_GRANT;
	lease_server_hint(&postgresql->server, key, attempt->hint_fd, &offer);
	memcpy(try.give_up, handed[0] ? handed : offer.nonce, sizeof(try.give_up));
	lease_server_describe(&postgresql->server, base, attempt, &try.owner);
	int result = !handed[0] && lease_give_take(&postgresql->server, key, &offer,
						   base->ttl_ms, attempt)
			     ? 1
			     : postgresql_try_tell(&try, err);
	if (result == 0)
		result = postgresql_try_run(&try, err);
	if (result != 0 || attempt->place == 0) {
		lease_server_drop_hint(&postgresql->server, attempt->hint_fd);
		lease_server_drop_guard(&postgresql->server, TAKE_FD(attempt->guard_fd));
	}
	if (result < 0)
		return -1;
	lease_server_drop_guard(&postgresql->server, attempt->handed.guard_fd);
	attempt->handed = LEASE_NO_GRANT;
	return 0;
}

/* 1: it was in force; 0: it was not; -1. */
static int postgresql_release_nonce(struct postgresql *postgresql, const char *key,
				    const char *nonce, bool is_offered, struct err *err)
{
	const struct postgresql_statement statement = {
		.prepared = PREPARED_RELEASE,
		.text = POSTGRESQL_RELEASE,
		.values = { key, nonce, clock_boot_id(), is_offered ? "true" : "false" },
		.count = 4,
	};
	PGresult *result;
	int done = postgresql_run_short(postgresql, &statement, &result, err);

	if (done == 0 && postgresql_number(result, 0, 0) == 1) {
		postgresql_tell_neighbour(postgresql, key, result);
		done = 1;
	}
	pq.clear(result);
	if (done >= 0)
		return done;
	postgresql_wake_start(postgresql);
	lease_server_add_leftover(&postgresql->server, key, nonce, 0);
	return -1;
}

/* If the server has not heard that it was given to us, it has it by the former nonce, and
 * shows our place in the line. */
static int postgresql_give_back(struct postgresql *postgresql, const char *key,
				const char *nonce, bool is_offered, struct err *err)
{
	struct lease_attempt attempt = {
		.request = &(struct lease_request){ .key = key },
		.hint_fd = -1,
		.guard_fd = -1,
	};
	char former[LEASE_NONCE_SIZE];

	if (!lease_give_is_untold(&postgresql->server, nonce, former))
		return postgresql_release_nonce(postgresql, key, nonce, is_offered, err);
	if (!lease_server_has_hint(&postgresql->server,
				   key)) /* of another waiter of ours */
		postgresql_leave(&postgresql->base, &attempt);
	int done = postgresql_release_nonce(postgresql, key, former, is_offered, err);
	int own = postgresql_release_nonce(postgresql, key, nonce, is_offered, err);
	lease_give_settle(&postgresql->server, nonce, done >= 0 && own >= 0);
	if (done > 0 || own > 0)
		return 1;
	return done < 0 || own < 0 ? -1 : 0;
}

/* The guard stays locked until the server has heard: nobody takes us for dead. */
static int postgresql_release(struct lease_backend *base, struct lease_grant *grant,
			      enum lease_released *how, struct err *err)
{
	struct postgresql *postgresql = postgresql_of(base);
	struct lease_giving giving;
	int done = 1;

	if (!lease_give(&postgresql->server, grant->key, grant, &giving))
		done = postgresql_give_back(postgresql, grant->key, grant->nonce,
					    giving.was_told, err);
	lease_give_end(&giving);
	*how = done > 0 || giving.was_told ? LEASE_RELEASED : LEASE_GONE;
	lease_server_drop_guard(&postgresql->server, grant->guard_fd);
	*grant = LEASE_NO_GRANT;
	return done < 0 ? -1 : 0;
}

static int postgresql_is_wanted(struct lease_backend *base, const char *key,
				struct err *err)
{
	struct postgresql *postgresql = postgresql_of(base);
	const struct postgresql_statement statement = {
		.text = POSTGRESQL_WANTED,
		.values = { key, postgresql->server.me },
		.count = 2,
	};
	PGresult *result;
	int wanted = postgresql_run_short(postgresql, &statement, &result, err);

	if (wanted == 0 && pq.ntuples(result) > 0)
		wanted = postgresql_value(result, 0, 0)[0] == 't';
	pq.clear(result);
	return wanted;
}

/* ------------------------------------------------------------------ operators */

enum { ROW_KEY, ROW_FENCE, ROW_OWNER, ROW_NONCE, ROW_LEFT_MS };

static void postgresql_read_row(struct postgresql *postgresql, const PGresult *result,
				int row, struct lease_holder *holder)
{
	const char *key = postgresql_value(result, row, ROW_KEY);
	bool was_held = !pq.getisnull(result, row, ROW_NONCE);
	struct owner owner;
	bool orphans;

	postgresql_read_owner(postgresql_value(result, row, ROW_OWNER),
			      (uint64_t)postgresql_number(result, row, ROW_FENCE),
			      &owner);
	owner.holder.ttl_left_ms =
		was_held ? postgresql_number(result, row, ROW_LEFT_MS) : 0;
	owner.holder.held = owner.holder.ttl_left_ms > 0;
	if (was_held)
		lease_server_judge(&postgresql->server, &owner, -1, &orphans);
	else
		snprintf(owner.holder.proof, sizeof(owner.holder.proof), "released");
	*holder = owner.holder;
	snprintf(holder->key, sizeof(holder->key), "%s", key);
}

/* The row's nonce as well, if there is room for it. */
static int postgresql_look(struct postgresql *postgresql, const char *key,
			   struct lease_holder *holder, char nonce[LEASE_NONCE_SIZE],
			   struct err *err)
{
	const struct postgresql_statement statement = {
		.text = POSTGRESQL_INSPECT,
		.values = { key },
		.count = 1,
	};
	PGresult *result;
	int done = postgresql_run_short(postgresql, &statement, &result, err);

	if (done == 0 && pq.ntuples(result) == 0) {
		done = lease_report_never_granted(key, err);
	} else if (done == 0) {
		postgresql_read_row(postgresql, result, 0, holder);
		snprintf(nonce, LEASE_NONCE_SIZE, "%s",
			 postgresql_value(result, 0, ROW_NONCE));
	}
	pq.clear(result);
	return done;
}

static int postgresql_inspect(struct lease_backend *base, const char *key,
			      struct lease_holder *holder, struct err *err)
{
	char nonce[LEASE_NONCE_SIZE];

	return postgresql_look(postgresql_of(base), key, holder, nonce, err);
}

static int postgresql_list(struct lease_backend *base, lease_holders *holders,
			   struct err *err)
{
	struct postgresql *postgresql = postgresql_of(base);
	const struct postgresql_statement statement = {
		.text = POSTGRESQL_LIST,
		.values = { postgresql->prefix, postgresql->likeness },
		.count = 2,
	};
	struct lease_holder holder;
	PGresult *result;
	bool ignored;
	int done =
		postgresql_run(postgresql, &statement, LIST_MS, &result, &ignored, err);

	holders->count = 0;
	for (int row = 0; done == 0 && row < pq.ntuples(result); row++) {
		postgresql_read_row(postgresql, result, row, &holder);
		vec_add(holders, holder);
	}
	pq.clear(result);
	return done;
}

static int postgresql_force_release(struct lease_backend *base, const char *key,
				    uint64_t fence, struct err *err)
{
	struct postgresql *postgresql = postgresql_of(base);
	char nonce[LEASE_NONCE_SIZE], text[24];
	struct lease_holder holder;
	PGresult *result = NULL;
	bool is_done = false;

	if (postgresql_look(postgresql, key, &holder, nonce, err) != 0)
		return -1;
	snprintf(text, sizeof(text), "%" PRIu64, fence);
	const struct postgresql_statement statement = {
		.text = POSTGRESQL_FORCE,
		.values = { key, nonce, text },
		.count = 3,
	};
	if (nonce[0] && holder.fence == fence) {
		if (postgresql_run_short(postgresql, &statement, &result, err) != 0)
			return -1;
		is_done = postgresql_number(result, 0, 0) == 1;
		pq.clear(result);
	}
	if (is_done)
		return 0;
	return lease_report_other_fence(key, nonce[0] != '\0', holder.fence, fence, err);
}

/* ------------------------------------------------------------------ life */

static void postgresql_close(struct lease_backend *base)
{
	struct postgresql *postgresql = postgresql_of(base);

	postgresql_wake_stop(postgresql);
	for (size_t i = 0; i < LEASE_SERVER_CHANNELS; i++)
		postgresql_disconnect(&postgresql->channels[i]);
	lease_server_clear(&postgresql->server);
	postgresql_hosts_clear(&postgresql->hosts);
	free(postgresql->url);
	free(postgresql->user);
	free(postgresql->password_file);
	free(postgresql->ca_file);
	free(postgresql->prefix);
	free(postgresql->likeness);
	free(postgresql);
}

static const struct lease_backend_ops ops = {
	.name = "postgresql",
	.hint_open = postgresql_hint_open,
	.try_acquire = postgresql_try_acquire,
	.leave = postgresql_leave,
	.extend_all = postgresql_extend_all,
	.pass = postgresql_pass,
	.release = postgresql_release,
	.is_wanted = postgresql_is_wanted,
	.list = postgresql_list,
	.inspect = postgresql_inspect,
	.force_release = postgresql_force_release,
	.close = postgresql_close,
};

/* The pattern as LIKE has it, or NULL. */
static char *postgresql_make_likeness(const char *pattern)
{
	AUTO_STR struct str out = STR_INIT;

	if (!pattern)
		return NULL;
	for (const char *c = pattern; *c; c++) {
		if (*c == '*') {
			str_add_char(&out, '%');
			continue;
		}
		if (*c == '\\' && c[1])
			c++;
		if (strchr("%_\\", *c))
			str_add_char(&out, '\\');
		str_add_char(&out, *c);
	}
	return str_take(&out);
}

int lease_manager_open_postgresql(const struct lease_options *options,
				  struct lease_manager **manager, struct err *err)
{
	struct postgresql *postgresql;
	postgresql_hosts hosts = { 0 };

	*manager = NULL;
	if (options->url_count != 1)
		return err_set(err, ERR_CONFIG,
			       "lease.url: a PostgreSQL server is one url, with several "
			       "hosts in it if there are standbys");
	if (postgresql_url_read(options->urls[0], &hosts, err) != 0) {
		postgresql_hosts_clear(&hosts);
		return -1;
	}
	postgresql = xcalloc(1, sizeof(*postgresql));
	lease_backend_init(&postgresql->base, &ops, options);
	postgresql->base.may_forget = true; /* in a crash: it waits for no disk */
	lease_server_init(&postgresql->server, options);
	postgresql->url = xstrdup(options->urls[0]);
	postgresql->hosts = hosts;
	postgresql->command_ms = POSTGRESQL_COMMAND_MS;
	postgresql->connect_ms = POSTGRESQL_CONNECT_MS;
	postgresql->user = xstrdup_or_null(options->user);
	postgresql->password_file = xstrdup_or_null(options->password_file);
	postgresql->ca_file = xstrdup_or_null(options->ca_file);
	postgresql->prefix = xstrdup(options->prefix ? options->prefix : "");
	postgresql->likeness = postgresql_make_likeness(options->pattern);
	*manager = lease_manager_new(&postgresql->base);
	return 0;
}
