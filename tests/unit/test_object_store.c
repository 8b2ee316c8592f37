#include "objects_test.h"

static struct oid one_object(const char *name)
{
	oid_list list = objects_of("w", name);
	struct oid oid = list.items[0];

	vec_clear(&list);
	return oid;
}

static struct object_store *open_store(const char *path)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	struct object_store *store = NULL;

	open_at(path, &repo);
	assert_ok(object_store_open(&repo, &store, &err));
	return store;
}

/* It is read, looked at, and has the content that git shows. */
static void assert_reads(struct object_store *store, const char *name,
			 enum object_kind kind)
{
	static const char *const names[] = { "", "commit", "tree", "blob", "tag" };
	AUTO_OBJECT struct object object = { 0 };
	struct oid oid = one_object(name), again;
	enum object_kind looked;
	uint64_t size;

	assert_ok(object_store_read(store, &oid, &object, &err));
	assert_int_equal(object.kind, kind);
	assert_ok(object_store_look(store, &oid, &looked, &size, &err));
	assert_int_equal(looked, kind);
	assert_int_equal(size, object.len);
	assert_true(object_store_has(store, &oid));
	assert_ok(object_name(kind, object.data, object.len, &again, &err));
	assert_true(oid_equal(&oid, &again));
	assert_ok(file_replace(root_fd, "object", object.data, object.len, FILE_NO_SYNC,
			       &err));
	must("git -C w cat-file %s '%s' | cmp - object", names[kind], name);
}

static void assert_reads_all(struct object_store *store)
{
	assert_reads(store, "main", OBJECT_COMMIT);
	assert_reads(store, "main~2^{tree}", OBJECT_TREE);
	assert_reads(store, "main:n", OBJECT_BLOB);
	assert_reads(store, "main~1:n", OBJECT_BLOB);
	assert_reads(store, "main~2:n", OBJECT_BLOB);
	assert_reads(store, "t", OBJECT_TAG);
	assert_reads(store, "main:empty", OBJECT_BLOB);
}

static void make_history(void)
{
	must(WORK "seq 2000 >n; : >empty; c; echo 1 >>n; c; echo 2 >>n; c; "
		  "git tag -am t t");
}

TEST(objects_are_read_from_wherever_they_are)
{
	make_history();
	AUTO_OBJECT_STORE struct object_store *loose = open_store("w/.git");
	assert_reads_all(loose);
	must("git -C w repack -qadf && git -C w prune-packed && cp -a w o && "
	     "echo ../../../o/.git/objects >w/.git/objects/info/alternates && "
	     "rm w/.git/objects/pack/*");
	AUTO_OBJECT_STORE struct object_store *relative = open_store("w/.git");
	assert_reads_all(relative);
	must("echo \"$PWD/o/.git/objects\" >w/.git/objects/info/alternates");
	AUTO_OBJECT_STORE struct object_store *absolute = open_store("w/.git");
	assert_reads_all(absolute);
	must("rm w/.git/objects/info/alternates && cp o/.git/objects/pack/* "
	     "w/.git/objects/pack && git -C w multi-pack-index write");
	AUTO_OBJECT_STORE struct object_store *packed = open_store("w/.git");
	assert_reads_all(packed);
}

/* Whoever has it open sees what comes, and does not miss what was packed anew. */
TEST(a_store_follows_what_git_does_to_the_repository)
{
	make_history();
	must("git -C w repack -qad");
	AUTO_OBJECT_STORE struct object_store *store = open_store("w/.git");
	assert_reads_all(store);
	must(WORK "echo 3 >>n; c; git repack -qd");
	assert_reads(store, "main:n", OBJECT_BLOB);
	must(WORK "echo 4 >>n; c; git repack -qadf; git prune-packed");
	assert_reads(store, "main:n", OBJECT_BLOB);
	assert_reads(store, "t", OBJECT_TAG);
	must(WORK "echo 5 >>n; c; git repack -qd --write-midx");
	assert_reads(store, "main:n", OBJECT_BLOB);
	must(WORK "git repack -qad; rm -f .git/objects/pack/multi-pack-index");
	assert_reads(store, "main:n", OBJECT_BLOB);
	assert_reads(store, "main~3:n", OBJECT_BLOB);
}

/* Packs that were only mapped, not opened, when they went. */
TEST(packs_that_went_before_they_were_opened_are_no_loss)
{
	make_history();
	must("git -C w repack -qad");
	AUTO_OBJECT_STORE struct object_store *store = open_store("w/.git");
	struct oid none = { .len = 20, .bytes = { 1 } };
	assert_false(object_store_has(store, &none));
	must("git -C w repack -qadf --depth=1 --window=50");
	assert_reads_all(store);
}

/* The descriptor counts, not the path. */
TEST(a_store_stays_with_its_directory)
{
	make_history();
	AUTO_OBJECT_STORE struct object_store *store = open_store("w/.git");
	must("cp -a w o && mv w/.git w/moved && git init -q --bare w/.git && mv w v && "
	     "mv o w");
	assert_reads_all(store);
}

TEST(what_is_missing_is_said)
{
	AUTO_OBJECT_STORE struct object_store *store = open_store("w/.git");
	struct oid none = { .len = 20, .bytes = { 1 } };
	struct object object;
	enum object_kind kind;
	uint64_t size;

	assert_fails(object_store_read(store, &none, &object, &err), ERR_MISSING);
	assert_fails(object_store_look(store, &none, &kind, &size, &err), ERR_MISSING);
	assert_false(object_store_has(store, &none));
}

TEST(damage_is_found)
{
	struct oid oid;
	struct object object;

	make_history();
	AUTO_OBJECT_STORE struct object_store *store = open_store("w/.git");
	oid = one_object("main:n");
	must("cd w && o=$(git rev-parse main:n) && f=$(git rev-parse main:f) && "
	     "p() { echo .git/objects/$(echo $1 | cut -c1-2)/$(echo $1 | cut -c3-); } && "
	     "cp -f $(p $f) $(p $o)");
	assert_fails(object_store_read(store, &oid, &object, &err), ERR_CORRUPT);
	must("cd w && o=$(git rev-parse main:n) && "
	     "p() { echo .git/objects/$(echo $1 | cut -c1-2)/$(echo $1 | cut -c3-); } && "
	     "chmod u+w $(p $o) && echo nonsense >$(p $o)");
	assert_fails(object_store_read(store, &oid, &object, &err), ERR_CORRUPT);
}

TEST(replacements_are_not_obeyed)
{
	struct oid oid;
	AUTO_OBJECT struct object object = { 0 };

	must("cd w && git replace $(git rev-parse main:f) $(git rev-parse main:d/g)");
	AUTO_OBJECT_STORE struct object_store *store = open_store("w/.git");
	oid = one_object("main:f");
	assert_ok(object_store_read(store, &oid, &object, &err));
	assert_int_equal(object.len, 4);
	assert_memory_equal(object.data, "one\n", 4);
}

static void assert_refused(const char *path)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	struct object_store *store;

	open_at(path, &repo);
	assert_fails(object_store_open(&repo, &store, &err), ERR_CONFIG);
	assert_null(store);
}

TEST(what_only_git_understands_is_refused)
{
	must("git init -q --bare --object-format=sha256 a");
	assert_refused("a");
	must("git init -q --bare b && git -C w rev-parse main >b/shallow");
	assert_refused("b");
	must("git init -q --bare c && git -C w rev-parse main >c/info/grafts");
	assert_refused("c");
	must("git init -q --bare e && git -C e config extensions.partialClone origin");
	assert_refused("e");
	must("git init -q --bare f && echo w/.git/objects >f/objects/info/alternates");
	assert_refused("f");
	must("git init -q --bare g && git init -q --bare h && "
	     "echo ../../w/.git/objects >h/objects/info/alternates && "
	     "echo ../../h/objects >g/objects/info/alternates");
	assert_refused("g");
}

/* Those that are lent come first, until the store is closed. */
TEST(lent_objects_are_seen)
{
	struct object_lent lent[2] = { { .kind = OBJECT_BLOB, .data = "a", .len = 1 },
				       { .kind = OBJECT_BLOB, .data = "b", .len = 1 } };
	AUTO_OBJECT_STORE struct object_store *store = open_store("w/.git");

	for (size_t i = 0; i < ARRAY_SIZE(lent); i++)
		assert_ok(object_name(OBJECT_BLOB, lent[i].data, 1, &lent[i].oid, &err));
	if (oid_compare(&lent[0].oid, &lent[1].oid) > 0) {
		struct object_lent first = lent[0];
		lent[0] = lent[1];
		lent[1] = first;
	}
	assert_false(object_store_has(store, &lent[0].oid));
	object_store_lend(store, lent, ARRAY_SIZE(lent));
	for (size_t i = 0; i < ARRAY_SIZE(lent); i++) {
		AUTO_OBJECT struct object object = { 0 };
		assert_ok(object_store_read(store, &lent[i].oid, &object, &err));
		assert_ptr_equal(object.data, lent[i].data);
	}
	assert_reads(store, "main", OBJECT_COMMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORK_CASE(objects_are_read_from_wherever_they_are),
		WORK_CASE(a_store_follows_what_git_does_to_the_repository),
		WORK_CASE(packs_that_went_before_they_were_opened_are_no_loss),
		WORK_CASE(a_store_stays_with_its_directory),
		WORK_CASE(what_is_missing_is_said),
		WORK_CASE(damage_is_found),
		WORK_CASE(replacements_are_not_obeyed),
		WORK_CASE(what_only_git_understands_is_refused),
		WORK_CASE(lent_objects_are_seen),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
