/*
 * What a row says is kept in memory with the stamp of the database that was taken before
 * the row was read, and holds while the stamp is the same. What the database does not say
 * is looked up each time: how far the primary's events are known, and pushes.
 *
 * Order makes it right. The log cursor commits what an answer told, then says so
 * (pull_news). Here the news is read first, the stamp after it: so a row that is judged
 * by some news is at least as new as the commit that came before that news.
 *
 * A push leaves a mark on its name. Marks go when they are met and are over, or when
 * there are many; what finds no place even then is marked on all names together, which
 * asks the primary too often, and never too seldom.
 *
 * The mark of a push is in the database as well, from before the push is forwarded, one
 * row a name. Readers never ask for it there. A thread removes rows when nothing in
 * memory needs them any more: that is judged inside the write, and a push is counted
 * before its row is written, so no row of a push that begins is taken away.
 */
#include "pull/freshness.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/vec.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "store/store.h"

/*
 * How far the primary's events are known, as the log cursor says it to those who judge
 * copies. An answer counts only if it led to the log's end and all of it is in the
 * database: until then there may be changes that no row tells of.
 */

#define FRESH_FOR_MS 60000
/* The primary is heard often enough for its silence to be noticed soon
 * (report/verdict.h). */
#define WAIT_MOST_S 10

uint64_t news_asked(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	return ++pull->news.asked;
}

void news_all(struct pull *pull, uint64_t request, int64_t heard_at)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pull->news.reached = request;
	pull->news.heard_at = heard_at;
	pull->news.is_void = NEWS_COUNT;
	pull->news.turn++;
	pthread_cond_broadcast(&pull->told);
}

void news_turn(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pull->news.turn++;
	pthread_cond_broadcast(&pull->told);
}

/* Waits for another turn than *turn, and sets it; false: stop. */
static bool news_wait(struct pull *pull, uint64_t *turn, const struct stop *stop)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	while (pull->news.turn == *turn && !stop_is_requested(stop))
		cond_wait_until(&pull->told, &pull->mutex, INT64_MAX);
	*turn = pull->news.turn;
	return !stop_is_requested(stop);
}

void news_none(struct pull *pull, enum news_void why)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pull->news.heard_at = 0;
	pull->news.is_void = why;
}

static void news_look(struct pull *pull, struct pull_news *news)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	*news = pull->news;
	news->cursor = pull->state.cursor;
	news->has_cursor = pull->state.has_cursor;
}

void news_set_fresh_for(struct pull *pull, int64_t fresh_for_ms)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pull->news.fresh_for_ms = fresh_for_ms > 0 ? fresh_for_ms : FRESH_FOR_MS;
}

/* Half: the next answer comes before the one before has become too old. */
int64_t news_wait_s(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	int64_t half_s = pull->news.fresh_for_ms / 2000;

	if (half_s < 1)
		return 1;
	return half_s < WAIT_MOST_S ? half_s : WAIT_MOST_S;
}

#define ROWS_MOST 32768
#define MARKS_MOST 4096

struct known_row {
	struct store_stamp stamp;
	enum fresh fresh;
};

struct mark {
	size_t running;         /* pushes that are under way */
	uint64_t event;         /* to be reached; 0: none */
	uint64_t event_request; /* or this request; 0: none */
	uint64_t request;       /* and this one; 0: none */
};

struct freshness {
	pthread_mutex_t mutex; /* never held during I/O */
	struct store *store;
	struct pull *pull;
	struct map rows;  /* name to struct known_row, owned; guarded by mutex */
	struct map marks; /* name to struct mark, owned; guarded by mutex */
	struct mark rest; /* of all other names; guarded by mutex */
	bool may_be_kept; /* there may be rows of marks; guarded by mutex */
	uint64_t noted;   /* rows that were to be written, ever; guarded by mutex */
	bool cannot_note; /* the last that was to be written was not; guarded by mutex */
	struct stop stop;
	pthread_t tidy_thread;
	uint64_t tidied; /* news.reached when marks were gone through; guarded by mutex */
};

const char *fresh_name(enum fresh fresh)
{
	static const char *const names[FRESH_KINDS] = {
		[FRESH] = "fresh",         [FRESH_NOT_COPIED] = "not_copied",
		[FRESH_BEHIND] = "behind", [FRESH_HELD] = "held",
		[FRESH_PUSHED] = "pushed", [FRESH_NOT_HEARD] = "not_heard",
		[FRESH_GONE] = "gone",     [FRESH_DAMAGED] = "damaged",
	};

	return names[fresh];
}

void freshness_free(struct freshness *freshness)
{
	if (!freshness)
		return;
	stop_request(&freshness->stop);
	news_turn(freshness->pull);
	thread_join(freshness->tidy_thread);
	stop_clear(&freshness->stop);
	map_clear_owned(&freshness->rows);
	map_clear_owned(&freshness->marks);
	pthread_mutex_destroy(&freshness->mutex);
	free(freshness);
}

void freshness_set(struct freshness *freshness, int64_t fresh_for_ms)
{
	news_set_fresh_for(freshness->pull, fresh_for_ms);
}

/* Any state but synced has its reason, and some have no number that tells it: a checksum
 * that differs, a copy that was proved wrong, a person's doubt. */
static enum fresh judge_row(const struct registry_row *row)
{
	bool is_whole = row->state == REGISTRY_SYNCED &&
			row->verification != VERIFICATION_FAILED && row->generation > 0 &&
			row->timeline[0] && row->generation == row->generation_wanted;

	if (row->is_gone)
		return FRESH_GONE;
	if (row->held_reason)
		return FRESH_HELD;
	if (is_whole)
		return FRESH;
	return row->last_success_at == 0 ? FRESH_NOT_COPIED : FRESH_BEHIND;
}

static bool is_heard(const struct pull_news *news)
{
	return news->heard_at > 0 &&
	       clock_boot_ms() - news->heard_at <= news->fresh_for_ms;
}

static enum fresh freshness_apply_news(enum fresh row, const struct pull_news *news)
{
	return row == FRESH && !is_heard(news) ? FRESH_NOT_HEARD : row;
}

/* A request that was sent after a push has led to its event, if there was one; whether or
 * not its number is known, or is still one of this log. */
static bool freshness_is_mark_over(const struct mark *mark, const struct pull_news *news)
{
	bool is_event_here = news->reached >= mark->event_request ||
			     (news->has_cursor && news->cursor >= mark->event);

	return mark->running == 0 && is_event_here && news->reached >= mark->request;
}

static bool is_pushed_locked(struct freshness *freshness, const char *name,
			     const struct pull_news *news)
{
	struct mark *mark = map_get(&freshness->marks, name);

	if (mark && freshness_is_mark_over(mark, news))
		free(map_remove(&freshness->marks, name));
	else if (mark)
		return true;
	return !freshness_is_mark_over(&freshness->rest, news);
}

bool freshness_now(struct freshness *freshness, const char *name, enum fresh *fresh)
{
	const struct known_row *row;
	struct store_stamp stamp;
	struct pull_news news;

	news_look(freshness->pull, &news);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&freshness->mutex);
	*fresh = FRESH_PUSHED;
	if (is_pushed_locked(freshness, name, &news))
		return true;
	row = map_get(&freshness->rows, name);
	if (!row || !store_stamp(freshness->store, &stamp) ||
	    !store_stamp_equal(&stamp, &row->stamp))
		return false;
	*fresh = freshness_apply_news(row->fresh, &news);
	return true;
}

static void keep_locked(struct freshness *freshness, const char *name, enum fresh fresh,
			const struct store_stamp *stamp)
{
	struct known_row *row = map_get(&freshness->rows, name);

	if (!row) {
		if (freshness->rows.count >= ROWS_MOST)
			map_clear_owned(&freshness->rows);
		row = xmalloc(sizeof(*row));
		map_put(&freshness->rows, name, row);
	}
	row->stamp = *stamp;
	row->fresh = fresh;
}

/* Names that no row has are not kept: there is no end of them. */
int freshness_look(struct freshness *freshness, const char *name, enum fresh *fresh,
		   struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct store_stamp stamp;
	struct pull_news news;
	bool is_stamped;

	news_look(freshness->pull, &news);
	is_stamped = store_stamp(freshness->store, &stamp);
	*fresh = FRESH_NOT_COPIED;
	if (registry_get(freshness->store, KIND_REPOSITORY, name, &row, err) == 0)
		*fresh = judge_row(&row);
	else if (err->class != ERR_MISSING)
		return -1;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&freshness->mutex);
	if (row.name && is_stamped)
		keep_locked(freshness, name, *fresh, &stamp);
	*fresh = is_pushed_locked(freshness, name, &news)
			 ? FRESH_PUSHED
			 : freshness_apply_news(*fresh, &news);
	return 0;
}

/* Drops the marks that are over. Not again before the news can have ended any. */
static void tidy_locked(struct freshness *freshness, const struct pull_news *news)
{
	struct map kept = { 0 };
	const struct map_entry *entry;
	size_t at = 0;

	if (news->reached == freshness->tidied)
		return;
	freshness->tidied = news->reached;
	while ((entry = map_next(&freshness->marks, &at)) != NULL) {
		if (freshness_is_mark_over(entry->value, news))
			free(entry->value);
		else
			map_put(&kept, entry->key, entry->value);
	}
	map_clear(&freshness->marks);
	freshness->marks = kept;
}

static struct mark *mark_for_locked(struct freshness *freshness, const char *name,
				    const struct pull_news *news)
{
	struct mark *mark = map_get(&freshness->marks, name);

	if (mark)
		return mark;
	if (freshness->marks.count >= MARKS_MOST)
		tidy_locked(freshness, news);
	if (freshness->marks.count >= MARKS_MOST)
		return &freshness->rest;
	mark = xcalloc(1, sizeof(*mark));
	map_put(&freshness->marks, name, mark);
	return mark;
}

void freshness_mark_began(struct freshness *freshness, const char *name)
{
	struct pull_news news;

	news_look(freshness->pull, &news);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&freshness->mutex);
	mark_for_locked(freshness, name, &news)->running++;
}

/* Where a push that ends was counted. It may be another of that name that was counted
 * there: what is asked of the end is kept in any case. */
static struct mark *end_locked(struct freshness *freshness, const char *name)
{
	struct mark *mark = map_get(&freshness->marks, name);

	if (!mark || mark->running == 0)
		mark = &freshness->rest;
	if (mark->running > 0)
		mark->running--;
	return mark;
}

static void raise_to(uint64_t *number, uint64_t least)
{
	if (*number < least)
		*number = least;
}

/* These two: whether a row may have to go now. */
static bool end_mark(struct freshness *freshness, const char *name,
		     const struct event_ends *ends)
{
	struct pull_news news;
	struct mark *mark;

	news_look(freshness->pull, &news);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&freshness->mutex);
	mark = end_locked(freshness, name);
	if (ends && news.has_cursor && strcmp(ends->timeline, news.timeline) == 0) {
		raise_to(&mark->event, ends->last);
		raise_to(&mark->event_request, news.asked + 1);
	} else {
		raise_to(&mark->request, news.asked + 1);
	}
	return freshness->may_be_kept;
}

static bool freshness_drop_mark(struct freshness *freshness, const char *name)
{
	struct pull_news news;

	news_look(freshness->pull, &news);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&freshness->mutex);
	struct mark *mark = end_locked(freshness, name);
	if (mark != &freshness->rest && freshness_is_mark_over(mark, &news))
		free(map_remove(&freshness->marks, name));
	return freshness->may_be_kept;
}

void freshness_mark_ended(struct freshness *freshness, const char *name,
			  const struct event_ends *ends)
{
	if (end_mark(freshness, name, ends))
		news_turn(freshness->pull);
}

void freshness_mark_dropped(struct freshness *freshness, const char *name)
{
	if (freshness_drop_mark(freshness, name))
		news_turn(freshness->pull);
}

static void note_kept(struct freshness *freshness)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&freshness->mutex);

	freshness->may_be_kept = true;
	freshness->noted++;
}

int freshness_push_began(struct freshness *freshness, const char *name, struct err *err)
{
	freshness_mark_began(freshness, name);
	int result = store_run(freshness->store, err,
			       "INSERT INTO passed_push (name, since) VALUES (?1, ?2)"
			       " ON CONFLICT (name) DO NOTHING",
			       QUERY_TEXT(name), QUERY_INT(clock_wall_ms()));
	/* Not before: whoever tidies meanwhile would find no row, and look no more. */
	note_kept(freshness);
	if (result != 0)
		freshness_mark_dropped(freshness, name);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&freshness->mutex);
	freshness->cannot_note = result != 0;
	return result;
}

bool freshness_cannot_note(struct freshness *freshness)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&freshness->mutex);

	return freshness->cannot_note;
}

/* The rows of pushes. */
struct pushed_names {
	struct freshness *freshness;
	text_list list;
	size_t left; /* that are needed still */
};

static int read_names(struct store_tx *tx, void *arg, struct err *err)
{
	text_list_clear(arg);
	return query_each(tx, query_add_text, arg, err, "SELECT name FROM passed_push");
}

static bool is_needed(struct freshness *freshness, const char *name)
{
	struct pull_news news;

	news_look(freshness->pull, &news);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&freshness->mutex);
	return is_pushed_locked(freshness, name, &news);
}

static int remove_name(struct store_tx *tx, const char *name, struct err *err)
{
	return query_write(tx, err, "DELETE FROM passed_push WHERE name = ?1",
			   QUERY_TEXT(name));
}

/* It is asked inside the write: a name that is added after it was asked for stays. */
static int remove_names(struct store_tx *tx, void *arg, struct err *err)
{
	struct pushed_names *names = arg;

	if (read_names(tx, &names->list, err) != 0)
		return -1;
	names->left = 0;
	for (size_t i = 0; i < names->list.count; i++)
		if (is_needed(names->freshness, names->list.items[i]))
			names->left++;
		else if (remove_name(tx, names->list.items[i], err) != 0)
			return -1;
	return 0;
}

static bool may_be_kept(struct freshness *freshness, uint64_t *noted)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&freshness->mutex);

	*noted = freshness->noted;
	return freshness->may_be_kept;
}

/* No row is left of those that were noted until then. */
static void none_is_kept(struct freshness *freshness, uint64_t noted)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&freshness->mutex);

	if (freshness->noted == noted)
		freshness->may_be_kept = false;
}

/* What cannot be removed now is tried again with the next news. */
static void freshness_tidy_rows(struct freshness *freshness)
{
	struct pushed_names names = { .freshness = freshness };
	uint64_t noted;
	struct err err;

	if (!may_be_kept(freshness, &noted))
		return;
	if (store_write(freshness->store, remove_names, &names, &err) != 0)
		log_warn("git.marks_not_removed", LOG_ERR(&err));
	else if (names.left == 0)
		none_is_kept(freshness, noted);
	text_list_clear(&names.list);
}

static void *tidy_run(void *arg)
{
	struct freshness *freshness = arg;
	uint64_t turn = 0;

	while (news_wait(freshness->pull, &turn, &freshness->stop))
		freshness_tidy_rows(freshness);
	return NULL;
}

/* Nobody else has it yet. Over with the first answer: whatever this process asks, it asks
 * after those pushes. */
static void read_marks(struct freshness *freshness)
{
	static const struct pull_news none;
	AUTO_TEXT_LIST text_list names = { 0 };
	struct err err;
	int result = store_read(freshness->store, read_names, &names, &err);

	for (size_t i = 0; result == 0 && i < names.count; i++)
		raise_to(&mark_for_locked(freshness, names.items[i], &none)->request, 1);
	freshness->may_be_kept = result != 0 || names.count > 0;
	if (result != 0) {
		log_warn("git.marks_unknown", LOG_ERR(&err));
		raise_to(&freshness->rest.request, 1); /* any name may be among them */
	} else if (names.count > 0) {
		log_info("git.marks_found", LOG_NUMBER("repositories", names.count));
	}
}

struct freshness *freshness_new(struct store *store, struct pull *pull,
				int64_t fresh_for_ms)
{
	struct freshness *freshness = xcalloc(1, sizeof(*freshness));

	mutex_init(&freshness->mutex);
	stop_init(&freshness->stop);
	freshness->store = store;
	freshness->pull = pull;
	freshness_set(freshness, fresh_for_ms);
	read_marks(freshness);
	thread_start(&freshness->tidy_thread, "push-marks", tidy_run, freshness);
	return freshness;
}
