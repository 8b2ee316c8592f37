#include "change/mounts.h"
#include "change/notice_parts.h"

#define MOUNTS_KEY "origin.mounts"

bool notice_is_empty(int dir, const char *path)
{
	return mounts_is_empty(dir, path);
}

int notice_check_mounts(struct notice *notice, int root, const char *path,
			struct err *err)
{
	json_auto_t *known = NULL;

	if (mounts_read(notice->options.store, MOUNTS_KEY, &known, err) != 0)
		return -1;
	const char *away = mounts_find_away(known, root, path);
	return away ? mounts_say_away(away, err) : 0;
}

static void notice_mounts_add_finding(struct discovery *discovery, const char *mount)
{
	struct discover_finding finding = { .path = xstrdup(mount), .hides_names = true };

	mounts_say_away(mount, &finding.err);
	vec_add(&discovery->findings, finding);
}

/* What is mounted, and what was and is away, or below such a one. */
static json_t *list_mounts(const json_t *known, int root, struct discovery *discovery)
{
	json_t *now = json_array();

	for (size_t i = 0; i < discovery->mounts.count; i++)
		json_array_append_new(now, json_string(discovery->mounts.items[i]));
	for (size_t i = 0; i < json_array_size(known); i++) {
		const char *mount = json_string_value(json_array_get(known, i));
		const char *away = mounts_find_away(known, root, mount);
		if (away == mount)
			notice_mounts_add_finding(discovery, mount);
		if (away)
			json_array_append_new(now, json_string(mount));
	}
	return now;
}

int notice_note_mounts(struct notice *notice, int root, struct discovery *discovery,
		       struct err *err)
{
	json_auto_t *known = NULL;

	if (mounts_read(notice->options.store, MOUNTS_KEY, &known, err) != 0)
		return -1;
	json_auto_t *now = list_mounts(known, root, discovery);
	/* A root that has nothing may be away itself: it says nothing of what is below.
	 */
	if (discovery->found.count == 0 || json_equal(known, now) ||
	    (!known && json_array_size(now) == 0))
		return 0;
	return mounts_write(notice->options.store, MOUNTS_KEY, now, err);
}
