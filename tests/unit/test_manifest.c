#include "git_test.h"

#include "base/json.h"
#include "mirror/manifest.h"

#define PRINT "e5c2f0a1b3d4958677a8b9c0d1e2f30415263748"

static struct manifest manifest;

static int read_text(const char *text)
{
	manifest_clear(&manifest);
	return manifest_read(text, strlen(text), &manifest, &err);
}

static const char *text_or_none(const char *text)
{
	return text ? text : "(none)";
}

static void assert_paths(const char *expected)
{
	AUTO_STR struct str paths = STR_INIT;

	for (size_t i = 0; i < manifest.entries.count; i++)
		str_addf(&paths, "%s ", manifest.entries.items[i].path);
	assert_string_equal(paths.data, expected);
}

TEST(what_grokmirror_writes_is_read)
{
	assert_ok(read_text(
		"{\"/pub/b.git\": {\"modified\": 1700000001, \"fingerprint\": \"" PRINT
		"\", \"head\": \"ref: refs/heads/master\", \"owner\": \"J. D\\u00f6e\", "
		"\"description\": \"One \\\"x\\\"\", \"forkgroup\": "
		"\"11111111-2222-3333-4444-555555555555\", \"reference\": "
		"\"/pub/a.git\", "
		"\"symlinks\": [\"/b.git\", \"/c/b.git\"]}, "
		"\"/pub/a.git\": {\"modified\": 1, \"fingerprint\": \"" PRINT
		"\", \"head\": \"" PRINT "\", \"reference\": null}}"));
	assert_paths("pub/a.git pub/b.git ");
	assert_int_equal(manifest.findings.items.count, 0);
	const struct manifest_entry *entry = &manifest.entries.items[1];
	assert_int_equal(entry->modified, 1700000001);
	assert_string_equal(entry->fingerprint, PRINT);
	assert_string_equal(entry->head, "ref: refs/heads/master");
	assert_string_equal(entry->description, "One \"x\"");
	entry = &manifest.entries.items[0];
	assert_string_equal(entry->head, PRINT);
	manifest_clear(&manifest);
}

TEST(both_forms_of_paths_are_the_same)
{
	assert_ok(read_text("{\"a.git\": {}, \"/b.git\": {}, \"/c\": {}}"));
	assert_paths("a.git b.git c ");
	assert_ok(read_text("{\"a.git\": {}, \"/a.git\": {}, \"/b.git\": {}}"));
	assert_paths("a.git b.git ");
	assert_int_equal(manifest.findings.items.count, 1);
	assert_string_equal(manifest.findings.items.items[0].name, "a.git");
	manifest_clear(&manifest);
}

TEST(what_is_null_missing_or_of_another_type_is_not_told)
{
	static const char *const objects[] = {
		"{}",
		"{\"fingerprint\": null, \"modified\": null, \"owner\": null, "
		"\"description\": null, \"head\": null, \"reference\": null, "
		"\"symlinks\": null, \"forkgroup\": null}",
		"{\"fingerprint\": 7, \"modified\": \"x\", \"owner\": [], "
		"\"description\": {}, \"head\": true, \"reference\": 1.5, "
		"\"symlinks\": {\"a\": 1}, \"forkgroup\": false, \"later\": {}}",
		"{\"fingerprint\": \"E5C2F0A1B3D4958677A8B9C0D1E2F30415263748\", "
		"\"modified\": -1, \"owner\": \"\", \"description\": \"\", \"head\": "
		"\"\", "
		"\"reference\": \"\", \"symlinks\": [\"\", 1, null], \"forkgroup\": "
		"\"\"}",
		"{\"fingerprint\": \"" PRINT "0\", \"modified\": 1e99}",
		"{\"fingerprint\": \"e5c2f0\", \"modified\": 1.5}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(objects); i++) {
		AUTO_FREE char *text = xasprintf("{\"/a.git\": %s}", objects[i]);
		assert_ok(read_text(text));
		assert_paths("a.git ");
		const struct manifest_entry *entry = &manifest.entries.items[0];
		assert_string_equal(entry->fingerprint, "");
		assert_int_equal(entry->modified, 0);
		assert_string_equal(text_or_none(entry->head), "(none)");
		assert_string_equal(text_or_none(entry->description), "(none)");
	}
	manifest_clear(&manifest);
}

TEST(paths_that_can_be_no_repository_are_left_out_and_told)
{
	assert_ok(read_text("{\"/../x.git\": {}, \"//x.git\": {}, \"/a/../../x\": {}, "
			    "\"\": {}, \"/\": {}, \"/a/.git\": {}, \"/.git/x\": {}, "
			    "\"/a\\u0007b.git\": {}, \"/a\\nb\": {}, \"/good.git\": {}, "
			    "\"/.refrelay/trash/x\": {}, \"/null.git\": null, "
			    "\"/list.git\": []}"));
	assert_paths("good.git ");
	assert_int_equal(manifest.findings.items.count, 12);
	for (size_t i = 0; i < manifest.findings.items.count; i++)
		assert_true(manifest.findings.items.items[i].err.text[0]);
	manifest_clear(&manifest);
}

TEST(what_is_no_manifest_is_refused)
{
	static const char *const texts[] = { "",
					     "[]",
					     "null",
					     "{",
					     "{}{}",
					     "{\"/a.git\": {}",
					     "<html>",
					     "{\"\xff\": {}}",
					     "{\"/a\": {}, \"/a\": {}}" };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_fails(read_text(texts[i]), ERR_CORRUPT);
	assert_ok(read_text("{}"));
	assert_paths("");
	assert_ok(read_text(" {\n  \"/a.git\": {\n    \"modified\": 5\n  }\n}\n"));
	assert_int_equal(manifest.entries.items[0].modified, 5);
	manifest_clear(&manifest);
}

static void pack(const char *text, struct str *out)
{
	AUTO_STR struct str json = STR_INIT;

	str_add(&json, text);
	manifest_pack(&json, out);
}

static int read_bytes(const struct str *bytes)
{
	manifest_clear(&manifest);
	return manifest_read(bytes->data, bytes->len, &manifest, &err);
}

TEST(gzip_is_known_by_its_bytes)
{
	AUTO_STR struct str packed = STR_INIT, twice = STR_INIT;

	pack("{\"/a.git\": {}}", &packed);
	assert_memory_equal(packed.data, "\x1f\x8b\x08\x00\x00\x00\x00\x00", 8);
	assert_ok(read_bytes(&packed));
	assert_paths("a.git ");
	pack("{\"/a.git\"", &twice);
	pack(": {}}", &twice);
	assert_ok(read_bytes(&twice));
	assert_paths("a.git ");
	for (size_t len = 0; len < packed.len; len++) {
		struct str cut = { .data = packed.data, .len = len };
		assert_fails(read_bytes(&cut), ERR_CORRUPT);
	}
	packed.data[packed.len - 6] ^= 1;
	assert_fails(read_bytes(&packed), ERR_CORRUPT);
	manifest_clear(&manifest);
}

TEST(a_small_gzip_cannot_stand_for_gigabytes)
{
	AUTO_STR struct str blanks = STR_INIT, packed = STR_INIT, bomb = STR_INIT;

	str_reserve(&blanks, 1 << 20);
	memset(blanks.data, ' ', 1 << 20);
	blanks.len = 1 << 20;
	manifest_pack(&blanks, &packed);
	for (int i = 0; i < 129; i++)
		str_add_bytes(&bomb, packed.data, packed.len);
	assert_true(bomb.len < 1 << 18);
	assert_fails(read_bytes(&bomb), ERR_CORRUPT);
	assert_non_null(strstr(err.text, "it stands for more than"));
}

TEST(many_short_values_are_refused)
{
	AUTO_STR struct str text = STR_INIT;

	str_add(&text, "{\"/a\": [");
	for (int i = 0; i < 3000000; i++)
		str_add(&text, "1,");
	str_add(&text, "1]}");
	assert_fails(read_bytes(&text), ERR_CORRUPT);
	assert_non_null(strstr(err.text, "values"));
}

static void write_one(const struct manifest_entry *entry, struct str *out)
{
	struct manifest_writer writer = MANIFEST_WRITER_INIT;

	manifest_add(&writer, entry);
	manifest_end(&writer);
	str_add(out, writer.text.data);
	str_clear(&writer.text);
}

TEST(entries_are_written_as_grokmirror_writes_them)
{
	char path[] = "a/b.git", other[] = "c.git", head[] = "ref: refs/heads/main";
	char text[] = "D\xc3\xb6\"\n";
	struct manifest_entry one = {
		.path = path, .fingerprint = PRINT, .modified = 1700000000, .head = head
	};
	struct manifest_entry two = one;
	struct manifest_writer writer = MANIFEST_WRITER_INIT;

	two.path = other;
	two.description = text;
	manifest_add(&writer, &one);
	manifest_add(&writer, &two);
	manifest_end(&writer);
	assert_string_equal(
		writer.text.data,
		"{\"/a/b.git\": {\"modified\": 1700000000, \"fingerprint\": \"" PRINT
		"\", \"head\": \"ref: refs/heads/main\", \"reference\": null}, "
		"\"/c.git\": {\"modified\": 1700000000, \"fingerprint\": \"" PRINT
		"\", \"head\": \"ref: refs/heads/main\", \"description\": "
		"\"D\\u00F6\\\"\\n\", \"reference\": null}}");
	assert_ok(read_text(writer.text.data));
	assert_paths("a/b.git c.git ");
	str_clear(&writer.text);
	manifest_clear(&manifest);
}

TEST(what_is_not_utf8_breaks_no_manifest)
{
	char path[] = "a.git", bad_path[] = "\xff.git", text[] = "x\xff\xc3y";
	struct manifest_entry entry = {
		.path = path, .fingerprint = PRINT, .head = text, .description = text
	};
	AUTO_STR struct str out = STR_INIT;

	write_one(&entry, &out);
	assert_ok(read_text(out.data));
	assert_string_equal(manifest.entries.items[0].description,
			    "x\xef\xbf\xbd\xef\xbf\xbdy");
	entry.path = bad_path;
	str_reset(&out);
	write_one(&entry, &out);
	assert_string_equal(out.data, "{}");
	manifest_clear(&manifest);
}

static void describe(struct manifest_entry *entry)
{
	AUTO_READING struct ref_reading reading;

	assert_ok(ref_reading_take(root_fd, "r.git", &reading, &err));
	manifest_describe("r", &reading, 77, entry);
}

TEST(a_repository_is_described_as_it_stands)
{
	struct manifest_entry entry;

	run("git init -q --bare -b main r.git");
	describe(&entry);
	assert_string_equal(entry.path, "r.git");
	assert_string_equal(entry.fingerprint, "");
	assert_null(entry.description); /* it is git's own */
	manifest_entry_clear(&entry);
	run("git clone -q r.git w 2>/dev/null");
	run("GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000' "
	    "git -C w -c user.name=a -c user.email=a@example.com commit -q "
	    "--allow-empty -m one");
	run("git -C w push -q origin HEAD:refs/heads/main HEAD:refs/tags/v1");
	run("git -C r.git symbolic-ref refs/heads/alias refs/heads/main");
	assert_ok(file_replace(root_fd, "r.git/description", " Hello\n\n", 9,
			       FILE_NO_SYNC, &err));
	describe(&entry);
	/* sha1sum of what git show-ref prints */
	assert_string_equal(entry.fingerprint,
			    "56d076472bdf9b6ddf6b67e8b1aa304686126ed7");
	assert_string_equal(entry.head, "ref: refs/heads/main");
	assert_string_equal(entry.description, "Hello");
	assert_int_equal(entry.modified, 77);
	manifest_entry_clear(&entry);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_grokmirror_writes_is_read),
		cmocka_unit_test(both_forms_of_paths_are_the_same),
		cmocka_unit_test(what_is_null_missing_or_of_another_type_is_not_told),
		cmocka_unit_test(paths_that_can_be_no_repository_are_left_out_and_told),
		cmocka_unit_test(what_is_no_manifest_is_refused),
		cmocka_unit_test(gzip_is_known_by_its_bytes),
		cmocka_unit_test(a_small_gzip_cannot_stand_for_gigabytes),
		cmocka_unit_test(many_short_values_are_refused),
		cmocka_unit_test(entries_are_written_as_grokmirror_writes_them),
		cmocka_unit_test(what_is_not_utf8_breaks_no_manifest),
		CASE(a_repository_is_described_as_it_stands),
	};

	return cmocka_run_group_tests_name("manifest", tests, NULL, NULL);
}
