#include "change/known_root.h"

#include "store/site_value.h"

static int known_root_ask_work(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_STR struct str known = STR_INIT;
	struct known_root *root = arg;
	int found = site_value_get(tx, root->key, &known, err);

	root->is_known = found > 0;
	root->is_same = found > 0 && strcmp(known.data, root->identity) == 0;
	return found < 0 ? -1 : 0;
}

int known_root_ask(struct store *store, struct known_root *root, struct err *err)
{
	return store_read(store, known_root_ask_work, root, err);
}

static int accept_work(struct store_tx *tx, void *arg, struct err *err)
{
	const struct known_root *root = arg;

	return site_value_set(tx, root->key, root->identity, err);
}

int known_root_accept(struct store *store, struct known_root *root, struct err *err)
{
	if (known_root_ask(store, root, err) != 0)
		return -1;
	return root->is_same ? 0 : store_write(store, accept_work, root, err);
}

int known_root_accept_first(struct store_tx *tx, const struct known_root *root,
			    struct err *err)
{
	AUTO_STR struct str known = STR_INIT;
	int found = site_value_get(tx, root->key, &known, err);

	return found == 0  ? site_value_set(tx, root->key, root->identity, err)
	       : found < 0 ? -1
			   : 0;
}
