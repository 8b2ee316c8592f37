/*
 * packed-refs:
 *	# pack-refs with: peeled fully-peeled sorted
 *	<oid> SP <name> LF
 *	^<oid> LF			what the tag above finally names
 *
 * Without "fully-peeled" a missing ^ line says nothing; without "sorted" neither does
 * the order.
 */
#include "git/refs.h"

struct reader {
	struct ref_snapshot *snapshot;
	size_t oid_len;
	bool fully_peeled;
	size_t line; /* counts from 1 */
};

static int ref_packed_fail_damaged(const struct reader *reader, struct err *err)
{
	err_set(err, ERR_CORRUPT, "packed-refs is damaged at line %zu", reader->line);
	return err_remedy(err, "restore packed-refs from a backup, or mend that line by "
			       "hand while nobody writes the repository");
}

static int ref_packed_read_peeled(struct reader *reader, const char *text, size_t len,
				  struct err *err)
{
	struct ref_snapshot *snapshot = reader->snapshot;

	if (snapshot->refs.count == 0 || len != 1 + 2 * reader->oid_len)
		return ref_packed_fail_damaged(reader, err);
	struct ref *ref = &snapshot->refs.items[snapshot->refs.count - 1];
	if (!oid_parse(text + 1, reader->oid_len, &ref->peeled))
		return ref_packed_fail_damaged(reader, err);
	ref->peel = REF_PEEL_TAG;
	return 0;
}

/* A line's LF was replaced by a NUL, so the name ends where it should. */
static int ref_packed_read_ref(struct reader *reader, const char *text, size_t len,
			       struct err *err)
{
	size_t digits = 2 * reader->oid_len;
	struct ref ref = { .peel = reader->fully_peeled ? REF_PEEL_SELF
							: REF_PEEL_UNKNOWN };

	if (len < digits + 2 || text[digits] != ' ' || strlen(text) != len ||
	    !oid_parse(text, reader->oid_len, &ref.oid) || oid_is_null(&ref.oid))
		return ref_packed_fail_damaged(reader, err);
	ref.name = text + digits + 1;
	vec_add(&reader->snapshot->refs, ref);
	return 0;
}

static int ref_packed_read_line(struct reader *reader, const char *text, size_t len,
				struct err *err)
{
	if (text[0] == '#') {
		if (strstr(text, " fully-peeled"))
			reader->fully_peeled = true;
		return 0;
	}
	if (text[0] == '^')
		return ref_packed_read_peeled(reader, text, len, err);
	return ref_packed_read_ref(reader, text, len, err);
}

static int ref_packed_compare_names(const void *a, const void *b)
{
	return strcmp(((const struct ref *)a)->name, ((const struct ref *)b)->name);
}

/* Sorts if need be, drops names that git would not take, refuses doubles. */
static int ref_packed_tidy(struct reader *reader, struct err *err)
{
	struct ref_snapshot *snapshot = reader->snapshot;
	size_t kept = 0;

	for (size_t i = 1; i < snapshot->refs.count; i++) {
		if (strcmp(snapshot->refs.items[i - 1].name,
			   snapshot->refs.items[i].name) > 0) {
			vec_sort(&snapshot->refs, ref_packed_compare_names);
			break;
		}
	}
	for (size_t i = 0; i < snapshot->refs.count; i++) {
		struct ref *ref = &snapshot->refs.items[i];
		if (!ref_name_is_valid(ref->name))
			continue;
		if (kept > 0 &&
		    strcmp(snapshot->refs.items[kept - 1].name, ref->name) == 0)
			return err_set(err, ERR_CORRUPT, "packed-refs names %s twice",
				       ref->name);
		snapshot->refs.items[kept++] = *ref;
	}
	snapshot->refs.count = kept;
	return 0;
}

int ref_parse_packed(struct ref_snapshot *snapshot, char *text, size_t len,
		     size_t oid_len, struct err *err)
{
	struct reader reader = { .snapshot = snapshot, .oid_len = oid_len };
	char *end = text + len;

	vec_add(&snapshot->texts, text);
	while (text < end) {
		char *stop = memchr(text, '\n', (size_t)(end - text));
		reader.line++;
		if (!stop)
			return ref_packed_fail_damaged(&reader, err); /* cut short */
		*stop = '\0';
		if (ref_packed_read_line(&reader, text, (size_t)(stop - text), err) != 0)
			return -1;
		text = stop + 1;
	}
	return ref_packed_tidy(&reader, err);
}

static bool is_fully_peeled(const struct ref_snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->refs.count; i++) {
		const struct ref *ref = &snapshot->refs.items[i];
		if (!ref->target && ref->peel == REF_PEEL_UNKNOWN)
			return false;
	}
	return true;
}

void ref_write_packed(const struct ref_snapshot *snapshot, struct str *out)
{
	str_reserve(out, 64 + 80 * snapshot->refs.count);
	str_add(out, is_fully_peeled(snapshot)
			     ? "# pack-refs with: peeled fully-peeled sorted \n"
			     : "# pack-refs with: sorted \n");
	for (size_t i = 0; i < snapshot->refs.count; i++) {
		const struct ref *ref = &snapshot->refs.items[i];
		if (ref->target)
			continue;
		oid_add_text(&ref->oid, out);
		str_add_char(out, ' ');
		str_add(out, ref->name);
		str_add_char(out, '\n');
		if (ref->peel == REF_PEEL_TAG) {
			str_add_char(out, '^');
			oid_add_text(&ref->peeled, out);
			str_add_char(out, '\n');
		}
	}
}
