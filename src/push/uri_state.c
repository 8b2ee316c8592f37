#include "push/uri_state.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "push/dead_letters.h"
#include "push/store_file.h"
#include "push/task_parts.h"

static void uri_names_put_json(json_t *object, const char *uri, const char *remote,
			       const char *project)
{
	json_put_text(object, "uri", uri);
	json_put_text(object, "remote", remote);
	json_put_text(object, "project", project);
}

static int get_text(const json_t *object, const char *key, char **text, struct err *err)
{
	AUTO_STR struct str got = STR_INIT;

	if (json_get_bytes(object, key, &got, err) != 0)
		return -1;
	*text = xstrdup(got.data);
	return 0;
}

static int uri_names_get_json(const json_t *object, char **uri, char **remote,
			      char **project, struct err *err)
{
	if (get_text(object, "uri", uri, err) != 0 ||
	    get_text(object, "remote", remote, err) != 0)
		return -1;
	return get_text(object, "project", project, err);
}

static void uri_state_write_json(const struct uri_state *state, struct str *out)
{
	json_auto_t *object = json_object();

	uri_names_put_json(object, state->uri, state->remote, state->project);
	json_put_number(object, "retry_at", state->retry_at);
	json_put_number(object, "failures", (int64_t)state->failures);
	json_put_number(object, "lock_failures", (int64_t)state->lock_failures);
	json_put_number(object, "failing_since", state->failing_since);
	json_put_number(object, "last_success_at", state->last_success_at);
	json_put_number(object, "held_since", state->held_since);
	json_put_text(object, "node", state->node);
	err_put_json(object, &state->failure);
	if (state->is_head)
		json_put(object, "head_only", json_true());
	json_put(object, "given_up",
		 json_texts(state->letters.items, state->letters.count));
	json_render(object, out);
	str_add_char(out, '\n');
}

static int64_t uri_state_json_get_number(const json_t *object, const char *key)
{
	int64_t number = json_integer_value(json_object_get(object, key));

	return number > 0 ? number : 0;
}

static int uri_state_read_json(const struct str *text, struct uri_state *state,
			       struct err *err)
{
	json_auto_t *object = json_parse_object(text->data, text->len, SIZE_MAX, err);
	const char *node;

	if (!object || uri_names_get_json(object, &state->uri, &state->remote,
					  &state->project, err) != 0)
		return -1;
	state->retry_at = uri_state_json_get_number(object, "retry_at");
	state->failures = (uint64_t)uri_state_json_get_number(object, "failures");
	state->lock_failures =
		(uint64_t)uri_state_json_get_number(object, "lock_failures");
	state->failing_since = uri_state_json_get_number(object, "failing_since");
	state->last_success_at = uri_state_json_get_number(object, "last_success_at");
	state->held_since = uri_state_json_get_number(object, "held_since");
	node = json_string_value(json_object_get(object, "node"));
	snprintf(state->node, sizeof(state->node), "%s", node ? node : "");
	err_get_json(object, &state->failure);
	state->is_head = json_is_true(json_object_get(object, "head_only"));
	json_add_texts(json_object_get(object, "given_up"), &state->letters);
	return 0;
}

enum { REQUEST_SIZE_MAX = 1 << 20 };

static const char *const words[URI_REQUESTS] = {
	[REQUEST_HEAD] = "head",
	[REQUEST_DELETE] = "delete",
	[REQUEST_FORCE] = "force",
};

const char *uri_request_word(enum uri_request request)
{
	return words[request];
}

bool uri_request_is_outdated(const struct requested *requested, int64_t now)
{
	const int64_t allowed_for_ms = (int64_t)24 * 3600 * 1000;

	return requested->request == REQUEST_FORCE &&
	       now - requested->since > allowed_for_ms;
}

void requested_clear(struct requested *requested)
{
	free(requested->uri);
	free(requested->remote);
	free(requested->project);
	*requested = (struct requested){ 0 };
}

void requested_list_clear(requested_list *list)
{
	vec_clear_each(list, requested_clear);
}

struct request_file {
	char name[URI_KEY_SIZE + 16];
};

#define BEGUN "-now" /* at the end of its name while it is served */

static struct request_file request_file(const char *uri_key, enum uri_request request)
{
	struct request_file file;

	snprintf(file.name, sizeof(file.name), "%s.%s", uri_key, words[request]);
	return file;
}

static struct request_file begun_file(const char *uri_key, enum uri_request request)
{
	struct request_file file;

	snprintf(file.name, sizeof(file.name), "%s.%s" BEGUN, uri_key, words[request]);
	return file;
}

int uri_request_add(struct task_store *store, const struct destination *destination,
		    enum uri_request request, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	json_auto_t *object = json_object();
	struct request_file name = request_file(destination->uri_key, request);
	struct new_file file = { REQUESTS, name.name, &text, 0, FILE_SYNC };

	uri_names_put_json(object, destination->uri, destination->remote->name,
			   destination->project);
	json_render(object, &text);
	str_add_char(&text, '\n');
	return store_put_new(store, &file, err);
}

static int read_json(const struct str *text, struct requested *requested, struct err *err)
{
	json_auto_t *object =
		json_parse_object(text->data, text->len, REQUEST_SIZE_MAX, err);

	if (!object)
		return -1;
	return uri_names_get_json(object, &requested->uri, &requested->remote,
				  &requested->project, err);
}

/* The lease of a URI goes by the key in the file's name: it must be this URI's. */
static int check_key(const char *name, const struct requested *requested, struct err *err)
{
	char uri_key[URI_KEY_SIZE];

	uri_key_of(requested->uri, uri_key);
	if (text_starts_with(name, uri_key))
		return 0;
	return err_set(err, ERR_CORRUPT, "no request: its URI is not that of its name");
}

/* As tasks: what is none is set aside. */
static int uri_request_read_file(struct task_store *store, int dir, const char *name,
				 struct requested *requested, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? 0 : err_errno(err, "cannot look at %s", name);
	requested->since = clock_ms(&st.st_mtim);
	if (file_read(dir, name, REQUEST_SIZE_MAX, &text, err) == 0 &&
	    read_json(&text, requested, err) == 0 && check_key(name, requested, err) == 0)
		return 1;
	requested_clear(requested);
	if (err->class == ERR_MISSING)
		return 0;
	if (!is_no_task(err))
		return -1;
	store_set_aside(store, dir, name, err);
	return 0;
}

int uri_request_get(struct task_store *store, const char *uri_key,
		    enum uri_request request, struct requested *requested,
		    struct err *err)
{
	AUTO_CLOSE int dir = store_dir(store, REQUESTS, err);
	int result;

	*requested = (struct requested){ .request = request };
	if (dir < 0)
		return -1;
	result = uri_request_read_file(store, dir, request_file(uri_key, request).name,
				       requested, err);
	if (result == 0)
		result = uri_request_read_file(
			store, dir, begun_file(uri_key, request).name, requested, err);
	if (result == 1) {
		requested->request = request;
		snprintf(requested->uri_key, sizeof(requested->uri_key), "%s", uri_key);
	}
	return result;
}

int uri_request_begin(struct task_store *store, const char *uri_key,
		      enum uri_request request, struct err *err)
{
	return store_rename(store, REQUESTS, request_file(uri_key, request).name,
			    begun_file(uri_key, request).name, err);
}

int uri_request_put_back(struct task_store *store, const char *uri_key,
			 enum uri_request request, struct err *err)
{
	return store_rename(store, REQUESTS, begun_file(uri_key, request).name,
			    request_file(uri_key, request).name, err);
}

int uri_request_end(struct task_store *store, const char *uri_key,
		    enum uri_request request, struct err *err)
{
	return store_remove(store, REQUESTS, begun_file(uri_key, request).name, err);
}

int uri_request_remove(struct task_store *store, const char *uri_key,
		       enum uri_request request, struct err *err)
{
	if (uri_request_end(store, uri_key, request, err) != 0)
		return -1;
	return store_remove(store, REQUESTS, request_file(uri_key, request).name, err);
}

int uri_request_discard(struct task_store *store, const char *uri_key,
			enum uri_request request, struct err *err)
{
	AUTO_CLOSE int dir = store_dir(store, REQUESTS, err);

	if (dir < 0 || uri_request_remove(store, uri_key, request, err) != 0)
		return -1;
	return fsync(dir) == 0 ? 0 : err_errno(err, "cannot sync the requests");
}

/* Whether it is a request's name; others are left alone. */
static bool uri_request_split_name(const char *name, char uri_key[URI_KEY_SIZE],
				   enum uri_request *request)
{
	snprintf(uri_key, URI_KEY_SIZE, "%s", name);
	if (!is_uri_key(uri_key) || name[URI_KEY_SIZE - 1] != '.')
		return false;
	for (size_t i = 0; i < URI_REQUESTS; i++) {
		size_t len = strlen(words[i]);
		const char *rest = name + URI_KEY_SIZE + len;
		if (strncmp(name + URI_KEY_SIZE, words[i], len) == 0 &&
		    (*rest == '\0' || strcmp(rest, BEGUN) == 0)) {
			*request = (enum uri_request)i;
			return true;
		}
	}
	return false;
}

/* One that is served while it is asked for anew has two names. */
static bool has_other_name(int dir, const char *name, const char *uri_key,
			   enum uri_request request)
{
	struct request_file plain = request_file(uri_key, request);

	return strcmp(name, plain.name) != 0 &&
	       faccessat(dir, plain.name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int uri_request_list(struct task_store *store, requested_list *list, struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	AUTO_CLOSE int dir = store_dir(store, REQUESTS, err);
	int result = 0;

	if (dir < 0 || store_list_files(dir, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		char uri_key[URI_KEY_SIZE];
		enum uri_request request;
		struct requested one;
		struct err why;
		if (!uri_request_split_name(names.items[i], uri_key, &request) ||
		    has_other_name(dir, names.items[i], uri_key, request))
			continue;
		int found = uri_request_get(store, uri_key, request, &one, &why);
		if (found == 1)
			vec_add(list, one);
		if (found < 0 && result == 0)
			*err = why;
		if (found < 0)
			result = 1;
	}
	return result;
}

int uri_request_watch_fd(const struct task_store *store)
{
	return store->request_watch;
}

bool uri_request_hear(struct task_store *store)
{
	char events[4096];
	bool heard = false;

	while (store->request_watch >= 0 &&
	       read(store->request_watch, events, sizeof(events)) > 0)
		heard = true;
	if (heard)
		store_watch_requests(store); /* it may be of a directory that is gone */
	return heard;
}

#define STATE_SIZE_MAX ((size_t)1 << 20)

void uri_state_clear(struct uri_state *state)
{
	free(state->uri);
	free(state->remote);
	free(state->project);
	text_list_clear(&state->letters);
	*state = (struct uri_state){ 0 };
}

void uri_states_clear(uri_states *states)
{
	vec_clear_each(states, uri_state_clear);
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
	AUTO_TEXT_LIST text_list names = { 0 };
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
