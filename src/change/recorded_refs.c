/*
 *	<checksum of the refs> <SHA-256 of the lines below, in hex>
 *	ref: refs/heads/main HEAD
 *	<oid> refs/heads/main
 *	ref: refs/heads/main refs/heads/default
 *
 * Not synced: after a crash of the machine the file may be old or torn, which the two
 * digests tell.
 */
#include "change/recorded_refs.h"

#include "base/file.h"
#include "base/hash.h"

#define LIMIT ((size_t)4 << 30)
#define DIGEST_TEXT 64

static char *recorded_refs_make_path(const char *data, uint64_t id)
{
	return xasprintf("%s/refs/%" PRIu64, data, id);
}

static void add_digest(const char *text, size_t len, struct str *out)
{
	AUTO_HASH struct hash hash;
	unsigned char digest[HASH_MAX_SIZE];

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, text, len);
	hash_end(&hash, digest);
	str_add_hex(out, digest, sizeof(digest));
}

static void recorded_refs_add_line(struct str *out, const char *name, const char *target,
				   const struct oid *oid)
{
	if (target) {
		str_add(out, "ref: ");
		str_add(out, target);
	} else {
		oid_add_text(oid, out);
	}
	str_add_char(out, ' ');
	str_add(out, name);
	str_add_char(out, '\n');
}

void recorded_refs_add_lines(const struct ref_snapshot *snapshot, struct str *lines)
{
	recorded_refs_add_line(lines, "HEAD", snapshot->head_target, &snapshot->head_oid);
	for (size_t i = 0; i < snapshot->refs.count; i++) {
		const struct ref *ref = &snapshot->refs.items[i];
		recorded_refs_add_line(lines, ref->name, ref->target, &ref->oid);
	}
}

int recorded_refs_write(const char *data, uint64_t id, const char *checksum,
			const struct ref_snapshot *snapshot, struct err *err)
{
	AUTO_FREE char *path = recorded_refs_make_path(data, id);
	AUTO_STR struct str lines = STR_INIT;
	AUTO_STR struct str text = STR_INIT;

	recorded_refs_add_lines(snapshot, &lines);
	str_reserve(&text, lines.len + 2 * DIGEST_TEXT + 8);
	str_addf(&text, "%s ", checksum);
	add_digest(lines.data, lines.len, &text);
	str_add_char(&text, '\n');
	str_add_bytes(&text, lines.data, lines.len);
	if (dir_make_parents(AT_FDCWD, path, err) != 0)
		return -1;
	return file_replace_private(AT_FDCWD, path, text.data, text.len, FILE_NO_SYNC,
				    err);
}

void recorded_refs_remove(const char *data, uint64_t id)
{
	AUTO_FREE char *path = recorded_refs_make_path(data, id);

	unlink(path);
}

static bool recorded_refs_parse_line(char *line, size_t oid_len, struct ref *ref)
{
	char *space = strrchr(line, ' ');

	*ref = (struct ref){ 0 };
	if (!space)
		return false;
	*space = '\0';
	ref->name = space + 1;
	if (text_starts_with(line, "ref: ")) {
		ref->target = line + 5;
		return true;
	}
	return strlen(line) == 2 * oid_len && oid_parse(line, oid_len, &ref->oid);
}

bool recorded_refs_parse(char *lines, size_t oid_len, struct ref_snapshot *snapshot)
{
	struct ref ref;
	char *end;

	for (char *line = lines; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		*end = '\0';
		if (!recorded_refs_parse_line(line, oid_len, &ref))
			return false;
		if (line != lines) {
			vec_add(&snapshot->refs, ref);
			continue;
		}
		snapshot->head_target = ref.target ? xstrdup(ref.target) : NULL;
		snapshot->head_oid = ref.oid;
	}
	return true;
}

/* The lines, if the file is whole and of that checksum; else NULL. */
static char *find_lines(const struct str *text, const char *checksum)
{
	AUTO_STR struct str first = STR_INIT;
	char *end = strchr(text->data, '\n');

	if (!end)
		return NULL;
	str_addf(&first, "%s ", checksum);
	add_digest(end + 1, text->len - (size_t)(end + 1 - text->data), &first);
	if (first.len != (size_t)(end - text->data) ||
	    memcmp(first.data, text->data, first.len) != 0)
		return NULL;
	return end + 1;
}

bool recorded_refs_read(const char *data, uint64_t id, const char *checksum,
			size_t oid_len, struct ref_snapshot *snapshot)
{
	AUTO_FREE char *path = recorded_refs_make_path(data, id);
	AUTO_STR struct str text = STR_INIT;
	char *lines;

	*snapshot = (struct ref_snapshot)REF_SNAPSHOT_INIT;
	if (file_read(AT_FDCWD, path, LIMIT, &text, ERR_IGNORED) != 0 ||
	    (lines = find_lines(&text, checksum)) == NULL)
		return false;
	vec_add(&snapshot->texts, str_take(&text));
	if (recorded_refs_parse(lines, oid_len, snapshot))
		return true;
	ref_snapshot_clear(snapshot);
	return false;
}
