#include "pack_faults.h"
#include <sys/random.h>
#include <zlib.h>

#include "base/hash.h"
#include "git/small_pack.h"

/* Everything below the copy's objects, with modes and digests, as one text. */
#define TREE_OF_COPY                                                                     \
	"cd copy.git && find . -type d | sort && find . -type f | sort | "               \
	"xargs stat -c '%%n %%a %%s' && find . -type f | sort | xargs sha1sum"

/* A copy of w as it was one commit ago; the commit that follows has a new file in a
 * folder, so that there are a commit, two trees and a blob. */
static int make_pair(void **state)
{
	if (make_work(state) != 0)
		return -1;
	must("git clone -q --bare --no-hardlinks w copy.git && " WORK "echo new >d/n; c; "
	     "git tag -am t t");
	return 0;
}

#define PAIR_CASE(name) cmocka_unit_test_setup_teardown(name, make_pair, test_remove_root)

/* The pack of what the tips have and `known` has not. */
static void make_pack(const char *tips, const char *known, struct str *pack)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	AUTO_OBJECT_STORE struct object_store *store = NULL;
	oid_list list = { 0 };

	assert_int_equal(list_new(tips, known, MOST, &list), 1);
	open_at("w/.git", &repo);
	assert_ok(object_store_open(&repo, &store, &err));
	assert_int_equal(small_pack_make(store, &list, MOST_BYTES, pack, &err), 1);
	vec_clear(&list);
}

static const struct git_work *work_of_take;

static int take_lists(const struct str *pack, const oid_list *tips, const oid_list *known,
		      size_t most)
{
	AUTO_REPO struct repo copy = REPO_INIT;

	open_at("copy.git", &copy);
	return small_pack_take(&(struct small_pack_request){ .copy = &copy,
							     .work = work_of_take,
							     .pack = pack->data,
							     .len = pack->len,
							     .tips = tips,
							     .known = known,
							     .most = most,
							     .most_bytes = MOST_BYTES },
			       &err);
}

static int take_within(const struct str *pack, const char *tips, const char *known,
		       size_t most)
{
	oid_list tip_list = objects_of("w", tips), known_list = objects_of("w", known);
	int result = take_lists(pack, &tip_list, &known_list, most);

	vec_clear(&tip_list);
	vec_clear(&known_list);
	return result;
}

static int take(const struct str *pack, const char *tips, const char *known)
{
	return take_within(pack, tips, known, MOST);
}

/* Refused in this way, and the copy is as it was. */
static void assert_not_taken(const struct str *pack, const char *tips, const char *known,
			     int expected)
{
	AUTO_FREE char *before = output_of(TREE_OF_COPY);
	AUTO_FREE char *after = NULL;
	int result = take(pack, tips, known);

	if (result != expected)
		fail_msg("%d: %s", result, result < 0 ? err.text : "");
	if (result < 0)
		assert_int_equal(err.class, ERR_CORRUPT);
	after = output_of(TREE_OF_COPY);
	assert_string_equal(before, after);
}

/* Git finds all that the tip reaches in the copy, and an index that it would have made
 * itself. */
static void assert_good_copy(const char *tip)
{
	must("cd copy.git && git update-ref refs/x/new $(git -C ../w rev-parse %s) "
	     "&& "
	     "git fsck --strict --no-dangling >../fsck 2>&1 && ! grep -v ^notice: "
	     "../fsck && "
	     "git rev-list --objects refs/x/new >../list && git -C ../w rev-list "
	     "--objects %s | "
	     "cmp - ../list && for p in objects/pack/*.pack; do "
	     "git index-pack -o ../x.idx $p >/dev/null && cmp ../x.idx ${p%%pack}idx && "
	     "[ $(stat -c %%a $p ${p%%pack}idx | sort -u) = 444 ] || exit 1; rm "
	     "../x.idx; "
	     "done && [ -z \"$(find . -name 'tmp_*')\" ]",
	     tip, tip);
}

static void seal(struct str *pack)
{
	AUTO_HASH struct hash hash;
	unsigned char digest[20];

	hash_init(&hash, HASH_SHA1);
	hash_add(&hash, pack->data, pack->len);
	hash_end(&hash, digest);
	str_add_bytes(pack, digest, sizeof(digest));
}

static void begin_pack(struct str *pack, unsigned char count)
{
	str_add_bytes(pack, "PACK\0\0\0\2\0\0\0", 11);
	str_add_char(pack, (char)count);
}

static void add_entry_head(struct str *pack, unsigned kind, uint64_t said)
{
	unsigned char byte = (unsigned char)(kind << 4 | (said & 15));

	for (said >>= 4; said > 0; said >>= 7) {
		str_add_char(pack, (char)(byte | 0x80));
		byte = said & 0x7f;
	}
	str_add_char(pack, (char)byte);
}

/* An entry whose head says what it likes. */
static void add_entry(struct str *pack, unsigned kind, uint64_t said, const void *data,
		      size_t len)
{
	uLongf size = compressBound(len);
	AUTO_FREE unsigned char *bytes = xmalloc(size);

	add_entry_head(pack, kind, said);
	assert_int_equal(compress2(bytes, &size, data, len, 9), Z_OK);
	str_add_bytes(pack, bytes, size);
}

TEST(what_is_made_is_taken)
{
	AUTO_STR struct str pack = STR_INIT;

	make_pack("main t", "main~1", &pack);
	assert_int_equal(take(&pack, "main t", "main~1"), 1);
	assert_good_copy("t");
	assert_int_equal(run("[ $(ls copy.git/objects/pack | wc -l) = 2 ]"), 0);
	assert_int_equal(take(&pack, "main t", "main~1"), 1); /* again */
	assert_good_copy("t");
}

/* Larger ones, with an empty file, a link, a mode; into an empty copy, too. */
TEST(packs_of_many_objects_are_taken)
{
	AUTO_STR struct str pack = STR_INIT;

	must(WORK
	     "for i in $(seq 300); do mkdir -p e/$i; seq $i >e/$i/x; done; : >empty; "
	     "ln -s f l; cp f g; chmod +x g; c; seq 30000 >large; c");
	make_pack("main", "", &pack);
	must("rm -rf copy.git && git init -q --bare copy.git");
	assert_int_equal(take(&pack, "main", ""), 1);
	assert_good_copy("main");
}

TEST(a_pack_of_nothing_makes_no_file)
{
	AUTO_STR struct str pack = STR_INIT;

	make_pack("main~1", "main~1", &pack);
	assert_int_equal(pack.len, 32);
	assert_not_taken(&pack, "main~1", "main~1", 1);
	assert_not_taken(&pack, "main", "main~1", -1);
}

/* The change's own objects, one by one. */
TEST(a_pack_that_lacks_an_object_is_refused)
{
	static const char *const names[] = { "main", "main^{tree}", "main:d", "main:d/n",
					     "t" };
	AUTO_REPO struct repo repo = REPO_INIT;

	open_at("w/.git", &repo);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_STR struct str pack = STR_INIT;
		AUTO_OBJECT_STORE struct object_store *store = NULL;
		AUTO_FREE char *others =
			output_of("cd w && for o in main main^{tree} main:d main:d/n t; "
				  "do [ $o = %s ] || git rev-parse $o; done",
				  names[i]);
		AUTO_FREE char *missing = output_of("git -C w rev-parse %s", names[i]);
		oid_list list = { 0 };
		for (const char *at = others; *at;)
			vec_add(&list, next_oid(&at));
		assert_int_equal(list.count, 4);
		assert_ok(object_store_open(&repo, &store, &err));
		assert_int_equal(small_pack_make(store, &list, MOST_BYTES, &pack, &err),
				 1);
		assert_not_taken(&pack, "main t", "main~1", -1);
		missing[40] = '\0';
		assert_non_null(strstr(err.text, missing));
		vec_clear(&list);
	}
}

/* The copy has not got the parent at all, or it has it with nothing behind it. */
TEST(a_pack_that_lacks_a_parent_is_refused)
{
	AUTO_STR struct str pack = STR_INIT;

	must(WORK "echo 3 >f; c");
	make_pack("main", "main~1", &pack);
	assert_not_taken(&pack, "main", "main~2", -1);
	must("cd copy.git && git -C ../w cat-file commit main~1 | "
	     "git hash-object -t commit --literally -w --stdin >../oid");
	assert_not_taken(&pack, "main", "main~2", -1);
}

/* What lies about in the copy is walked like what came. */
TEST(old_objects_of_the_copy_are_walked)
{
	AUTO_STR struct str pack = STR_INIT;

	must(WORK "echo 3 >f; c");
	make_pack("main", "main~1", &pack);
	must("cp -r w/.git/objects/?? copy.git/objects");
	assert_int_equal(take(&pack, "main", "main~2"), 1);
	assert_good_copy("main");
}

TEST(a_pack_cut_anywhere_is_refused)
{
	AUTO_STR struct str pack = STR_INIT;
	oid_list tips = objects_of("w", "main"), known = objects_of("w", "main~1");
	struct str cut;

	make_pack("main", "main~1", &pack);
	for (size_t len = 0; len < pack.len; len++) {
		AUTO_STR struct str sealed = STR_INIT;
		cut = (struct str){ .data = pack.data, .len = len };
		assert_int_equal(take_lists(&cut, &tips, &known, MOST), -1);
		assert_int_equal(err.class, ERR_CORRUPT);
		str_add_bytes(&sealed, pack.data, len);
		seal(&sealed);
		if (len == pack.len - 20)
			continue;
		assert_int_equal(take_lists(&sealed, &tips, &known, MOST), -1);
		assert_int_equal(err.class, ERR_CORRUPT);
	}
	assert_int_equal(run("[ $(ls copy.git/objects/pack | wc -l) = 0 ]"), 0);
	vec_clear(&tips);
	vec_clear(&known);
}

/* With and without a trailer that matches it. The sizes and kinds of another form are
 * git's; what zlib reads as the same is the same. */
TEST(a_byte_that_changed_is_noticed)
{
	AUTO_STR struct str pack = STR_INIT;
	oid_list tips = objects_of("w", "main"), known = objects_of("w", "main~1");

	make_pack("main", "main~1", &pack);
	for (size_t at = 0; at < pack.len; at++) {
		AUTO_STR struct str changed = STR_INIT;
		str_add_bytes(&changed, pack.data, pack.len);
		changed.data[at] ^= 0x41;
		assert_int_equal(take_lists(&changed, &tips, &known, MOST), -1);
		if (at >= pack.len - 20)
			continue;
		str_truncate(&changed, pack.len - 20);
		seal(&changed);
		int result = take_lists(&changed, &tips, &known, MOST);
		if (result == 1) {
			assert_good_copy("main");
			must("rm -f copy.git/objects/pack/* && "
			     "git -C copy.git update-ref -d refs/x/new");
		}
		assert_true(result != -1 || err.class == ERR_CORRUPT);
	}
	assert_int_equal(run("[ $(ls copy.git/objects/pack | wc -l) = 0 ]"), 0);
	vec_clear(&tips);
	vec_clear(&known);
}

TEST(what_follows_the_objects_is_refused)
{
	AUTO_STR struct str pack = STR_INIT;

	make_pack("main", "main~1", &pack);
	str_add(&pack, "x");
	assert_not_taken(&pack, "main", "main~1", -1);
	str_truncate(&pack, pack.len - 21);
	str_add(&pack, "more");
	seal(&pack);
	assert_not_taken(&pack, "main", "main~1", -1);
}

TEST(an_object_that_comes_twice_is_refused)
{
	AUTO_STR struct str pack = STR_INIT;

	begin_pack(&pack, 2);
	add_entry(&pack, OBJECT_BLOB, 3, "abc", 3);
	add_entry(&pack, OBJECT_BLOB, 3, "abc", 3);
	seal(&pack);
	assert_not_taken(&pack, "main~1", "main~1", -1);
}

TEST(heads_that_lie_are_refused)
{
	static const struct {
		unsigned kind;
		uint64_t said;
		int expected;
	} heads[] = {
		{ OBJECT_BLOB, 2, -1 },
		{ OBJECT_BLOB, 4, -1 },
		{ OBJECT_BLOB, 0, -1 },
		{ 0, 3, -1 },
		{ 5, 3, -1 },
		{ 6, 3, -1 },
		{ 7, 3, -1 },
		{ OBJECT_BLOB, 3, 1 },
		{ OBJECT_BLOB, MOST_BYTES + 1, 0 },
		{ OBJECT_BLOB, (uint64_t)1 << 40, 0 },
		{ OBJECT_BLOB, UINT64_MAX, -1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		AUTO_STR struct str pack = STR_INIT;
		begin_pack(&pack, 1);
		add_entry(&pack, heads[i].kind, heads[i].said, "abc", 3);
		seal(&pack);
		if (heads[i].expected != 1)
			assert_not_taken(&pack, "main~1", "main~1", heads[i].expected);
		else
			assert_int_equal(take(&pack, "main~1", "main~1"), 1);
	}
}

static size_t peak_kib(void)
{
	AUTO_STR struct str text = STR_INIT;
	const char *at;

	assert_ok(file_read_any(AT_FDCWD, "/proc/self/status", 65536, &text, &err));
	at = strstr(text.data, "VmHWM:");
	return at ? strtoul(at + strlen("VmHWM:"), NULL, 10) : 0;
}

/* An entry of so many zeros, whose head says what it likes. */
static void add_zeros(struct str *pack, uint64_t said, size_t size)
{
	static unsigned char zeros[65536], out[65536];
	z_stream stream = { 0 };
	int result = Z_OK;

	add_entry_head(pack, OBJECT_BLOB, said);
	assert_int_equal(deflateInit(&stream, 9), Z_OK);
	while (result != Z_STREAM_END) {
		if (stream.avail_in == 0 && size > 0) {
			stream.next_in = zeros;
			stream.avail_in =
				(uInt)(size < sizeof(zeros) ? size : sizeof(zeros));
			size -= stream.avail_in;
		}
		stream.next_out = out;
		stream.avail_out = sizeof(out);
		result = deflate(&stream, size > 0 ? Z_NO_FLUSH : Z_FINISH);
		str_add_bytes(pack, out, sizeof(out) - stream.avail_out);
	}
	deflateEnd(&stream);
}

/* 100 MB of zeros in 100 KB, whatever the head says; one object, or many small ones. */
TEST(a_bomb_takes_no_memory)
{
	const size_t size = (size_t)100 << 20;
	AUTO_STR struct str honest = STR_INIT, liar = STR_INIT, many = STR_INIT;
	size_t before;

	begin_pack(&honest, 1);
	add_zeros(&honest, size, size);
	seal(&honest);
	begin_pack(&liar, 1);
	add_zeros(&liar, 1000, size);
	seal(&liar);
	begin_pack(&many, 200);
	for (size_t i = 0; i < 200; i++)
		add_zeros(&many, MOST_BYTES / 2 - i, MOST_BYTES / 2 - i);
	seal(&many);
	before = peak_kib();
	assert_not_taken(&honest, "main~1", "main~1", 0);
	assert_not_taken(&liar, "main~1", "main~1", -1);
	assert_not_taken(&many, "main~1", "main~1", 0);
	assert_true(before > 0 && peak_kib() < before + 50 * 1024);
}

TEST(more_objects_than_are_wanted_are_for_git)
{
	AUTO_STR struct str pack = STR_INIT;

	make_pack("main", "main~1", &pack);
	assert_int_equal(take_within(&pack, "main", "main~1", 3), 0);
	assert_int_equal(run("[ $(ls copy.git/objects/pack | wc -l) = 0 ]"), 0);
	assert_int_equal(take(&pack, "main", "main~1"), 1);
}

/* One that may be of any form; its name. */
static struct oid add_object(struct str *pack, enum object_kind kind,
			     const struct str *data)
{
	struct oid oid;

	assert_ok(object_name(kind, data->data, data->len, &oid, &err));
	add_entry(pack, kind, data->len, data->data, data->len);
	return oid;
}

static struct oid add_text_object(struct str *pack, enum object_kind kind, char *text)
{
	const struct str data = { .data = text, .len = strlen(text) };
	struct oid oid = add_object(pack, kind, &data);

	free(text);
	return oid;
}

static int take_tip(const struct str *pack, const struct oid *tip, const char *known,
		    uint64_t most_bytes)
{
	AUTO_REPO struct repo copy = REPO_INIT;
	oid_list tips = { 0 }, known_list = objects_of("w", known);
	int result;

	vec_add(&tips, *tip);
	open_at("copy.git", &copy);
	result = small_pack_take(&(struct small_pack_request){ .copy = &copy,
							       .pack = pack->data,
							       .len = pack->len,
							       .tips = &tips,
							       .known = &known_list,
							       .most = MOST,
							       .most_bytes = most_bytes },
				 &err);
	vec_clear(&tips);
	vec_clear(&known_list);
	return result;
}

#define SIGNED                                                                           \
	"author a <a@a> 1700000100 +0000\ncommitter a <a@a> 1700000100 +0000\n\nx\n"
#define ABSENT "0123456789abcdef0123456789abcdef01234567"

/* Else each later run of git over the copy would end with them. What a tag names may be
 * known: it is looked at all the same. */
TEST(objects_that_git_cannot_parse_are_refused)
{
	static const struct {
		enum object_kind kind;
		const char *text; /* T: a tree, P: its commit, F: a blob; known, but T */
		int expected;
	} objects[] = {
		{ OBJECT_COMMIT, "tree T\nparent P\n" SIGNED, 1 },
		{ OBJECT_COMMIT, "tree T\nparent P\nparent 0123\n" SIGNED, -1 },
		{ OBJECT_COMMIT, "tree T\nparent P\nparent " ABSENT, -1 },
		{ OBJECT_COMMIT, "tree T\nparent " ABSENT "\n" SIGNED, -1 },
		{ OBJECT_TAG, "object P\ntype commit\ntag x\n", 1 },
		{ OBJECT_TAG, "object P\ntype commit\ntag x", -1 },
		{ OBJECT_TAG, "object P\ntype commit\n", -1 },
		{ OBJECT_TAG, "object P\ntype commit\nanother line\n", -1 },
		{ OBJECT_TAG, "object P\ntype tree\ntag x\n", -1 },
		{ OBJECT_TAG, "object P\ntype blob\ntag x\n", -1 },
		{ OBJECT_TAG, "object F\ntype commit\ntag x\n", -1 },
		{ OBJECT_TAG, "object F\ntype blob\ntag x\n", 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(objects); i++) {
		AUTO_STR struct str pack = STR_INIT;
		AUTO_FREE char *text = output_of(
			"cd w && printf '%s' | sed \"s/^tree T/tree $(git rev-parse "
			"main~1^{tree})/; s/ P$/ $(git rev-parse main~1)/; s/ F$/ $(git "
			"rev-parse main~1:f)/\"",
			objects[i].text);
		begin_pack(&pack, 1);
		struct oid tip = add_text_object(&pack, objects[i].kind, xstrdup(text));
		seal(&pack);
		int result = take_tip(&pack, &tip, "main~1 main~1:f", MOST_BYTES);
		if (result != objects[i].expected)
			fail_msg("%zu: %d", i, result);
		assert_true(result == 1 || err.class == ERR_CORRUPT);
	}
}

/* "100644 <name>", and the blob f. */
static void add_file_of(struct str *tree, const char *name)
{
	oid_list blob = objects_of("w", "main~1:f");

	str_addf(tree, "100644 %s", name);
	str_add_char(tree, '\0');
	str_add_bytes(tree, blob.items[0].bytes, 20);
	vec_clear(&blob);
}

TEST(a_tree_with_a_name_of_nothing_is_refused)
{
	for (int is_named = 0; is_named < 2; is_named++) {
		AUTO_STR struct str pack = STR_INIT, tree = STR_INIT;
		char text[OID_MAX_TEXT];
		add_file_of(&tree, is_named ? "f" : "");
		begin_pack(&pack, 2);
		struct oid oid = add_object(&pack, OBJECT_TREE, &tree);
		oid = add_text_object(
			&pack, OBJECT_COMMIT,
			xasprintf("tree %s\n" SIGNED, oid_text(&oid, text)));
		seal(&pack);
		assert_int_equal(take_tip(&pack, &oid, "main~1", MOST_BYTES),
				 is_named ? 1 : -1);
	}
}

/* A tree of so many bytes, which deflates to a thousandth; `name` makes it another one.
 */
static void add_large_tree(struct str *pack, size_t size, const char *name,
			   struct str *parents)
{
	AUTO_STR struct str one = STR_INIT, tree = STR_INIT;
	char text[OID_MAX_TEXT];

	add_file_of(&one, name);
	while (tree.len < size)
		str_add_bytes(&tree, one.data, one.len);
	struct oid oid = add_object(pack, OBJECT_TREE, &tree);
	oid = add_text_object(pack, OBJECT_COMMIT,
			      xasprintf("tree %s\n" SIGNED, oid_text(&oid, text)));
	str_addf(parents, "parent %s\n", oid_text(&oid, text));
}

/* A merge of commits with large trees, each of which its own is compared with: these came
 * before, or now. */
TEST(what_a_change_is_compared_with_is_bounded)
{
	static const size_t counts[] = { 2, 12 };
	static const size_t size = (size_t)6 << 20;

	for (size_t i = 0; i < 2 * ARRAY_SIZE(counts); i++) {
		AUTO_STR struct str large = STR_INIT, pack = STR_INIT, parents = STR_INIT,
				    tree = STR_INIT;
		const size_t count = counts[i / 2];
		const bool is_known = i % 2 == 0;
		char text[OID_MAX_TEXT];
		AUTO_FREE char *known = NULL;
		size_t before;

		begin_pack(&large, (unsigned char)(2 * count));
		for (size_t n = 0; n < count; n++)
			add_large_tree(&large, size, (char[]){ (char)('a' + n), '\0' },
				       &parents);
		seal(&large);
		assert_ok(file_replace(root_fd, "large.pack", large.data, large.len,
				       FILE_NO_SYNC, &err));
		must("git -C w index-pack --stdin <large.pack >/dev/null");
		if (is_known)
			must("git -C copy.git index-pack --stdin <large.pack "
			     ">/dev/null");
		add_file_of(&tree, "z");
		if (is_known)
			begin_pack(&pack, 2);
		else
			str_add_bytes(&pack, large.data, large.len - 20);
		pack.data[11] = (char)(is_known ? 2 : 2 * count + 2);
		struct oid oid = add_object(&pack, OBJECT_TREE, &tree);
		oid = add_text_object(&pack, OBJECT_COMMIT,
				      xasprintf("tree %s\n%s" SIGNED,
						oid_text(&oid, text), parents.data));
		seal(&pack);
		for (char *at = parents.data; (at = strstr(at, "parent "));)
			memset(at, ' ', strlen("parent "));
		for (char *at = parents.data; (at = strchr(at, '\n'));)
			*at = ' ';
		known = xasprintf("main~1 %s", is_known ? parents.data : "");
		before = peak_kib();
		assert_int_equal(take_tip(&pack, &oid, known, (uint64_t)200 << 20),
				 count == counts[0]);
		assert_true(peak_kib() < before + 150 * 1024);
		must("rm -f copy.git/objects/pack/*");
	}
}

/* Deltas against what the copy has, or within the pack. */
/* As git makes them, in the copy without any. */
TEST(deltas_are_made_whole)
{
	static const char *const options[] = { "--thin", "", "--delta-base-offset" };

	must(WORK "seq 3000 >n; c; cd .. && rm -rf copy.git && "
		  "git clone -q --bare --no-hardlinks w copy.git && cd w && echo x >>n; "
		  "c; echo y >>n; c; echo z >>n; c");
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		AUTO_STR struct str pack = STR_INIT;
		must("cd w && printf 'main\\n^main~3\\n' | git pack-objects -q %s --revs "
		     "--stdout >../pack && git index-pack --fix-thin --stdin <../pack "
		     ">../name && git verify-pack -v .git/objects/pack/pack-$(cut -f2 "
		     "../name).idx | grep -q 'chain length'",
		     options[i]);
		assert_ok(file_read(root_fd, "pack", 65536, &pack, &err));
		if (i == 0) {
			assert_not_taken(&pack, "main", "main~3", 0);
			continue;
		}
		assert_int_equal(take(&pack, "main", "main~3"), 1);
		assert_good_copy("main");
		must("! git -C copy.git verify-pack -v objects/pack/*.idx | grep chain "
		     "&& "
		     "rm -f copy.git/objects/pack/* && git -C copy.git unpack-objects -q "
		     "<pack 2>/dev/null; rm -rf copy.git && git clone -q --bare "
		     "--no-hardlinks w copy.git && "
		     "git -C copy.git update-ref refs/heads/main main~3 && git -C "
		     "copy.git "
		     "-c gc.reflogExpire=now repack -qad && git -C copy.git prune "
		     "--expire=now");
	}
}

static void add_delta(struct str *pack, size_t back, uint64_t said, const char *delta,
		      size_t len)
{
	uLongf size = compressBound(len);
	AUTO_FREE unsigned char *bytes = xmalloc(size);

	add_entry_head(pack, 6, said);
	str_add_char(pack, (char)back);
	assert_int_equal(compress2(bytes, &size, (const Bytef *)delta, len, 9), Z_OK);
	str_add_bytes(pack, bytes, size);
}

/* Each on the blob "abc". */
TEST(deltas_that_lie_are_refused)
{
	static const struct {
		const char *delta;
		size_t len, back; /* 0: to the blob */
		int expected;
	} deltas[] = {
		{ "\3\3\220\3", 4, 0, -1 }, /* the same object again */
		{ "\3\4\220\3\1d", 6, 0, 1 },
		{ "\4\4\220\3\1d", 6, 0, -1 }, /* on a base of another size */
		{ "\3\5\220\3\1d", 6, 0, -1 }, /* makes less than it says */
		{ "\3\3\220\3\1d", 6, 0, -1 }, /* or more */
		{ "\3\4\220\4", 4, 0, -1 },    /* copies beyond the base */
		{ "\3\4\221\2\2", 5, 0, -1 },
		{ "\3\4\220", 3, 0, -1 }, /* is cut */
		{ "\3\4\4de", 5, 0, -1 },
		{ "\3\4\0", 3, 0, -1 },                /* has the code that is none */
		{ "\3\377\377\377\377\177", 6, 0, 0 }, /* too large */
		{ "\3\377\377\377\377\377\377\377\377\377\377\1", 12, 0, -1 },
		{ "\3\4\220\3\1d", 6, 1, 0 }, /* on what is no object's beginning */
		{ "\3\4\220\3\1d", 6, 127, -1 },
		{ "", 0, 0, -1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(deltas); i++) {
		AUTO_STR struct str pack = STR_INIT;
		size_t begin, back = deltas[i].back;
		begin_pack(&pack, 2);
		begin = pack.len;
		add_entry(&pack, OBJECT_BLOB, 3, "abc", 3);
		add_delta(&pack, back > 0 ? back : pack.len - begin, deltas[i].len,
			  deltas[i].delta, deltas[i].len);
		seal(&pack);
		if (deltas[i].expected != 1)
			assert_not_taken(&pack, "main~1", "main~1", deltas[i].expected);
		else
			assert_int_equal(take(&pack, "main~1", "main~1"), 1);
	}
	must("[ $(git -C copy.git cat-file -p $(printf abcd | git hash-object --stdin)) "
	     "= "
	     "abcd ]");
}

/* Each a rotation of the same noise by one byte: 900 KB of deltas' making in 20 KB. */
TEST(deltas_that_make_much_take_no_disk)
{
	enum { SIZE = 9000, COUNT = 100 };
	AUTO_STR struct str pack = STR_INIT;
	unsigned char noise[SIZE];
	size_t base;

	assert_int_equal(getrandom(noise, SIZE, 0), SIZE);
	begin_pack(&pack, COUNT + 1);
	base = pack.len;
	add_entry(&pack, OBJECT_BLOB, SIZE, noise, SIZE);
	for (size_t i = 1; i <= COUNT; i++) {
		const size_t rest = SIZE - i;
		const char delta[] = {
			(char)(SIZE % 128 | 128),
			(char)(SIZE / 128),
			(char)(SIZE % 128 | 128),
			(char)(SIZE / 128),
			(char)0xb3,
			(char)i,
			0,
			(char)(rest & 255),
			(char)(rest >> 8),
			(char)0x93,
			0,
			0,
			(char)i,
		};
		const size_t back = pack.len - base;
		uLongf len = 64;
		unsigned char bytes[64];
		add_entry_head(&pack, 6, sizeof(delta));
		str_add_char(&pack, (char)((back / 128 - 1) | 128));
		str_add_char(&pack, (char)(back % 128));
		assert_int_equal(
			compress2(bytes, &len, (const Bytef *)delta, sizeof(delta), 9),
			Z_OK);
		str_add_bytes(&pack, bytes, len);
	}
	seal(&pack);
	assert_ok(file_replace(root_fd, "pack", pack.data, pack.len, FILE_NO_SYNC, &err));
	assert_int_equal(take(&pack, "main~1", "main~1"), 1);
	must("cmp pack copy.git/objects/pack/*.pack && cd copy.git && "
	     "git index-pack -o ../x.idx objects/pack/*.pack >/dev/null && "
	     "cmp ../x.idx objects/pack/*.idx && git fsck --no-dangling");
}

TEST(copies_that_only_git_reads_are_for_git)
{
	AUTO_STR struct str pack = STR_INIT;

	make_pack("main", "main~1", &pack);
	must("git -C w rev-parse main~1 >copy.git/shallow");
	assert_not_taken(&pack, "main", "main~1", 0);
}

TEST(a_change_that_is_too_large_is_not_made)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	AUTO_OBJECT_STORE struct object_store *store = NULL;
	AUTO_STR struct str pack = STR_INIT;
	oid_list list = { 0 };

	must(WORK "head -c 3000 /dev/zero >z; c");
	str_add(&pack, "before");
	list = objects_of("w", "main:z main:f");
	open_at("w/.git", &repo);
	assert_ok(object_store_open(&repo, &store, &err));
	assert_int_equal(small_pack_make(store, &list, 3003, &pack, &err), 0);
	assert_string_equal(pack.data, "before");
	assert_int_equal(small_pack_make(store, &list, 3004, &pack, &err), 1);
	list.items[0].bytes[3] ^= 1;
	str_truncate(&pack, 6);
	assert_fails(small_pack_make(store, &list, 3004, &pack, &err), ERR_MISSING);
	assert_string_equal(pack.data, "before");
	vec_clear(&list);
}

static int list_of_store(struct object_store *store, const oid_list *tips)
{
	oid_list known = { 0 }, list = { 0 };
	int result = new_objects_list(
		&(struct new_objects_request){ .store = store,
					       .tips = tips,
					       .known = &known,
					       .most = MOST,
					       .most_bytes = MOST_BYTES },
		&list, &err);

	vec_clear(&list);
	return result;
}

/* What stops a node, or ends its patience, ends these as well. */
TEST(a_stop_ends_it_at_the_next_object)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	AUTO_OBJECT_STORE struct object_store *store = NULL;
	AUTO_STR struct str pack = STR_INIT;
	struct stop stop;
	oid_list tips = objects_of("w", "main");

	stop_init(&stop);
	struct git_work work = git_work_for(&stop, 0);
	open_at("w/.git", &repo);
	assert_ok(object_store_open(&repo, &store, &err));
	object_store_obey(store, &work);
	assert_int_equal(list_of_store(store, &tips), 1);
	assert_int_equal(small_pack_make(store, &tips, MOST_BYTES, &pack, &err), 1);
	stop_request(&stop);
	assert_int_equal(list_of_store(store, &tips), 0);
	str_truncate(&pack, 0);
	assert_fails(small_pack_make(store, &tips, MOST_BYTES, &pack, &err),
		     ERR_CANCELED);
	assert_int_equal(pack.len, 0);
	work = (struct git_work){ .until = clock_boot_ms() };
	assert_int_equal(list_of_store(store, &tips), 0);
	assert_fails(small_pack_make(store, &tips, MOST_BYTES, &pack, &err), ERR_TIMEOUT);
	vec_clear(&tips);
	stop_clear(&stop);
}

/* It is git's then, which stops, too. */
TEST(nothing_is_taken_after_a_stop)
{
	const struct git_work late = { .until = clock_boot_ms() };
	AUTO_STR struct str pack = STR_INIT;

	make_pack("main", "main~1", &pack);
	work_of_take = &late;
	assert_not_taken(&pack, "main", "main~1", 0);
	work_of_take = NULL;
	assert_int_equal(take(&pack, "main", "main~1"), 1);
}

/* Whichever step fails, nothing is left, and the next time it is taken. */
TEST(a_disk_that_fails_is_an_error)
{
	AUTO_STR struct str pack = STR_INIT;
	AUTO_FREE char *before = output_of(TREE_OF_COPY);
	int kept = 0;

	make_pack("main", "main~1", &pack);
	for (int *step = steps; step < steps + ARRAY_SIZE(steps); step++) {
		for (int nth = 1;; nth++) {
			*step = nth;
			int result = take(&pack, "main", "main~1");
			bool is_reached = *step < 0;
			*step = 0;
			if (!is_reached)
				break;
			assert_int_equal(result, -1);
			assert_int_equal(err.class, ERR_DISK);
			/* What has its name stays: it may be another's by now. */
			AUTO_FREE char *left = output_of("ls copy.git/objects/pack");
			kept += strstr(left, ".pack") != NULL;
			must("rm -f copy.git/objects/pack/pack-*");
			AUTO_FREE char *after = output_of(TREE_OF_COPY);
			assert_string_equal(before, after);
		}
		assert_good_copy("main");
		must("rm -f copy.git/objects/pack/* && "
		     "git -C copy.git update-ref -d refs/x/new && rmdir copy.git/refs/x");
	}
	assert_true(kept > 0);
	assert_true(failures >= 2 + 3 + 2); /* more where one log orders all */
}

/* The pack, or its index. */
TEST(what_is_read_otherwise_than_it_was_written_is_not_kept)
{
	AUTO_STR struct str pack = STR_INIT;
	AUTO_FREE char *before = output_of(TREE_OF_COPY);

	make_pack("main", "main~1", &pack);
	for (int which = 1; which <= 2; which++) {
		AUTO_FREE char *after = NULL;
		twisted = which;
		assert_int_equal(take(&pack, "main", "main~1"), -1);
		assert_int_equal(twisted, 0);
		assert_int_equal(err.class, ERR_DISK);
		after = output_of(TREE_OF_COPY);
		assert_string_equal(before, after);
	}
	assert_int_equal(take(&pack, "main", "main~1"), 1);
	assert_good_copy("main");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR_CASE(what_is_made_is_taken),
		PAIR_CASE(packs_of_many_objects_are_taken),
		PAIR_CASE(a_pack_of_nothing_makes_no_file),
		PAIR_CASE(a_pack_that_lacks_an_object_is_refused),
		PAIR_CASE(a_pack_that_lacks_a_parent_is_refused),
		PAIR_CASE(old_objects_of_the_copy_are_walked),
		PAIR_CASE(a_pack_cut_anywhere_is_refused),
		PAIR_CASE(a_byte_that_changed_is_noticed),
		PAIR_CASE(what_follows_the_objects_is_refused),
		PAIR_CASE(an_object_that_comes_twice_is_refused),
		PAIR_CASE(heads_that_lie_are_refused),
		PAIR_CASE(a_bomb_takes_no_memory),
		PAIR_CASE(more_objects_than_are_wanted_are_for_git),
		PAIR_CASE(objects_that_git_cannot_parse_are_refused),
		PAIR_CASE(a_tree_with_a_name_of_nothing_is_refused),
		PAIR_CASE(what_a_change_is_compared_with_is_bounded),
		PAIR_CASE(deltas_are_made_whole),
		PAIR_CASE(deltas_that_lie_are_refused),
		PAIR_CASE(deltas_that_make_much_take_no_disk),
		PAIR_CASE(copies_that_only_git_reads_are_for_git),
		PAIR_CASE(a_change_that_is_too_large_is_not_made),
		PAIR_CASE(a_stop_ends_it_at_the_next_object),
		PAIR_CASE(nothing_is_taken_after_a_stop),
		PAIR_CASE(a_disk_that_fails_is_an_error),
		PAIR_CASE(what_is_read_otherwise_than_it_was_written_is_not_kept),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
