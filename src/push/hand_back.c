#include "push/hand_back.h"

#include "push/nodes.h"
#include "push/push.h"
#include "push/store_file.h"
#include "push/task_list.h"

static int check_nodes(struct task_store *store, struct lease_manager *leases,
		       struct err *err)
{
	push_nodes nodes = { 0 };
	int result = push_nodes_living(store, leases, &nodes, err);

	if (result == 0 && nodes.count > 0) {
		result = err_set(err, ERR_BUSY, "node %s works on this store",
				 nodes.items[0]);
		err_remedy(err, "stop all nodes of the cluster first");
	}
	push_nodes_clear(&nodes);
	return result;
}

static void add_running(void *arg, const char *uri_key)
{
	store_names *keys = arg;

	vec_add(keys, xstrdup(uri_key));
}

static void hand_back_ignore_waiting(void *arg, const struct waiting_uri *waiting)
{
	(void)arg;
	(void)waiting;
}

static int hand_back_recover_uri(struct task_store *store, struct lease_manager *leases,
				 const char *uri_key, size_t *moved, struct err *err)
{
	AUTO_FREE char *key = xasprintf(PUSH_URI_LEASE "%s", uri_key);
	struct lease_request request = { .key = key, .operation = "hand back" };
	struct lease *lease = NULL;
	size_t recovered = 0;
	int result;

	if (lease_acquire(leases, &request, &lease, err) != 0)
		return -1;
	result = task_store_recover(store, uri_key, &recovered, err);
	if (result == 0)
		task_store_tidy(store, uri_key);
	lease_release(lease);
	*moved += recovered;
	return result;
}

static int hand_back_recover_all(struct task_store *store, struct lease_manager *leases,
				 size_t *moved, struct err *err)
{
	AUTO_NAMES store_names keys = { 0 };
	int result = task_store_refresh(store, hand_back_ignore_waiting, add_running,
					&keys, err);

	for (size_t i = 0; i < keys.count && result == 0; i++)
		result = hand_back_recover_uri(store, leases, keys.items[i], moved, err);
	return result;
}

/* The right one is there before the other goes. */
static int rename_one(struct task_store *store, struct listed_task *listed,
		      size_t *renamed, struct err *err)
{
	char key[TASK_KEY_SIZE];
	bool is_new;

	task_order(&listed->task);
	task_key(&listed->task, key);
	if (strcmp(key, listed->name) == 0)
		return 0;
	if (task_store_add(store, &listed->task, listed->since, &is_new, err) != 0 ||
	    store_remove(store, WAITING, listed->name, err) != 0)
		return -1;
	++*renamed;
	return 0;
}

int push_hand_back(struct task_store *store, struct lease_manager *leases,
		   struct handed_back *done, struct err *err)
{
	listed_tasks tasks = { 0 };
	int result;

	*done = (struct handed_back){ 0 };
	if (check_nodes(store, leases, err) != 0 ||
	    hand_back_recover_all(store, leases, &done->moved, err) != 0)
		return -1;
	result = task_store_list(store, &tasks, NULL, err);
	for (size_t i = 0; i < tasks.count && result == 0; i++)
		if (!tasks.items[i].is_running)
			result = rename_one(store, &tasks.items[i], &done->renamed, err);
	listed_tasks_clear(&tasks);
	return result;
}
