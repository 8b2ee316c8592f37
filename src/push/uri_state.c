#include "push/uri_state.h"

#include "base/log.h"
#include "push/state_json.h"
#include "push/store_file.h"
#include "push/task_parts.h"

#define STATE_SIZE_MAX ((size_t)1 << 20)

void uri_state_clear(struct uri_state *state)
{
	free(state->uri);
	free(state->remote);
	free(state->project);
	ref_names_clear(&state->letters);
	*state = (struct uri_state){ 0 };
}

void uri_states_clear(uri_states *states)
{
	for (size_t i = 0; i < states->count; i++)
		uri_state_clear(&states->items[i]);
	vec_clear(states);
}

static int uri_state_read_file(int dir, const char *uri_key, struct uri_state *state,
			       struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	*state = (struct uri_state){ 0 };
	if (file_read(dir, uri_key, STATE_SIZE_MAX, &text, err) == 0 &&
	    uri_state_read_json(&text, state, err) == 0)
		return 1;
	uri_state_clear(state);
	if (err->class == ERR_MISSING)
		return 0;
	if (!is_no_task(err))
		return -1;
	log_warn("uri_state.bad", LOG_ERR(err), LOG_TEXT("file", uri_key));
	return 0;
}

int uri_state_read(struct task_store *store, const char *uri_key, struct uri_state *state,
		   struct err *err)
{
	AUTO_CLOSE int dir = store_dir(store, STATES, err);

	*state = (struct uri_state){ 0 };
	return dir < 0 ? -1 : uri_state_read_file(dir, uri_key, state, err);
}

int uri_state_write(struct task_store *store, const char *uri_key,
		    const struct uri_state *state, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	struct new_file file = { STATES, uri_key, &text, 0, FILE_SYNC };

	uri_state_write_json(state, &text);
	return store_put(store, &file, err);
}

int uri_state_remove(struct task_store *store, const char *uri_key, struct err *err)
{
	return store_remove(store, STATES, uri_key, err);
}

int uri_state_list(struct task_store *store, uri_states *states, struct err *err)
{
	AUTO_NAMES store_names names = { 0 };
	AUTO_CLOSE int dir = store_dir(store, STATES, err);

	if (dir < 0 || store_list_files(dir, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		struct uri_state state;
		if (!is_uri_key(names.items[i]))
			continue;
		int result = uri_state_read_file(dir, names.items[i], &state, err);
		if (result < 0)
			return -1;
		if (result == 1)
			vec_add(states, state);
	}
	return 0;
}
