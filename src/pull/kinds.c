#include "pull/kind_ops.h"

#include "replicable/name.h"

static const struct kind_ops *const kinds[] = { &repository_ops, &blob_ops };

bool kinds_next(const struct pull_options *options, size_t *at, struct pull_kind *kind)
{
	size_t left = (*at)++;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		size_t count = 0;
		while ((kind->type = kinds[i]->type(options, count)) != NULL) {
			kind->ops = kinds[i];
			if (count++ == left)
				return true;
		}
		left -= count;
	}
	return false;
}

const struct kind_ops *kinds_find(const struct pull_options *options, const char *type)
{
	struct pull_kind kind;

	for (size_t at = 0; kinds_next(options, &at, &kind);)
		if (strcmp(kind.type, type) == 0)
			return kind.ops;
	return NULL;
}
