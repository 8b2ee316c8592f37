#include "pull/primary_blobs.h"

#include "base/json.h"
#include "pull/primary_line.h"
#include "pull/primary_parse.h"

#define REVERIFY_TIMEOUT_MS 120000
#define KINDS_LIMIT ((size_t)1 << 20)
#define ROW_LIMIT ((size_t)64 << 10)
#define NO_END (INT64_MAX / 2) /* the line's limit, and the stall, end it */

static void primary_blobs_add_target(struct str *target, const char *what,
				     const struct blob_kind *kind, const char *id)
{
	str_addf(target, PRIMARY_API "%s/%s/", what, kind->type);
	url_add_encoded(target, id);
}

int primary_blob_inventory(struct primary_line *line, const struct blob_kind *kind,
			   const struct page_question *question,
			   struct inventory_page *page, struct err *err)
{
	AUTO_STR struct str target = STR_INIT;

	str_addf(&target, PRIMARY_API "blobs/%s", kind->type);
	return primary_inventory_at(line, target.data, kind, question, page, err);
}

struct reading {
	const struct blob_part *part;
	const struct blob_part_sink *sink;
	struct blob_head head;
	bool has_head;
};

/* "TIMELINE-GENERATION", in quotes. */
static bool parse_etag(const char *etag, struct blob_head *head)
{
	size_t id_len = TIMELINE_SIZE - 1, len = strlen(etag);
	AUTO_FREE char *number = NULL;

	if (len < id_len + 4 || etag[0] != '"' || etag[len - 1] != '"' ||
	    etag[id_len + 1] != '-')
		return false;
	memcpy(head->timeline, etag + 1, id_len);
	number = xstrndup(etag + id_len + 2, len - id_len - 3);
	return primary_is_id(head->timeline) &&
	       text_to_uint64(number, &head->generation) && head->generation > 0;
}

/* "bytes FIRST-LAST/SIZE" */
static bool parse_range(const struct site_answer *answer, struct blob_head *head)
{
	uint64_t last;
	char rest;

	if (answer->status == 200) { /* all of it, whatever was asked for */
		head->size = (uint64_t)answer->length;
		return answer->length >= 0;
	}
	return sscanf(answer->range, "bytes %" SCNu64 "-%" SCNu64 "/%" SCNu64 "%c",
		      &head->offset, &last, &head->size, &rest) == 3 &&
	       head->offset <= last && last < head->size && head->size <= INT64_MAX;
}

static int primary_blobs_read_head(struct reading *reading,
				   const struct site_answer *answer, struct err *err)
{
	struct blob_head *head = &reading->head;

	if (!parse_etag(answer->etag, head))
		return primary_lied(err, "a blob has the ETag '%s'", answer->etag);
	if (!parse_range(answer, head) || head->offset != reading->part->offset)
		return primary_lied(err,
				    "it sends the range '%s' of a blob for one from "
				    "%" PRIu64,
				    answer->range, reading->part->offset);
	if (answer->checksum[0] && !primary_is_digest(answer->checksum))
		return primary_lied(err, "Refrelay-Checksum is '%s'", answer->checksum);
	snprintf(head->checksum, sizeof(head->checksum), "%.64s", answer->checksum);
	reading->has_head = true;
	return 0;
}

static int primary_blobs_take_part(void *arg, const struct site_answer *answer,
				   const void *bytes, size_t len, struct err *err)
{
	struct reading *reading = arg;

	if (!reading->has_head && primary_blobs_read_head(reading, answer, err) != 0)
		return -1;
	return reading->sink->take(reading->sink->arg, &reading->head, bytes, len, err);
}

int primary_blob_read(struct primary_line *line, const struct blob_part *part,
		      const struct blob_part_sink *sink, struct err *err)
{
	AUTO_STR struct str target = STR_INIT;
	AUTO_ANSWER struct site_answer answer = { .body = STR_INIT };
	AUTO_FREE char *range = xasprintf("bytes=%" PRIu64 "-%" PRIu64, part->offset,
					  part->offset + part->length - 1);
	AUTO_FREE char *etag = part->version ? xasprintf("\"%s\"", part->version) : NULL;
	struct reading reading = { .part = part, .sink = sink };
	const struct site_sink into = { primary_blobs_take_part, &reading };

	primary_blobs_add_target(&target, "retrieve", part->kind, part->id);
	struct site_request request = { .target = target.data,
					.range = range,
					.if_match = etag,
					.timeout_ms = NO_END,
					.stall_ms = part->stall_ms,
					.sink = &into };
	return primary_call(line, &request, &answer, err);
}

static int take_frames(void *arg, const struct site_answer *answer, const void *bytes,
		       size_t len, struct err *err)
{
	(void)answer;
	return blob_frames_take(arg, bytes, len, err);
}

static void render_ids(const struct blob_many *many, struct str *body)
{
	json_auto_t *object = json_object();
	json_t *ids = json_array();

	for (size_t i = 0; i < many->count; i++)
		json_array_append_new(ids, json_string(many->ids[i]));
	json_put(object, "ids", ids);
	json_render(object, body);
}

int primary_blob_read_many(struct primary_line *line, const struct blob_many *many,
			   const struct blob_frame_sink *sink, struct err *err)
{
	AUTO_STR struct str target = STR_INIT, body = STR_INIT;
	AUTO_ANSWER struct site_answer answer = { .body = STR_INIT };
	struct blob_frames frames;
	const struct site_sink into = { take_frames, &frames };
	int result;

	str_addf(&target, PRIMARY_API "retrieve/%s", many->kind->type);
	render_ids(many, &body);
	struct site_request request = { .method = "POST",
					.target = target.data,
					.body = body.data,
					.body_len = body.len,
					.content_type = "application/json",
					.timeout_ms = NO_END,
					.stall_ms = many->stall_ms,
					.sink = &into };
	blob_frames_init(&frames, sink);
	result = primary_call(line, &request, &answer, err);
	if (result == 0)
		result = blob_frames_finish(&frames, err);
	blob_frames_clear(&frames);
	return result;
}

/* It answers with its row. */
static bool is_pending(const struct site_answer *answer)
{
	json_auto_t *row = json_parse_object(answer->body.data, answer->body.len,
					     ROW_LIMIT, ERR_IGNORED);
	const char *state = json_string_value(json_object_get(row, "verification"));

	return !state || strcmp(state, "succeeded") != 0;
}

int primary_blob_reverify(struct primary_line *line, const struct blob_kind *kind,
			  const char *id, struct err *err)
{
	AUTO_STR struct str target = STR_INIT;
	AUTO_ANSWER struct site_answer answer = { .body = STR_INIT };

	primary_blobs_add_target(&target, "blobs", kind, id);
	str_add(&target, "/reverify");
	struct site_request request = { .method = "POST",
					.target = target.data,
					.timeout_ms = REVERIFY_TIMEOUT_MS };
	if (primary_call(line, &request, &answer, err) != 0)
		return -1;
	if (is_pending(&answer))
		return 0;
	return err_set(err, ERR_BUSY, "the primary read %s a moment ago", id);
}

static int primary_blobs_add_kind(const json_t *said, struct blob_kinds *kinds,
				  struct err *err)
{
	const char *type = json_string_value(json_object_get(said, "type"));
	const char *layout = json_string_value(json_object_get(said, "layout"));

	if (!type || !layout ||
	    type[strspn(type, "abcdefghijklmnopqrstuvwxyz0123456789-_")] != '\0')
		return primary_lied(err, "a type of blobs has no right name or layout");
	struct blob_kind kind = { .type = xstrdup(type),
				  .layout = strcmp(layout, "lfs") == 0 ? BLOB_LFS
								       : BLOB_PLAIN };
	vec_add(&kinds->items, kind);
	return 0;
}

int primary_blob_kinds(struct primary_line *line, struct blob_kinds *kinds,
		       struct err *err)
{
	AUTO_ANSWER struct site_answer answer = { .body = STR_INIT };
	struct site_request request = { .target = PRIMARY_API "blobs" };
	json_auto_t *said = NULL;
	const json_t *types;

	if (primary_call(line, &request, &answer, err) != 0)
		return -1;
	said = json_parse_object(answer.body.data, answer.body.len, KINDS_LIMIT, err);
	types = json_object_get(said, "types");
	if (!json_is_array(types))
		return primary_lied(err, "it names no types of blobs");
	for (size_t i = 0; i < json_array_size(types); i++)
		if (primary_blobs_add_kind(json_array_get(types, i), kinds, err) != 0)
			return -1;
	return 0;
}
