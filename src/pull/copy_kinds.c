#include "pull/copy_kind.h"

#include "replicable/name.h"

static const struct copy_kind_ops *const kinds[] = { &repository_copy_ops,
						     &blob_copy_ops };

bool copy_kinds_next(const struct pull_options *options, size_t *at,
		     struct copy_kind *kind)
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

const struct copy_kind_ops *copy_kinds_find(const struct pull_options *options,
					    const char *type)
{
	struct copy_kind kind;

	for (size_t at = 0; copy_kinds_next(options, &at, &kind);)
		if (strcmp(kind.type, type) == 0)
			return kind.ops;
	return NULL;
}
