#include "blob/kinds.h"

#include "base/file.h"
#include "base/hash.h"

#define TYPE_LIMIT 32
#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789"

static const struct setting rows[] = {
	{ "path", SETTING_AT(PATH, struct blob_kind, path), .is_required = true,
	  .at_start = true },
	{ "layout", SETTING_AT(CHOICE, struct blob_kind, layout), "plain",
	  .words = (const char *const[]){ "plain", "lfs", NULL }, .at_start = true },
	{ 0 },
};

const struct setting_table blob_settings_table = {
	.section = "blob", .rows = rows, .has_subsection = true, .needs_keys = true
};

void blob_kinds_clear(struct blob_kinds *kinds)
{
	for (size_t i = 0; i < kinds->items.count; i++) {
		free(kinds->items.items[i].type);
		free(kinds->items.items[i].path);
	}
	vec_clear(&kinds->items);
}

void blob_kinds_add(struct blob_kinds *kinds, const struct blob_kind *kind)
{
	vec_add(&kinds->items, ((struct blob_kind){ .type = xstrdup(kind->type),
						    .path = xstrdup(kind->path),
						    .layout = kind->layout }));
}

const struct blob_kind *blob_kinds_find(const struct blob_kinds *kinds, const char *type)
{
	for (size_t i = 0; i < kinds->items.count; i++)
		if (strcmp(kinds->items.items[i].type, type) == 0)
			return &kinds->items.items[i];
	return NULL;
}

bool blob_type_is_valid(const char *type)
{
	size_t len = strlen(type);

	return len >= 1 && len <= TYPE_LIMIT && strspn(type, LOWER "-_") == len &&
	       strspn(type, LOWER) > 0 && strcmp(type, "repository") != 0 &&
	       strcmp(type, "mirror") != 0 && strcmp(type, "site") != 0;
}

/* Some entry of the section exists, or it would not be among the subsections. */
static const struct conf_entry *any_entry(const struct conf *conf, const char *type)
{
	const struct conf_list *all = conf_entries(conf);
	size_t i = 0;

	while (strcasecmp(all->items[i]->section, "blob") != 0 ||
	       !all->items[i]->subsection || strcmp(all->items[i]->subsection, type) != 0)
		i++;
	return all->items[i];
}

static int check_type(const struct conf *conf, const char *type, struct err *err)
{
	if (blob_type_is_valid(type))
		return 0;
	conf_error(any_entry(conf, type), err, "\"%s\" cannot be a type of blobs", type);
	return err_remedy(err, "use up to 32 of a-z, 0-9, \"-\" and \"_\", a letter or "
			       "digit first; not \"repository\", \"mirror\" or \"site\"");
}

static int read_kind(const struct conf *conf, const char *type, struct blob_kinds *kinds,
		     struct err *err)
{
	struct blob_kind kind = { 0 };

	if (check_type(conf, type, err) == 0 &&
	    settings_read(&blob_settings_table, conf, type, &kind, err) == 0) {
		kind.type = xstrdup(type);
		vec_add(&kinds->items, kind);
		return 0;
	}
	settings_clear(&blob_settings_table, &kind);
	return -1;
}

ORDER_BY_TEXT(blob_kinds_compare_types, struct blob_kind, type);

/* Clients of LFS name no kind: there is one place for objects. */
static int check_layouts(const struct blob_kinds *kinds, struct err *err)
{
	const struct blob_kind *first = NULL;

	for (size_t i = 0; i < kinds->items.count; i++) {
		const struct blob_kind *kind = &kinds->items.items[i];
		if (kind->layout != BLOB_LFS)
			continue;
		if (first) {
			err_set(err, ERR_CONFIG,
				"blob.%s and blob.%s both have the layout lfs",
				first->type, kind->type);
			return err_remedy(err, "keep the objects of all repositories in "
					       "one of them");
		}
		first = kind;
	}
	return 0;
}

int blob_kinds_read(const struct conf *conf, struct blob_kinds *kinds, struct err *err)
{
	struct conf_names types = { 0 };
	int result = 0;

	*kinds = (struct blob_kinds){ 0 };
	conf_subsections(conf, "blob", &types);
	for (size_t i = 0; i < types.count && result == 0; i++)
		result = read_kind(conf, types.items[i], kinds, err);
	vec_clear(&types);
	vec_sort(&kinds->items, blob_kinds_compare_types);
	if (result == 0 && check_layouts(kinds, err) == 0)
		return 0;
	blob_kinds_clear(kinds);
	return -1;
}

static int blob_kinds_refuse_id(const struct blob_kind *kind, const char *id,
				const char *why, struct err *err)
{
	err_set(err, ERR_CONFIG, "%s: not an id of a blob of type %s: %s", id, kind->type,
		why);
	return err_remedy(err, "rename it");
}

static bool has_own_part(const char *id)
{
	for (const char *part = id; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (text_starts_with(part, OWN_FOLDER))
			return true;
	}
	return false;
}

static bool is_lost_and_found(const char *id)
{
	size_t len = strlen(BLOB_LOST_AND_FOUND);

	return text_starts_with(id, BLOB_LOST_AND_FOUND) &&
	       (id[len] == '/' || id[len] == '\0');
}

/* aa/bb/, and then 60 digits more, or all 64 of them. */
static bool read_lfs_id(const char *id, char digest[BLOB_DIGEST_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	const char *rest = id + 6;
	size_t len = strlen(id);

	if (len < 66 || strspn(id, digits) != 2 || id[2] != '/' ||
	    strspn(id + 3, digits) != 2 || id[5] != '/' ||
	    strspn(rest, digits) != len - 6)
		return false;
	snprintf(digest, BLOB_DIGEST_SIZE, "%.2s%.2s%.60s", id, id + 3,
		 len == 66 ? rest : rest + 4);
	return len == 66 || (len == 70 && memcmp(digest, rest, 4) == 0);
}

int blob_id_check(const struct blob_kind *kind, const char *id, struct err *err)
{
	const char *fault = path_fault(id);
	char digest[BLOB_DIGEST_SIZE];

	if (fault)
		return blob_kinds_refuse_id(kind, id, fault, err);
	if (has_own_part(id))
		return blob_kinds_refuse_id(
			kind, id,
			"names that begin with " OWN_FOLDER " are refrelay's own", err);
	if (is_lost_and_found(id))
		return blob_kinds_refuse_id(
			kind, id,
			"what is in " BLOB_LOST_AND_FOUND " is the file system's", err);
	if (kind->layout == BLOB_LFS && !read_lfs_id(id, digest))
		return blob_kinds_refuse_id(
			kind, id, "it is not aa/bb/REST of a SHA-256 in small letters",
			err);
	return 0;
}

bool blob_id_digest(const struct blob_kind *kind, const char *id,
		    char digest[BLOB_DIGEST_SIZE])
{
	return kind->layout == BLOB_LFS && read_lfs_id(id, digest);
}

void blob_lfs_id(const char digest[BLOB_DIGEST_SIZE], char id[BLOB_DIGEST_SIZE + 2])
{
	snprintf(id, BLOB_DIGEST_SIZE + 2, "%.2s/%.2s/%.60s", digest, digest + 2,
		 digest + 4);
}
