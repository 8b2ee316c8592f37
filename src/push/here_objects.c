/*
 * Each is written under a temporary name of git's own kind, which its gc removes after a
 * crash; all come to be on disk together, then get their names.
 */
#include "push/here_objects.h"

#include <fcntl.h>
#include <zlib.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/flush.h"

#define PLACE_SIZE (2 * OID_MAX_SIZE + 2)

struct placed {
	char temporary[32];     /* below objects/ */
	char place[PLACE_SIZE]; /* "ab/cd..." */
	unsigned char first;    /* of its name */
	int fd;
};

struct placing {
	int objects; /* directory */
	VEC(struct placed) list;
	uint64_t bytes;
	bool has_new_folder;
};

static const char *const kinds[] = {
	[OBJECT_COMMIT] = "commit",
	[OBJECT_TREE] = "tree",
	[OBJECT_BLOB] = "blob",
	[OBJECT_TAG] = "tag",
};

static void feed(z_stream *stream, const void *data, size_t len)
{
	stream->next_in = (void *)(uintptr_t)data;
	stream->avail_in = (unsigned)len;
}

/* As git writes it: its header and content, deflated fast. */
static int deflate_object(const struct object *object, struct str *out, struct err *err)
{
	AUTO_FREE char *header = xasprintf("%s %zu", kinds[object->kind], object->len);
	z_stream stream = { 0 };
	bool is_done;

	if (object->len > INT_MAX / 2 || deflateInit(&stream, Z_BEST_SPEED) != Z_OK)
		return err_set(err, ERR_INTERNAL, "an object cannot be deflated");
	str_reserve(out, deflateBound(&stream, strlen(header) + 1 + object->len));
	stream.next_out = (unsigned char *)out->data;
	stream.avail_out = (unsigned)(out->capacity - 1);
	feed(&stream, header, strlen(header) + 1);
	is_done = deflate(&stream, Z_NO_FLUSH) == Z_OK;
	feed(&stream, object->data, object->len);
	is_done = is_done && deflate(&stream, Z_FINISH) == Z_STREAM_END;
	out->len = stream.total_out;
	deflateEnd(&stream);
	return is_done ? 0 : err_set(err, ERR_INTERNAL, "an object cannot be deflated");
}

static void name_place(const struct oid *oid, struct placed *placed)
{
	char text[OID_MAX_TEXT], random[17];

	oid_text(oid, text);
	placed->first = oid->bytes[0];
	random_hex(random, 8);
	snprintf(placed->place, sizeof(placed->place), "%.2s/%s", text, text + 2);
	snprintf(placed->temporary, sizeof(placed->temporary), "tmp_obj_%s", random);
}

static int write_one(struct placing *placing, struct object_store *from,
		     const struct oid *oid, struct err *err)
{
	AUTO_OBJECT struct object object = { 0 };
	AUTO_STR struct str text = STR_INIT;
	struct placed placed;

	if (object_store_read(from, oid, &object, err) != 0 ||
	    deflate_object(&object, &text, err) != 0)
		return -1;
	name_place(oid, &placed);
	placed.fd = openat(placing->objects, placed.temporary,
			   O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (placed.fd < 0)
		return err_errno(err, "cannot create objects/%s", placed.temporary);
	vec_add(&placing->list, placed);
	placing->bytes += text.len;
	return file_write_all(placed.fd, text.data, text.len, placed.temporary, err);
}

static int flush_all(const struct placing *placing, enum flush_way way, struct err *err)
{
	VEC(int) files = { 0 };
	int result;

	for (size_t i = 0; i < placing->list.count; i++)
		vec_add(&files, placing->list.items[i].fd);
	result = flush_data(files.items, files.count, way, err);
	vec_clear(&files);
	return result;
}

/* One that is there already is replaced by the same. */
static int name_one(struct placing *placing, struct placed *placed, struct err *err)
{
	char folder[3] = { placed->place[0], placed->place[1] };

	if (mkdirat(placing->objects, folder, 0777) == 0)
		placing->has_new_folder = true;
	else if (errno != EEXIST)
		return err_errno(err, "cannot make objects/%s", folder);
	if (renameat(placing->objects, placed->temporary, placing->objects,
		     placed->place) != 0)
		return err_errno(err, "cannot make objects/%s", placed->place);
	placed->temporary[0] = '\0';
	return 0;
}

static int sync_folders(const struct placing *placing, struct err *err)
{
	bool is_synced[256] = { false };

	for (size_t i = 0; i < placing->list.count; i++) {
		const struct placed *placed = &placing->list.items[i];
		char folder[3] = { placed->place[0], placed->place[1] };
		if (is_synced[placed->first])
			continue;
		is_synced[placed->first] = true;
		if (dir_sync(placing->objects, folder, err) != 0)
			return -1;
	}
	return placing->has_new_folder ? dir_sync(placing->objects, ".", err) : 0;
}

static int name_all(struct placing *placing, enum flush_way way, struct err *err)
{
	size_t count = placing->list.count;

	for (size_t i = 0; i < count; i++)
		if (name_one(placing, &placing->list.items[i], err) != 0)
			return -1;
	if (way == FLUSH_EACH)
		return sync_folders(placing, err);
	return flush_name(placing->objects, placing->list.items[count - 1].place, way,
			  err);
}

static int place_all(struct placing *placing, struct object_store *from,
		     const oid_list *list, struct err *err)
{
	enum flush_way way = flush_way_for(placing->objects, list->count);

	for (size_t i = 0; i < list->count; i++)
		if (write_one(placing, from, &list->items[i], err) != 0)
			return -1;
	if (flush_all(placing, way, err) != 0)
		return -1;
	failpoint("here_objects.written");
	return name_all(placing, way, err);
}

static void placing_clear(struct placing *placing)
{
	for (size_t i = 0; i < placing->list.count; i++) {
		struct placed *placed = &placing->list.items[i];
		close(placed->fd);
		if (placed->temporary[0])
			unlinkat(placing->objects, placed->temporary, 0);
	}
	vec_clear(&placing->list);
}

int here_objects_place(struct object_store *from, const oid_list *list, int repository,
		       uint64_t *bytes, struct err *err)
{
	AUTO_CLOSE int objects = dir_open(repository, "objects", err);
	struct placing placing = { .objects = objects };
	int result = -1;

	if (objects >= 0)
		result = list->count == 0 ? 0 : place_all(&placing, from, list, err);
	placing_clear(&placing);
	*bytes += placing.bytes;
	return result;
}
