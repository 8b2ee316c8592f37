/*
 * libFuzzer: any manifest, packed or plain, is refused or read; its paths are names of
 * repositories, in order, each once; and what was read is the same when it is written
 * down and read again.
 */
#include <assert.h>

#include "base/file.h"
#include "mirror/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static bool is_same(const char *one, const char *other)
{
	return one && other ? strcmp(one, other) == 0 : one == other;
}

static void check_same(const struct manifest_entry *one,
		       const struct manifest_entry *other)
{
	assert(strcmp(one->fingerprint, other->fingerprint) == 0);
	assert(one->modified == other->modified);
	assert(is_same(one->head, other->head));
	assert(is_same(one->description, other->description));
}

static void check_again(const struct manifest *manifest)
{
	struct manifest_writer writer = MANIFEST_WRITER_INIT;
	AUTO_MANIFEST struct manifest again = { 0 };
	AUTO_STR struct str packed = STR_INIT;
	struct err err;

	for (size_t i = 0; i < manifest->entries.count; i++)
		manifest_add(&writer, &manifest->entries.items[i]);
	manifest_end(&writer);
	manifest_pack(&writer.text, &packed);
	str_clear(&writer.text);
	int result = manifest_read(packed.data, packed.len, &again, &err);
	assert(result == 0 && again.findings.items.count == 0);
	for (size_t i = 0, at = 0; i < manifest->entries.count; i++) {
		const struct manifest_entry *entry = &manifest->entries.items[i];
		if (!entry->fingerprint[0])
			continue;
		while (at < again.entries.count &&
		       strcmp(again.entries.items[at].path, entry->path) != 0)
			at++;
		assert(at < again.entries.count);
		check_same(entry, &again.entries.items[at]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_MANIFEST struct manifest manifest = { 0 };
	struct err err = { 0 };

	if (manifest_read(data, len, &manifest, &err) != 0) {
		assert(err.class == ERR_CORRUPT && err.text[0]);
		return 0;
	}
	for (size_t i = 0; i < manifest.entries.count; i++) {
		const char *path = manifest.entries.items[i].path;
		assert(!path_fault(path));
		assert(i == 0 || strcmp(manifest.entries.items[i - 1].path, path) < 0);
	}
	check_again(&manifest);
	return 0;
}
