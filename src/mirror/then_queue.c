/*
 * A state is one line of JSON and the refs as in data/refs (change/recorded_refs.h):
 *	{"mirror":"a/b","job":"7","watcher":"app1","checked_at":1795252443120,
 *	"oid_len":20,"skipped":0}
 *	ref: refs/heads/main HEAD
 *	<oid> refs/heads/main
 *
 * It gets its name when it is whole and on disk. Who tells removes the lower neighbour
 * when the document was taken: a crash before that tells it once more. Who adds may
 * remove the former last one, after the new one is there: a crash in between tells one
 * document more than needed. Each says first, under the mutex, which state it has; no
 * file is touched there.
 */
#include "mirror/then_queue.h"

#include <dirent.h>
#include <pthread.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/temporary.h"
#include "base/thread.h"
#include "base/vec.h"
#include "change/recorded_refs.h"
#include "git/refs.h"
#include "mirror/then.h"
#include "replicable/name.h"

#define STATE_MOST ((size_t)4 << 30)
#define HEAD_MOST ((size_t)16 << 10)
#define FAILING "failing"
#define SHA1_SIZE 20

struct then_queue {
	char *data, *mirror, *clone, *directory; /* owned */
	pthread_mutex_t mutex; /* the last; no file is touched under it */
	pthread_cond_t changed;
	/* Guarded by mutex. */
	bool is_adding;
	uint64_t dropping; /* the state that goes when another was added; 0: none */
	uint64_t telling;  /* the upper one of the document that is told; 0: none */
};

struct then_state {
	char *job, *watcher; /* owned */
	int64_t checked_at, skipped;
	struct ref_snapshot refs;
};

#define AUTO_STATE __attribute__((cleanup(then_state_clear)))

static void then_state_clear(struct then_state *state)
{
	free(state->job);
	free(state->watcher);
	ref_snapshot_clear(&state->refs);
}

typedef VEC(uint64_t) then_numbers;
#define AUTO_NUMBERS __attribute__((cleanup(then_numbers_clear)))

static void then_numbers_clear(then_numbers *numbers)
{
	vec_clear(numbers);
}

static char *then_queue_place(const char *data, const char *mirror)
{
	return xasprintf("%s/then/%" PRIu64, data, replicable_id(KIND_MIRROR, mirror));
}

static char *then_state_path(const struct then_queue *queue, uint64_t number)
{
	return xasprintf("%s/%" PRIu64, queue->directory, number);
}

static int then_number_order(const void *a, const void *b)
{
	const uint64_t *one = a, *other = b;

	return *one < *other ? -1 : *one > *other;
}

/* In their order. What else is there was left by a crash. */
static int then_numbers_list(const char *directory, then_numbers *numbers,
			     struct err *err)
{
	AUTO_CLOSEDIR DIR *dir = dir_list(AT_FDCWD, directory);
	struct dirent *entry;
	uint64_t number;

	if (!dir)
		return err_errno(err, "cannot list %s", directory);
	while (errno = 0, (entry = readdir(dir)) != NULL)
		if (text_to_uint64(entry->d_name, &number))
			vec_add(numbers, number);
	if (errno != 0)
		return err_errno(err, "cannot list %s", directory);
	vec_sort(numbers, then_number_order);
	return 0;
}

static char *then_state_copy_text(const json_t *head, const char *key)
{
	return xstrdup_or_null(json_string_value(json_object_get(head, key)));
}

/* Takes the text. */
static bool then_state_parse(char *text, struct then_state *state)
{
	char *end = strchr(text, '\n');
	json_auto_t *head = end ? json_parse_object(text, (size_t)(end - text), HEAD_MOST,
						    ERR_IGNORED)
				: NULL;

	vec_add(&state->refs.texts, text);
	if (!head)
		return false;
	state->job = then_state_copy_text(head, "job");
	state->watcher = then_state_copy_text(head, "watcher");
	state->checked_at = json_integer_value(json_object_get(head, "checked_at"));
	state->skipped = json_integer_value(json_object_get(head, "skipped"));
	return recorded_refs_parse(
		end + 1, (size_t)json_integer_value(json_object_get(head, "oid_len")),
		&state->refs);
}

static int then_state_read(const struct then_queue *queue, uint64_t number,
			   struct then_state *state, struct err *err)
{
	AUTO_FREE char *path = then_state_path(queue, number);
	AUTO_STR struct str text = STR_INIT;

	*state = (struct then_state){ 0 };
	if (file_read(AT_FDCWD, path, STATE_MOST, &text, err) != 0)
		return -1;
	if (then_state_parse(str_take(&text), state))
		return 0;
	err_set(err, ERR_CORRUPT, "%s cannot be read", path);
	return err_remedy(err, "remove that file and restart the node; what changed "
			       "there is told together with the next change");
}

static int then_state_write(const struct then_queue *queue, uint64_t number,
			    const struct then_origin *origin,
			    const struct ref_reading *now, int64_t skipped,
			    struct err *err)
{
	AUTO_FREE char *path = then_state_path(queue, number);
	AUTO_STR struct str text = STR_INIT;
	json_auto_t *head = json_object();

	json_put_text(head, "mirror", queue->mirror);
	json_put_text(head, "job", origin->job);
	json_put_text(head, "watcher", origin->watcher);
	json_put_number(head, "checked_at", origin->checked_at);
	json_put_number(head, "oid_len", (int64_t)now->oid_len);
	json_put_number(head, "skipped", skipped);
	json_render(head, &text);
	str_add_char(&text, '\n');
	recorded_refs_add_lines(&now->refs, &text);
	return file_replace_private(AT_FDCWD, path, text.data, text.len, FILE_SYNC, err);
}

static int then_state_remove(const struct then_queue *queue, uint64_t number,
			     struct err *err)
{
	AUTO_FREE char *path = then_state_path(queue, number);

	return unlink(path) == 0 || errno == ENOENT
		       ? 0
		       : err_errno(err, "cannot remove %s", path);
}

/*
 * What is added.
 */

/* Of how many refs both are a change. */
static size_t then_count_twice(const struct ref_diff *one, const struct ref_diff *other)
{
	size_t twice = 0, i = 0, k = 0;

	while (i < one->changes.count && k < other->changes.count) {
		int order =
			strcmp(one->changes.items[i].name, other->changes.items[k].name);
		twice += order == 0;
		i += order <= 0;
		k += order >= 0;
	}
	return twice;
}

/* Whether the last state is one that nobody is being told of; then it stays so. */
static bool then_queue_reserve(struct then_queue *queue, uint64_t last)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&queue->mutex);

	if (queue->telling == last)
		return false;
	queue->dropping = last;
	return true;
}

static void then_queue_unreserve(struct then_queue *queue)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&queue->mutex);

	queue->dropping = 0;
}

/* Whether the new state is to take the place of the last, which `skipped` then says the
 * price of. */
static bool then_queue_merges(struct then_queue *queue, const then_numbers *numbers,
			      const struct then_state *last,
			      const struct ref_reading *now, int64_t *skipped)
{
	AUTO_STATE struct then_state before = { 0 };
	AUTO_DIFF struct ref_diff waits = { 0 }, comes = { 0 };
	const size_t waiting = numbers->count - 1;
	size_t twice;

	if (waiting == 0 ||
	    !then_queue_reserve(queue, numbers->items[numbers->count - 1]) ||
	    then_state_read(queue, numbers->items[numbers->count - 2], &before,
			    ERR_IGNORED) != 0)
		return false;
	ref_diff_compute(&before.refs, &last->refs, &waits);
	ref_diff_compute(&last->refs, &now->refs, &comes);
	twice = then_count_twice(&waits, &comes);
	*skipped = last->skipped + (int64_t)twice;
	return waiting >= THEN_WAITING_MOST ||
	       (twice == 0 && waits.changes.count + comes.changes.count <= THEN_REFS_MAX);
}

static int then_queue_add_after(struct then_queue *queue, const then_numbers *numbers,
				const struct then_origin *origin,
				const struct ref_reading *now, struct err *err)
{
	const uint64_t number = numbers->items[numbers->count - 1];
	AUTO_STATE struct then_state last = { 0 };
	AUTO_DIFF struct ref_diff diff = { 0 };
	int64_t skipped = 0;

	if (then_state_read(queue, number, &last, err) != 0)
		return -1;
	ref_diff_compute(&last.refs, &now->refs, &diff);
	if (ref_diff_is_empty(&diff))
		return 0;
	bool merges = then_queue_merges(queue, numbers, &last, now, &skipped);
	if (then_state_write(queue, number + 1, origin, now, merges ? skipped : 0, err) !=
	    0)
		return -1;
	failpoint("then.kept");
	return !merges || then_state_remove(queue, number, err) == 0 ? 1 : -1;
}

/* The names of a new one on the way to it. One that could not be made is made by a later
 * change: else none would be kept until the next start. */
static int then_queue_make(const struct then_queue *queue, struct err *err)
{
	AUTO_FREE char *all = xasprintf("%s/then", queue->data);

	if (access(queue->directory, F_OK) == 0)
		return 0;
	return dir_make(AT_FDCWD, queue->directory, err) != 0 ||
			       dir_sync(AT_FDCWD, all, err) != 0 ||
			       dir_sync(AT_FDCWD, queue->data, err) != 0
		       ? -1
		       : 0;
}

static int then_queue_add(struct then_queue *queue, const struct then_origin *origin,
			  struct err *err)
{
	AUTO_READING struct ref_reading now = { .oid_len = SHA1_SIZE };
	AUTO_NUMBERS then_numbers numbers = { 0 };

	if (then_queue_make(queue, err) != 0 ||
	    then_numbers_list(queue->directory, &numbers, err) != 0)
		return -1;
	if (ref_reading_take_refs(AT_FDCWD, queue->clone, &now, err) != 0) {
		if (err->class != ERR_MISSING)
			return -1;
		if (numbers.count > 0)
			return 0; /* it is brought again */
		now.oid_len = SHA1_SIZE;
		now.refs.head_target = xstrdup("refs/heads/main"); /* unborn */
	}
	return numbers.count > 0
		       ? then_queue_add_after(queue, &numbers, origin, &now, err)
		       : then_state_write(queue, 1, origin, &now, 0, err);
}

int then_queue_take(struct then_queue *queue, const struct then_origin *origin,
		    struct err *err)
{
	int result;

	lock(&queue->mutex);
	while (queue->is_adding)
		pthread_cond_wait(&queue->changed, &queue->mutex);
	queue->is_adding = true;
	unlock(&queue->mutex);
	result = then_queue_add(queue, origin, err);
	then_queue_unreserve(queue);
	lock(&queue->mutex);
	queue->is_adding = false;
	pthread_cond_broadcast(&queue->changed);
	unlock(&queue->mutex);
	return result;
}

/*
 * What is told.
 */

static bool then_queue_choose(struct then_queue *queue, uint64_t number)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&queue->mutex);

	if (queue->dropping == number)
		return false;
	queue->telling = number;
	return true;
}

static void then_queue_unchoose(struct then_queue *queue)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&queue->mutex);

	queue->telling = 0;
}

static int then_queue_render(const struct then_queue *queue, uint64_t lower,
			     uint64_t upper, struct str *document, struct err *err)
{
	AUTO_STATE struct then_state before = { 0 }, after = { 0 };
	AUTO_DIFF struct ref_diff diff = { 0 };

	if (then_state_read(queue, lower, &before, err) != 0 ||
	    then_state_read(queue, upper, &after, err) != 0)
		return -1;
	ref_diff_compute(&before.refs, &after.refs, &diff);
	then_render(&(struct then_change){ .mirror = queue->mirror,
					   .job = after.job,
					   .watcher = after.watcher,
					   .diff = &diff,
					   .refs = &after.refs,
					   .skipped = (size_t)after.skipped,
					   .checked_at = after.checked_at },
		    document);
	return 0;
}

/* 1: it is rendered; 0: there is none; -1, with ERR_MISSING: look again. */
static int then_queue_try_next(struct then_queue *queue, struct str *document,
			       struct err *err)
{
	AUTO_NUMBERS then_numbers numbers = { 0 };

	if (then_numbers_list(queue->directory, &numbers, err) != 0)
		return -1;
	if (numbers.count < 2 || !then_queue_choose(queue, numbers.items[1]))
		return 0;
	if (then_queue_render(queue, numbers.items[0], numbers.items[1], document, err) ==
	    0)
		return 1;
	then_queue_unchoose(queue);
	return -1;
}

/* Between the listing and the choice the second may have been dropped. */
int then_queue_next(struct then_queue *queue, struct str *document, struct err *err)
{
	int result = then_queue_try_next(queue, document, err);

	return result < 0 && err->class == ERR_MISSING
		       ? then_queue_try_next(queue, document, err)
		       : result;
}

/* Only what commands show is lost with it. */
static void then_queue_note_failure(const struct then_queue *queue,
				    const struct then_failure *failure)
{
	AUTO_FREE char *path = xasprintf("%s/" FAILING, queue->directory);
	AUTO_STR struct str text = STR_INIT;
	json_auto_t *object = json_object();

	json_put_number(object, "since", failure->since);
	json_put_number(object, "tried_at", failure->tried_at);
	json_put_number(object, "next_at", failure->next_at);
	json_put_text(object, "class", err_class_name(failure->why->class));
	json_put_message(object, "message", failure->why->text);
	json_put_message(object, "remedy", failure->why->remedy);
	json_render(object, &text);
	str_add_char(&text, '\n');
	file_replace_private(AT_FDCWD, path, text.data, text.len, FILE_NO_SYNC,
			     ERR_IGNORED);
}

static int then_queue_move_on(const struct then_queue *queue, uint64_t told,
			      struct err *err)
{
	AUTO_NUMBERS then_numbers numbers = { 0 };

	if (then_numbers_list(queue->directory, &numbers, err) != 0)
		return -1;
	for (size_t i = 0; i < numbers.count && numbers.items[i] < told; i++)
		if (then_state_remove(queue, numbers.items[i], err) != 0)
			return -1;
	return 0;
}

int then_queue_end(struct then_queue *queue, struct err *err)
{
	AUTO_FREE char *failing = xasprintf("%s/" FAILING, queue->directory);

	lock(&queue->mutex);
	uint64_t told = queue->telling;
	unlock(&queue->mutex);
	if (then_queue_move_on(queue, told, err) != 0)
		return -1;
	unlink(failing);
	then_queue_unchoose(queue);
	return 0;
}

void then_queue_fail(struct then_queue *queue, const struct then_failure *failure)
{
	if (failure)
		then_queue_note_failure(queue, failure);
	then_queue_unchoose(queue);
}

/*
 * Opening, looking, forgetting.
 */

int then_queue_open(const char *data, const char *mirror, const char *clone,
		    struct then_queue **queue, struct err *err)
{
	static const struct then_origin unknown = { 0 };
	struct then_queue *opened = xcalloc(1, sizeof(*opened));

	opened->data = xstrdup(data);
	opened->mirror = xstrdup(mirror);
	opened->clone = xstrdup(clone);
	opened->directory = then_queue_place(data, mirror);
	temporary_remove_all(opened->directory); /* of killed nodes */
	mutex_init(&opened->mutex);
	cond_init(&opened->changed);
	*queue = opened;
	return then_queue_take(opened, &unknown, err) < 0 ? -1 : 0;
}

void then_queue_close(struct then_queue *queue)
{
	if (!queue)
		return;
	pthread_cond_destroy(&queue->changed);
	pthread_mutex_destroy(&queue->mutex);
	free(queue->data);
	free(queue->mirror);
	free(queue->clone);
	free(queue->directory);
	free(queue);
}

void then_look_clear(struct then_look *look)
{
	free(look->class);
	free(look->message);
	free(look->remedy);
	*look = (struct then_look){ 0 };
}

/* Without the file, or while it is being written, nothing is known to fail. */
static void then_look_read_failure(const char *directory, struct then_look *look)
{
	AUTO_FREE char *path = xasprintf("%s/" FAILING, directory);
	AUTO_STR struct str text = STR_INIT;
	json_auto_t *object = NULL;

	if (file_read(AT_FDCWD, path, HEAD_MOST, &text, ERR_IGNORED) != 0 ||
	    !(object = json_parse_object(text.data, text.len, HEAD_MOST, ERR_IGNORED)))
		return;
	look->since = json_integer_value(json_object_get(object, "since"));
	look->next_at = json_integer_value(json_object_get(object, "next_at"));
	look->class = then_state_copy_text(object, "class");
	look->message = then_state_copy_text(object, "message");
	look->remedy = then_state_copy_text(object, "remedy");
}

int then_queue_look(const char *data, const char *mirror, struct then_look *look,
		    struct err *err)
{
	AUTO_FREE char *directory = then_queue_place(data, mirror);
	AUTO_NUMBERS then_numbers numbers = { 0 };

	*look = (struct then_look){ 0 };
	if (then_numbers_list(directory, &numbers, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	look->waiting = numbers.count > 1 ? numbers.count - 1 : 0;
	then_look_read_failure(directory, look);
	return 0;
}

static bool then_queue_is_of(const char *entry, const char *const *mirrors, size_t count)
{
	uint64_t id;

	if (!text_to_uint64(entry, &id))
		return false;
	for (size_t i = 0; i < count; i++)
		if (replicable_id(KIND_MIRROR, mirrors[i]) == id)
			return true;
	return false;
}

void then_queue_forget_others(const char *data, const char *const *mirrors, size_t count)
{
	AUTO_FREE char *all = xasprintf("%s/then", data);
	AUTO_CLOSEDIR DIR *dir = dir_list(AT_FDCWD, all);
	struct dirent *entry;
	struct err err;

	while (dir && (entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.' &&
		    !then_queue_is_of(entry->d_name, mirrors, count) &&
		    tree_remove(dirfd(dir), entry->d_name, &err) != 0)
			log_warn("mirror.not_forgotten", LOG_ERR(&err));
}
