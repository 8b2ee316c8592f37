/*
 * What Gitaly and grokmirror compute, defects included: both ignore where HEAD points
 * when two branches have the same tip, Gitaly also all but six namespaces.
 *
 * Source: gitaly internal/git/checksum.go; grokmirror's manifest format.
 */
#include "base/hash.h"
#include "git/checksum.h"

/* Gitaly looks for these anywhere in a line, not only where a name starts. */
static bool gitaly_counts(const char *line)
{
	static const char *const parts[] = {
		"HEAD",
		"refs/heads/",
		"refs/tags/",
		"refs/keep-around/",
		"refs/merge-requests/",
		"refs/environments/",
		"refs/notes/",
	};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (strstr(line, parts[i]))
			return true;
	return false;
}

static void line_of(const struct oid *oid, const char *name, struct str *line)
{
	str_reset(line);
	oid_add_text(oid, line);
	str_add_char(line, ' ');
	str_add(line, name);
}

static void xor_line(struct hash *sha1, const struct str *line, unsigned char sum[20])
{
	unsigned char digest[20];

	if (!gitaly_counts(line->data))
		return;
	hash_add(sha1, line->data, line->len);
	hash_end(sha1, digest);
	for (size_t i = 0; i < 20; i++)
		sum[i] ^= digest[i];
}

/* As a big integer is printed: no leading zero bytes, but zero is 40 digits. */
static void format_integer(const unsigned char sum[20], char text[41])
{
	size_t start = 0;

	while (start < 20 && sum[start] == 0)
		start++;
	if (start == 20)
		start = 0;
	for (size_t i = start; i < 20; i++, text += 2)
		snprintf(text, 3, "%02x", sum[i]);
}

void checksum_gitaly(const struct ref_snapshot *snapshot, char text[41])
{
	AUTO_STR struct str line = STR_INIT;
	AUTO_HASH struct hash sha1;
	unsigned char sum[20] = { 0 };
	struct oid head;

	hash_init(&sha1, HASH_SHA1);
	if (ref_snapshot_head(snapshot, &head)) {
		line_of(&head, "HEAD", &line);
		xor_line(&sha1, &line, sum);
	}
	for (size_t i = 0; i < snapshot->refs.count; i++) {
		const char *name = snapshot->refs.items[i].name;
		const struct ref *ref = ref_snapshot_resolve(snapshot, name);
		if (ref) {
			line_of(&ref->oid, name, &line);
			xor_line(&sha1, &line, sum);
		}
	}
	format_integer(sum, text);
}

void checksum_grokmirror(const struct ref_snapshot *snapshot, char text[41])
{
	AUTO_STR struct str line = STR_INIT;
	AUTO_HASH struct hash sha1;
	unsigned char digest[20];

	hash_init(&sha1, HASH_SHA1);
	for (size_t i = 0; i < snapshot->refs.count; i++) {
		const char *name = snapshot->refs.items[i].name;
		const struct ref *ref = ref_snapshot_resolve(snapshot, name);
		if (ref) {
			line_of(&ref->oid, name, &line);
			str_add_char(&line, '\n');
			hash_add(&sha1, line.data, line.len);
		}
	}
	hash_end(&sha1, digest);
	for (size_t i = 0; i < 20; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
}
