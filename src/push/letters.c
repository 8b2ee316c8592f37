/*
 * What was given up is done when a later push has brought those refs there, whatever
 * other refs were in it. So that no push has to read the dead letters of all URIs, the
 * state of a URI lists its own.
 */
#include "base/log.h"
#include "base/map.h"
#include "push/outcome.h"
#include "push/push_run.h"

/* Beyond, the oldest stay until a person says. */
enum { LETTERS_MAX = 100 };

static void letters_keep_text(char **text, const char *value)
{
	if (!*text)
		*text = xstrdup(value);
}

static void drop_at(ref_names *names, size_t at)
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
	if (ref_names_have(&state->letters, key))
		return;
	if (state->letters.count >= LETTERS_MAX)
		drop_at(&state->letters, 0);
	vec_add(&state->letters, xstrdup(key));
	letters_keep_text(&state->uri, run->uri);
	letters_keep_text(&state->remote, task->task.remote);
	letters_keep_text(&state->project, task->task.project);
	run->has_changed = true;
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

static bool letters_is_goal_done(const struct task *goal, const struct map *pushed,
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
static bool letters_settle_if_done(struct push_run *run, const char *key,
				   const struct map *pushed, const struct judge *judge)
{
	struct task_store *store = run->push->options.tasks;
	dead_letters letters = { 0 };
	AUTO_TASK struct task goal = { 0 };
	bool is_settled = true;

	task_store_letter(store, key, &letters);
	if (letters.count > 0) {
		make_goal(&letters.items[0], &goal);
		is_settled = letters_is_goal_done(&goal, pushed, judge) &&
			     task_store_forget(store, key, ERR_IGNORED) == 0;
	}
	dead_letters_clear(&letters);
	return is_settled;
}

void settle_letters(struct push_run *run, const struct push_group *group,
		    const struct judge *judge)
{
	ref_names *letters = &run->state.letters;
	struct map pushed = { 0 };
	bool is_all;

	if (letters->count == 0)
		return;
	is_all = add_pushed(group, &pushed);
	for (size_t i = letters->count; i > 0; i--) {
		if (!letters_settle_if_done(run, letters->items[i - 1],
					    is_all ? NULL : &pushed, judge))
			continue;
		drop_at(letters, i - 1);
		run->has_changed = true;
	}
	map_clear(&pushed);
}

void forget_letters(struct push_run *run)
{
	ref_names *letters = &run->state.letters;
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
