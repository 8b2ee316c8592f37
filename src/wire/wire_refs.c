#include "wire/wire_refs.h"

#include <assert.h>

#include <openssl/evp.h>

#include "base/clock.h"
#include "git/read_settings.h"
#include "replicable/name.h"

#define DESCRIPTION_LIMIT ((size_t)1 << 20)

/* The first line, and the keys of those behind it. */
#define FORM "refrelay-refs 1"
#define FORM_DELTA "refrelay-delta 1"
#define TIMELINE "timeline "
#define LOG "log "
#define GENERATION "generation "
#define CHECKSUM "checksum "
#define CHANGED_AT "changed-at "
#define OBJECT_FORMAT "object-format "
#define HEAD "head "
#define DESCRIPTION "description "
#define PUSHED_DELETIONS "pushed-deletions "
#define PACK_BYTES "pack-bytes "
#define LENDERS "lenders "
#define LENDERS_LIMIT ((size_t)64 << 10)
#define SETTINGS "settings "
#define SHALLOW "shallow"
#define REFS "refs "
#define PACK "pack "
#define GONE "- " /* in place of what a ref names */

#define SYMBOLIC "ref: "
#define SHA1 "sha1"
#define SHA256 "sha256"

void wire_refs_clear(struct wire_refs *refs)
{
	ref_snapshot_clear(&refs->refs);
	free(refs->description);
	free(refs->settings);
	text_list_clear(&refs->lenders);
	*refs = (struct wire_refs){ 0 };
}

static void wire_refs_add_base64(struct str *out, const char *key, const char *text)
{
	size_t len = strlen(text);

	assert(len < INT32_MAX / 2);
	str_add(out, key);
	str_reserve(out, (len + 2) / 3 * 4);
	out->len += (size_t)EVP_EncodeBlock((unsigned char *)out->data + out->len,
					    (const unsigned char *)text, (int)len);
	str_add_char(out, '\n');
}

/* Lines, since names have no line feeds. */
static void wire_refs_add_lenders(struct str *out, const text_list *lenders)
{
	AUTO_STR struct str names = STR_INIT;

	for (size_t i = 0; i < lenders->count; i++)
		str_addf(&names, "%s\n", lenders->items[i]);
	if (names.len > 0 && names.len <= LENDERS_LIMIT)
		wire_refs_add_base64(out, LENDERS, names.data);
}

static void wire_refs_add_ref(struct str *out, const struct ref *ref)
{
	if (ref->target) {
		str_addf(out, SYMBOLIC "%s %s\n", ref->target, ref->name);
		return;
	}
	oid_add_text(&ref->oid, out);
	str_addf(out, " %s", ref->name);
	if (ref->peel == REF_PEEL_TAG) {
		str_add_char(out, ' ');
		oid_add_text(&ref->peeled, out);
	}
	str_add_char(out, '\n');
}

static void wire_refs_add_head(struct str *out, const struct ref_snapshot *refs)
{
	str_add(out, HEAD);
	if (refs->head_target)
		str_addf(out, SYMBOLIC "%s", refs->head_target);
	else
		oid_add_text(&refs->head_oid, out);
	str_add_char(out, '\n');
}

static void wire_refs_add_cuts(struct str *out, const oid_list *cuts)
{
	if (cuts->count == 0)
		return;
	str_add(out, SHALLOW);
	for (size_t i = 0; i < cuts->count; i++) {
		str_add_char(out, ' ');
		oid_add_text(&cuts->items[i], out);
	}
	str_add_char(out, '\n');
}

/* All lines but that of the refs' number. */
static void wire_refs_add_members(struct str *body, const char *form,
				  const struct wire_refs *refs)
{
	const struct ref_snapshot *all = &refs->refs;
	char changed_at[CLOCK_TEXT_SIZE];

	clock_format(refs->changed_at, changed_at);
	str_addf(body, "%s\n" TIMELINE "%s\n" GENERATION "%" PRIu64 "\n", form,
		 refs->timeline, refs->generation);
	str_addf(body, CHECKSUM "%s\n" CHANGED_AT "%s\n" OBJECT_FORMAT "%s\n",
		 refs->checksum, changed_at, refs->oid_len == 32 ? SHA256 : SHA1);
	if (refs->log[0])
		str_addf(body, LOG "%s\n", refs->log);
	wire_refs_add_head(body, all);
	wire_refs_add_cuts(body, &all->cuts);
	if (refs->description)
		wire_refs_add_base64(body, DESCRIPTION, refs->description);
	str_addf(body, PUSHED_DELETIONS "%" PRIu64 " %" PRIu64 "\n", refs->pushed_settled,
		 refs->pushed_announced);
	if (refs->pack_bytes > 0)
		str_addf(body, PACK_BYTES "%" PRIu64 "\n", refs->pack_bytes);
	wire_refs_add_lenders(body, &refs->lenders);
	wire_refs_add_base64(body, SETTINGS, refs->settings);
}

void wire_refs_render(const struct wire_refs *refs, struct str *body)
{
	const struct ref_snapshot *all = &refs->refs;

	wire_refs_add_members(body, FORM, refs);
	str_addf(body, REFS "%zu\n\n", all->refs.count);
	for (size_t i = 0; i < all->refs.count; i++)
		wire_refs_add_ref(body, &all->refs.items[i]);
}

void wire_delta_render(const struct wire_refs *refs, const text_list *names,
		       const struct str *pack, struct str *body)
{
	wire_refs_add_members(body, FORM_DELTA, refs);
	str_addf(body, PACK "%zu\n" REFS "%zu\n\n", pack->len, names->count);
	for (size_t i = 0; i < names->count; i++) {
		const struct ref *ref = ref_snapshot_find(&refs->refs, names->items[i]);
		if (ref)
			wire_refs_add_ref(body, ref);
		else
			str_addf(body, GONE "%s\n", names->items[i]);
	}
	str_add_bytes(body, pack->data, pack->len);
}

struct wire_refs_reader {
	struct wire_refs *refs;
	char *at, *end; /* the copy of the body; lines end in NUL once they are read */
	unsigned seen;  /* lines, as bits of their place in the table */
	uint64_t count;
	bool is_delta; /* refs may be gone, and a pack follows them */
	uint64_t pack_len;
};

/* NULL: no whole line is left, or it has a NUL. */
static char *wire_refs_next_line(struct wire_refs_reader *reader)
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
static bool wire_refs_is_target(const char *text)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return false;
	return len > 0 && text[0] != ' ' && text[len - 1] != ' ';
}

/* An object's name and nothing behind it but `end`. */
static bool wire_refs_read_oid(const char *text, size_t oid_len, char end,
			       struct oid *oid)
{
	return strnlen(text, 2 * oid_len) == 2 * oid_len && text[2 * oid_len] == end &&
	       oid_parse(text, oid_len, oid) && !oid_is_null(oid);
}

static bool wire_refs_read_head(struct wire_refs_reader *reader, const char *value)
{
	struct ref_snapshot *refs = &reader->refs->refs;

	if (reader->refs->oid_len == 0)
		return false;
	if (!text_starts_with(value, SYMBOLIC))
		return wire_refs_read_oid(value, reader->refs->oid_len, '\0',
					  &refs->head_oid);
	if (!ref_name_is_valid(value + strlen(SYMBOLIC)))
		return false;
	refs->head_target = xstrdup(value + strlen(SYMBOLIC));
	return true;
}

static bool wire_refs_read_format(struct wire_refs_reader *reader, const char *value)
{
	reader->refs->oid_len = strcmp(value, SHA1) == 0     ? 20
				: strcmp(value, SHA256) == 0 ? 32
							     : 0;
	return reader->refs->oid_len != 0;
}

static bool wire_refs_read_base64(const char *value, size_t most, struct str *text)
{
	json_auto_t *object = json_object();

	json_object_set_new(object, "text_base64", json_string(value));
	return json_get_bytes(object, "text", text, ERR_IGNORED) == 0 &&
	       text->len <= most;
}

static bool wire_refs_read_description(struct wire_refs_reader *reader, const char *value)
{
	AUTO_STR struct str text = STR_INIT;

	if (!wire_refs_read_base64(value, DESCRIPTION_LIMIT, &text))
		return false;
	reader->refs->description = str_take(&text);
	return true;
}

/* Keys that are not for readers go no further. */
static bool wire_refs_read_settings(struct wire_refs_reader *reader, const char *value)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_STR struct str settings = STR_INIT;

	if (!wire_refs_read_base64(value, READ_SETTINGS_MAX, &text) ||
	    read_settings_parse(text.data, text.len, &settings, ERR_IGNORED) != 0)
		return false;
	reader->refs->settings = str_take(&settings);
	return true;
}

static bool wire_refs_read_pushed(struct wire_refs_reader *reader, const char *value)
{
	const char *blank = strchr(value, ' ');
	AUTO_FREE char *settled = blank ? xstrndup(value, (size_t)(blank - value)) : NULL;

	return settled && text_to_uint64(settled, &reader->refs->pushed_settled) &&
	       text_to_uint64(blank + 1, &reader->refs->pushed_announced);
}

static bool wire_refs_read_pack_bytes(struct wire_refs_reader *reader, const char *value)
{
	return text_to_uint64(value, &reader->refs->pack_bytes);
}

static bool wire_refs_read_lenders(struct wire_refs_reader *reader, const char *value)
{
	AUTO_STR struct str text = STR_INIT;
	char *rest, *line;

	if (!wire_refs_read_base64(value, LENDERS_LIMIT, &text))
		return false;
	rest = text.data;
	while ((line = strsep(&rest, "\n")) != NULL && rest) {
		if (name_judge(line, ERR_IGNORED) != 0 ||
		    reader->refs->lenders.count == WIRE_LENDERS_MOST)
			return false;
		vec_add(&reader->refs->lenders, xstrdup(line));
	}
	return true;
}

/* In order, each once. */
static bool wire_refs_read_cuts(struct wire_refs_reader *reader, const char *value)
{
	const size_t oid_len = reader->refs->oid_len, digits = 2 * oid_len;
	oid_list *cuts = &reader->refs->refs.cuts;
	struct oid oid;

	if (oid_len == 0)
		return false;
	for (;; value += digits + 1) {
		char end = strnlen(value, digits) == digits ? value[digits] : 'x';
		if (!wire_refs_read_oid(value, oid_len, end, &oid) ||
		    (cuts->count > 0 &&
		     oid_compare(&cuts->items[cuts->count - 1], &oid) >= 0))
			return false;
		vec_add(cuts, oid);
		if (end != ' ')
			return end == '\0';
	}
}

static bool wire_refs_take_id(const char *value, char timeline[TIMELINE_SIZE])
{
	if (!wire_is_id(value))
		return false;
	memcpy(timeline, value, TIMELINE_SIZE);
	return true;
}

static bool wire_refs_read_timeline(struct wire_refs_reader *reader, const char *value)
{
	return wire_refs_take_id(value, reader->refs->timeline);
}

static bool wire_refs_read_log(struct wire_refs_reader *reader, const char *value)
{
	return wire_refs_take_id(value, reader->refs->log);
}

static bool wire_refs_read_generation(struct wire_refs_reader *reader, const char *value)
{
	return text_to_uint64(value, &reader->refs->generation) &&
	       reader->refs->generation > 0 && reader->refs->generation <= INT64_MAX;
}

static bool wire_refs_read_checksum(struct wire_refs_reader *reader, const char *value)
{
	struct checksum sum;

	if (!checksum_parse(value, &sum))
		return false;
	snprintf(reader->refs->checksum, sizeof(reader->refs->checksum), "%s", value);
	return true;
}

static bool wire_refs_read_changed_at(struct wire_refs_reader *reader, const char *value)
{
	return clock_parse(value, &reader->refs->changed_at);
}

static bool wire_refs_read_count(struct wire_refs_reader *reader, const char *value)
{
	return text_to_uint64(value, &reader->count);
}

static bool wire_refs_read_pack(struct wire_refs_reader *reader, const char *value)
{
	return text_to_uint64(value, &reader->pack_len);
}

/* The first REQUIRED must be there; no line may be there twice. */
static const struct {
	const char *key;
	bool (*read)(struct wire_refs_reader *reader, const char *value);
} wire_refs_lines[] = {
	{ TIMELINE, wire_refs_read_timeline },
	{ GENERATION, wire_refs_read_generation },
	{ CHECKSUM, wire_refs_read_checksum },
	{ HEAD, wire_refs_read_head },
	{ REFS, wire_refs_read_count },
	{ CHANGED_AT, wire_refs_read_changed_at },
	{ OBJECT_FORMAT, wire_refs_read_format },
	{ DESCRIPTION, wire_refs_read_description },
	{ SETTINGS, wire_refs_read_settings },
	{ PUSHED_DELETIONS, wire_refs_read_pushed },
	{ PACK_BYTES, wire_refs_read_pack_bytes },
	{ LENDERS, wire_refs_read_lenders },
	{ SHALLOW " ", wire_refs_read_cuts },
	{ PACK, wire_refs_read_pack },
	{ LOG, wire_refs_read_log },
};
#define REQUIRED 5

/* Others are a later version's. */
static int wire_refs_read_member(struct wire_refs_reader *reader, const char *line,
				 struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(wire_refs_lines); i++) {
		const char *key = wire_refs_lines[i].key;
		unsigned bit = 1u << i;
		if (!text_starts_with(line, key))
			continue;
		if ((reader->seen & bit) ||
		    !wire_refs_lines[i].read(reader, line + strlen(key)))
			return wire_lied(err, "the refs have a wrong line \"%.100s\"",
					 line);
		reader->seen |= bit;
	}
	return 0;
}

static int wire_refs_read_members(struct wire_refs_reader *reader, struct err *err)
{
	const char *line = wire_refs_next_line(reader);

	if (!line || strcmp(line, reader->is_delta ? FORM_DELTA : FORM) != 0)
		return wire_lied(err, "these are no refs in a form that is known");
	while ((line = wire_refs_next_line(reader)) != NULL && line[0])
		if (wire_refs_read_member(reader, line, err) != 0)
			return -1;
	if (!line)
		return wire_lied(err, "the refs are cut off");
	if ((~reader->seen & ((1u << REQUIRED) - 1)) != 0)
		return wire_lied(err, "the refs lack one of timeline, generation, "
				      "checksum, head and refs");
	return 0;
}

/* "ref: <target> <name>"; the target may have blanks, the name has none. */
static bool wire_refs_read_symbolic(char *line, struct ref *ref)
{
	char *space = strrchr(line + strlen(SYMBOLIC), ' ');

	if (!space)
		return false;
	*space = '\0';
	ref->target = line + strlen(SYMBOLIC);
	ref->name = space + 1;
	return wire_refs_is_target(ref->target);
}

/* "<oid> <name>" or "<oid> <name> <peeled oid>". */
static bool wire_refs_read_direct(char *line, size_t oid_len, struct ref *ref)
{
	char *space;

	if (!wire_refs_read_oid(line, oid_len, ' ', &ref->oid))
		return false;
	ref->name = line + 2 * oid_len + 1;
	space = strchr(line + 2 * oid_len + 1, ' ');
	if (!space)
		return true;
	*space = '\0';
	ref->peel = REF_PEEL_TAG;
	return wire_refs_read_oid(space + 1, oid_len, '\0', &ref->peeled);
}

/* One that is gone stays without a value until it is merged with what the reader has. */
static bool wire_refs_read_value(const struct wire_refs_reader *reader, char *line,
				 struct ref *ref)
{
	if (text_starts_with(line, SYMBOLIC))
		return wire_refs_read_symbolic(line, ref);
	if (!reader->is_delta || !text_starts_with(line, GONE))
		return wire_refs_read_direct(line, reader->refs->oid_len, ref);
	ref->name = line + strlen(GONE);
	return true;
}

static int wire_refs_read_ref(struct wire_refs_reader *reader, char *line,
			      struct err *err)
{
	struct ref_snapshot *refs = &reader->refs->refs;
	struct ref ref = { 0 };
	bool is_right = wire_refs_read_value(reader, line, &ref);

	if (!is_right || !ref_name_is_valid(ref.name))
		return wire_lied(err, "line %zu of the refs is wrong: \"%.150s\"",
				 refs->refs.count + 1, line);
	if (refs->refs.count > 0 &&
	    strcmp(refs->refs.items[refs->refs.count - 1].name, ref.name) >= 0)
		return wire_lied(err, "%.200s is not in the order of refs", ref.name);
	vec_add(&refs->refs, ref);
	return 0;
}

static int wire_refs_read_refs(struct wire_refs_reader *reader, struct err *err)
{
	const struct ref_snapshot *refs = &reader->refs->refs;
	char *line;

	while (refs->refs.count < reader->count) {
		line = wire_refs_next_line(reader);
		if (!line)
			return wire_lied(err, "the refs are cut off: %zu of %" PRIu64,
					 refs->refs.count, reader->count);
		if (wire_refs_read_ref(reader, line, err) != 0)
			return -1;
	}
	if ((uint64_t)(reader->end - reader->at) != reader->pack_len)
		return wire_lied(err, reader->is_delta
					      ? "the pack is not as long as announced"
					      : "more refs than were announced");
	return 0;
}

static int wire_refs_check_sum(const struct wire_refs *refs, const struct checksum *sum,
			       struct err *err)
{
	char text[CHECKSUM_TEXT_SIZE];

	checksum_format(sum, text);
	if (strcmp(text, refs->checksum) == 0)
		return 0;
	return wire_lied(err, "the refs' checksum is %s, it says %s", text,
			 refs->checksum);
}

static int wire_refs_read(struct wire_refs_reader *reader, const struct str *body,
			  struct err *err)
{
	char *text = xmalloc(body->len + 1);

	memcpy(text, body->data, body->len + 1);
	reader->at = text;
	reader->end = text + body->len;
	*reader->refs = (struct wire_refs){ 0 };
	vec_add(&reader->refs->refs.texts, text); /* names and targets point into it */
	if (wire_refs_read_members(reader, err) != 0)
		return -1;
	return wire_refs_read_refs(reader, err);
}

int wire_refs_parse(const struct str *body, struct wire_refs *refs, struct err *err)
{
	struct wire_refs_reader reader = { .refs = refs };
	struct checksum sum;

	if (wire_refs_read(&reader, body, err) == 0) {
		checksum_of(&refs->refs, &sum);
		if (wire_refs_check_sum(refs, &sum, err) == 0)
			return 0;
	}
	wire_refs_clear(refs);
	return -1;
}

/* Both in order of their names: what `refs` has counts, the rest is the base's. */
static void wire_delta_merge(struct ref_snapshot *base, struct ref_snapshot *refs)
{
	struct ref_snapshot merged = *refs;
	size_t i = 0;

	merged.refs.items = NULL;
	merged.refs.count = merged.refs.capacity = 0;
	for (size_t j = 0; j <= refs->refs.count; j++) {
		const char *name = j < refs->refs.count ? refs->refs.items[j].name : NULL;
		int order = -1;
		for (; i < base->refs.count && order <= 0; i += order <= 0) {
			struct ref old = base->refs.items[i];
			order = name ? strcmp(old.name, name) : -1;
			old.is_loose = false;
			if (order < 0)
				vec_add(&merged.refs, old);
		}
		if (name &&
		    (refs->refs.items[j].target || refs->refs.items[j].oid.len > 0))
			vec_add(&merged.refs, refs->refs.items[j]);
	}
	for (size_t k = 0; k < base->texts.count; k++)
		vec_add(&merged.texts, base->texts.items[k]);
	base->texts.count = 0;
	merged.packed = base->packed;
	base->packed = NULL;
	vec_clear(&refs->refs);
	*refs = merged;
}

/* What is not a ref, and part of the sum all the same. */
static void wire_delta_sum_head(struct checksum *sum, const struct ref_snapshot *refs,
				void (*apply)(struct checksum *sum, const char *name,
					      const char *target, const struct oid *oid))
{
	apply(sum, "HEAD", refs->head_target, &refs->head_oid);
	for (size_t i = 0; i < refs->cuts.count; i++)
		apply(sum, "shallow", NULL, &refs->cuts.items[i]);
}

/* `refs` are the changed ones alone. */
static void wire_delta_sum(const struct wire_delta_base *base,
			   const struct ref_snapshot *refs, struct checksum *sum)
{
	*sum = *base->sum;
	wire_delta_sum_head(sum, base->refs, checksum_take);
	wire_delta_sum_head(sum, refs, checksum_put);
	for (size_t i = 0; i < refs->refs.count; i++) {
		const struct ref *ref = &refs->refs.items[i];
		const struct ref *old = ref_snapshot_find(base->refs, ref->name);
		if (old)
			checksum_take(sum, old->name, old->target, &old->oid);
		if (ref->target || ref->oid.len > 0)
			checksum_put(sum, ref->name, ref->target, &ref->oid);
	}
}

static int wire_delta_finish(const struct wire_delta_base *base, struct wire_refs *refs,
			     struct err *err)
{
	struct checksum sum;

	if (base->oid_len > 0 && refs->oid_len != base->oid_len)
		return wire_lied(err, "the delta is of another hash");
	wire_delta_sum(base, &refs->refs, &sum);
	wire_delta_merge(base->refs, &refs->refs);
	return wire_refs_check_sum(refs, &sum, err);
}

int wire_delta_parse(const struct str *body, const struct wire_delta_base *base,
		     struct wire_refs *refs, struct str *pack, struct err *err)
{
	bool is_whole = base->oid_len == 0 && text_starts_with(body->data, FORM "\n");
	struct wire_refs_reader reader = { .refs = refs, .is_delta = !is_whole };
	int result = wire_refs_read(&reader, body, err);

	if (result == 0) {
		str_add_bytes(pack, body->data + body->len - reader.pack_len,
			      (size_t)reader.pack_len);
		result = wire_delta_finish(base, refs, err);
	}
	ref_snapshot_clear(base->refs);
	if (result != 0)
		wire_refs_clear(refs);
	return result;
}
