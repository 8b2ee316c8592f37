#include "pull/kinds.h"

#include "base/file.h"
#include "change/origin_kind.h"
#include "pull/copy_kind.h"
#include "pull/mirror_job.h"
#include "verify/verify_origin.h"

static void kinds_add_repositories(struct kinds_here *here)
{
	struct kind kind = kind_of_repositories(here->root);

	kind.origin = &repository_origin_ops;
	kind.verify = &repository_verify_ops;
	kind.copies = &repository_copy_ops;
	if (here->root)
		vec_add(&here->all, kind);
}

static void kinds_add_blobs(struct kinds_here *here)
{
	for (size_t i = 0; i < here->blobs.items.count; i++) {
		struct kind kind = kind_of_blobs(&here->blobs.items.items[i]);
		kind.origin = &blob_origin_ops;
		kind.verify = &blob_verify_ops;
		kind.copies = &blob_copy_ops;
		vec_add(&here->all, kind);
	}
}

/* The same as in the table of the site, whose other keys are no business of kinds. */
static int kinds_read_root(const struct conf *conf, struct kinds_here *here,
			   struct err *err)
{
	static const struct setting rows[] = {
		{ "repositories", SETTING_AT(PATH, struct kinds_here, root) }, { 0 }
	};
	static const struct setting_table table = { .section = "site", .rows = rows };

	return settings_read(&table, conf, NULL, here, err);
}

static int kinds_read_blobs(const struct conf *conf, struct kinds_here *here,
			    struct err *err)
{
	return blob_kinds_read(conf, &here->blobs, err);
}

/* A site that stands alone keeps objects of Git LFS: they come with pushes and mirrors.
 * Other blobs are there to be copied, and it has no copies. */
static bool kinds_are_all_kept(const struct conf *conf)
{
	const struct conf_entry *role = conf_get(conf, "site", NULL, "role");

	return !role || !role->value || strcasecmp(role->value, "standalone") != 0;
}

static void kinds_drop_others(struct kinds_here *here)
{
	size_t kept = 0;

	for (size_t i = 0; i < here->all.count; i++) {
		const struct kind kind = here->all.items[i];
		if (!kind.blobs || kind_layout(&kind) == BLOB_LFS)
			here->all.items[kept++] = kind;
	}
	here->all.count = kept;
}

static const struct kinds_row {
	/* What the configuration says of it, into *here; then what is there becomes
	 * kinds, with their parts. */
	int (*read)(const struct conf *conf, struct kinds_here *here, struct err *err);
	void (*add)(struct kinds_here *here);
} rows[] = {
	{ kinds_read_root, kinds_add_repositories },
	{ kinds_read_blobs, kinds_add_blobs },
};

static int kinds_check_apart(const struct kind *kind, const char *key, const char *path,
			     struct err *err)
{
	AUTO_FREE char *own = kind_key(kind);

	return paths_check_apart(own, kind->path, key, path, err);
}

/* A file would be of two kinds, a deletion of one would meet the other, or the database
 * would be a replicable. */
static int kinds_check_place(const struct kinds_here *here, const struct kind *kind,
			     const char *data, struct err *err)
{
	const struct kind *before = NULL;

	if (!kind->path)
		return 0;
	while ((before = kinds_next(here, before)) != kind) {
		AUTO_FREE char *key = kind_key(before);
		if (before->path && kinds_check_apart(kind, key, before->path, err) != 0)
			return -1;
	}
	return data && !kind_is_repository(kind->type)
		       ? kinds_check_apart(kind, "site.data", data, err)
		       : 0;
}

int kinds_check_places(const struct conf *conf, const struct kinds_here *here,
		       struct err *err)
{
	const struct conf_entry *entry = conf_get(conf, "site", NULL, "data");
	const char *data =
		entry && entry->value && entry->value[0] == '/' ? entry->value : NULL;
	const struct kind *kind = NULL;

	while ((kind = kinds_next(here, kind)) != NULL)
		if (kinds_check_place(here, kind, data, err) != 0)
			return -1;
	return 0;
}

void kinds_fill(struct kinds_here *here, const char *root)
{
	if (root)
		here->root = xstrdup(root);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		rows[i].add(here);
}

void kinds_fill_mirrors(struct kinds_here *here, const char *root)
{
	struct kind kind;

	here->root = xstrdup(root);
	kind = kind_of_mirrors(here->root);
	kind.copies = &mirror_copy_ops;
	vec_add(&here->all, kind);
}

const struct kind *kinds_next_copied(const struct kinds_here *here,
				     const struct kind *before)
{
	const struct kind *next = kinds_next(here, before);

	while (next && !next->copies)
		next = kinds_next(here, next);
	return next;
}

int kinds_read(const struct conf *conf, struct kinds_here *here, struct err *err)
{
	*here = (struct kinds_here){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].read(conf, here, err) != 0)
			return -1;
	kinds_fill(here, NULL);
	if (!kinds_are_all_kept(conf))
		kinds_drop_others(here);
	return kinds_check_places(conf, here, err);
}

void kinds_clear(struct kinds_here *here)
{
	free(here->root);
	blob_kinds_clear(&here->blobs);
	vec_clear(&here->all);
	*here = (struct kinds_here){ 0 };
}
