/*
 * An entry's life:
 *
 *	seen		a trouble was met; it vanishes without a word if that ends,
 *			but not while that is open
 *	due		it held for alert.settle, and is as old as its bound, or happened
 *			and is over: it is told, and again each alert.repeat
 *	gone		it is away; back at once if it comes again
 *	over		away for alert.settle: its end is told, also if its beginning
 *			could not be; then the entry goes
 *
 * Times are of the wall clock, as entries outlive the node. One that was set back makes
 * them lie ahead: they are then taken for now, so nothing waits for longer than it
 *should.
 */
#include "alert/state.h"

static void entry_clear(struct alert_entry *entry)
{
	free(entry->subject);
	free(entry->text);
	free(entry->remedy);
}

void alert_state_clear(struct alert_state *state)
{
	vec_clear_each(&state->entries, entry_clear);
}

static void state_remove_at(struct alert_state *state, size_t at)
{
	entry_clear(&state->entries.items[at]);
	state->entries.count--;
	memmove(&state->entries.items[at], &state->entries.items[at + 1],
		(state->entries.count - at) * sizeof(*state->entries.items));
}

bool alert_state_keep_kinds(struct alert_state *state, unsigned kinds)
{
	size_t before = state->entries.count;

	for (size_t i = before; i-- > 0;)
		if (!(kinds & 1U << state->entries.items[i].kind))
			state_remove_at(state, i);
	return state->entries.count < before;
}

void alert_state_untell(struct alert_state *state)
{
	for (size_t i = state->entries.count; i-- > 0;) {
		struct alert_entry *entry = &state->entries.items[i];
		entry->told_at = 0;
		if (entry->is_over || entry->gone_at > 0)
			state_remove_at(state, i);
	}
}

static struct alert_entry *state_find(struct alert_state *state,
				      const struct alert_trouble *trouble)
{
	for (size_t i = 0; i < state->entries.count; i++) {
		struct alert_entry *entry = &state->entries.items[i];
		if (entry->kind == trouble->kind &&
		    strcmp(entry->subject, trouble->subject) == 0)
			return entry;
	}
	return NULL;
}

static void entry_hold_back(struct alert_entry *entry, int64_t now)
{
	int64_t *times[] = { &entry->since, &entry->seen_at, &entry->gone_at,
			     &entry->told_at };

	for (size_t i = 0; i < ARRAY_SIZE(times); i++)
		if (*times[i] > now)
			*times[i] = now;
}

static void entry_set_text(char **at, const char *text)
{
	free(*at);
	*at = xstrdup(text);
}

static void entry_take_words(struct alert_entry *entry,
			     const struct alert_trouble *trouble)
{
	entry_set_text(&entry->text, trouble->text);
	entry_set_text(&entry->remedy, trouble->remedy);
}

static bool entry_judge_due(struct alert_entry *entry,
			    const struct alert_trouble *trouble,
			    const struct alert *alert, int64_t now)
{
	if (entry->is_due ||
	    (!trouble->is_past && (now - entry->seen_at < alert->settle_ms ||
				   now - entry->since < trouble->bound_ms)))
		return false;
	entry->is_due = true;
	entry->news = ALERT_BEGAN;
	return true;
}

static bool state_take_one(struct alert_state *state, const struct alert_trouble *trouble,
			   const struct alert *alert, int64_t now)
{
	struct alert_entry *entry = state_find(state, trouble);
	bool is_changed = !entry && !trouble->is_open;

	if (trouble->is_open) {
		if (entry)
			entry->is_found = true;
		if (entry && trouble->is_reworded)
			entry_take_words(entry, trouble);
		return false;
	}
	if (!entry) {
		const struct alert_entry new = { .kind = trouble->kind,
						 .subject = xstrdup(trouble->subject),
						 .seen_at = now,
						 .since = now };
		vec_add(&state->entries, new);
		entry = &state->entries.items[state->entries.count - 1];
	}
	if (trouble->since > 0 && trouble->since < entry->since)
		entry->since = trouble->since;
	entry_take_words(entry, trouble);
	entry->is_found = true;
	return entry_judge_due(entry, trouble, alert, now) || is_changed;
}

/* Of what is away since; *goes: it was never told of, and never counted. */
static bool entry_miss(struct alert_entry *entry, const struct alert *alert, int64_t now,
		       bool *goes)
{
	*goes = !entry->is_due;
	if (*goes)
		return true;
	if (entry->gone_at == 0) {
		entry->gone_at = now;
		return true;
	}
	if (entry->is_over || now - entry->gone_at < alert->settle_ms)
		return false;
	entry->is_over = true;
	entry->news = ALERT_ENDED;
	return true;
}

static bool entry_return(struct alert_entry *entry)
{
	if (entry->gone_at == 0)
		return false;
	entry->gone_at = 0;
	if (entry->is_over)
		entry->news = ALERT_BEGAN;
	entry->is_over = false;
	return true;
}

static bool state_miss_others(struct alert_state *state, bool is_whole,
			      const struct alert *alert, int64_t now)
{
	bool is_changed = false;

	for (size_t i = state->entries.count; i-- > 0;) {
		struct alert_entry *entry = &state->entries.items[i];
		bool goes = false;
		if (entry->is_found)
			is_changed |= entry_return(entry);
		else if (is_whole)
			is_changed |= entry_miss(entry, alert, now, &goes);
		if (goes)
			state_remove_at(state, i);
	}
	return is_changed;
}

bool alert_state_take(struct alert_state *state, const alert_troubles *troubles,
		      bool is_whole, const struct alert *alert, int64_t now)
{
	bool is_changed = false;

	for (size_t i = 0; i < state->entries.count; i++) {
		struct alert_entry *entry = &state->entries.items[i];
		entry->is_found = false;
		entry->news = ALERT_NO_NEWS;
		entry_hold_back(entry, now);
	}
	for (size_t i = 0; i < troubles->count; i++)
		is_changed |= state_take_one(state, &troubles->items[i], alert, now);
	return state_miss_others(state, is_whole, alert, now) || is_changed;
}

enum alert_telling alert_entry_due(const struct alert_entry *entry,
				   const struct alert *alert, int64_t now)
{
	if (entry->is_over)
		return ALERT_IS_OVER;
	if (!entry->is_due || entry->gone_at > 0)
		return ALERT_TELLS_NOTHING;
	if (entry->told_at == 0)
		return ALERT_BEGINS;
	return alert->repeat_ms > 0 && now - entry->told_at >= alert->repeat_ms
		       ? ALERT_REPEATS
		       : ALERT_TELLS_NOTHING;
}

bool alert_state_is_due(const struct alert_state *state, const struct alert *alert,
			int64_t now)
{
	for (size_t i = 0; i < state->entries.count; i++)
		if (alert_entry_due(&state->entries.items[i], alert, now) !=
		    ALERT_TELLS_NOTHING)
			return true;
	return false;
}

/* Returns how many. What was told is due no more, so none is counted twice. */
static size_t state_told_as(struct alert_state *state, const struct alert *alert,
			    int64_t at, enum alert_telling told, size_t most)
{
	size_t count = 0;

	for (size_t i = 0; i < state->entries.count && count < most;) {
		struct alert_entry *entry = &state->entries.items[i];
		const bool was_told = alert_entry_due(entry, alert, at) == told;
		count += was_told;
		if (was_told && told == ALERT_IS_OVER) {
			state_remove_at(state, i);
			continue;
		}
		if (was_told)
			entry->told_at = at;
		i++;
	}
	return count;
}

void alert_state_told(struct alert_state *state, const struct alert *alert, int64_t at,
		      size_t most)
{
	for (enum alert_telling told = ALERT_BEGINS; told <= ALERT_IS_OVER; told++)
		most -= state_told_as(state, alert, at, told, most);
}
