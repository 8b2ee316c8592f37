#include "push/dead_letters.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "push/outcome.h"
#include "push/push_run.h"
#include "push/store_file.h"
#include "push/task_parts.h"

static void dead_letter_write(const struct err *why, const ref_failures *refs,
			      int64_t failed_at, struct str *out)
{
	json_auto_t *object = json_object();
	json_t *list = json_array();

	err_put_json(object, why);
	json_put_number(object, "failed_at", failed_at);
	for (size_t i = 0; i < refs->count; i++) {
		json_t *one = json_object();
		json_put_text(one, "ref", refs->items[i].ref);
		json_put_message(one, "text",
				 refs->items[i].text ? refs->items[i].text : "");
		json_array_append_new(list, one);
	}
	json_put(object, "refs", list);
	json_render(object, out);
	str_add_char(out, '\n');
}

static int dead_letter_read_failure(const json_t *one, ref_failures *refs,
				    struct err *err)
{
	AUTO_STR struct str ref = STR_INIT;
	AUTO_STR struct str text = STR_INIT;

	if (json_get_bytes(one, "ref", &ref, err) != 0 ||
	    json_get_bytes(one, "text", &text, err) != 0)
		return -1;
	struct ref_failure failure = { xstrdup(ref.data), xstrdup(text.data) };
	vec_add(refs, failure);
	return 0;
}

static int dead_letter_read(const struct str *text, struct dead_letter *letter,
			    struct err *err)
{
	json_auto_t *object = json_parse_object(text->data, text->len, SIZE_MAX, err);
	size_t at;
	json_t *one;

	if (!object)
		return -1;
	err_get_json(object, &letter->why);
	letter->failed_at = json_integer_value(json_object_get(object, "failed_at"));
	json_array_foreach(json_object_get(object, "refs"), at,
			   one) if (dead_letter_read_failure(one, &letter->refs, err) !=
				    0) return -1;
	return 0;
}

void err_put_json(json_t *object, const struct err *from)
{
	json_put_text(object, "class", err_class_name(from->class));
	json_put_text(object, "reason", err_reason_name(from->reason));
	json_put_message(object, "text", from->text);
	json_put_message(object, "remedy", from->remedy);
}

static void dead_letter_copy_text(const json_t *object, const char *key, char *to,
				  size_t size)
{
	const char *text = json_string_value(json_object_get(object, key));

	snprintf(to, size, "%s", text ? text : "");
}

void err_get_json(const json_t *object, struct err *to)
{
	const char *class = json_string_value(json_object_get(object, "class"));

	*to = (struct err){
		.class = err_class_of_name(class ? class : ""),
		.reason = err_reason_of_name(
			json_string_value(json_object_get(object, "reason"))),
	};
	dead_letter_copy_text(object, "text", to->text, sizeof(to->text));
	dead_letter_copy_text(object, "remedy", to->remedy, sizeof(to->remedy));
}

/*
 * What was given up is done when a later push has brought those refs there, whatever
 * other refs were in it. So that no push has to read the dead letters of all URIs, the
 * state of a URI lists its own.
 */

/* Beyond, the oldest stay until a person says. */
enum { DEAD_LETTERS_MAX = 100 };

static void dead_letters_keep_text(char **text, const char *value)
{
	if (!*text)
		*text = xstrdup(value);
}

static void drop_at(text_list *names, size_t at)
{
	free(names->items[at]);
	names->count--;
	memmove(names->items + at, names->items + at + 1,
		(names->count - at) * sizeof(*names->items));
}

void note_letter(struct push_run *run, const struct claimed_task *task)
{
	struct uri_state *state = &run->state;
	char key[TASK_KEY_SIZE];

	dead_letter_key(task, key);
	if (text_list_has(&state->letters, key))
		return;
	if (state->letters.count >= DEAD_LETTERS_MAX)
		drop_at(&state->letters, 0);
	vec_add(&state->letters, xstrdup(key));
	dead_letters_keep_text(&state->uri, run->uri);
	dead_letters_keep_text(&state->remote, task->task.remote);
	dead_letters_keep_text(&state->project, task->task.project);
	run->has_changed = run->has_letters = true;
}

int write_letters(struct push_run *run, struct err *err)
{
	if (!run->has_letters)
		return 0;
	if (uri_state_write(run->push->options.tasks, run->uri_key, &run->state, err) !=
	    0)
		return -1;
	run->has_letters = false;
	return 0;
}

/* The refs that a push was for. True: all. */
static bool add_pushed(const struct push_group *group, struct map *pushed)
{
	for (size_t i = 0; i < group->tasks.count; i++) {
		const struct task *task = &group->tasks.items[i]->task;
		if (task_is_all(task))
			return true;
		for (size_t j = 0; j < task->refs.count; j++)
			map_put(pushed, task->refs.items[j], pushed);
	}
	return false;
}

/* What a letter is about: refs that were refused, or all of its task. */
static void make_goal(const struct dead_letter *letter, struct task *goal)
{
	*goal = (struct task){ 0 };
	for (size_t i = 0; i < letter->refs.count; i++)
		vec_add(&goal->refs, xstrdup(letter->refs.items[i].ref));
	for (size_t i = 0; i < letter->task.refs.count && letter->refs.count == 0; i++)
		vec_add(&goal->refs, xstrdup(letter->task.refs.items[i]));
}

static bool dead_letters_is_goal_done(const struct task *goal, const struct map *pushed,
				      const struct judge *judge)
{
	struct task_outcome outcome;
	bool is_good;

	for (size_t i = 0; pushed && i < goal->refs.count; i++)
		if (!map_get(pushed, goal->refs.items[i]))
			return false;
	judge_task(judge, goal, &outcome);
	is_good = outcome.fate == TASK_DONE;
	task_outcome_clear(&outcome);
	return is_good;
}

/* Whether the letter is settled; one that is gone is. */
static bool dead_letters_settle_if_done(struct push_run *run, const char *key,
					const struct map *pushed,
					const struct judge *judge)
{
	struct task_store *store = run->push->options.tasks;
	dead_letters letters = { 0 };
	AUTO_TASK struct task goal = { 0 };
	bool is_settled = true;

	task_store_letter(store, key, &letters);
	if (letters.count > 0) {
		make_goal(&letters.items[0], &goal);
		is_settled = dead_letters_is_goal_done(&goal, pushed, judge) &&
			     task_store_forget(store, key, ERR_IGNORED) == 0;
	}
	dead_letters_clear(&letters);
	return is_settled;
}

void settle_dead_letters(struct push_run *run, const struct push_group *group,
			 const struct judge *judge)
{
	text_list *letters = &run->state.letters;
	struct map pushed = { 0 };
	bool is_all;

	if (letters->count == 0)
		return;
	is_all = add_pushed(group, &pushed);
	for (size_t i = letters->count; i > 0; i--) {
		if (!dead_letters_settle_if_done(run, letters->items[i - 1],
						 is_all ? NULL : &pushed, judge))
			continue;
		drop_at(letters, i - 1);
		run->has_changed = true;
	}
	map_clear(&pushed);
}

void forget_dead_letters(struct push_run *run)
{
	text_list *letters = &run->state.letters;
	struct err err;

	for (size_t i = letters->count; i > 0; i--) {
		const char *key = letters->items[i - 1];
		if (task_store_forget(run->push->options.tasks, key, &err) != 0) {
			log_warn("push.not_moved", LOG_ERR(&err), LOG_TEXT("task", key));
			continue;
		}
		drop_at(letters, i - 1);
		run->has_changed = true;
	}
}

static bool has_failed(const ref_failures *refs, const char *ref)
{
	for (size_t i = 0; i < refs->count; i++)
		if (strcmp(refs->items[i].ref, ref) == 0)
			return true;
	return false;
}

static bool says_no_more(const struct dead_letter *letter, const struct task *all,
			 const ref_failures *refs)
{
	bool result = strcmp(letter->task.uri, all->uri) == 0 &&
		      strcmp(letter->task.project, all->project) == 0 &&
		      strcmp(letter->task.remote, all->remote) == 0 &&
		      !task_is_all(&letter->task);

	for (size_t i = 0; result && i < letter->refs.count; i++)
		result = has_failed(refs, letter->refs.items[i].ref);
	for (size_t i = 0;
	     result && letter->refs.count == 0 && i < letter->task.refs.count; i++)
		result = has_failed(refs, letter->task.refs.items[i]);
	return result;
}

int drop_repeated_letters(struct push_run *run, const struct task *all,
			  const ref_failures *refs, struct err *err)
{
	struct task_store *store = run->push->options.tasks;
	text_list *keys = &run->state.letters;
	int result = 0;

	for (size_t i = keys->count; i > 0 && result == 0; i--) {
		dead_letters letters = { 0 };
		task_store_letter(store, keys->items[i - 1], &letters);
		if (letters.count > 0 && says_no_more(&letters.items[0], all, refs)) {
			result = task_store_forget(store, keys->items[i - 1], err);
			drop_at(keys, i - 1);
			run->has_changed = true;
		}
		dead_letters_clear(&letters);
	}
	return result;
}

#define WHY ".why"

void ref_failures_clear(ref_failures *failures)
{
	for (size_t i = 0; i < failures->count; i++) {
		free(failures->items[i].ref);
		free(failures->items[i].text);
	}
	vec_clear(failures);
}

void dead_letters_clear(dead_letters *letters)
{
	for (size_t i = 0; i < letters->count; i++) {
		task_clear(&letters->items[i].task);
		ref_failures_clear(&letters->items[i].refs);
	}
	vec_clear(letters);
}

int store_check_key(const char *key, struct err *err)
{
	if (is_store_name(key) && strlen(key) <= TASK_NAME_MAX)
		return 0;
	err_set(err, ERR_MISSING, "\"%.80s\" is not the key of a replication task", key);
	return err_remedy(err, "see refrelay push list");
}

struct why_file {
	char name[TASK_KEY_SIZE + 4];
};

static struct why_file why_file(const char *key)
{
	struct why_file file;

	snprintf(file.name, sizeof(file.name), "%.40s" WHY, key);
	return file;
}

static int remove_why(struct task_store *store, const char *key, struct err *err)
{
	return store_remove(store, FAILED, why_file(key).name, err);
}

/* The file's name without ".json". One that is no key is not kept. */
void dead_letter_key(const struct claimed_task *task, char key[TASK_KEY_SIZE])
{
	size_t len = strlen(task->name);

	if (text_ends_with(task->name, ".json"))
		len -= 5;
	snprintf(key, TASK_KEY_SIZE, "%.*s", (int)len, task->name);
	if (len != TASK_KEY_SIZE - 1 || !is_uri_key(key))
		task_key(&task->task, key);
}

int task_store_forget(struct task_store *store, const char *key, struct err *err)
{
	if (store_remove(store, FAILED, key, err) != 0)
		return -1;
	return remove_why(store, key, err);
}

int store_remove_letter(struct task_store *store, const struct claimed_task *task,
			struct err *err)
{
	char key[TASK_KEY_SIZE];

	dead_letter_key(task, key);
	return task_store_forget(store, key, err);
}

/* The reason first: no task stands among the failed ones without. */
static int write_why(struct task_store *store, const char *key, const struct err *why,
		     const ref_failures *refs, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	struct why_file name = why_file(key);
	struct new_file file = { FAILED, name.name, &text, 0, FILE_SYNC };
	int64_t now;

	if (task_store_now(store, &now, err) != 0)
		return -1;
	dead_letter_write(why, refs, now, &text);
	return store_put(store, &file, err);
}

int task_store_fail(struct task_store *store, const struct claimed_task *task,
		    const struct err *why, const ref_failures *refs, struct err *err)
{
	char uri_key[URI_KEY_SIZE], key[TASK_KEY_SIZE];

	dead_letter_key(task, key);
	if (write_why(store, key, why, refs, err) != 0)
		return err_prefix(err, "task store");
	uri_key_of(task->task.uri, uri_key);
	AUTO_FREE char *path = xasprintf("%s/%s", uri_key, task->name);
	AUTO_CLOSE int running = store_dir(store, RUNNING, err);
	AUTO_CLOSE int failed = running < 0 ? -1 : store_dir(store, FAILED, err);
	if (failed < 0)
		return -1;
	if (renameat(running, path, failed, key) != 0)
		return errno == ENOENT
			       ? err_set(err, ERR_LOST, "another has taken %s over",
					 task->name)
			       : err_errno(err, "cannot move %s to failed/", task->name);
	if (fsync(failed) != 0)
		return err_errno(err, "cannot sync %s", store->paths[FAILED]);
	return 0;
}

static void read_why(int dir, const char *key, struct dead_letter *letter)
{
	AUTO_STR struct str text = STR_INIT;
	struct err err;

	if (file_read(dir, why_file(key).name, TASK_SIZE_MAX, &text, &err) == 0 &&
	    dead_letter_read(&text, letter, &err) == 0)
		return;
	ref_failures_clear(&letter->refs);
	err_set(&letter->why, ERR_INTERNAL, "the reason was lost");
	letter->failed_at = letter->since;
	if (err.class != ERR_MISSING)
		log_warn("dead_letter.bad", LOG_ERR(&err),
			 LOG_TEXT("file", why_file(key).name));
}

/* Without the reason. */
static void read_letter_task(int dir, const char *key, dead_letters *letters)
{
	struct dead_letter letter = { 0 };
	struct stat st;
	struct err err;

	if (strlen(key) >= sizeof(letter.key))
		return;
	if (store_read_task(dir, key, &letter.task, &st, &err) != 0) {
		if (err.class != ERR_MISSING)
			log_warn("dead_letter.bad", LOG_ERR(&err), LOG_TEXT("file", key));
		return;
	}
	snprintf(letter.key, sizeof(letter.key), "%s", key);
	letter.since = clock_ms(&st.st_mtim);
	vec_add(letters, letter);
}

static void read_letter(int dir, const char *key, dead_letters *letters)
{
	size_t before = letters->count;

	read_letter_task(dir, key, letters);
	if (letters->count > before)
		read_why(dir, key, &letters->items[before]);
}

void task_store_letter(struct task_store *store, const char *key, dead_letters *letters)
{
	AUTO_CLOSE int dir = store_dir(store, FAILED, ERR_IGNORED);

	if (dir >= 0 && is_store_name(key))
		read_letter(dir, key, letters);
}

static int by_failure(const void *a, const void *b)
{
	const struct dead_letter *one = a, *other = b;

	if (one->failed_at != other->failed_at)
		return one->failed_at < other->failed_at ? -1 : 1;
	return strcmp(one->key, other->key);
}

int task_store_dead_letters(struct task_store *store, dead_letters *letters,
			    struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	AUTO_CLOSE int dir = store_dir(store, FAILED, err);

	if (dir < 0 || store_list_files(dir, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++)
		if (!text_ends_with(names.items[i], WHY))
			read_letter(dir, names.items[i], letters);
	vec_sort(letters, by_failure);
	return 0;
}

/* NULL: it cannot be read. */
static char *read_letter_remote(int dir, const char *key)
{
	dead_letters letters = { 0 };
	char *remote = NULL;

	read_letter_task(dir, key, &letters);
	if (letters.count > 0)
		remote = TAKE(letters.items[0].task.remote);
	dead_letters_clear(&letters);
	return remote;
}

/* A key is made of the remote, too: it has no other one later. */
int task_store_letter_remotes(struct task_store *store, struct map *remotes,
			      struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	AUTO_CLOSE int dir = store_dir(store, FAILED, err);
	struct map before = *remotes;

	if (dir < 0 || store_list_files(dir, &names, err) != 0)
		return -1;
	*remotes = (struct map){ 0 };
	for (size_t i = 0; i < names.count; i++) {
		const char *key = names.items[i];
		if (text_ends_with(key, WHY))
			continue;
		char *remote = map_remove(&before, key);
		if (!remote)
			remote = read_letter_remote(dir, key);
		if (remote)
			map_put(remotes, key, remote);
	}
	map_clear_owned(&before);
	return 0;
}

/* Neither failed nor waiting. */
static int no_letter(struct task_store *store, const char *key, struct err *err)
{
	bool is_running;

	if (store_is_running(store, key, &is_running, err) != 0)
		return -1;
	if (!is_running) {
		err_set(err, ERR_MISSING, "no such replication task: %s", key);
		return err_remedy(err, "it may be done; see refrelay push list");
	}
	err_set(err, ERR_BUSY, "the replication task %s is being pushed", key);
	return err_remedy(err, "wait until that has ended");
}

int task_store_retry(struct task_store *store, const char *key, struct err *err)
{
	AUTO_CLOSE int failed = store_dir(store, FAILED, err);
	AUTO_CLOSE int waiting = failed < 0 ? -1 : store_dir(store, WAITING, err);
	bool is_waiting;

	if (waiting < 0 || store_check_key(key, err) != 0)
		return -1;
	if (renameat(failed, key, waiting, key) == 0) {
		store_notice_name(store, waiting, key, false);
		if (fsync(waiting) != 0)
			return err_errno(err, "cannot sync %s", store->paths[WAITING]);
		return remove_why(store, key, err);
	}
	if (errno != ENOENT)
		return err_errno(err, "cannot move %s to waiting/", key);
	if (store_is_waiting(store, key, &is_waiting, err) != 0)
		return -1;
	return is_waiting ? 0 : no_letter(store, key, err);
}

/* 1: it is gone; 0: there is none; -1. Whoever renames or unlinks a name first has it: a
 * claim finds it gone, or we do. With `mark` it goes by one rename to where a command
 * that waits for it finds it: what is gone was done, as far as that can see. */
static int discard_from(struct task_store *store, enum store_place place,
			const char *name, const char *mark, struct err *err)
{
	AUTO_CLOSE int dir = store_dir(store, place, err);
	AUTO_CLOSE int marks = dir < 0 || !mark ? -1 : store_dir(store, DISCARDED, err);

	if (dir < 0 || (mark && marks < 0))
		return -1;
	if ((mark ? renameat(dir, name, marks, mark) : unlinkat(dir, name, 0)) == 0)
		return fsync(dir) == 0
			       ? 1
			       : err_errno(err, "cannot sync %s", store->paths[place]);
	return errno == ENOENT ? 0 : err_errno(err, "cannot remove %s", name);
}

/* As discard_from(). */
static int discard_failed(struct task_store *store, const char *key, struct err *err)
{
	int failed = store_check_key(key, err) == 0
			     ? discard_from(store, FAILED, key, NULL, err)
			     : -1;

	return failed < 0 || remove_why(store, key, err) != 0 ? -1 : failed;
}

int task_store_discard_letter(struct task_store *store, const char *key, struct err *err)
{
	int failed = discard_failed(store, key, err);

	if (failed < 0)
		return -1;
	return failed > 0 ? 0 : no_letter(store, key, err);
}

int task_store_discarded_at(struct task_store *store, const char *key, int64_t *at,
			    struct err *err)
{
	AUTO_CLOSE int dir = store_dir(store, DISCARDED, err);
	struct stat st;

	*at = 0;
	if (dir < 0)
		return -1;
	if (fstatat(dir, key, &st, AT_SYMLINK_NOFOLLOW) == 0)
		*at = clock_ms(&st.st_ctim);
	else if (errno != ENOENT)
		return err_errno(err, "cannot look at %s/%s", store->paths[DISCARDED],
				 key);
	return 0;
}

int task_store_discard(struct task_store *store, const char *key, struct err *err)
{
	AUTO_FREE char *json = xasprintf("%s.json", key);
	uint64_t births = task_index_births(&store->index);
	int failed = discard_failed(store, key, err), waiting, other;

	if (failed < 0)
		return -1;
	waiting = discard_from(store, WAITING, key, key, err);
	other = waiting < 0 ? -1 : discard_from(store, WAITING, json, key, err);
	if (other < 0)
		return -1;
	task_index_drop(&store->index, key, births);
	task_index_drop(&store->index, json, births);
	return failed + waiting + other > 0 ? 0 : no_letter(store, key, err);
}
