#include "push/nodes.h"

#include "push/push.h"
#include "push/store_file.h"
#include "push/task_parts.h"

enum { NAME_SIZE_MAX = 4096 };

int push_nodes_note(struct task_store *store, const char *node, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	char key[URI_KEY_SIZE];
	struct new_file file = { NODES, key, &text, 0, FILE_NO_SYNC };

	uri_key_of(node, key);
	str_add(&text, node);
	return store_put_new(store, &file, err);
}

char *push_node_lease(const char *node)
{
	return xasprintf(PUSH_NODE_LEASE "%s", node);
}

void push_nodes_clear(push_nodes *nodes)
{
	for (size_t i = 0; i < nodes->count; i++)
		free(nodes->items[i]);
	vec_clear(nodes);
}

bool push_holder_lives(const struct lease_holder *holder)
{
	return holder->held && !holder->is_dead;
}

/* A file that cannot be read names nobody. */
static int add_living(struct lease_manager *leases, int dir, const char *file,
		      push_nodes *nodes, struct err *err)
{
	AUTO_STR struct str name = STR_INIT;
	AUTO_FREE char *key = NULL;
	struct lease_holder holder;

	if (file_read(dir, file, NAME_SIZE_MAX, &name, ERR_IGNORED) != 0 || name.len == 0)
		return 0;
	key = push_node_lease(name.data);
	if (strlen(key) >= LEASE_KEY_SIZE)
		return 0;
	if (lease_inspect(leases, key, &holder, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	if (push_holder_lives(&holder))
		vec_add(nodes, str_take(&name));
	return 0;
}

int push_nodes_living(struct task_store *store, struct lease_manager *leases,
		      push_nodes *nodes, struct err *err)
{
	AUTO_NAMES store_names names = { 0 };
	AUTO_CLOSE int dir = store_dir(store, NODES, err);

	if (dir < 0 || store_list_files(dir, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++)
		if (add_living(leases, dir, names.items[i], nodes, err) != 0)
			return -1;
	return 0;
}
