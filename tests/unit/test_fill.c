#include "git_test.h"

#include "git/git_child.h"
#include "serve/refs_generate.h"

static struct capabilities *known;
static struct generation *generation;
static struct generation_parts parts; /* borrowed from the generation */
static struct look look;
static struct fill_request request;
static struct str grown = STR_INIT;
static char path[96];
static int dir; /* of the repository */

static void grow(void *arg, const char *bytes, size_t len)
{
	str_add_bytes(arg, bytes, len);
}

static int setup(void **state)
{
	if (make_repo(state) != 0)
		return -1;
	snprintf(path, sizeof(path), "%s/r.git", root);
	assert_ok(git_setup(root, &err));
	known = capabilities_new();
	look = (struct look){ .path = path, .key = "0123456789abcdef0123456789abcdef" };
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	request = (struct fill_request){ .look = &look,
					 .dir = dir,
					 .capabilities = known,
					 .timeout_ms = 60000,
					 .grow = grow,
					 .arg = &grown };
	return 0;
}

static int teardown(void **state)
{
	close(dir);
	str_clear(&grown);
	generation_unref(TAKE(generation));
	capabilities_free(known);
	return test_remove_root(state);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void set_ref(const char *name, const struct oid *oid)
{
	char text[OID_MAX_TEXT];

	must("git -C r.git update-ref %s %s", name, oid_text(oid, text));
}

static void make_refs(void)
{
	set_ref("refs/heads/main", &commits[9]);
	set_ref("refs/heads/topic", &commits[19]);
	set_ref("refs/tags/v1", &tags[0]);
}

static void fill_it(void)
{
	str_reset(&grown);
	generation_unref(TAKE(generation));
	assert_ok(fill_generation(&request, &generation, &err));
	generation_write(generation, &parts);
}

/* How many children it takes. */
static uint64_t children_of_fill(void)
{
	uint64_t before = proc_started();

	fill_it();
	return proc_started() - before;
}

static void assert_is(const struct str *found, const char *command)
{
	AUTO_FREE char *expected = output_of("%s", command);

	assert_int_equal(found->len, strlen(expected));
	assert_memory_equal(found->data, expected, found->len);
}

/* In place of git, for what comes. */
static void put_shim(const char *script)
{
	AUTO_FREE char *variable = xasprintf("%s/bin:%s", root, getenv("PATH"));
	AUTO_FREE char *before = xstrdup(getenv("PATH"));

	must("mkdir bin && printf '%%s\\n' '#!/bin/sh' '%s' >bin/git && chmod +x bin/git",
	     script);
	setenv("PATH", variable, 1);
	assert_ok(git_setup(root, &err));
	setenv("PATH", before, 1);
}

#define STOCK                                                                            \
	"-c safe.directory='*' upload-pack --strict --stateless-rpc "                    \
	"--http-backend-info-refs r.git"

TEST(what_git_says_under_protocols_0_and_2_is_kept_byte_for_byte)
{
	make_refs();
	must("git -C r.git pack-refs --all");
	fill_it();
	must("git " STOCK " >theirs");
	must("GIT_PROTOCOL=version=2 git -c uploadpack.allowFilter=true " STOCK
	     " >theirs2");
	AUTO_STR struct str theirs = STR_INIT, theirs2 = STR_INIT;
	assert_ok(file_read(root_fd, "theirs", 1 << 20, &theirs, &err));
	assert_ok(file_read(root_fd, "theirs2", 1 << 20, &theirs2, &err));
	assert_int_equal(parts.refs.len, theirs.len);
	assert_memory_equal(parts.refs.data, theirs.data, theirs.len);
	assert_int_equal(parts.capabilities.len, theirs2.len);
	assert_memory_equal(parts.capabilities.data, theirs2.data, theirs2.len);
	assert_int_equal(grown.len, theirs.len);
	assert_memory_equal(grown.data, theirs.data, theirs.len);
}

TEST(symbolic_refs_name_what_git_gives_as_their_target)
{
	make_refs();
	must("cd r.git && git symbolic-ref refs/heads/a refs/heads/topic && "
	     "git symbolic-ref HEAD refs/heads/a && "
	     "git symbolic-ref refs/heads/gone refs/heads/nowhere");
	fill_it();
	assert_is(&parts.symbolic, "printf 'HEAD refs/heads/topic\\n"
				   "refs/heads/a refs/heads/topic\\n"
				   "refs/heads/gone refs/heads/nowhere\\n'");
}

TEST(a_chain_is_followed_as_far_as_git_follows_it)
{
	make_refs();
	must("cd r.git && for i in 1 2 3 4; do "
	     "git symbolic-ref refs/heads/s$i refs/heads/s$((i + 1)); done && "
	     "git symbolic-ref refs/heads/s5 refs/heads/main && "
	     "git symbolic-ref HEAD refs/heads/s2 && "
	     "git symbolic-ref refs/heads/loop refs/heads/loop");
	fill_it();
	AUTO_FREE char *theirs = output_of(
		"cd r.git && for r in refs/heads/s1 refs/heads/s2; do "
		"git rev-parse -q --verify $r >/dev/null 2>&1 && echo $r; done; true");
	assert_string_equal(theirs, "refs/heads/s2\n");
	assert_null(strstr(parts.symbolic.data, "refs/heads/s1 "));
	assert_null(strstr(parts.symbolic.data, "loop"));
	assert_non_null(strstr(parts.symbolic.data, "refs/heads/s2 refs/heads/main\n"));
	assert_null(strstr(parts.symbolic.data, "HEAD "));
}

TEST(an_unborn_head_is_named_and_a_detached_one_is_not)
{
	fill_it();
	assert_string_equal(parts.symbolic.data, "HEAD refs/heads/main\n");
	make_refs();
	must("git -C r.git update-ref --no-deref HEAD refs/heads/topic");
	fill_it();
	assert_string_equal(parts.symbolic.data, "");
}

TEST(capabilities_are_asked_for_once_a_configuration)
{
	make_refs();
	assert_int_equal(children_of_fill(), 2);
	set_ref("refs/heads/more", &commits[3]);
	assert_int_equal(children_of_fill(), 1);
	assert_non_null(strstr(parts.capabilities.data, " filter"));
	must("git -C r.git config uploadpack.allowFilter false");
	assert_int_equal(children_of_fill(), 2);
	assert_null(strstr(parts.capabilities.data, " filter"));
	must("git -C r.git config uploadpack.allowFilter true");
	assert_int_equal(children_of_fill(), 2);
	must("git -C r.git config uploadpack.allowFilter false");
	assert_int_equal(children_of_fill(), 1);
	assert_null(strstr(parts.capabilities.data, " filter"));
}

TEST(without_a_word_on_its_version_git_is_asked_each_time)
{
	fill_it(); /* nothing is advertised by 2.39 */
	bool was_reported = memmem(parts.refs.data, parts.refs.len, "agent=", 6) != NULL;
	assert_int_equal(children_of_fill(), was_reported ? 1 : 2);
}

TEST(a_second_file_of_configuration_is_not_remembered)
{
	make_refs();
	must("touch r.git/config.worktree");
	assert_int_equal(children_of_fill(), 4); /* each asks if it may be read */
	assert_int_equal(children_of_fill(), 4);
}

TEST(a_configuration_that_was_written_meanwhile_did_not_stand_still)
{
	struct config_look before, same, after;

	config_look(repo_fd, &before);
	config_look(repo_fd, &same);
	assert_true(config_stood_still(&before, &same));
	must("cp r.git/config kept && echo '#' >>r.git/config && cp kept r.git/config");
	config_look(repo_fd, &after);
	assert_memory_equal(before.content, after.content, sizeof(before.content));
	assert_false(config_stood_still(&before, &after));
	must("rm r.git/config && mkfifo r.git/config");
	config_look(repo_fd, &after);
	assert_false(after.is_known);
}

/* Git itself writes the configuration while it reads it. */
TEST(capabilities_of_a_moment_are_not_remembered)
{
	make_refs();
	AUTO_FREE char *real = output_of("command -v git | tr -d '\\n'");
	AUTO_FREE char *shim = xasprintf("printf \"#\" >>config; exec %s \"$@\"", real);
	put_shim(shim);
	fill_it();
	assert_int_equal(children_of_fill(), 2);
}

TEST(the_memory_is_bounded_and_keeps_what_is_used)
{
	struct config_look config = { .is_known = true };
	AUTO_STR struct str text = STR_INIT, found = STR_INIT;

	str_add(&text, "capabilities");
	for (unsigned i = 0; i < 1000; i++) {
		config.content[0] = (unsigned char)i;
		config.content[1] = (unsigned char)(i >> 8);
		capabilities_keep(known, &config, "git/1", &text);
		memset(config.content, 0, 2);
		assert_true(capabilities_find(known, &config, "git/1", &found));
	}
	config.content[0] = 1;
	assert_false(capabilities_find(known, &config, "git/1", &found));
	memset(config.content, 0, 2);
	assert_false(capabilities_find(known, &config, "git/2", &found));
}

TEST(refs_that_the_repository_hides_are_in_no_generation)
{
	make_refs();
	must("git -C r.git config transfer.hideRefs refs/heads/topic");
	fill_it();
	assert_null(memmem(parts.refs.data, parts.refs.len, "topic", 5));
}

/* What git's own ls-refs says of HEAD, beside what a generation says. */
static void assert_head_is_as_git_says(void)
{
	static const char body[] = "0014command=ls-refs\n0001000csymrefs\n000bunborn\n"
				   "0014ref-prefix HEAD\n0000";
	struct ls_refs wanted;
	AUTO_STR struct str ours = STR_INIT;

	fill_it();
	assert_true(ls_refs_parse(body, strlen(body), 40, &wanted));
	ref_list_answer(generation_refs(generation), &wanted, &ours);
	ls_refs_clear(&wanted);
	AUTO_FREE char *theirs = output_of(
		"printf '%s' | GIT_PROTOCOL=version=2 git -c safe.directory='*' "
		"upload-pack --stateless-rpc r.git",
		"0014command=ls-refs\\n0001000csymrefs\\n000bunborn\\n"
		"0014ref-prefix HEAD\\n0000");
	assert_string_equal(ours.data, theirs);
}

TEST(a_head_that_the_repository_hides_is_not_even_unborn)
{
	static const char *const rules[] = {
		"transfer.hideRefs HEAD",      "uploadpack.hideRefs HEAD//",
		"uploadpack.hideRefs !HEAD",   "transfer.hideRefs ^HEAD",
		"transfer.hideRefs HEAD/x",    "receive.hideRefs HEAD",
		"uploadpack.hideRefs '!HEAD'",
	};

	assert_head_is_as_git_says();
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		must("git -C r.git config --add %s", rules[i]);
		assert_head_is_as_git_says();
	}
	make_refs();
	assert_head_is_as_git_says();
	must("git -C r.git config --add transfer.hideRefs HEAD && "
	     "git -C r.git config --add transfer.hideRefs refs/heads/main");
	assert_head_is_as_git_says();
}

/* Git warns of it and goes on, so it is no reason to ask git each time. */
TEST(a_loose_ref_that_holds_garbage_is_no_hindrance)
{
	make_refs();
	must("cd r.git && git symbolic-ref refs/heads/a refs/heads/topic && "
	     "echo garbage >refs/heads/bad && : >refs/heads/empty && "
	     "head -c 5000 /dev/zero >refs/heads/long && "
	     "git symbolic-ref refs/heads/b refs/heads/bad");
	fill_it();
	assert_non_null(strstr(parts.symbolic.data, "refs/heads/a refs/heads/topic\n"));
	must("git " STOCK " >theirs 2>/dev/null");
	AUTO_STR struct str theirs = STR_INIT;
	assert_ok(file_read(root_fd, "theirs", 1 << 20, &theirs, &err));
	assert_int_equal(parts.refs.len, theirs.len);
	assert_memory_equal(parts.refs.data, theirs.data, theirs.len);
	assert_head_is_as_git_says();
	must("git -C r.git symbolic-ref HEAD refs/heads/bad");
	assert_head_is_as_git_says();
}

TEST(what_is_read_is_the_directory_that_was_found_whatever_stands_there_now)
{
	make_refs();
	must("cp -r r.git other.git && mv r.git elsewhere && ln -s other.git r.git && "
	     "git -C other.git update-ref refs/heads/secret refs/heads/main");
	fill_it();
	assert_null(memmem(parts.refs.data, parts.refs.len, "secret", 6));
	assert_non_null(memmem(parts.refs.data, parts.refs.len, "topic", 5));
	must("rm -r elsewhere");
	assert_fails(fill_generation(&request, &generation, &err), ERR_CORRUPT);
}

TEST(git_that_breaks_off_makes_no_generation)
{
	make_refs();
	put_shim("printf \"00\"; exit 3");
	assert_fails(fill_generation(&request, &generation, &err), ERR_INTERNAL);
}

TEST(git_that_talks_nonsense_makes_no_generation)
{
	make_refs();
	put_shim("echo nonsense");
	assert_fails(fill_generation(&request, &generation, &err), ERR_CORRUPT);
}

TEST(git_that_takes_too_long_is_ended)
{
	make_refs();
	put_shim("printf \"0004\"; sleep 60");
	request.timeout_ms = 100;
	assert_fails(fill_generation(&request, &generation, &err), ERR_TIMEOUT);
}

TEST(a_stop_ends_it)
{
	struct stop stop;

	stop_init(&stop);
	stop_request(&stop);
	request.stop = &stop;
	assert_fails(fill_generation(&request, &generation, &err), ERR_CANCELED);
	stop_clear(&stop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_git_says_under_protocols_0_and_2_is_kept_byte_for_byte),
		CASE(symbolic_refs_name_what_git_gives_as_their_target),
		CASE(a_chain_is_followed_as_far_as_git_follows_it),
		CASE(an_unborn_head_is_named_and_a_detached_one_is_not),
		CASE(capabilities_are_asked_for_once_a_configuration),
		CASE(without_a_word_on_its_version_git_is_asked_each_time),
		CASE(a_second_file_of_configuration_is_not_remembered),
		CASE(a_configuration_that_was_written_meanwhile_did_not_stand_still),
		CASE(capabilities_of_a_moment_are_not_remembered),
		CASE(the_memory_is_bounded_and_keeps_what_is_used),
		CASE(refs_that_the_repository_hides_are_in_no_generation),
		CASE(a_head_that_the_repository_hides_is_not_even_unborn),
		CASE(a_loose_ref_that_holds_garbage_is_no_hindrance),
		CASE(what_is_read_is_the_directory_that_was_found_whatever_stands_there_now),
		CASE(git_that_breaks_off_makes_no_generation),
		CASE(git_that_talks_nonsense_makes_no_generation),
		CASE(git_that_takes_too_long_is_ended),
		CASE(a_stop_ends_it),
	};

	test_free_children();
	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
