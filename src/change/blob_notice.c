/*
 * Order: rows are read before the disk, so that what the disk said is never older than
 * the row; then the transaction, which leaves out those whose row is another by then, and
 * they are looked at anew.
 *
 * A file of which nothing is recorded and which cannot be read gets no row: the scan
 * tells of it. One that has a row keeps it, with its generation and checksum: secondaries
 * keep what they have, too.
 */
#include "change/blob_notice.h"

#include "change/blob_notice_parts.h"
#include "change/origin_root.h"

#define TRIES 8

struct blob_notice *blob_notice_new(const struct blob_notice_options *options)
{
	struct blob_notice *notice = xcalloc(1, sizeof(*notice));

	notice->options = *options;
	return notice;
}

void blob_notice_free(struct blob_notice *notice)
{
	free(notice);
}

void blob_notice_set_due(struct blob_notice *notice, void (*due)(void *arg), void *arg)
{
	notice->due = due;
	notice->arg = arg;
}

const struct blob_kind *blob_notice_kind(const struct blob_notice *notice,
					 const char *type)
{
	return blob_kinds_find(notice->options.kinds, type);
}

void blob_look_clear(struct blob_look *look)
{
	origin_row_clear(&look->row);
}

struct group {
	struct blob_notice *notice;
	const struct blob_kind *kind;
	int root;
	bool is_judged; /* the root was: away says how */
	struct err away;
	json_t *mounts; /* owned; known ones, once it is judged */
	blob_comparisons all;
};

static int read_bases(struct store_tx *tx, void *arg, struct err *err)
{
	struct group *group = arg;

	for (size_t i = 0; i < group->all.count; i++) {
		struct blob_comparison *one = &group->all.items[i];
		if (one->is_done)
			continue;
		origin_row_clear(&one->base);
		if (origin_row_get(tx, group->kind->type, one->look->id, &one->base,
				   err) < 0)
			return -1;
	}
	return 0;
}

/* Once a group; the directory stays open. */
static void blob_notice_check_root(struct group *group)
{
	const struct origin_root root = { group->notice->options.store, group->kind->type,
					  group->kind->path, group->root };

	if (!group->is_judged && origin_root_check(&root, &group->away) == 0 &&
	    origin_root_mounts(&root, &group->mounts, &group->away) == 0)
		group->away.class = ERR_NONE;
	group->is_judged = true;
}

/* Whether what is not there may be on a file system that is away; why. */
static bool blob_notice_is_away(struct group *group, const char *id, struct err *why)
{
	blob_notice_check_root(group);
	const char *mount = mounts_find_away(group->mounts, group->root, id);

	if (group->away.class != ERR_NONE)
		*why = group->away;
	else if (mount)
		mounts_say_away(mount, why);
	return group->away.class != ERR_NONE || mount;
}

/* What the error of opening it means for its row. */
static enum blob_sight blob_notice_classify_failure(struct group *group,
						    struct blob_comparison *one,
						    const struct stat *st)
{
	struct err *why = &one->look->why;

	/* A link may lead to the file; a directory has taken its place. */
	if (S_ISDIR(st->st_mode))
		err_set(why, ERR_MISSING, "%s is a directory", one->look->id);
	if (why->class == ERR_CORRUPT || why->class == ERR_CONFIG)
		return BLOB_UNREADABLE;
	if (why->class != ERR_MISSING)
		return BLOB_UNKNOWN;
	return one->base.name && blob_notice_is_away(group, one->look->id, why)
		       ? BLOB_UNKNOWN
		       : BLOB_GONE;
}

static void blob_notice_observe(struct group *group, struct blob_comparison *one)
{
	struct blob_look *look = one->look;
	struct stat st = { 0 };
	AUTO_CLOSE int fd = -1;

	look->why = (struct err){ 0 };
	if (blob_open(group->root, look->id, &fd, &st, &look->why) != 0) {
		one->sight = blob_notice_classify_failure(group, one, &st);
		return;
	}
	one->sight = BLOB_THERE;
	blob_print_of(&st, &one->print);
	blob_print_format(&one->print, one->text);
}

/* Those that differ from nothing are done. True: something is left to write. */
static bool see_all(struct group *group)
{
	bool is_work = false;

	for (size_t i = 0; i < group->all.count; i++) {
		struct blob_comparison *one = &group->all.items[i];
		if (one->is_done)
			continue;
		blob_notice_observe(group, one);
		if (one->sight != BLOB_UNKNOWN &&
		    blob_comparison_differs(group->kind, one)) {
			is_work = true;
			continue;
		}
		one->is_done = true;
		one->look->row = one->base;
		one->base = (struct origin_row){ 0 };
	}
	return is_work;
}

static size_t blob_notice_count_left(const struct group *group)
{
	size_t left = 0;

	for (size_t i = 0; i < group->all.count; i++)
		left += !group->all.items[i].is_done;
	return left;
}

static void blob_notice_give_up(struct group *group)
{
	for (size_t i = 0; i < group->all.count; i++) {
		struct blob_look *look = group->all.items[i].look;
		if (group->all.items[i].is_done)
			continue;
		err_set(&look->why, ERR_CONFLICT,
			"%.300s: it changes faster than it can be recorded", look->id);
		err_remedy(&look->why, "tried again by itself");
	}
}

static int blob_notice_compare_all(struct group *group, struct err *err)
{
	for (int tries = 0; tries < TRIES && blob_notice_count_left(group) > 0; tries++) {
		if (store_read(group->notice->options.store, read_bases, group, err) != 0)
			return -1;
		if (see_all(group) &&
		    blob_comparisons_commit(group->notice, group->kind, group->root,
					    &group->all, err) != 0)
			return -1;
	}
	blob_notice_give_up(group);
	return 0;
}

/* What cannot be an id is nothing to look for. */
static void add_looks(struct group *group, struct blob_look *looks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct blob_comparison one = { .look = &looks[i] };
		looks[i].is_changed = false;
		looks[i].event_id = 0;
		looks[i].row = (struct origin_row){ 0 };
		looks[i].why = (struct err){ 0 };
		if (blob_id_check(group->kind, looks[i].id, &looks[i].why) == 0)
			vec_add(&group->all, one);
	}
}

static int compare_group(struct blob_notice *notice, const struct blob_kind *kind,
			 struct blob_look *looks, size_t count, struct err *err)
{
	AUTO_CLOSE int root = blob_root_open(kind, err);
	struct group group = { .notice = notice, .kind = kind, .root = root };

	if (root < 0)
		return -1;
	add_looks(&group, looks, count);
	int result = blob_notice_compare_all(&group, err);
	for (size_t i = 0; i < group.all.count; i++)
		origin_row_clear(&group.all.items[i].base);
	vec_clear(&group.all);
	json_decref(group.mounts);
	return result;
}

int blob_notice_compare(struct blob_notice *notice, const struct blob_kind *kind,
			struct blob_look *looks, size_t count, struct err *err)
{
	for (size_t i = 0; i < count; i++)
		looks[i].row = (struct origin_row){ 0 };
	for (size_t at = 0; at < count; at += BLOB_GROUP) {
		size_t some = count - at < BLOB_GROUP ? count - at : BLOB_GROUP;
		if (compare_group(notice, kind, looks + at, some, err) != 0)
			return -1;
	}
	return 0;
}

int blob_notice_compare_one(struct blob_notice *notice, const struct blob_kind *kind,
			    struct blob_look *look, struct err *err)
{
	if (blob_notice_compare(notice, kind, look, 1, err) != 0)
		return -1;
	if (look->why.class == ERR_NONE)
		return 0;
	*err = look->why;
	return -1;
}

static int blob_found_one(void *arg, const char *id, const struct blob_print *print,
			  struct err *err)
{
	(void)id;
	(void)print;
	*(bool *)arg = true;
	return err_set(err, ERR_CANCELED, "one is enough");
}

int blob_has_any(const struct blob_kind *kind, const struct stop *stop, bool *has_any,
		 struct err *err)
{
	const struct blob_visitor visitor = { .file = blob_found_one, .arg = has_any };

	*has_any = false;
	return blob_walk(kind, &visitor, stop, err) == 0 || *has_any ? 0 : -1;
}

int blob_notice_judge_root(struct store *store, const struct blob_kind *kind,
			   struct err *err)
{
	AUTO_CLOSE int fd = blob_root_open(kind, err);
	const struct origin_root root = { store, kind->type, kind->path, fd };
	bool has_any;

	if (fd < 0 || blob_has_any(kind, NULL, &has_any, err) != 0)
		return -1;
	return has_any ? 0 : origin_root_check_known(&root, err);
}
