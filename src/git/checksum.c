#include "git/checksum.h"

#include "base/hash.h"
#include "git/packed_refs.h"

/*
 * What Gitaly and grokmirror compute, defects included: both ignore where HEAD points
 * when two branches have the same tip, Gitaly also all but six namespaces.
 *
 * Source: gitaly internal/git/checksum.go; grokmirror's manifest format.
 */

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

#define VERSION "1-"

struct adder {
	struct hash hash;
	struct str line;
};

static void adder_init(struct adder *adder)
{
	hash_init(&adder->hash, HASH_SHA256);
	adder->line = (struct str)STR_INIT;
}

static void adder_clear(struct adder *adder)
{
	hash_clear(&adder->hash);
	str_clear(&adder->line);
}

static void checksum_digest_line(struct adder *adder, const char *name,
				 const char *target, const struct oid *oid,
				 unsigned char digest[32])
{
	struct str *line = &adder->line;

	str_reset(line);
	str_add(line, "refrelay-1 ");
	if (target) {
		str_add(line, "ref: ");
		str_add(line, target);
	} else {
		oid_add_text(oid, line);
	}
	str_add_char(line, ' ');
	str_add(line, name);
	str_add_char(line, '\n');
	hash_add(&adder->hash, line->data, line->len);
	hash_end(&adder->hash, digest);
}

static void checksum_add_digest(struct checksum *sum, const unsigned char digest[32])
{
	unsigned carry = 0;

	for (size_t i = 0; i < 32; i++) {
		carry += (unsigned)sum->sum[i] + digest[i];
		sum->sum[i] = (unsigned char)carry;
		carry >>= 8;
	}
}

static void checksum_add_line(struct adder *adder, struct checksum *sum, const char *name,
			      const char *target, const struct oid *oid)
{
	unsigned char digest[32];

	checksum_digest_line(adder, name, target, oid, digest);
	checksum_add_digest(sum, digest);
}

static void checksum_add_refs(struct adder *adder, const struct ref_snapshot *snapshot,
			      struct checksum *sum)
{
	checksum_add_line(adder, sum, "HEAD", snapshot->head_target, &snapshot->head_oid);
	for (size_t i = 0; i < snapshot->refs.count; i++) {
		const struct ref *ref = &snapshot->refs.items[i];
		checksum_add_line(adder, sum, ref->name, ref->target, &ref->oid);
	}
}

static void checksum_add_cuts(struct adder *adder, const struct ref_snapshot *snapshot,
			      struct checksum *sum)
{
	for (size_t i = 0; i < snapshot->cuts.count; i++)
		checksum_add_line(adder, sum, "shallow", NULL, &snapshot->cuts.items[i]);
}

/* By what differs from packed-refs, whose own sum is known. */
static bool checksum_of_packed(const struct ref_snapshot *snapshot, struct checksum *sum)
{
	AUTO_DIFF struct ref_diff diff = { 0 };

	if (!snapshot->packed || !packed_refs_sum(snapshot->packed, sum))
		return false;
	ref_diff_compute(packed_refs_of(snapshot->packed), snapshot, &diff);
	checksum_apply(sum, packed_refs_of(snapshot->packed), snapshot, &diff);
	return true;
}

static void checksum_compute(const struct ref_snapshot *snapshot, bool with_cuts,
			     struct checksum *sum)
{
	struct adder adder;

	adder_init(&adder);
	if (!checksum_of_packed(snapshot, sum)) {
		*sum = (struct checksum){ 0 };
		checksum_add_refs(&adder, snapshot, sum);
	}
	if (with_cuts)
		checksum_add_cuts(&adder, snapshot, sum);
	adder_clear(&adder);
}

void checksum_of(const struct ref_snapshot *snapshot, struct checksum *sum)
{
	checksum_compute(snapshot, true, sum);
}

void checksum_of_refs(const struct ref_snapshot *snapshot, struct checksum *sum)
{
	checksum_compute(snapshot, false, sum);
}

static void checksum_digest(const char *name, const char *target, const struct oid *oid,
			    unsigned char digest[32])
{
	struct adder adder;

	adder_init(&adder);
	checksum_digest_line(&adder, name, target, oid, digest);
	adder_clear(&adder);
}

void checksum_put(struct checksum *sum, const char *name, const char *target,
		  const struct oid *oid)
{
	unsigned char digest[32];

	checksum_digest(name, target, oid, digest);
	checksum_add_digest(sum, digest);
}

void checksum_take(struct checksum *sum, const char *name, const char *target,
		   const struct oid *oid)
{
	unsigned char digest[32];
	unsigned borrow = 0;

	checksum_digest(name, target, oid, digest);
	for (size_t i = 0; i < 32; i++) {
		unsigned low = (unsigned)sum->sum[i] - digest[i] - borrow;
		sum->sum[i] = (unsigned char)low;
		borrow = low > UINT8_MAX;
	}
}

void checksum_apply(struct checksum *sum, const struct ref_snapshot *before,
		    const struct ref_snapshot *after, const struct ref_diff *diff)
{
	if (diff->head_changed) {
		checksum_take(sum, "HEAD", before->head_target, &before->head_oid);
		checksum_put(sum, "HEAD", after->head_target, &after->head_oid);
	}
	for (size_t i = 0; i < diff->changes.count; i++) {
		const struct ref_change *change = &diff->changes.items[i];
		const struct ref *old = change->before, *new = change->after;
		if (old)
			checksum_take(sum, old->name, old->target, &old->oid);
		if (new)
			checksum_put(sum, new->name, new->target, &new->oid);
	}
}

bool checksum_equal(const struct checksum *a, const struct checksum *b)
{
	return memcmp(a->sum, b->sum, sizeof(a->sum)) == 0;
}

void checksum_format(const struct checksum *sum, char text[CHECKSUM_TEXT_SIZE])
{
	int at = snprintf(text, CHECKSUM_TEXT_SIZE, VERSION);

	for (size_t i = 32; i-- > 0; at += 2)
		snprintf(text + at, (size_t)(CHECKSUM_TEXT_SIZE - at), "%02x",
			 sum->sum[i]);
}

bool checksum_parse(const char *text, struct checksum *sum)
{
	unsigned char big_endian[32];

	if (!text_starts_with(text, VERSION) || strlen(text) != CHECKSUM_TEXT_SIZE - 1 ||
	    !text_from_hex(text + strlen(VERSION), big_endian, 32))
		return false;
	for (size_t i = 0; i < 32; i++)
		sum->sum[i] = big_endian[31 - i];
	return true;
}
