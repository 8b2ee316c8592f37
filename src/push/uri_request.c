#include "base/log.h"
#include "push/state_json.h"
#include "push/store_file.h"
#include "push/task_parts.h"

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

static void requested_clear(struct requested *requested)
{
	free(requested->uri);
	free(requested->remote);
	free(requested->project);
	*requested = (struct requested){ 0 };
}

void requested_list_clear(requested_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		requested_clear(&list->items[i]);
	vec_clear(list);
}

struct request_file {
	char name[URI_KEY_SIZE + 16];
};

static struct request_file request_file(const char *uri_key, enum uri_request request)
{
	struct request_file file;

	snprintf(file.name, sizeof(file.name), "%s.%s", uri_key, words[request]);
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
	requested->since = stat_ms(&st);
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
	if (result == 1) {
		requested->request = request;
		snprintf(requested->uri_key, sizeof(requested->uri_key), "%s", uri_key);
	}
	return result;
}

int uri_request_remove(struct task_store *store, const char *uri_key,
		       enum uri_request request, struct err *err)
{
	return store_remove(store, REQUESTS, request_file(uri_key, request).name, err);
}

/* Whether it is a request's name; others are left alone. */
static bool uri_request_split_name(const char *name, char uri_key[URI_KEY_SIZE],
				   enum uri_request *request)
{
	snprintf(uri_key, URI_KEY_SIZE, "%s", name);
	if (!is_uri_key(uri_key) || name[URI_KEY_SIZE - 1] != '.')
		return false;
	for (size_t i = 0; i < URI_REQUESTS; i++) {
		if (strcmp(name + URI_KEY_SIZE, words[i]) == 0) {
			*request = (enum uri_request)i;
			return true;
		}
	}
	return false;
}

int uri_request_list(struct task_store *store, requested_list *list, struct err *err)
{
	AUTO_NAMES store_names names = { 0 };
	AUTO_CLOSE int dir = store_dir(store, REQUESTS, err);

	if (dir < 0 || store_list_files(dir, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		char uri_key[URI_KEY_SIZE];
		enum uri_request request;
		struct requested one;
		if (!uri_request_split_name(names.items[i], uri_key, &request))
			continue;
		int result = uri_request_get(store, uri_key, request, &one, err);
		if (result < 0)
			return -1;
		if (result == 1)
			vec_add(list, one);
	}
	return 0;
}

int uri_request_watch_fd(const struct task_store *store)
{
	return store->request_watch;
}

void uri_request_hear(struct task_store *store)
{
	char buffer[4096];

	while (store->request_watch >= 0 &&
	       read(store->request_watch, buffer, sizeof(buffer)) > 0)
		;
}
