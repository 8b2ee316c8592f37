#include "pull/hold.h"

#include "git/objects.h"

bool hold_brake_stops(struct hold_brake brake, size_t deletions, size_t all)
{
	return deletions > brake.more_than &&
	       (double)deletions > brake.share * (double)all;
}

/* The name of the first changed ref from which `commit` can be reached and nothing of
 * the source can; "HEAD" if only that. */
static const char *ref_with(const struct git_work *work, const struct repo *copy,
			    const struct ref_diff *diff, const oid_list *known)
{
	struct oid example;

	for (size_t i = 0; i < diff->changes.count && i < 50; i++) {
		const struct ref *before = diff->changes.items[i].before;
		oid_list tip = { 0 };
		if (!before || before->target)
			continue;
		vec_add(&tip, before->oid);
		int found =
			objects_has_more(work, copy, &tip, known, &example, ERR_IGNORED);
		vec_clear(&tip);
		if (found > 0)
			return before->name;
	}
	return "one of its refs";
}

/* Which commits would no ref reach any more? */
static int find_lost_commits(const struct git_work *work, const struct repo *copy,
			     const struct ref_diff *diff, const oid_list *known,
			     char **reason, struct err *err)
{
	oid_list tips = { 0 };
	struct oid example;
	char text[OID_MAX_TEXT];
	int found = 0;

	for (size_t i = 0; i < diff->changes.count; i++) {
		const struct ref *before = diff->changes.items[i].before;
		if (before && !before->target)
			vec_add(&tips, before->oid);
	}
	oid_list_tidy(&tips);
	if (tips.count > 0)
		found = objects_has_more(work, copy, &tips, known, &example, err);
	vec_clear(&tips);
	if (found > 0)
		*reason = xasprintf("the copy holds commits that the source lacks, for "
				    "instance %s in %s",
				    oid_text(&example, text),
				    ref_with(work, copy, diff, known));
	return found;
}

int hold_decide(const struct git_work *work, const struct repo *copy,
		const struct ref_snapshot *from, const struct source_view *view,
		const struct ref_diff *diff, bool is_ours, char **reason, struct err *err)
{
	oid_list known = { 0 };
	int found;

	if (hold_brake_stops(HOLD_REFS, diff->deletions, from->refs.count)) {
		*reason = xasprintf("%zu of %zu refs would be deleted at once",
				    diff->deletions, from->refs.count);
		return 1;
	}
	if (is_ours)
		return 0;
	oid_list_add_tips(&known, &view->refs);
	found = find_lost_commits(work, copy, diff, &known, reason, err);
	vec_clear(&known);
	return found;
}

bool hold_lost_tips(const struct git_work *work, const struct repo *old,
		    const struct repo *new, const struct ref_snapshot *refs,
		    char **reason)
{
	oid_list tips = { 0 }, here = { 0 }, there = { 0 };
	char text[OID_MAX_TEXT];

	oid_list_add_tips(&tips, refs);
	if (tips.count > 0 &&
	    objects_present(work, new, &tips, &here, ERR_IGNORED) == 0 &&
	    objects_present(work, old, &tips, &there, ERR_IGNORED) == 0) {
		oid_list_tidy(&here);
		for (size_t i = 0; !*reason && i < there.count; i++)
			if (!oid_list_has(&here, &there.items[i]))
				*reason = xasprintf(
					"the copy is damaged, and holds commits that "
					"the source lacks, for instance %s",
					oid_text(&there.items[i], text));
	}
	vec_clear(&tips);
	vec_clear(&here);
	vec_clear(&there);
	return *reason != NULL;
}
