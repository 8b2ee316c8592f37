#include "git/ref_diff.h"

static void ref_diff_add_change(struct ref_diff *diff, const struct ref *before,
				const struct ref *after)
{
	struct ref_change change = {
		.name = before ? before->name : after->name,
		.before = before,
		.after = after,
	};

	if (ref_same_value(before, after))
		return;
	diff->deletions += after == NULL;
	if ((before && before->target) || (after && after->target))
		diff->symbolic_changed = true;
	vec_add(&diff->changes, change);
}

void ref_diff_compute(const struct ref_snapshot *before, const struct ref_snapshot *after,
		      struct ref_diff *diff)
{
	size_t i = 0, j = 0;

	*diff = (struct ref_diff){ .head_changed = !ref_same_head(before, after) };
	while (i < before->refs.count || j < after->refs.count) {
		const struct ref *left =
			i < before->refs.count ? &before->refs.items[i] : NULL;
		const struct ref *right =
			j < after->refs.count ? &after->refs.items[j] : NULL;
		int order = !left ? 1 : !right ? -1 : strcmp(left->name, right->name);
		if (order <= 0)
			i++;
		if (order >= 0)
			j++;
		ref_diff_add_change(diff, order <= 0 ? left : NULL,
				    order >= 0 ? right : NULL);
	}
}

void ref_diff_clear(struct ref_diff *diff)
{
	vec_clear(&diff->changes);
}

bool ref_diff_is_empty(const struct ref_diff *diff)
{
	return diff->changes.count == 0 && !diff->head_changed;
}
