#include "pull/passed_pushes.h"

#include "base/clock.h"
#include "base/vec.h"

static int passed_pushes_add_work(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx,
		       "INSERT INTO passed_push (name, since) VALUES (?1, ?2)"
		       " ON CONFLICT (name) DO NOTHING",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, arg);
	query_bind_int(query, 2, clock_wall_ms());
	return query_run(query, NULL, err);
}

int passed_pushes_add(struct store *store, const char *name, struct err *err)
{
	AUTO_FREE char *copy = xstrdup(name);

	return store_write(store, passed_pushes_add_work, copy, err);
}

struct names {
	VEC(char *) list; /* owned */
	bool (*is_needed)(void *arg, const char *name);
	void *arg;
	size_t left;
};

static void passed_pushes_clear_names(struct names *names)
{
	for (size_t i = 0; i < names->list.count; i++)
		free(names->list.items[i]);
	vec_clear(&names->list);
}

static int passed_pushes_read_work(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	struct names *names = arg;
	int found;

	passed_pushes_clear_names(names);
	if (query_open(tx, "SELECT name FROM passed_push", &query, err) != 0)
		return -1;
	while ((found = query_step(query, err)) > 0)
		vec_add(&names->list, query_copy_text(query, 0));
	return found;
}

int passed_pushes_read(struct store *store, void (*each)(void *arg, const char *name),
		       void *arg, size_t *count, struct err *err)
{
	struct names names = { 0 };
	int result = store_read(store, passed_pushes_read_work, &names, err);

	*count = result == 0 ? names.list.count : 0;
	for (size_t i = 0; i < *count; i++)
		each(arg, names.list.items[i]);
	passed_pushes_clear_names(&names);
	return result;
}

static int passed_pushes_remove_name(struct store_tx *tx, const char *name,
				     struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx, "DELETE FROM passed_push WHERE name = ?1", &query, err) != 0)
		return -1;
	query_bind_text(query, 1, name);
	return query_run(query, NULL, err);
}

static int tidy_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct names *names = arg;

	if (passed_pushes_read_work(tx, arg, err) != 0)
		return -1;
	names->left = 0;
	for (size_t i = 0; i < names->list.count; i++)
		if (names->is_needed(names->arg, names->list.items[i]))
			names->left++;
		else if (passed_pushes_remove_name(tx, names->list.items[i], err) != 0)
			return -1;
	return 0;
}

int passed_pushes_tidy(struct store *store,
		       bool (*is_needed)(void *arg, const char *name), void *arg,
		       size_t *left, struct err *err)
{
	struct names names = { .is_needed = is_needed, .arg = arg };
	int result = store_write(store, tidy_work, &names, err);

	*left = names.left;
	passed_pushes_clear_names(&names);
	return result;
}
