/*
 * Whoever meets damage says so here. The row is written before anything is read again, so
 * that the site does not call itself verified meanwhile; whether it is damage the
 * verification decides, which then goes before all others.
 *
 * What a reader meets is git's word only, and some of it a client can bring about. So who
 * cried wolf three times waits: the words count again after a while that grows up to an
 * hour. It is forgotten when damage is found.
 */
#include "base/clock.h"
#include "base/log.h"
#include "replicable/name.h"
#include "verify/verify_origin_parts.h"

#define AT_ONCE 3
#define WAIT_LEAST_MS ((int64_t)5000)
#define WAIT_MOST_MS ((int64_t)3600 * 1000)
#define REMEMBERED_MOST 10000

/* A repository that was doubted, and not found damaged since. */
struct alarm {
	unsigned count;
	int64_t until; /* boot ms: nothing counts before */
};

static void forget_alarms_locked(struct verify_origin *verify)
{
	const struct map_entry *entry;
	size_t at = 0;

	while ((entry = map_next(&verify->alarms, &at)) != NULL)
		free(entry->value);
	map_clear(&verify->alarms);
}

void verify_doubts_clear(struct verify_origin *verify)
{
	for (size_t i = 0; i < verify->doubted.count; i++)
		free(verify->doubted.items[i].name);
	vec_clear(&verify->doubted);
	forget_alarms_locked(verify);
}

static int64_t verify_origin_doubt_wait_ms(unsigned count)
{
	int64_t ms = WAIT_LEAST_MS;

	if (count < AT_ONCE)
		return 0;
	while (count-- > AT_ONCE && ms < WAIT_MOST_MS)
		ms *= 2;
	return ms < WAIT_MOST_MS ? ms : WAIT_MOST_MS;
}

/* Whether it counts. What was well for long begins anew. */
static bool take_alarm_locked(struct verify_origin *verify, const char *name)
{
	struct alarm *alarm = map_get(&verify->alarms, name);
	int64_t now = clock_boot_ms();

	if (!alarm) {
		if (verify->alarms.count >= REMEMBERED_MOST)
			forget_alarms_locked(verify);
		alarm = xcalloc(1, sizeof(*alarm));
		map_put(&verify->alarms, name, alarm);
	}
	if (now < alarm->until)
		return false;
	if (now - alarm->until > 2 * WAIT_MOST_MS)
		alarm->count = 0;
	alarm->until = now + verify_origin_doubt_wait_ms(++alarm->count);
	return true;
}

void verify_doubt_proved(struct verify_origin *verify, const char *name)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);

	free(map_remove(&verify->alarms, name));
}

static ssize_t verify_origin_doubt_find_locked(const struct verify_origin *verify,
					       const char *name)
{
	for (size_t i = 0; i < verify->doubted.count; i++)
		if (strcmp(verify->doubted.items[i].name, name) == 0)
			return (ssize_t)i;
	return -1;
}

bool verify_is_doubted(struct verify_origin *verify, const char *name)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
	ssize_t at = verify_origin_doubt_find_locked(verify, name);

	return at >= 0 && !verify->doubted.items[at].is_look;
}

bool verify_doubt_take_locked(struct verify_origin *verify,
			      struct verify_doubted *doubted)
{
	for (size_t i = 0; i < verify->doubted.count; i++) {
		*doubted = verify->doubted.items[i];
		if (verify_is_busy_locked(verify, doubted->id))
			continue;
		memmove(&verify->doubted.items[i], &verify->doubted.items[i + 1],
			(--verify->doubted.count - i) * sizeof(*doubted));
		return true;
	}
	return false;
}

static void verify_origin_doubt_put_locked(struct verify_origin *verify,
					   const struct origin_row *row, bool is_look)
{
	ssize_t at = verify_origin_doubt_find_locked(verify, row->name);

	if (at >= 0)
		verify->doubted.items[at].is_look &= is_look;
	else if (verify->doubted.count < REMEMBERED_MOST)
		vec_add(&verify->doubted,
			((struct verify_doubted){ .id = row->id,
						  .name = xstrdup(row->name),
						  .is_look = is_look }));
	verify->is_woken = true;
	pthread_cond_broadcast(&verify->changed);
}

struct doubting {
	const char *name;
	const struct err *why;
	bool is_proved; /* it is damage for sure */
	struct origin_row row;
};

static int verify_origin_doubt_read_row(struct store_tx *tx, void *arg, struct err *err)
{
	struct doubting *doubting = arg;

	origin_row_clear(&doubting->row);
	return origin_row_get(tx, KIND_REPOSITORY, doubting->name, &doubting->row, err) <
			       0
		       ? -1
		       : 0;
}

/* Until it is found whole, or damaged: that is told by `failure`. */
static int verify_origin_doubt_write_row(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	const struct doubting *doubting = arg;
	int found = origin_row_get(tx, KIND_REPOSITORY, doubting->name, &row, err);

	if (found <= 0 || row.verification == VERIFICATION_FAILED)
		return found < 0 ? -1 : 0;
	row.verification = VERIFICATION_PENDING;
	row.verification_due_at = clock_wall_ms();
	if (doubting->is_proved) {
		row.verification = VERIFICATION_FAILED;
		origin_row_set_failure(&row, doubting->why);
	}
	return origin_row_update(tx, &row, row.generation, err);
}

int verify_doubt_fail(struct store *store, const char *name, const struct err *why,
		      struct err *err)
{
	struct doubting doubting = { .name = name, .why = why, .is_proved = true };

	return store_write(store, verify_origin_doubt_write_row, &doubting, err);
}

static int mark(struct store *store, struct doubting *doubting, struct err *err)
{
	if (store_write(store, verify_origin_doubt_write_row, doubting, err) != 0)
		return -1;
	log_warn("repository.doubted", LOG_TEXT("repo", doubting->name),
		 LOG_ERR(doubting->why), LOG_TEXT("remedy", doubting->why->remedy));
	return 0;
}

static bool may_be_damage(const struct err *why)
{
	return why->class == ERR_CORRUPT ||
	       (why->class == ERR_DISK && why->sys_errno == EIO);
}

/* True: it is put in line. */
static bool verify_origin_doubt_is_news(struct verify_origin *verify,
					const struct doubting *doubting)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
	const char *name = doubting->row.name;
	ssize_t at = verify_origin_doubt_find_locked(verify, name);

	if ((at >= 0 && !verify->doubted.items[at].is_look) ||
	    (!doubting->is_proved && !take_alarm_locked(verify, name)))
		return false;
	verify_origin_doubt_put_locked(verify, &doubting->row, false);
	return true;
}

/* In line before the row is written: a verification that ends in between leaves the row
 * alone then. */
void verify_origin_doubt(struct verify_origin *verify, const char *name,
			 const struct err *why)
{
	struct doubting doubting = { .name = name,
				     .why = why,
				     .is_proved = why->reason == REASON_LOST_OBJECT };
	struct store *store = verify->options.store;
	struct err err;

	if (!may_be_damage(why))
		return;
	if (store_read(store, verify_origin_doubt_read_row, &doubting, &err) != 0 ||
	    (doubting.row.name && doubting.row.verification != VERIFICATION_FAILED &&
	     verify_origin_doubt_is_news(verify, &doubting) &&
	     mark(store, &doubting, &err) != 0))
		log_error("verify.not_recorded", LOG_ERR(&err), LOG_TEXT("repo", name));
	origin_row_clear(&doubting.row);
}

void verify_origin_look(struct verify_origin *verify, const char *name)
{
	struct doubting doubting = { .name = name };

	if (store_read(verify->options.store, verify_origin_doubt_read_row, &doubting,
		       ERR_IGNORED) == 0 &&
	    doubting.row.verification == VERIFICATION_SUCCEEDED) {
		AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
		verify_origin_doubt_put_locked(verify, &doubting.row, true);
	}
	origin_row_clear(&doubting.row);
}

void verify_origin_look_now(struct verify_origin *verify, const char *name)
{
	struct doubting doubting = { .name = name };
	struct err why;

	if (store_read(verify->options.store, verify_origin_doubt_read_row, &doubting,
		       ERR_IGNORED) == 0 &&
	    doubting.row.path &&
	    verify_origin_glance(verify->root, doubting.row.path, &verify->stop, &why) !=
		    0)
		verify_origin_doubt(verify, name, &why);
	origin_row_clear(&doubting.row);
}
