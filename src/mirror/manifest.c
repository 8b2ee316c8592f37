#include "mirror/manifest.h"

#include <ctype.h>
#include <limits.h>

#include <zlib.h>

#include "base/gunzip.h"
#include "base/json.h"
#include "git/checksum.h"
#include "replicable/name.h"

/* 30,000 entries have 8 MB. */
#define MANIFEST_BYTES_MAX ((size_t)128 << 20)
#define MANIFEST_VALUES_MAX 3000000
#define INFLATE_BLOCK (64 << 10)

void manifest_entry_clear(struct manifest_entry *entry)
{
	free(entry->path);
	free(entry->head);
	free(entry->description);
	*entry = (struct manifest_entry){ 0 };
}

void manifest_clear(struct manifest *manifest)
{
	vec_clear_each(&manifest->entries, manifest_entry_clear);
	upstream_findings_clear(&manifest->findings);
}

/*
 * Reading.
 */

static bool manifest_is_packed(const unsigned char *bytes, size_t len)
{
	return len >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

static int manifest_inflate_all(struct gunzip *gunzip, struct str *out, struct err *err)
{
	AUTO_FREE char *block = xmalloc(INFLATE_BLOCK);
	ssize_t count;

	while ((count = gunzip_read(gunzip, block, INFLATE_BLOCK, err)) > 0) {
		if ((size_t)count > MANIFEST_BYTES_MAX - out->len)
			return err_set(err, ERR_CORRUPT,
				       "it stands for more than %zu bytes",
				       MANIFEST_BYTES_MAX);
		str_add_bytes(out, block, (size_t)count);
	}
	return count == 0 ? gunzip_end(gunzip, err) : -1;
}

static int manifest_inflate(const void *bytes, size_t len, struct str *out,
			    struct err *err)
{
	struct gunzip gunzip;
	int result;

	if (len > MANIFEST_BYTES_MAX)
		return err_set(err, ERR_CORRUPT, "it has more than %zu bytes",
			       MANIFEST_BYTES_MAX);
	if (gunzip_begin(&gunzip, err) != 0)
		return -1;
	gunzip_feed(&gunzip, bytes, len);
	result = manifest_inflate_all(&gunzip, out, err);
	gunzip_clear(&gunzip);
	if (result != 0)
		err->class = ERR_CORRUPT;
	return result;
}

static char *manifest_copy_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && text[0] ? xstrdup(text) : NULL;
}

/* Paths are told with a slash before them, and were without one in earlier versions. */
static const char *manifest_trim(const char *path)
{
	return path[0] == '/' ? path + 1 : path;
}

static void manifest_read_fingerprint(const json_t *object, char text[])
{
	const char *said = json_string_value(json_object_get(object, "fingerprint"));
	const size_t len = MANIFEST_FINGERPRINT_SIZE - 1;

	text[0] = '\0';
	if (said && strlen(said) == len && strspn(said, "0123456789abcdef") == len)
		memcpy(text, said, len + 1);
}

static int64_t manifest_read_time(const json_t *value)
{
	if (json_is_integer(value) && json_integer_value(value) > 0)
		return json_integer_value(value);
	return 0;
}

static struct manifest_entry manifest_read_entry(const char *path, const json_t *object)
{
	struct manifest_entry entry = {
		.path = xstrdup(path),
		.modified = manifest_read_time(json_object_get(object, "modified")),
		.head = manifest_copy_text(object, "head"),
		.description = manifest_copy_text(object, "description"),
	};

	manifest_read_fingerprint(object, entry.fingerprint);
	return entry;
}

static void manifest_take(struct manifest *manifest, const char *key,
			  const json_t *object)
{
	AUTO_FREE char *name = name_of_path(manifest_trim(key));
	struct err err;

	if (!json_is_object(object))
		err_set(&err, ERR_CORRUPT, "nothing is told of it");
	else if (name_judge(name, &err) == 0) {
		vec_add(&manifest->entries,
			manifest_read_entry(manifest_trim(key), object));
		return;
	}
	upstream_findings_add(&manifest->findings, key, &err);
}

ORDER_BY_TEXT(manifest_order, struct manifest_entry, path);

/* One path told in both forms: nobody knows which is meant. */
static void manifest_drop_doubles(struct manifest *manifest)
{
	size_t kept = 0;
	struct err err;

	for (size_t i = 0; i < manifest->entries.count; i++) {
		struct manifest_entry entry = manifest->entries.items[i];
		if (kept == 0 ||
		    strcmp(manifest->entries.items[kept - 1].path, entry.path) != 0) {
			manifest->entries.items[kept++] = entry;
			continue;
		}
		err_set(&err, ERR_CORRUPT, "it is told twice");
		upstream_findings_add(&manifest->findings, entry.path, &err);
		manifest_entry_clear(&entry);
	}
	manifest->entries.count = kept;
}

static int manifest_parse(const char *text, size_t len, struct manifest *manifest,
			  struct err *err)
{
	const struct json_limits limits = { MANIFEST_BYTES_MAX, MANIFEST_VALUES_MAX };
	json_auto_t *whole = json_parse_foreign(text, len, &limits, err);
	const char *key;
	json_t *object;

	if (!whole)
		return -1;
	json_object_foreach(whole, key, object) manifest_take(manifest, key, object);
	vec_sort(&manifest->entries, manifest_order);
	manifest_drop_doubles(manifest);
	return 0;
}

int manifest_read(const void *bytes, size_t len, struct manifest *manifest,
		  struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	int result = 0;

	*manifest = (struct manifest){ 0 };
	if (manifest_is_packed(bytes, len)) {
		result = manifest_inflate(bytes, len, &text, err);
		bytes = text.data;
		len = text.len;
	}
	if (result == 0)
		result = manifest_parse(bytes, len, manifest, err);
	return result == 0 ? 0 : err_prefix(err, "the manifest");
}

/*
 * Writing.
 */

/* NULL: there is none, or it is the one that git puts there. */
static char *manifest_make_description(const char *text)
{
	size_t len;

	if (!text || strstr(text, "edit this file"))
		return NULL;
	while (isspace((unsigned char)*text))
		text++;
	len = strlen(text);
	while (len > 0 && isspace((unsigned char)text[len - 1]))
		len--;
	return len > 0 ? xstrndup(text, len) : NULL;
}

static char *manifest_make_head(const struct ref_snapshot *refs)
{
	char text[OID_MAX_TEXT];

	return refs->head_target ? xasprintf("ref: %s", refs->head_target)
				 : xstrdup(oid_text(&refs->head_oid, text));
}

static bool manifest_has_refs(const struct ref_snapshot *refs)
{
	for (size_t i = 0; i < refs->refs.count; i++)
		if (ref_snapshot_resolve(refs, refs->refs.items[i].name))
			return true;
	return false;
}

void manifest_describe(const char *name, const struct ref_reading *reading,
		       int64_t modified, struct manifest_entry *entry)
{
	*entry = (struct manifest_entry){
		.path = name_to_path(name),
		.modified = modified,
		.head = manifest_make_head(&reading->refs),
		.description = manifest_make_description(reading->description),
	};
	if (manifest_has_refs(&reading->refs))
		checksum_grokmirror(&reading->refs, entry->fingerprint);
}

static json_t *manifest_make_text(const char *text)
{
	AUTO_STR struct str clean = STR_INIT;

	str_add_utf8(&clean, text, strlen(text));
	return json_stringn(clean.data, clean.len);
}

static void manifest_put(json_t *object, const char *key, const char *text)
{
	if (text)
		json_put(object, key, manifest_make_text(text));
}

static json_t *manifest_make_path(const char *path)
{
	AUTO_FREE char *whole = xasprintf("/%s", path);

	return manifest_make_text(whole);
}

/* Earlier versions fail where there is no reference, not even null. */
static json_t *manifest_make_entry(const struct manifest_entry *entry)
{
	json_t *object = json_object();

	json_put_number(object, "modified", entry->modified);
	json_put(object, "fingerprint", json_string(entry->fingerprint));
	manifest_put(object, "head", entry->head);
	manifest_put(object, "description", entry->description);
	json_put(object, "reference", json_null());
	return object;
}

static int manifest_add_bytes(const char *bytes, size_t len, void *out)
{
	str_add_bytes(out, bytes, len);
	return 0;
}

/* In ASCII, parted as Python's json has it. */
static void manifest_render(const json_t *value, struct str *out)
{
	json_dump_callback(value, manifest_add_bytes, out,
			   JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
}

void manifest_add(struct manifest_writer *writer, const struct manifest_entry *entry)
{
	if (!entry->fingerprint[0] || !text_is_utf8(entry->path, strlen(entry->path)))
		return;
	json_auto_t *key = manifest_make_path(entry->path);
	json_auto_t *object = manifest_make_entry(entry);
	str_add(&writer->text, writer->has_entries ? ", " : "{");
	manifest_render(key, &writer->text);
	str_add(&writer->text, ": ");
	manifest_render(object, &writer->text);
	writer->has_entries = true;
}

void manifest_end(struct manifest_writer *writer)
{
	str_add(&writer->text, writer->has_entries ? "}" : "{}");
}

/* No time stands in its head: the same text makes the same bytes. */
void manifest_pack(const struct str *json, struct str *out)
{
	z_stream stream = { 0 };
	const int gzip = 16, memory = 8;

	if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, MAX_WBITS + gzip,
			 memory, Z_DEFAULT_STRATEGY) != Z_OK)
		abort();
	size_t room = deflateBound(&stream, json->len);
	str_reserve(out, room);
	/* z_const is not set, but next_in is only read. */
	stream.next_in = (Bytef *)(uintptr_t)json->data;
	stream.avail_in = (uInt)json->len;
	stream.next_out = (Bytef *)out->data + out->len;
	stream.avail_out = (uInt)room;
	if (json->len > UINT_MAX / 2 || deflate(&stream, Z_FINISH) != Z_STREAM_END)
		abort();
	out->len += stream.total_out;
	out->data[out->len] = '\0';
	deflateEnd(&stream);
}
