#include "push/select.h"

#include "push/pattern.h"
#include "replicable/discover.h"

void task_keys_clear(task_keys *keys)
{
	for (size_t i = 0; i < keys->count; i++)
		free(keys->items[i]);
	vec_clear(keys);
}

static int push_select_read_patterns(const char *const *texts, size_t count,
				     name_patterns *patterns, struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		struct name_pattern *pattern;
		if (name_pattern_new(texts[i], &pattern, err) != 0)
			return -1;
		vec_add(patterns, pattern);
	}
	return 0;
}

int push_select(const char *root, const char *const *patterns, size_t count,
		task_keys *names, struct err *err)
{
	AUTO_DISCOVERY struct discovery discovery = { 0 };
	name_patterns wanted = { 0 };
	int result = push_select_read_patterns(patterns, count, &wanted, err);

	if (result == 0)
		result = discover(root, &discovery, err);
	for (size_t i = 0; result == 0 && i < discovery.found.count; i++) {
		const char *name = discovery.found.items[i].name;
		if (count == 0 || name_patterns_take(&wanted, name))
			vec_add(names, xstrdup(name));
	}
	name_patterns_clear(&wanted);
	return result;
}
