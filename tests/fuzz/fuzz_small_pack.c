/*
 * libFuzzer: any bytes are refused as a pack, left to git, or they are taken, and then
 * each object that the tip reaches can be read: the pack's first one. The trailer is put
 * right, since nobody would guess it; input that begins with "!" is taken as it is.
 */
#include <assert.h>
#include <zlib.h>

#include "base/file.h"
#include "base/hash.h"
#include "git/new_objects.h"
#include "git/small_pack.h"

#define MOST 100
#define MOST_BYTES 100000

static char directory[] = "/tmp/refrelay-fuzz.XXXXXX";
static struct repo copy = REPO_INIT;

static void remove_directory(void)
{
	repo_close(&copy);
	tree_remove(AT_FDCWD, directory, ERR_IGNORED);
}

static void prepare(void)
{
	struct err err;

	if (!mkdtemp(directory) || atexit(remove_directory) != 0)
		abort();
	AUTO_FREE char *path = xasprintf("%s/copy.git", directory);
	int result = repo_make(AT_FDCWD, path, 20, &err);
	assert(result == 0);
	result = repo_open(AT_FDCWD, path, &copy, &err);
	assert(result == 0);
}

static void put_right(const uint8_t *data, size_t len, struct str *pack)
{
	AUTO_HASH struct hash hash;
	unsigned char digest[20];

	str_add_bytes(pack, data, len);
	hash_init(&hash, HASH_SHA1);
	hash_add(&hash, data, len);
	hash_end(&hash, digest);
	str_add_bytes(pack, digest, sizeof(digest));
}

/* Of the first object, if it is small. */
static void add_first(const struct str *pack, oid_list *tips)
{
	const unsigned char *at = (const unsigned char *)pack->data + 12;
	const unsigned char *end = (const unsigned char *)pack->data + pack->len;
	unsigned char content[4096];
	uLongf size = sizeof(content);
	struct oid oid;

	if (pack->len < 13)
		return;
	enum object_kind kind = (enum object_kind)(*at >> 4 & 7);
	while (at < end && (*at & 0x80))
		at++;
	if (at >= end || kind < OBJECT_COMMIT || kind > OBJECT_TAG)
		return;
	uncompress(content, &size, at + 1, (uLong)(end - at - 1));
	if (object_name(kind, content, size, &oid, ERR_IGNORED) == 0)
		vec_add(tips, oid);
}

/* What was taken can be read by a store of its own, and goes again. */
static void check_taken(const oid_list *tips)
{
	AUTO_OBJECT_STORE struct object_store *store = NULL;
	const oid_list none = { 0 };
	oid_list list = { 0 };
	struct err err;
	int result = object_store_open(&copy, &store, &err);

	assert(result == 0);
	result = new_objects_list(
		&(struct new_objects_request){ .store = store,
					       .tips = tips,
					       .known = &none,
					       .most = MOST,
					       .most_bytes = MOST_BYTES },
		&list, &err);
	assert(result == 1);
	vec_clear(&list);
}

static void empty_copy(void)
{
	struct err err;
	int result = tree_remove(copy.fd, "objects/pack", &err);

	assert(result == 0 && mkdirat(copy.fd, "objects/pack", 0777) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_STR struct str pack = STR_INIT;
	oid_list tips = { 0 };
	struct err err = { 0 };
	const oid_list none = { 0 };

	if (copy.fd < 0)
		prepare();
	if (len == 0)
		return 0;
	if (data[0] == '!')
		str_add_bytes(&pack, data + 1, len - 1);
	else
		put_right(data + 1, len - 1, &pack);
	add_first(&pack, &tips);
	int result =
		small_pack_take(&(struct small_pack_request){ .copy = &copy,
							      .pack = pack.data,
							      .len = pack.len,
							      .tips = &tips,
							      .known = &none,
							      .most = MOST,
							      .most_bytes = MOST_BYTES },
				&err);
	assert(result >= 0 || err.class == ERR_CORRUPT);
	if (result == 1) {
		check_taken(&tips);
		empty_copy();
	}
	vec_clear(&tips);
	return 0;
}
