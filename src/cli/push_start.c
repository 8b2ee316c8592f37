#include "base/map.h"
#include "cli/push.h"
#include "cli/push_wait.h"
#include "push/select.h"
#include "push/sink.h"

struct starting {
	struct push_call *call;
	task_keys names, keys;
	struct map by_key; /* the same keys */
	started_list started;
};

static void starting_clear(struct starting *starting)
{
	task_keys_clear(&starting->names);
	map_clear(&starting->by_key);
	task_keys_clear(&starting->keys);
	started_list_clear(&starting->started);
}

static void key_of_all(const struct destination *destination, char key[TASK_KEY_SIZE])
{
	char all[] = TASK_ALL_REFS;
	char *refs[] = { all };
	const struct task task = {
		.project = destination->project,
		.uri = destination->uri,
		.remote = destination->remote->name,
		.refs = { .items = refs, .count = 1, .capacity = 1 },
	};

	task_key(&task, key);
}

static void add_started(struct starting *starting, const struct destination *destination,
			const char *key)
{
	struct started one = {
		.project = xstrdup(destination->project),
		.uri = xstrdup(destination->uri),
		.host = xstrdup(destination->host ? destination->host
						  : destination->path),
	};

	memcpy(one.key, key, sizeof(one.key));
	memcpy(one.uri_key, destination->uri_key, sizeof(one.uri_key));
	vec_add(&starting->started, one);
	if (starting->call->is_verbose)
		fprintf(stderr, "refrelay: %s waits for %s: %s\n", one.project,
			destination->remote->name, one.uri);
}

/* Those of the repository's destinations whose tasks are among the keys. */
static int find_started(struct starting *starting, const char *name, struct err *err)
{
	AUTO_DESTINATIONS destination_list list = { 0 };

	if (destinations_of(starting->call->push.settings, name, &list, err) != 0)
		return -1;
	for (size_t i = 0; i < list.count; i++) {
		char key[TASK_KEY_SIZE];
		key_of_all(&list.items[i], key);
		if (map_get(&starting->by_key, key))
			add_started(starting, &list.items[i], key);
	}
	return 0;
}

static int start_all(struct starting *starting, struct err *err)
{
	const struct push_call *call = starting->call;
	const struct push_start_filter filter = {
		.remotes = call->remotes.count > 0 ? call->remotes.items : NULL,
		.url = call->url,
		.now = call->is_now,
	};

	if (push_select(call->push.site.repositories, call->words, call->word_count,
			&starting->names, err) != 0 ||
	    push_start_repositories(call->push.tasks, call->push.settings,
				    &starting->names, &filter, &starting->keys, err) != 0)
		return -1;
	for (size_t i = 0; i < starting->keys.count; i++)
		map_put(&starting->by_key, starting->keys.items[i], starting);
	for (size_t i = 0; i < starting->names.count; i++)
		if (find_started(starting, starting->names.items[i], err) != 0)
			return -1;
	return 0;
}

static int nothing(const struct starting *starting)
{
	const struct push_call *call = starting->call;
	AUTO_STR struct str text = STR_INIT;

	if (starting->names.count > 0)
		str_add(&text, "no destination takes what was named");
	else if (call->word_count == 0)
		str_add(&text, "there is no repository");
	else
		str_add(&text, "there is no repository of this name:");
	for (size_t i = 0; starting->names.count == 0 && i < call->word_count; i++) {
		str_add(&text, " ");
		str_add_printable(&text, call->words[i]);
	}
	fprintf(stderr, "refrelay: Nothing to replicate: %s\n", text.data);
	return EXIT_NOT_FOUND;
}

/* That nobody works on them does not make the tasks less durable. */
static void warn_of_nodes(const struct push_call *call)
{
	push_nodes nodes = { 0 };

	if (push_nodes_living(call->push.tasks, call->push.leases, &nodes, ERR_IGNORED) ==
		    0 &&
	    nodes.count == 0)
		fputs("refrelay: no node of the cluster lives: it is pushed when one is "
		      "started\n",
		      stderr);
	push_nodes_clear(&nodes);
}

static int push_start_finish(struct starting *starting, struct waiting *waiting,
			     struct err *err)
{
	if (starting->keys.count == 0)
		return nothing(starting);
	push_site_wake(&starting->call->push);
	warn_of_nodes(starting->call);
	return starting->call->waits ? waiting_run(waiting, err) : EXIT_DONE;
}

static int start_and_wait(struct starting *starting, struct err *err)
{
	struct waiting waiting = { .call = starting->call, .list = &starting->started };
	int status = -1;

	if ((!starting->call->waits || waiting_begin(&waiting, err) == 0) &&
	    start_all(starting, err) == 0)
		status = push_start_finish(starting, &waiting, err);
	waiting_clear(&waiting);
	return status;
}

int push_start_run(struct push_call *call, struct err *err)
{
	struct starting starting = { .call = call };
	int status;

	if (!push_call_knows_remotes(call, NULL))
		return EXIT_NOT_FOUND;
	status = start_and_wait(&starting, err);
	starting_clear(&starting);
	return status;
}
