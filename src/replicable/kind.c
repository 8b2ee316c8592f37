#include "replicable/kind.h"

#include "replicable/name.h"

static int kind_check_repository(const struct kind *kind, const char *name,
				 struct err *err)
{
	(void)kind;
	return name_check(name, err);
}

static int kind_check_blob(const struct kind *kind, const char *name, struct err *err)
{
	return blob_id_check(kind->blobs, name, err);
}

struct kind kind_of_repositories(const char *path)
{
	return (struct kind){ .type = KIND_REPOSITORY,
			      .key = "site.repositories",
			      .path = path,
			      .check_name = kind_check_repository };
}

struct kind kind_of_mirrors(const char *path)
{
	struct kind kind = kind_of_repositories(path);

	kind.type = KIND_MIRROR;
	return kind;
}

struct kind kind_of_blobs(const struct blob_kind *blobs)
{
	return (struct kind){ .type = blobs->type,
			      .path = blobs->path,
			      .blobs = blobs,
			      .check_name = kind_check_blob };
}

bool kind_is_repository(const char *type)
{
	return strcmp(type, KIND_REPOSITORY) == 0 || strcmp(type, KIND_MIRROR) == 0;
}

char *kind_key(const struct kind *kind)
{
	return kind->key ? xstrdup(kind->key) : xasprintf("blob.%s.path", kind->type);
}

enum blob_layout kind_layout(const struct kind *kind)
{
	return kind->blobs ? kind->blobs->layout : BLOB_PLAIN;
}

const char *kind_noun(const char *type)
{
	return kind_is_repository(type) ? "repository" : "blob";
}

const struct kind *kinds_next(const struct kinds_here *here, const struct kind *before)
{
	if (!here || here->all.count == 0)
		return NULL;
	const struct kind *next = before ? before + 1 : here->all.items;
	return next < here->all.items + here->all.count ? next : NULL;
}

const struct kind *kinds_find(const struct kinds_here *here, const char *type)
{
	const struct kind *kind = NULL;

	while ((kind = kinds_next(here, kind)) != NULL)
		if (strcmp(kind->type, type) == 0)
			return kind;
	return NULL;
}

const struct kind *kinds_find_lfs(const struct kinds_here *here)
{
	const struct kind *kind = NULL;

	while ((kind = kinds_next(here, kind)) != NULL)
		if (kind_layout(kind) == BLOB_LFS)
			return kind;
	return NULL;
}
