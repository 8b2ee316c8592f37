/*
 * Nothing that is asked while a row is started is lost, and no second worker starts: a
 * higher generation shows by itself when the worker's is compared with it; what has no
 * number (a person's word, a deletion) is remembered as WISH_AGAIN.
 */
#include "replicable/registry_events.h"

#include "base/retry.h"
#include "replicable/kind.h"

static void registry_events_forget_failure(struct registry_row *row)
{
	row->retry_count = 0;
	row->retry_at = 0;
	registry_set_text(&row->failure_class, NULL);
	registry_set_text(&row->failure, NULL);
	registry_set_text(&row->remedy, NULL);
	row->failure_reason = REASON_NONE;
}

static void registry_events_set_failure(struct registry_row *row,
					const struct err *failure)
{
	registry_set_text(&row->failure_class, err_class_name(failure->class));
	registry_set_text(&row->failure, failure->text);
	registry_set_text(&row->remedy, failure->remedy);
	row->failure_reason = failure->reason;
}

static void registry_events_release_hold(struct registry_row *row)
{
	if (!row->held_reason)
		return;
	registry_set_text(&row->held_reason, NULL);
	registry_set_text(&row->remedy, NULL);
}

static void set_pending(struct registry_row *row, int64_t due_at)
{
	row->state = REGISTRY_PENDING;
	row->due_at = due_at;
	registry_events_release_hold(row);
}

static void disable_verification(struct registry_row *row)
{
	row->verification = VERIFICATION_DISABLED;
	row->verification_due_at = 0;
	row->is_proved = false;
}

void registry_begin_verification(struct registry_row *row, int64_t until)
{
	if (row->verification != VERIFICATION_STARTED)
		row->verification_was_due_at = row->verification_due_at;
	row->verification = VERIFICATION_STARTED;
	row->verification_due_at = until;
}

int64_t registry_verification_due(const struct registry_row *row, int64_t now)
{
	if (row->verification != VERIFICATION_STARTED)
		return row->verification_due_at;
	return row->verification_was_due_at > 0
		       ? int64_min(row->verification_was_due_at, now)
		       : now;
}

/* When a repository was to be read again: a change brings new objects, and the old ones
 * are read when they would have been without it. A blob is brought whole. */
static int64_t next_reading(const struct registry_row *row, int64_t now)
{
	if (!kind_is_repository(row->kind) || row->verified_at == 0)
		return 0;
	return registry_verification_due(row, now);
}

static void suspend_verification(struct registry_row *row, int64_t now)
{
	int64_t reading_at = next_reading(row, now);

	disable_verification(row);
	row->verification_due_at = reading_at;
}

/* A repository is compared with what the primary says then; a blob with what it has said,
 * and if it has not yet, TOLD is what begins it. */
static void verify_at(struct registry_row *row, int64_t due_at)
{
	row->is_proved = false;
	if (!row->primary_checksum && !kind_is_repository(row->kind)) {
		disable_verification(row);
		return;
	}
	row->verification = VERIFICATION_PENDING;
	row->verification_due_at = due_at;
}

static bool is_other_timeline(const struct registry_row *row,
			      const struct registry_move *move)
{
	return move->timeline && strcmp(move->timeline, row->timeline) != 0;
}

static void take_timeline(struct registry_row *row, const char *timeline)
{
	snprintf(row->timeline, sizeof(row->timeline), "%s", timeline);
}

/* What is known of the primary's checksum of generation_wanted. */
static const char *expected_checksum(const struct registry_row *row)
{
	if (row->primary_checksum)
		return row->primary_checksum;
	return row->generation == row->generation_wanted ? row->checksum : NULL;
}

/* Events are delivered again after a crash, and the inventory tells each minute what was
 * told before. */
static bool registry_events_is_news(const struct registry_row *row,
				    const struct registry_move *move)
{
	if (row->is_gone || move->wishes != 0 || move->generation == 0 ||
	    is_other_timeline(row, move))
		return true;
	if (move->generation != row->generation_wanted)
		return move->generation > row->generation_wanted || move->may_go_back;
	const char *expected = expected_checksum(row);
	return move->checksum && expected && strcmp(move->checksum, expected) != 0;
}

static void take_wanted(struct registry_row *row, const struct registry_move *move)
{
	bool is_other = is_other_timeline(row, move) ||
			(move->may_go_back && move->generation < row->generation_wanted);
	bool is_newer = is_other || move->generation > row->generation_wanted;

	if (is_newer) {
		row->generation_wanted = move->generation;
		registry_set_text(&row->primary_checksum, NULL);
	}
	if (is_newer || (move->generation == row->generation_wanted && move->size != 0))
		row->size = move->size;
	if (is_other) {
		take_timeline(row, move->timeline);
		row->generation = 0;
	}
	if (move->checksum && move->generation == row->generation_wanted)
		registry_set_text(&row->primary_checksum, move->checksum);
}

static void note_change(struct stored_row *stored, int64_t changed_at)
{
	if (changed_at == 0)
		return;
	if (stored->row.behind_since == 0)
		stored->row.behind_since = changed_at;
	stored->asked_at = changed_at;
}

/* has_number: the worker that has the row now may bring it, and its generation tells. */
static void registry_events_ask_row(struct stored_row *stored, unsigned wishes,
				    bool has_number, int64_t due_at)
{
	wishes &= WISHES_ALL;
	if (stored->row.state == REGISTRY_STARTED) {
		stored->wishes |= WISH_MEANWHILE | wishes << WISHES_LATER_SHIFT;
		if (!has_number || wishes != 0)
			stored->wishes |= WISH_AGAIN;
		return;
	}
	stored->wishes |= wishes;
	stored->row.retry_count = 0;
	stored->row.retry_at = 0;
	set_pending(&stored->row, due_at);
	suspend_verification(&stored->row, due_at);
}

static enum outcome registry_events_asked(struct stored_row *stored,
					  const struct registry_move *move, int64_t now)
{
	struct registry_row *row = &stored->row;
	bool is_new = registry_events_is_news(row, move);

	if (!is_new && (row->primary_checksum || !move->checksum ||
			move->generation != row->generation_wanted))
		return MOVE_NOTHING;
	take_wanted(row, move);
	if (!is_new) { /* only the checksum is new, and fits */
		if (row->state == REGISTRY_SYNCED &&
		    row->verification == VERIFICATION_DISABLED)
			verify_at(row, now);
		return MOVE_DONE;
	}
	row->is_gone = false;
	note_change(stored, move->changed_at);
	registry_events_ask_row(stored, move->wishes, move->generation != 0,
				now + move->delay_ms);
	return MOVE_DONE;
}

static bool registry_events_is_text(const char *text, const char *expected)
{
	return text && strcmp(text, expected) == 0;
}

/* One that is being verified with another checksum in mind is verified again; what that
 * worker says is refused (contradicts()). */
static enum outcome reported(struct stored_row *stored, const struct registry_move *move,
			     int64_t now)
{
	struct registry_row *row = &stored->row;

	if (!move->checksum || move->generation == 0 || is_other_timeline(row, move) ||
	    move->generation != row->generation_wanted)
		return MOVE_NOTHING;
	bool is_known = registry_events_is_text(row->primary_checksum, move->checksum);
	bool is_proved = row->verification == VERIFICATION_SUCCEEDED &&
			 registry_events_is_text(row->checksum, move->checksum);
	bool is_at_work = row->verification == VERIFICATION_STARTED && is_known;

	registry_set_text(&row->primary_checksum, move->checksum);
	if (row->state == REGISTRY_SYNCED && !is_proved && !is_at_work)
		verify_at(row, now);
	else if (is_known)
		return MOVE_NOTHING;
	return MOVE_DONE;
}

static enum outcome gone(struct stored_row *stored, const struct registry_move *move,
			 int64_t now)
{
	if (stored->row.is_gone && move->wishes == 0)
		return MOVE_NOTHING;
	stored->row.is_gone = true;
	note_change(stored, move->changed_at);
	registry_events_ask_row(stored, move->wishes, false, now);
	return MOVE_DONE;
}

/* A worker says it, and the claim that is in the row is another's, or over. */
static bool is_lost(const struct stored_row *stored, const struct registry_move *move)
{
	return strcmp(stored->row.claim_token,
		      move->claim_token ? move->claim_token : "") != 0;
}

static void take_claim(struct registry_row *row, const struct registry_move *move)
{
	snprintf(row->claim_token, sizeof(row->claim_token), "%s",
		 move->claim_token ? move->claim_token : "");
}

static enum outcome begun(struct stored_row *stored, const struct registry_move *move,
			  int64_t now)
{
	struct registry_row *row = &stored->row;

	if (row->state == REGISTRY_STARTED && row->due_at > now)
		return MOVE_REFUSED;
	take_claim(row, move);
	row->state = REGISTRY_STARTED;
	row->last_attempt_at = now;
	row->due_at = now + move->timeout_ms;
	row->verification_due_at = next_reading(row, now);
	if (row->verification == VERIFICATION_STARTED)
		row->verification = VERIFICATION_PENDING;
	registry_events_release_hold(row);
	stored->wishes = stored_row_wishes(stored);
	return MOVE_DONE;
}

/* At the end of a worker's attempt that brought nothing: its wishes stay. What was asked
 * while it was under way, as WISH_MEANWHILE and WISH_AGAIN. */
static unsigned end_attempt(struct stored_row *stored)
{
	unsigned marks = stored->wishes & (WISH_MEANWHILE | WISH_AGAIN);

	stored->wishes = stored_row_wishes(stored);
	return marks;
}

/* Whether what was brought is what is wanted. *recorded: it is of the row's timeline,
 * and no older than what was here. */
static bool record_brought(struct stored_row *stored, const struct registry_move *move,
			   bool *recorded)
{
	struct registry_row *row = &stored->row;
	bool is_other = is_other_timeline(row, move);

	registry_set_text(&row->checksum, NULL); /* recorded or not, it is another copy */
	/* The row's timeline is the newer one: it came while this was being brought. */
	*recorded = !(is_other && *row->timeline && (stored->wishes & WISH_MEANWHILE));
	if (!*recorded)
		return false;
	if (is_other) {
		if (*row->timeline)
			row->generation = row->generation_wanted = 0;
		take_timeline(row, move->timeline);
	}
	/* A primary that went back on its timeline is followed, unless it has just gone
	 * on. */
	*recorded =
		move->generation >= row->generation || !(stored->wishes & WISH_MEANWHILE);
	if (!*recorded)
		return false;
	if (move->generation < row->generation) {
		row->generation_wanted = move->generation;
		registry_set_text(&row->primary_checksum, NULL);
	}
	row->generation = move->generation;
	if (move->generation > row->generation_wanted) {
		row->generation_wanted = move->generation;
		row->size = move->size;
		registry_set_text(&row->primary_checksum, NULL);
	}
	if (move->generation != row->generation_wanted)
		return false;
	if (!row->primary_checksum && !kind_is_repository(row->kind))
		registry_set_text(&row->primary_checksum, move->checksum);
	return true;
}

static enum outcome registry_events_bring_row(struct stored_row *stored,
					      const struct registry_move *move,
					      int64_t now, bool *recorded)
{
	struct registry_row *row = &stored->row;

	*recorded = false;
	if (is_lost(stored, move))
		return MOVE_LOST;
	if (row->state != REGISTRY_STARTED)
		return MOVE_REFUSED;
	bool is_wanted = record_brought(stored, move, recorded);
	bool again = row->is_gone || (stored->wishes & WISH_AGAIN);
	bool is_doubted = stored->wishes >> WISHES_LATER_SHIFT & REGISTRY_WISH_RECHECK;
	int64_t due_at = now + move->delay_ms;
	if (is_doubted && is_wanted && row->retry_at > due_at)
		due_at = row->retry_at;
	registry_events_forget_failure(row);
	row->last_success_at = now;
	row->behind_since = is_wanted && !row->is_gone ? 0 : stored->asked_at;
	set_pending(row, again ? now : due_at);
	suspend_verification(row, now);
	/* the wishes of before were granted */
	stored->wishes = stored->wishes >> WISHES_LATER_SHIFT & WISHES_ALL;
	if (!is_wanted || again || is_doubted)
		return MOVE_OVERTAKEN;
	row->state = REGISTRY_SYNCED;
	row->due_at = 0;
	verify_at(row, now);
	return MOVE_DONE;
}

static enum outcome registry_events_brought(struct stored_row *stored,
					    const struct registry_move *move, int64_t now)
{
	bool recorded;

	return registry_events_bring_row(stored, move, now, &recorded);
}

static void registry_events_prove_row(struct registry_row *row,
				      const struct registry_move *move, int64_t now)
{
	row->verification = VERIFICATION_SUCCEEDED;
	row->is_proved = true;
	row->verification_retry_count = 0;
	row->verification_due_at = move->timeout_ms > 0 ? now + move->timeout_ms : 0;
	row->verified_at = now;
	registry_set_text(&row->checksum, move->checksum);
	registry_set_text(&row->primary_checksum, move->checksum);
}

/* The primary has told another checksum of a blob's generation since the worker began:
 * what is here must be read again. */
static bool contradicts(const struct registry_row *row, const struct registry_move *move)
{
	return !kind_is_repository(row->kind) && row->primary_checksum &&
	       move->checksum && strcmp(row->primary_checksum, move->checksum) != 0;
}

static enum outcome completed(struct stored_row *stored, const struct registry_move *move,
			      int64_t now)
{
	struct registry_row *row = &stored->row;
	const bool was_read =
		stored->wishes & (REGISTRY_WISH_RECHECK | REGISTRY_WISH_REBUILD);
	const int64_t reading_at = was_read ? 0 : next_reading(row, now);
	bool recorded;
	enum outcome outcome = registry_events_bring_row(stored, move, now, &recorded);

	if (outcome == MOVE_DONE) {
		if (contradicts(row, move))
			return outcome;
		registry_events_prove_row(row, move, now);
		if (reading_at > 0 && reading_at < row->verification_due_at)
			row->verification_due_at = reading_at;
	} else if (recorded) {
		registry_set_text(&stored->row.checksum, move->checksum);
		stored->row.verified_at = now;
	}
	return outcome;
}

/* The brake holds what is gone, whatever state it is in. */
static enum outcome held(struct stored_row *stored, const struct registry_move *move,
			 int64_t now)
{
	struct registry_row *row = &stored->row;

	if (row->state == REGISTRY_STARTED && is_lost(stored, move))
		return MOVE_LOST;
	if (row->state != REGISTRY_STARTED && !row->is_gone)
		return MOVE_REFUSED;
	set_pending(row, now);
	/* what was permitted was something else: tried again, it says what */
	bool was_forced = stored->wishes & REGISTRY_WISH_FORCE && !row->is_gone;
	stored->wishes &= ~(unsigned)REGISTRY_WISH_FORCE;
	if (end_attempt(stored) != 0 || was_forced)
		return MOVE_DONE;
	row->due_at = 0;
	registry_set_text(&row->held_reason, move->held_reason);
	registry_set_text(&row->remedy, move->remedy);
	return MOVE_DONE;
}

static void wait_for_retry(struct registry_row *row, int64_t count, enum retry_cap cap,
			   int64_t now)
{
	row->retry_count = count;
	row->retry_at = now + retry_random_delay_ms((uint64_t)count, cap);
	row->due_at = row->retry_at;
}

/* Whoever changes what it failed by asks for it. */
static void wait_for_asking(struct registry_row *row)
{
	row->retry_at = row->due_at = 0;
}

/* A repository that fails and changes all the time backs off all the same; a person, or
 * a deletion, does not wait. */
static enum outcome erred(struct stored_row *stored, const struct registry_move *move,
			  int64_t now)
{
	struct registry_row *row = &stored->row;
	enum retry_cap cap =
		move->err->class == ERR_MISSING ? RETRY_CAP_MISSING : RETRY_CAP;

	if (is_lost(stored, move))
		return MOVE_LOST;
	if (row->state != REGISTRY_STARTED)
		return MOVE_REFUSED;
	registry_events_set_failure(row, move->err);
	row->state = REGISTRY_FAILED;
	wait_for_retry(row, row->retry_count + 1, cap, now);
	if (row->retry_at < now + move->timeout_ms)
		row->retry_at = row->due_at = now + move->timeout_ms;
	if (move->is_final)
		wait_for_asking(row);
	if (end_attempt(stored) & WISH_AGAIN)
		set_pending(row, now);
	return MOVE_DONE;
}

static enum outcome absent(struct stored_row *stored, const struct registry_move *move,
			   int64_t now)
{
	struct registry_row *row = &stored->row;
	int64_t count = row->retry_count + 1;

	if (is_lost(stored, move))
		return MOVE_LOST;
	if (row->state != REGISTRY_STARTED)
		return MOVE_REFUSED;
	registry_events_forget_failure(row);
	if (move->err)
		registry_events_set_failure(row, move->err);
	row->state = REGISTRY_MISSING_ON_PRIMARY;
	wait_for_retry(row, count, RETRY_CAP_MISSING, now);
	if (move->is_final)
		wait_for_asking(row);
	if (end_attempt(stored) != 0)
		set_pending(row, now);
	else
		row->behind_since = 0; /* there is nothing to be behind of */
	return MOVE_DONE;
}

/* What was asked meanwhile may be something else than what had to wait. */
static enum outcome deferred(struct stored_row *stored, const struct registry_move *move,
			     int64_t now)
{
	if (is_lost(stored, move))
		return MOVE_LOST;
	if (stored->row.state != REGISTRY_STARTED)
		return MOVE_REFUSED;
	bool is_asked = end_attempt(stored) != 0;
	set_pending(&stored->row, is_asked ? now : now + move->timeout_ms);
	return MOVE_DONE;
}

static enum outcome checking(struct stored_row *stored, const struct registry_move *move,
			     int64_t now)
{
	struct registry_row *row = &stored->row;

	if (row->state != REGISTRY_SYNCED ||
	    (row->verification == VERIFICATION_STARTED && row->verification_due_at > now))
		return MOVE_REFUSED;
	take_claim(row, move);
	registry_begin_verification(row, now + move->timeout_ms);
	return MOVE_DONE;
}

/* Something newer was asked for meanwhile. Of its refs this says nothing; but the objects
 * that are here have been read, or take too long to. */
static enum outcome note_reading(struct registry_row *row,
				 const struct registry_move *move, int64_t now)
{
	if (!kind_is_repository(row->kind) || row->verified_at == 0 ||
	    row->verification == VERIFICATION_FAILED)
		return MOVE_REFUSED;
	row->verification_due_at = move->timeout_ms > 0 ? now + move->timeout_ms : 0;
	return MOVE_OVERTAKEN;
}

bool registry_is_hindrance(const struct err *err)
{
	return err && err->class != ERR_NONE && err->class != ERR_CONFLICT &&
	       !err_is_deferral(err->class);
}

static enum outcome superseded(struct stored_row *stored,
			       const struct registry_move *move, int64_t now)
{
	struct registry_row *row = &stored->row;
	const bool is_late = move->err && move->err->class == ERR_TIMEOUT;

	if (is_late && row->state != REGISTRY_SYNCED)
		return note_reading(row, move, now);
	if (is_lost(stored, move))
		return MOVE_LOST;
	/* It was not looked at: what was proved before still is, and is due since then.
	 */
	const bool is_cut = move->err && move->err->class == ERR_CANCELED;
	const bool stays_proved = row->is_proved && is_cut;
	const int64_t due_at =
		is_cut ? registry_verification_due(row, now) : now + move->timeout_ms;

	if (row->state != REGISTRY_SYNCED)
		return MOVE_REFUSED;
	if (registry_is_hindrance(move->err))
		registry_events_set_failure(row, move->err);
	verify_at(row, due_at);
	if (stays_proved && row->verification == VERIFICATION_PENDING) {
		row->verification = VERIFICATION_SUCCEEDED;
		row->is_proved = true;
	}
	return MOVE_DONE;
}

static enum outcome reverify(struct stored_row *stored, const struct registry_move *move,
			     int64_t now)
{
	const struct registry_move again = { .id = move->id,
					     .event = REGISTRY_ASKED,
					     .wishes = REGISTRY_WISH_RECHECK };

	if (stored->row.is_gone)
		return MOVE_REFUSED;
	if (stored->row.state != REGISTRY_SYNCED)
		return registry_events_asked(stored, &again, now);
	registry_events_forget_failure(&stored->row); /* of a verification before */
	verify_at(&stored->row, now + move->timeout_ms);
	return MOVE_DONE;
}

/* Of an older generation, or of a newer one that was never recorded: it says nothing of
 * the generation that this row is of. */
static bool is_of_another(const struct registry_row *row,
			  const struct registry_move *move)
{
	return is_other_timeline(row, move) ||
	       (move->generation != 0 && move->generation != row->generation);
}

static enum outcome verify_anew(struct registry_row *row, int64_t now)
{
	verify_at(row, now);
	return MOVE_OVERTAKEN;
}

static enum outcome proved(struct stored_row *stored, const struct registry_move *move,
			   int64_t now)
{
	struct registry_row *row = &stored->row;

	if (row->state != REGISTRY_SYNCED)
		return note_reading(row, move, now);
	if (is_lost(stored, move))
		return MOVE_LOST;
	if (is_of_another(row, move) || contradicts(row, move))
		return verify_anew(row, now);
	registry_events_forget_failure(row);
	registry_events_prove_row(row, move, now);
	return MOVE_DONE;
}

/* Something newer was asked for while the copy was verified. Refs that were wrong will be
 * set anew; but what the disk has lost is not in what is newer. */
static enum outcome keep_in_mind(struct stored_row *stored,
				 const struct registry_move *move, int64_t now)
{
	if (stored->row.is_gone || !(move->wishes & REGISTRY_WISH_REBUILD))
		return MOVE_REFUSED;
	if (stored->row.state == REGISTRY_STARTED)
		registry_events_ask_row(stored, REGISTRY_WISH_REBUILD, false, now);
	else
		stored->wishes |= REGISTRY_WISH_REBUILD;
	return MOVE_OVERTAKEN;
}

/* What was found for the first time is mended at once; if it comes back, it waits. */
static void wait_to_mend(struct registry_row *row, const struct registry_move *move,
			 int64_t now)
{
	if (++row->verification_retry_count > 1)
		wait_for_retry(row, row->verification_retry_count, RETRY_CAP, now);
	else
		row->retry_at = row->due_at = now + move->delay_ms;
}

static enum outcome disproved(struct stored_row *stored, const struct registry_move *move,
			      int64_t now)
{
	struct registry_row *row = &stored->row;

	if (row->state != REGISTRY_SYNCED)
		return keep_in_mind(stored, move, now);
	/* Whoever has the row now reads it all again. */
	if (is_lost(stored, move) && row->verification == VERIFICATION_STARTED)
		return MOVE_LOST;
	if (is_lost(stored, move) || is_of_another(row, move))
		return verify_anew(row, now);
	row->state = REGISTRY_FAILED;
	row->verification = VERIFICATION_FAILED;
	row->is_proved = false;
	row->verification_due_at = 0;
	registry_events_set_failure(row, move->err);
	wait_to_mend(row, move, now);
	stored->wishes |= REGISTRY_WISH_RECHECK | (move->wishes & REGISTRY_WISH_REBUILD);
	return MOVE_DONE;
}

/* It stays what it is, but is looked through when its time comes. */
static enum outcome wish_recheck(struct stored_row *stored)
{
	if (stored->wishes & REGISTRY_WISH_RECHECK)
		return MOVE_NOTHING;
	stored->wishes |= REGISTRY_WISH_RECHECK;
	return MOVE_DONE;
}

static enum outcome doubted(struct stored_row *stored, const struct registry_move *move,
			    int64_t now)
{
	struct registry_row *row = &stored->row;

	if (row->is_gone ||
	    (move->generation != 0 &&
	     (row->state != REGISTRY_SYNCED || row->generation != move->generation)))
		return MOVE_NOTHING;
	if (row->state == REGISTRY_STARTED) {
		stored->wishes |= REGISTRY_WISH_RECHECK << WISHES_LATER_SHIFT;
		row->retry_at = now + move->delay_ms; /* if what is under way succeeds */
		return MOVE_DONE;
	}
	if (row->state != REGISTRY_SYNCED)
		return wish_recheck(stored);
	stored->wishes |= REGISTRY_WISH_RECHECK;
	if (move->err)
		registry_events_set_failure(row, move->err);
	row->verification = VERIFICATION_PENDING;
	row->verification_due_at = 0;
	row->is_proved = false;
	set_pending(row, now + move->delay_ms);
	return MOVE_DONE;
}

static enum outcome adopted(struct stored_row *stored, const struct registry_move *move,
			    int64_t now)
{
	struct registry_row *row = &stored->row;

	(void)now;
	if (row->state != REGISTRY_SYNCED || row->is_gone || !row->checksum ||
	    !move->checksum || strcmp(row->checksum, move->checksum) != 0)
		return MOVE_REFUSED;
	if (move->timeline)
		take_timeline(row, move->timeline);
	row->generation = row->generation_wanted = move->generation;
	row->size = move->size;
	registry_set_text(&row->primary_checksum, move->checksum);
	return MOVE_DONE;
}

const registry_function registry_functions[REGISTRY_EVENTS] = {
	[REGISTRY_ASKED] = registry_events_asked,
	[REGISTRY_BEGUN] = begun,
	[REGISTRY_REPORTED] = reported,
	[REGISTRY_BROUGHT] = registry_events_brought,
	[REGISTRY_COMPLETED] = completed,
	[REGISTRY_ADOPTED] = adopted,
	[REGISTRY_HELD] = held,
	[REGISTRY_ERRED] = erred,
	[REGISTRY_ABSENT] = absent,
	[REGISTRY_DEFERRED] = deferred,
	[REGISTRY_GONE] = gone,
	[REGISTRY_CHECKING] = checking,
	[REGISTRY_PROVED] = proved,
	[REGISTRY_DISPROVED] = disproved,
	[REGISTRY_SUPERSEDED] = superseded,
	[REGISTRY_REVERIFY] = reverify,
	[REGISTRY_DOUBTED] = doubted,
};
