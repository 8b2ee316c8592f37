/*
 * The refs of one repository: GET /api/v1/repositories/NAME/refs, plain bytes, since ref
 * names need not be UTF-8. Lines of "KEY VALUE" up to an empty one, then the refs.
 */
#include "pull/primary_parse.h"

#include "base/clock.h"
#include "base/json.h"
#include "git/checksum.h"
#include "git/read_settings.h"

#define DESCRIPTION_LIMIT ((size_t)1 << 20)

struct reader {
	struct primary_refs *refs;
	char *at, *end; /* the copy of the body; lines end in NUL once they are read */
	bool has_head, has_generation, has_count;
	uint64_t count;
};

/* NULL: no whole line is left, or it has a NUL. */
static char *primary_refs_next_line(struct reader *reader)
{
	char *line = reader->at;
	char *stop = line < reader->end ? memchr(line, '\n', (size_t)(reader->end - line))
					: NULL;

	if (!stop || memchr(line, '\0', (size_t)(stop - line)))
		return NULL;
	*stop = '\0';
	reader->at = stop + 1;
	return line;
}

/* Git reads no more of a name, and we write none that it would read otherwise. */
static bool is_target(const char *text)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return false;
	return len > 0 && text[0] != ' ' && text[len - 1] != ' ';
}

/* An object's name and nothing behind it but `end`. */
static bool read_oid(const char *text, size_t oid_len, char end, struct oid *oid)
{
	return strnlen(text, 2 * oid_len) == 2 * oid_len && text[2 * oid_len] == end &&
	       oid_parse(text, oid_len, oid) && !oid_is_null(oid);
}

static bool primary_refs_read_head(struct reader *reader, const char *value)
{
	struct ref_snapshot *refs = &reader->refs->refs;

	if (reader->has_head || reader->refs->oid_len == 0)
		return false;
	reader->has_head = true;
	if (!text_starts_with(value, "ref: "))
		return read_oid(value, reader->refs->oid_len, '\0', &refs->head_oid);
	if (!ref_name_is_valid(value + 5))
		return false;
	refs->head_target = xstrdup(value + 5);
	return true;
}

static bool primary_refs_read_format(struct reader *reader, const char *value)
{
	if (reader->refs->oid_len != 0)
		return false;
	reader->refs->oid_len = strcmp(value, "sha1") == 0     ? 20
				: strcmp(value, "sha256") == 0 ? 32
							       : 0;
	return reader->refs->oid_len != 0;
}

static bool read_base64(const char *value, size_t most, struct str *text)
{
	json_auto_t *object = json_object();

	json_object_set_new(object, "text_base64", json_string(value));
	return json_get_bytes(object, "text", text, ERR_IGNORED) == 0 &&
	       text->len <= most;
}

static bool primary_refs_read_description(struct reader *reader, const char *value)
{
	AUTO_STR struct str text = STR_INIT;

	if (reader->refs->description || !read_base64(value, DESCRIPTION_LIMIT, &text))
		return false;
	reader->refs->description = str_take(&text);
	return true;
}

/* Keys that are not for readers go no further. */
static bool primary_refs_read_settings(struct reader *reader, const char *value)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_STR struct str settings = STR_INIT;

	if (reader->refs->settings || !read_base64(value, READ_SETTINGS_MAX, &text) ||
	    read_settings_parse(text.data, text.len, &settings, ERR_IGNORED) != 0)
		return false;
	reader->refs->settings = str_take(&settings);
	return true;
}

static bool read_pushed(struct reader *reader, const char *value)
{
	const char *blank = strchr(value, ' ');
	AUTO_FREE char *settled = blank ? xstrndup(value, (size_t)(blank - value)) : NULL;

	return settled && text_to_uint64(settled, &reader->refs->pushed_settled) &&
	       text_to_uint64(blank + 1, &reader->refs->pushed_announced);
}

static bool read_timeline(struct reader *reader, const char *value)
{
	if (reader->refs->timeline[0] || !primary_is_id(value))
		return false;
	memcpy(reader->refs->timeline, value, TIMELINE_SIZE);
	return true;
}

static bool primary_refs_read_generation(struct reader *reader, const char *value)
{
	if (reader->has_generation || !text_to_uint64(value, &reader->refs->generation))
		return false;
	reader->has_generation = true;
	return reader->refs->generation > 0 && reader->refs->generation <= INT64_MAX;
}

static bool read_checksum(struct reader *reader, const char *value)
{
	struct checksum sum;

	if (reader->refs->checksum[0] || !checksum_parse(value, &sum))
		return false;
	snprintf(reader->refs->checksum, sizeof(reader->refs->checksum), "%s", value);
	return true;
}

static bool read_changed_at(struct reader *reader, const char *value)
{
	return reader->refs->changed_at == 0 &&
	       clock_parse(value, &reader->refs->changed_at);
}

static bool primary_refs_read_count(struct reader *reader, const char *value)
{
	if (reader->has_count)
		return false;
	reader->has_count = true;
	return text_to_uint64(value, &reader->count);
}

static const struct {
	const char *key;
	bool (*read)(struct reader *reader, const char *value);
} members[] = {
	{ "timeline ", read_timeline },
	{ "generation ", primary_refs_read_generation },
	{ "checksum ", read_checksum },
	{ "changed-at ", read_changed_at },
	{ "object-format ", primary_refs_read_format },
	{ "head ", primary_refs_read_head },
	{ "description ", primary_refs_read_description },
	{ "settings ", primary_refs_read_settings },
	{ "pushed-deletions ", read_pushed },
	{ "refs ", primary_refs_read_count },
};

/* Others are a later version's. */
static int primary_refs_read_member(struct reader *reader, const char *line,
				    struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		if (!text_starts_with(line, members[i].key))
			continue;
		if (members[i].read(reader, line + strlen(members[i].key)))
			return 0;
		return primary_lied(err, "the refs have a wrong line \"%.100s\"", line);
	}
	return 0;
}

static int read_members(struct reader *reader, struct err *err)
{
	const char *line = primary_refs_next_line(reader);

	if (!line || strcmp(line, "refrelay-refs 1") != 0)
		return primary_lied(err, "these are no refs in a form that is known");
	while ((line = primary_refs_next_line(reader)) != NULL && line[0])
		if (primary_refs_read_member(reader, line, err) != 0)
			return -1;
	if (!line)
		return primary_lied(err, "the refs are cut off");
	if (!reader->refs->timeline[0] || !reader->has_generation ||
	    !reader->refs->checksum[0] || !reader->has_head || !reader->has_count)
		return primary_lied(err, "the refs lack one of timeline, generation, "
					 "checksum, head and refs");
	return 0;
}

/* "ref: <target> <name>"; the target may have blanks, the name has none. */
static bool read_symbolic(char *line, struct ref *ref)
{
	char *space = strrchr(line + 5, ' ');

	if (!space)
		return false;
	*space = '\0';
	ref->target = line + 5;
	ref->name = space + 1;
	return is_target(ref->target);
}

/* "<oid> <name>" or "<oid> <name> <peeled oid>". */
static bool read_direct(char *line, size_t oid_len, struct ref *ref)
{
	char *space;

	if (!read_oid(line, oid_len, ' ', &ref->oid))
		return false;
	ref->name = line + 2 * oid_len + 1;
	space = strchr(line + 2 * oid_len + 1, ' ');
	if (!space)
		return true;
	*space = '\0';
	ref->peel = REF_PEEL_TAG;
	return read_oid(space + 1, oid_len, '\0', &ref->peeled);
}

static int primary_refs_read_ref(struct reader *reader, char *line, struct err *err)
{
	struct ref_snapshot *refs = &reader->refs->refs;
	struct ref ref = { 0 };
	bool is_right = text_starts_with(line, "ref: ")
				? read_symbolic(line, &ref)
				: read_direct(line, reader->refs->oid_len, &ref);

	if (!is_right || !ref_name_is_valid(ref.name))
		return primary_lied(err, "line %zu of the refs is wrong: \"%.150s\"",
				    refs->refs.count + 1, line);
	if (refs->refs.count > 0 &&
	    strcmp(refs->refs.items[refs->refs.count - 1].name, ref.name) >= 0)
		return primary_lied(err, "%.200s is not in the order of refs", ref.name);
	vec_add(&refs->refs, ref);
	return 0;
}

static int primary_refs_read_refs(struct reader *reader, struct err *err)
{
	const struct ref_snapshot *refs = &reader->refs->refs;
	char *line;

	while (refs->refs.count < reader->count) {
		line = primary_refs_next_line(reader);
		if (!line)
			return primary_lied(err, "the refs are cut off: %zu of %" PRIu64,
					    refs->refs.count, reader->count);
		if (primary_refs_read_ref(reader, line, err) != 0)
			return -1;
	}
	if (reader->at != reader->end)
		return primary_lied(err, "more refs than were announced");
	return 0;
}

static int check_sum(const struct primary_refs *refs, struct err *err)
{
	struct checksum sum;
	char text[CHECKSUM_TEXT_SIZE];

	checksum_of(&refs->refs, &sum);
	checksum_format(&sum, text);
	if (strcmp(text, refs->checksum) == 0)
		return 0;
	return primary_lied(err, "the refs' checksum is %s, it says %s", text,
			    refs->checksum);
}

int primary_parse_refs(const struct str *body, struct primary_refs *refs, struct err *err)
{
	char *text = xmalloc(body->len + 1);
	struct reader reader = { .refs = refs, .at = text, .end = text + body->len };

	memcpy(text, body->data, body->len + 1);
	*refs = (struct primary_refs){ 0 };
	vec_add(&refs->refs.texts, text); /* names and targets point into it */
	if (read_members(&reader, err) == 0 &&
	    primary_refs_read_refs(&reader, err) == 0 && check_sum(refs, err) == 0)
		return 0;
	primary_refs_clear(refs);
	return -1;
}

void primary_refs_clear(struct primary_refs *refs)
{
	ref_snapshot_clear(&refs->refs);
	free(refs->description);
	free(refs->settings);
	*refs = (struct primary_refs){ 0 };
}
