/*
 * Git itself is the measure: what it answers to each request under protocol 2, byte for
 * byte. A list is made as the cache makes one: of git's advertisement under protocol 0
 * and of the symbolic refs that the files of the repository hold.
 */
#include "git_test.h"

#include "git/pkt_line.h"
#include "serve/ref_list.h"

#define ALL "peel|symrefs|unborn|"

static size_t oid_size = 20;

static void write_file(const char *name, const struct str *bytes)
{
	assert_ok(
		file_replace(root_fd, name, bytes->data, bytes->len, FILE_NO_SYNC, &err));
}

/* Loose refs as git itself writes them; the line as in git_test.h, no symbolic ones. */
static void set_refs(const char *line)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	AUTO_STR struct str script = STR_INIT;
	AUTO_STR struct str head = STR_INIT;

	refs_of(line, &refs);
	for (size_t i = 0; i < refs.refs.count; i++) {
		str_addf(&script, "create %s ", refs.refs.items[i].name);
		oid_add_text(&refs.refs.items[i].oid, &script);
		str_add_char(&script, '\n');
	}
	write_file("script", &script);
	must("git -C r.git update-ref --stdin <script");
	if (refs.head_target)
		str_addf(&head, "ref: %s", refs.head_target);
	else
		oid_add_text(&refs.head_oid, &head);
	str_add_char(&head, '\n');
	write_text("HEAD", head.data);
}

struct list {
	struct str bytes;
	struct ref_snapshot snapshot;
	VEC(struct ref_symbolic) symbolic;
	struct ref_list *refs;
};

static void learn_symbolic(struct list *list)
{
	struct ref_symbolic head = { "HEAD", NULL };

	assert_ok(ref_snapshot_read(repo_fd, oid_size, &list->snapshot, &err));
	head.target = list->snapshot.head_target;
	if (head.target)
		vec_add(&list->symbolic, head);
	for (size_t i = 0; i < list->snapshot.refs.count; i++) {
		const struct ref *ref = &list->snapshot.refs.items[i];
		struct ref_symbolic symbolic = { ref->name, ref->target };
		if (ref->target)
			vec_add(&list->symbolic, symbolic);
	}
}

static void list_open(struct list *list)
{
	*list = (struct list){ .bytes = STR_INIT };
	must("git upload-pack --strict --stateless-rpc --http-backend-info-refs r.git "
	     ">advertised");
	assert_ok(file_read(root_fd, "advertised", (size_t)1 << 30, &list->bytes, &err));
	learn_symbolic(list);
	list->refs = ref_list_parse(list->bytes.data, list->bytes.len,
				    list->symbolic.items, list->symbolic.count, &err);
	if (!list->refs)
		fail_msg("%s", err.text);
}

static void list_close(struct list *list)
{
	ref_list_free(list->refs);
	vec_clear(&list->symbolic);
	ref_snapshot_clear(&list->snapshot);
	str_clear(&list->bytes);
}

/* "peel|ref-prefix HEAD|": the arguments, each ended by "|". */
static void write_request(const char *arguments, struct str *out)
{
	pkt_add(out, "command=ls-refs\n", 16);
	pkt_addf(out, "object-format=%s", oid_size == 20 ? "sha1" : "sha256");
	str_add(out, "0001");
	while (*arguments) {
		size_t len = strcspn(arguments, "|");
		pkt_add(out, arguments, len);
		arguments += len + (arguments[len] == '|');
	}
	pkt_add_flush(out);
}

/* Git's answers to the requests in the files q0, q1, ..., in a0, a1, ... */
static void ask_git(size_t count)
{
	must("i=0; while [ $i -lt %zu ]; do GIT_PROTOCOL=version=2 git upload-pack "
	     "--strict --stateless-rpc r.git <q$i >a$i || exit 1; i=$((i + 1)); done",
	     count);
}

/* That what is made in parts is the same. */
static void assert_parts(const struct list *list, const struct ls_refs *request,
			 size_t most, const struct str *whole)
{
	AUTO_STR struct str parts = STR_INIT;
	struct ref_cursor cursor = { 0 };
	size_t before = 0;

	while (ref_list_part(list->refs, request, &cursor, most, &parts)) {
		assert_in_range(parts.len - before, most, most + 1000);
		before = parts.len;
	}
	assert_int_equal(parts.len, whole->len);
	assert_memory_equal(parts.data, whole->data, whole->len);
}

static void assert_as_git(const struct list *list, size_t i, const char *arguments)
{
	AUTO_STR struct str body = STR_INIT;
	AUTO_STR struct str ours = STR_INIT;
	AUTO_STR struct str gits = STR_INIT;
	AUTO_LS_REFS struct ls_refs request;
	char name[32];

	snprintf(name, sizeof(name), "q%zu", i);
	assert_ok(file_read(root_fd, name, (size_t)1 << 30, &body, &err));
	*name = 'a';
	assert_ok(file_read(root_fd, name, (size_t)1 << 30, &gits, &err));
	assert_true(ls_refs_parse(body.data, body.len, 2 * oid_size, &request));
	ref_list_answer(list->refs, &request, &ours);
	if (ours.len != gits.len || memcmp(ours.data, gits.data, ours.len) != 0)
		fail_msg("%s\nours:\n%s\ngit's:\n%s", arguments, ours.data, gits.data);
	assert_parts(list, &request, 1, &ours);
	assert_parts(list, &request, 300, &ours);
}

static void assert_all_as_git(const char *const *arguments, size_t count)
{
	struct list list;

	list_open(&list);
	for (size_t i = 0; i < count; i++) {
		AUTO_STR struct str body = STR_INIT;
		char name[32];
		snprintf(name, sizeof(name), "q%zu", i);
		write_request(arguments[i], &body);
		write_file(name, &body);
	}
	ask_git(count);
	for (size_t i = 0; i < count; i++)
		assert_as_git(&list, i, arguments[i]);
	list_close(&list);
}

static const char *const requests[] = {
	"",
	"peel|",
	"symrefs|",
	"unborn|",
	"symrefs|unborn|",
	ALL,
	ALL "ref-prefix |",
	ALL "ref-prefix HEAD|",
	ALL "ref-prefix HE|ref-prefix refs/heads/main|",
	ALL "ref-prefix HEADS|ref-prefix head|",
	ALL "ref-prefix r|",
	ALL "ref-prefix refs|ref-prefix refs/heads/a|",
	"peel|ref-prefix refs/tags/|",
	"ref-prefix refs/tags/|",
	ALL "ref-prefix refs/heads/|ref-prefix refs/tags/|ref-prefix HEAD|",
	/* What git fetch asks for when it is told "main". */
	ALL "ref-prefix main|ref-prefix refs/main|ref-prefix refs/tags/main|"
	    "ref-prefix refs/heads/main|ref-prefix refs/remotes/main|"
	    "ref-prefix refs/remotes/main/HEAD|",
	ALL "ref-prefix refs/heads/a|ref-prefix refs/heads/a/|ref-prefix refs/heads/a-|",
	ALL "ref-prefix refs/heads/HEAD|",
	ALL "ref-prefix refs/remotes/|ref-prefix refs/z|ref-prefix refs/heads/\xff|",
	ALL "ref-prefix refs/heads/none|ref-prefix ~|ref-prefix refs/heads/*|",
	"symrefs|ref-prefix refs/changes/0|ref-prefix refs/remotes/origin/HEAD|",
	"peel|peel|ref-prefix refs/tags/v1|ref-prefix refs/tags/v1|",
};

static void assert_as_git_says(void)
{
	assert_all_as_git(requests, ARRAY_SIZE(requests));
}

static const char branches[] = "HEAD=>refs/heads/main refs/heads/main=3 "
			       "refs/heads/a=1 refs/heads/a-b=2 refs/heads/a.b=4 "
			       "refs/heads/ab/c=5 refs/changes/01/1/1=6";

TEST(branches_are_answered_as_git_does)
{
	set_refs(branches);
	assert_as_git_says();
	must("git -C r.git pack-refs --all");
	assert_as_git_says();
}

TEST(tags_of_tags_trees_and_blobs_are_answered_as_git_does)
{
	set_refs("HEAD=>refs/heads/main refs/heads/main=3 refs/tags/a=3 refs/tags/v1=t0 "
		 "refs/tags/v2=t2 refs/tags/v6=t5");
	must("cd r.git && git tag -a -m t tree main^{tree} && "
	     "git tag -a -m b blob $(echo x | git hash-object -w --stdin) && "
	     "git update-ref refs/tags/zz/bare $(echo x | git hash-object -w --stdin)");
	assert_as_git_says();
	must("git -C r.git pack-refs --all");
	assert_as_git_says();
}

TEST(symbolic_refs_are_answered_as_git_does)
{
	set_refs(branches);
	must("cd r.git && git symbolic-ref refs/remotes/origin/HEAD refs/heads/main && "
	     "git symbolic-ref refs/remotes/origin/gone refs/heads/gone && "
	     "git symbolic-ref refs/heads/s1 refs/heads/main && "
	     "git symbolic-ref refs/heads/s2 refs/heads/s1 && "
	     "git symbolic-ref refs/heads/s3 refs/heads/s2 && "
	     "git symbolic-ref refs/heads/s4 refs/heads/s3 && "
	     "git symbolic-ref refs/heads/s5 refs/heads/s4 && "
	     "git symbolic-ref refs/heads/head HEAD && "
	     "git symbolic-ref refs/heads/loop1 refs/heads/loop2 && "
	     "git symbolic-ref refs/heads/loop2 refs/heads/loop1");
	assert_as_git_says();
	must("git -C r.git symbolic-ref HEAD refs/heads/s2");
	assert_as_git_says();
	must("git -C r.git symbolic-ref HEAD refs/heads/s5");
	assert_as_git_says();
	must("git -C r.git symbolic-ref HEAD refs/heads/loop1");
	assert_as_git_says();
}

TEST(a_symbolic_tag_is_answered_as_git_does)
{
	set_refs("HEAD=>refs/tags/latest refs/heads/main=3 refs/tags/v1=t1");
	must("git -C r.git symbolic-ref refs/tags/latest refs/tags/v1");
	assert_as_git_says();
}

TEST(an_unborn_head_is_answered_as_git_does)
{
	set_refs("HEAD=>refs/heads/none refs/heads/main=3");
	assert_as_git_says();
	must("cd r.git && git symbolic-ref refs/heads/s1 refs/heads/none && "
	     "git symbolic-ref refs/heads/s2 refs/heads/s1 && "
	     "git symbolic-ref refs/heads/s3 refs/heads/s2 && "
	     "git symbolic-ref refs/heads/s4 refs/heads/s3 && "
	     "git symbolic-ref HEAD refs/heads/s3");
	assert_as_git_says();
	must("git -C r.git symbolic-ref HEAD refs/heads/s4");
	assert_as_git_says();
}

TEST(a_detached_head_is_answered_as_git_does)
{
	set_refs("HEAD=4 refs/heads/main=3 refs/tags/v1=t1");
	assert_as_git_says();
	must("git -C r.git rev-parse v1 >oid && cp oid r.git/HEAD");
	assert_as_git_says();
}

TEST(an_empty_repository_is_answered_as_git_does)
{
	assert_as_git_says();
}

TEST(hidden_refs_are_answered_as_git_does)
{
	set_refs(branches);
	must("cd r.git && git symbolic-ref refs/remotes/origin/HEAD refs/heads/main && "
	     "git symbolic-ref refs/heads/s refs/heads/main && "
	     "git config --add transfer.hideRefs refs/changes && "
	     "git config --add uploadpack.hideRefs refs/remotes");
	assert_as_git_says();
	must("cd r.git && git config --add uploadpack.hideRefs refs/heads/main");
	assert_as_git_says();
	must("cd r.git && git config --add uploadpack.hideRefs refs");
	assert_as_git_says();
}

TEST(a_head_that_is_hidden_does_not_look_unborn)
{
	set_refs(branches);
	must("git -C r.git config transfer.hideRefs HEAD");
	assert_as_git_says();
}

TEST(odd_names_are_answered_as_git_does)
{
	set_refs("HEAD=>refs/heads/main refs/heads/main=3 refs/heads/HEAD=1 refs/heads/"
		 "\xff=1 refs/heads/\xc3\xa4=2 refs/heads/%=3 refs/heads/a|b=4 "
		 "refs/heads/a\"'$b=5 refs/changes/b=6 refs/heads/a(b)=7");
	assert_as_git_says();
}

TEST(what_git_takes_for_broken_refs_is_answered_as_git_does)
{
	struct list list;

	set_refs(branches);
	must("cp r.git/refs/heads/main 'r.git/refs/heads/a b'");
	must("cp r.git/refs/heads/main 'r.git/refs/heads/main^{}'");
	must("printf '%%s\\n' \"0000000000000000000000000000000000000001\" "
	     ">r.git/refs/heads/dangling");
	list_open(&list);
	assert_int_equal(ref_list_count(list.refs), 9);
	list_close(&list);
	assert_as_git_says();
}

TEST(a_shallow_repository_is_answered_as_git_does)
{
	set_refs("HEAD=>refs/heads/main refs/heads/main=9 refs/tags/v1=t1");
	must("git -C r.git rev-parse main main~2 >r.git/shallow");
	assert_as_git_says();
}

TEST(a_sha256_repository_is_answered_as_git_does)
{
	must("rm -r r.git && git init -q --bare -b main --object-format=sha256 r.git && "
	     "cd r.git && c=$(git commit-tree -m x $(git mktree </dev/null)) && "
	     "git update-ref refs/heads/main $c && git update-ref refs/heads/a/b $c && "
	     "git tag -a -m t v1 main && git symbolic-ref refs/heads/s refs/heads/main");
	open_repo();
	oid_size = 32;
	assert_as_git_says();
	oid_size = 20;
}

static unsigned next_random(void)
{
	static uint32_t seed = 12345;

	seed = seed * 1664525 + 1013904223;
	return seed >> 16;
}

static char *random_arguments(void)
{
	static const char *const names[] = { "HEAD",           "refs/heads/main",
					     "refs/heads/a-b", "refs/heads/ab/c",
					     "refs/heads/a.b", "refs/heads/s",
					     "refs/tags/v2",   "refs/changes/01/1/1" };
	AUTO_STR struct str text = STR_INIT;
	unsigned flags = next_random();

	str_add(&text, flags & 1 ? "peel|" : "");
	str_add(&text, flags & 2 ? "symrefs|" : "");
	str_add(&text, flags & 4 ? "unborn|" : "");
	for (unsigned i = next_random() % 5; i > 0; i--) {
		const char *name = names[next_random() % ARRAY_SIZE(names)];
		int len = (int)(next_random() % (strlen(name) + 1));
		str_addf(&text, "ref-prefix %.*s|", len, name);
	}
	return str_take(&text);
}

TEST(requests_made_by_chance_are_answered_as_git_does)
{
	char *random[100];

	set_refs(branches);
	must("cd r.git && git symbolic-ref refs/heads/s refs/heads/main && "
	     "git update-ref refs/tags/v1 $(git -C %s rev-parse v1) && "
	     "git update-ref refs/tags/v2 $(git -C %s rev-parse v2)",
	     store_path, store_path);
	for (size_t i = 0; i < ARRAY_SIZE(random); i++)
		random[i] = random_arguments();
	assert_all_as_git((const char *const *)random, ARRAY_SIZE(random));
	for (size_t i = 0; i < ARRAY_SIZE(random); i++)
		free(random[i]);
}

static char *many_prefixes(size_t count)
{
	AUTO_STR struct str text = STR_INIT;

	str_add(&text, "symrefs|");
	for (size_t i = 0; i < count; i++)
		str_addf(&text, "ref-prefix refs/heads/a%zu|", i);
	return str_take(&text);
}

TEST(too_many_prefixes_are_answered_as_git_does)
{
	AUTO_FREE char *few = many_prefixes(1000);
	AUTO_FREE char *most = many_prefixes(65535);
	AUTO_FREE char *many = many_prefixes(65536);
	AUTO_FREE char *more = many_prefixes(65537);
	const char *const arguments[] = { few, most, many, more };

	set_refs(branches);
	must("cd r.git && git update-ref refs/heads/a60000 main");
	assert_all_as_git(arguments, ARRAY_SIZE(arguments));
}

#define ZERO "0000000000000000000000000000000000000000"

TEST(a_head_of_zeros_is_unborn_as_it_is_to_git)
{
	static const char advertised[] =
		"0037" ZERO " HEAD\0caps\n003d" ZERO " refs/heads/main\n0000";
	static const struct ref_symbolic symbolic = { "HEAD", "refs/heads/main" };
	const struct ls_refs all = { .wants_symrefs = true, .wants_unborn = true };
	const struct ls_refs none = { .wants_symrefs = true };
	AUTO_STR struct str out = STR_INIT;
	struct ref_list *list =
		ref_list_parse(advertised, sizeof(advertised) - 1, &symbolic, 1, &err);

	assert_non_null(list);
	ref_list_answer(list, &all, &out);
	assert_string_equal(out.data, "002eunborn HEAD symref-target:refs/heads/main\n"
				      "003d" ZERO " refs/heads/main\n0000");
	str_reset(&out);
	ref_list_answer(list, &none, &out);
	assert_string_equal(out.data, "003d" ZERO " refs/heads/main\n0000");
	ref_list_free(list);
}

static void assert_corrupt(const char *bytes, size_t len)
{
	AUTO_FREE char *copy = xmalloc(len + 1); /* so that no byte behind is there */
	struct ref_list *list;

	copy = xrealloc(copy, len ? len : 1);
	memcpy(copy, bytes, len);
	err = (struct err){ 0 };
	list = ref_list_parse(copy, len, NULL, 0, &err);
	assert_null(list);
	assert_int_equal(err.class, ERR_CORRUPT);
}

TEST(an_advertisement_that_was_cut_anywhere_is_refused)
{
	struct list list;

	set_refs("HEAD=>refs/heads/main refs/heads/main=3 refs/tags/v1=t1");
	list_open(&list);
	for (size_t len = 0; len < list.bytes.len; len++)
		assert_corrupt(list.bytes.data, len);
	str_add_char(&list.bytes, '0');
	assert_corrupt(list.bytes.data, list.bytes.len);
	list_close(&list);
}

TEST(what_is_no_advertisement_is_refused)
{
#define OID "1234567890123456789012345678901234567890"
	static const char *const lines[] = {
		"version 1\n",
		OID " refs/heads/a\n",             /* no capabilities */
		OID " HEAD%caps\n|" OID "\n",      /* no name */
		OID " HEAD%caps\n|" OID " \n",     /* an empty one */
		OID " HEAD%caps\n|" OID " refs/a", /* no newline */
		OID " HEAD%caps\n|1" OID " refs/a\n",
		OID " HEAD%caps\n|" OID " refs/b\n|" OID " refs/a\n",
		OID " HEAD%caps\n|" OID " refs/a\n|" OID " refs/a\n",
		OID " HEAD%caps\n|shallow " OID "\n|" OID " refs/a\n",
		"ERR no\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		AUTO_STR struct str bytes = STR_INIT;
		for (const char *line = lines[i]; *line;) {
			size_t len = strcspn(line, "|");
			pkt_add(&bytes, line, len);
			line += len + (line[len] == '|');
		}
		pkt_add_flush(&bytes);
		for (size_t at = 0; at < bytes.len; at++)
			if (bytes.data[at] == '%')
				bytes.data[at] = '\0';
		assert_corrupt(bytes.data, bytes.len);
	}
}

TEST(a_list_takes_little_memory_beside_the_bytes)
{
	AUTO_STR struct str bytes = STR_INIT;
	struct ref_list *list;

	for (int i = 0; i < 10000; i++) {
		size_t begin = pkt_begin(&bytes);
		str_addf(&bytes, OID " refs/heads/%05d", i);
		str_add_bytes(&bytes, i == 0 ? "\0caps\n" : "\n", i == 0 ? 6 : 1);
		pkt_end(&bytes, begin);
	}
	pkt_add_flush(&bytes);
	list = ref_list_parse(bytes.data, bytes.len, NULL, 0, &err);
	assert_non_null(list);
	assert_int_equal(ref_list_count(list), 10000);
	assert_in_range(ref_list_size(list), 10000 * 8, 10000 * 40);
	ref_list_free(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GIT_CASE(branches_are_answered_as_git_does),
		GIT_CASE(tags_of_tags_trees_and_blobs_are_answered_as_git_does),
		GIT_CASE(symbolic_refs_are_answered_as_git_does),
		GIT_CASE(a_symbolic_tag_is_answered_as_git_does),
		GIT_CASE(an_unborn_head_is_answered_as_git_does),
		GIT_CASE(a_detached_head_is_answered_as_git_does),
		GIT_CASE(an_empty_repository_is_answered_as_git_does),
		GIT_CASE(hidden_refs_are_answered_as_git_does),
		GIT_CASE(a_head_that_is_hidden_does_not_look_unborn),
		GIT_CASE(odd_names_are_answered_as_git_does),
		GIT_CASE(what_git_takes_for_broken_refs_is_answered_as_git_does),
		GIT_CASE(a_shallow_repository_is_answered_as_git_does),
		GIT_CASE(a_sha256_repository_is_answered_as_git_does),
		GIT_CASE(requests_made_by_chance_are_answered_as_git_does),
		GIT_CASE(too_many_prefixes_are_answered_as_git_does),
		cmocka_unit_test(a_head_of_zeros_is_unborn_as_it_is_to_git),
		GIT_CASE(an_advertisement_that_was_cut_anywhere_is_refused),
		cmocka_unit_test(what_is_no_advertisement_is_refused),
		cmocka_unit_test(a_list_takes_little_memory_beside_the_bytes),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
