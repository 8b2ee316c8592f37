#include "target_test.h"

#include "base/clock.h"
#include "git/ssh_command.h"
#include "upkeep/trash.h"

#include "listing_faults.h"

#include <sys/stat.h>
#include <sys/syscall.h>

/* What was flushed, in order. */
static struct {
	ino_t items[64];
	unsigned count;
} flushed;
static bool flush_fails;

/* The library's, twice. */
int fsync(int fd)
{
	struct stat st;

	if (flush_fails) {
		errno = EIO;
		return -1;
	}
	if (fstat(fd, &st) == 0 && flushed.count < ARRAY_SIZE(flushed.items))
		flushed.items[flushed.count++] = st.st_ino;
	return (int)syscall(SYS_fsync, fd);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static char base[128];

/* "<root>/mirror/${name}.git" for the project "team/a b". */
static int setup(void **state)
{
	flushed.count = 0;
	flush_fails = false;
	if (target_setup(state) != 0)
		return -1;
	snprintf(base, sizeof(base), "%s/mirror", root);
	AUTO_FREE char *template = xasprintf("%s/${name}.git", base);
	AUTO_FREE char *path = xasprintf("%s/team/a b.git", base);
	add_url(false, template);
	set_destination(URL_LOCAL, "team/a b", path, path);
	return 0;
}

static int teardown(void **state)
{
	return target_teardown(state);
}

static void go_to(const char *below)
{
	AUTO_FREE char *path = xasprintf("%s/%s", base, below);

	set_path(path);
}

static int create(void)
{
	return target_create(&call, "refs/heads/trunk", 20, &err);
}

TEST(a_repository_is_made_with_the_head_and_the_directories_above)
{
	assert_ok(create());
	must("cd 'mirror/team/a b.git' && test \"$(git symbolic-ref HEAD)\" = "
	     "refs/heads/trunk && test \"$(git rev-parse --is-bare-repository)\" = true");
	must("test \"$(git -C 'mirror/team/a b.git' config core.logAllRefUpdates)\" = "
	     "false");
	must("test \"$(ls -A mirror/team)\" = 'a b.git'");
}

TEST(ref_log_and_object_format_are_as_asked)
{
	remote.stores_ref_log = true;
	assert_ok(target_create(&call, "refs/heads/trunk", 32, &err));
	must("cd 'mirror/team/a b.git' && "
	     "test \"$(git config core.logAllRefUpdates)\" = true && "
	     "test \"$(git rev-parse --show-object-format)\" = sha256");
}

TEST(without_a_head_that_names_a_ref_git_chooses_one)
{
	assert_ok(target_create(&call, NULL, 20, &err));
	go_to("b.git");
	assert_ok(target_create(&call, "../../etc", 20, &err));
	must("git -C mirror/b.git symbolic-ref -q HEAD >head");
}

TEST(a_repository_that_is_there_stays_untouched)
{
	assert_ok(create());
	must("cd mirror && find . -type f -exec sha1sum {} + | sort >../before");
	assert_ok(target_create(&call, "refs/heads/other", 20, &err));
	must("cd mirror && find . -type f -exec sha1sum {} + | sort | cmp - ../before");
}

TEST(what_is_no_repository_is_in_the_way_unless_it_is_empty)
{
	must("mkdir -p 'mirror/team/a b.git' && touch 'mirror/team/a b.git/precious'");
	assert_fails(create(), ERR_CONFIG);
	must("test -f 'mirror/team/a b.git/precious' && "
	     "test \"$(ls -A mirror/team)\" = 'a b.git'");
	must("touch mirror/file.git && mkdir mirror/empty.git && "
	     "ln -s nowhere mirror/link.git");
	go_to("file.git");
	assert_fails(create(), ERR_CONFIG);
	go_to("link.git");
	assert_fails(create(), ERR_CONFIG);
	go_to("empty.git");
	assert_ok(create());
}

TEST(what_a_crash_left_half_made_is_replaced)
{
	must("mkdir -p mirror/team/.refrelay-new-%s/objects && "
	     "touch mirror/team/.refrelay-new-%s/HEAD",
	     destination.uri_key, destination.uri_key);
	assert_ok(create());
	must("test \"$(ls -A mirror/team)\" = 'a b.git'");
}

TEST(head_is_set_only_where_a_repository_is)
{
	assert_fails(target_set_head(&call, "refs/heads/x", &err), ERR_MISSING);
	must("mkdir -p 'mirror/team/a b.git'");
	assert_fails(target_set_head(&call, "refs/heads/x", &err), ERR_MISSING);
	assert_ok(create());
	assert_ok(target_set_head(&call, "refs/heads/next", &err));
	must("test \"$(git -C 'mirror/team/a b.git' symbolic-ref HEAD)\" = "
	     "refs/heads/next");
	assert_fails(target_set_head(&call, "--delete", &err), ERR_CONFIG);
	assert_fails(target_set_head(&call, "refs/heads/a..b", &err), ERR_CONFIG);
	assert_fails(target_set_head(&call, NULL, &err), ERR_CONFIG);
}

static bool is_flushed(unsigned number, const char *path)
{
	struct stat st;

	return number < flushed.count && fstatat(root_fd, path, &st, 0) == 0 &&
	       flushed.items[number] == st.st_ino;
}

TEST(head_is_on_disk_once_it_is_set)
{
	assert_ok(create());
	flushed.count = 0;
	assert_ok(target_set_head(&call, "refs/heads/next", &err));
	assert_true(is_flushed(0, "mirror/team/a b.git/HEAD"));
	assert_true(is_flushed(1, "mirror/team/a b.git"));
	flush_fails = true;
	assert_fails(target_set_head(&call, "refs/heads/next", &err), ERR_DISK);
	flush_fails = false;
	must("git -C 'mirror/team/a b.git' config core.preferSymlinkRefs true");
	assert_ok(target_set_head(&call, "refs/heads/gone", &err));
}

TEST(a_deleted_repository_waits_in_the_trash_of_the_fixed_part)
{
	assert_ok(create());
	must("touch 'mirror/team/a b.git/mark' && "
	     "mkdir -p mirror/.refrelay/trash/1.0.old");
	assert_ok(target_delete(&call, &err));
	must("test ! -e mirror/team && test ! -e mirror/.refrelay/trash/1.0.old && "
	     "test -e mirror/.refrelay/trash/*.0.'team%%2Fa b.git'/mark");
	AUTO_FREE char *name = output_of("ls mirror/.refrelay/trash");
	int64_t since = strtoll(name, NULL, 10);
	assert_true(clock_wall_ms() - since < 60000 && clock_wall_ms() >= since);
	assert_fails(target_delete(&call, &err), ERR_MISSING);
}

TEST(without_a_name_in_the_url_the_trash_is_beside_the_repository)
{
	AUTO_FREE char *path = xasprintf("%s/only.git", base);

	clear_urls();
	add_url(false, path);
	set_destination(URL_LOCAL, "team/a b", path, path);
	assert_ok(create());
	assert_ok(target_delete(&call, &err));
	must("test -d mirror/.refrelay/trash/*.0.only.git");
}

TEST(the_fixed_part_of_a_file_url_is_found_although_it_is_encoded)
{
	AUTO_FREE char *template =
		xasprintf("file://%s/with%%20space/%%2A/x-${name}.git", base);

	clear_urls();
	add_url(false, template);
	set_destination(URL_LOCAL, "p", template, "");
	go_to("with space/*/x-p.git/");
	assert_ok(create());
	assert_ok(target_delete(&call, &err));
	must("test -d 'mirror/with space/*/.refrelay/trash/'*.0.x-p.git");
}

TEST(only_a_whole_repository_is_deleted)
{
	must("mkdir -p mirror/team/x.git && git init -q --bare mirror/team/x.git/y.git");
	go_to("team");
	assert_fails(target_delete(&call, &err), ERR_MISSING);
	go_to("team/x.git");
	assert_fails(target_delete(&call, &err), ERR_MISSING);
	must("git init -q --bare mirror/damaged.git && rm mirror/damaged.git/HEAD");
	go_to("damaged.git");
	assert_fails(target_delete(&call, &err), ERR_CORRUPT);
	must("test -d mirror/team/x.git/y.git && test -d mirror/damaged.git/objects && "
	     "test ! -e mirror/.refrelay");
}

TEST(a_repository_with_another_inside_stays)
{
	must("git init -q --bare mirror/g.git && "
	     "git init -q --bare mirror/g.git/h/i.git");
	go_to("g.git");
	assert_fails(target_delete(&call, &err), ERR_CONFIG);
	assert_int_equal(err.reason, REASON_NO_WAY);
	must("test -d mirror/g.git/h/i.git/objects && rm -rf mirror/g.git/h && "
	     "mkdir -p mirror/g.git/refs/heads/objects mirror/g.git/lfs/objects");
	assert_ok(target_delete(&call, &err));
}

TEST(a_repository_that_cannot_be_listed_may_have_another_inside)
{
	must("git init -q --bare mirror/g.git");
	go_to("g.git");
	unlisted = "/mirror/g.git/branches";
	must("mkdir -p mirror/g.git/branches");
	assert_fails(target_delete(&call, &err), ERR_CONFIG);
	unlisted = NULL;
	assert_ok(target_delete(&call, &err));
}

TEST(no_link_is_followed_out_of_the_tree)
{
	must("mkdir -p mirror && git init -q --bare outside/r.git && "
	     "ln -s ../outside mirror/away && ln -s ../outside/r.git mirror/r.git");
	go_to("away/r.git");
	assert_fails(target_delete(&call, &err), ERR_CONFIG);
	go_to("r.git");
	assert_fails(target_delete(&call, &err), ERR_CONFIG);
	assert_int_equal(err.reason, REASON_NO_WAY);
	go_to("../outside/r.git");
	assert_fails(target_delete(&call, &err), ERR_CONFIG);
	must("test -d outside/r.git/objects && test -L mirror/r.git");
}

TEST(the_tree_itself_and_its_trash_are_no_repository)
{
	assert_ok(create());
	assert_ok(target_delete(&call, &err));
	must("git init -q --bare mirror && mv mirror/.refrelay/trash/*.0.* "
	     "mirror/.refrelay/trash/x");
	go_to("");
	assert_fails(target_delete(&call, &err), ERR_CONFIG);
	go_to(".refrelay/trash/x");
	assert_fails(target_delete(&call, &err), ERR_CONFIG);
	set_path("/");
	assert_fails(target_delete(&call, &err), ERR_CONFIG);
	set_path("");
	assert_fails(target_delete(&call, &err), ERR_CONFIG);
}

TEST(a_tree_that_is_away_is_no_missing_repository)
{
	assert_fails(target_delete(&call, &err), ERR_DISK);
}

static void note_in(const char *data)
{
	call.data = data;
	must("mkdir data");
}

TEST(nothing_is_made_where_a_file_system_with_copies_is_not_mounted)
{
	AUTO_FREE char *data = xasprintf("%s/data", root);

	note_in(data);
	assert_ok(create()); /* the first use: the base is missing */
	must("mv mirror disk");
	assert_fails(create(), ERR_DISK);
	must("test ! -e mirror && mkdir mirror");
	assert_fails(create(), ERR_DISK);
	assert_fails(target_delete(&call, &err), ERR_DISK); /* else it would be done */
	must("test -z \"$(ls -A mirror)\"");
	assert_non_null(strstr(err.text, "/mirror is empty"));
	assert_non_null(strstr(err.remedy, "/data/pushed-below"));
	must("rmdir mirror && mv disk mirror");
	go_to("b.git");
	assert_ok(create());
	must("rm -r mirror && rm data/pushed-below");
	assert_ok(create());
}

TEST(another_place_is_new_and_an_empty_directory_too)
{
	AUTO_FREE char *data = xasprintf("%s/data", root);

	note_in(data);
	must("mkdir mirror && echo /other >data/pushed-below");
	assert_ok(create());
	must("test \"$(cat data/pushed-below)\" = \"$(echo /other; echo %s)\"", base);
}

TEST(what_is_pushed_to_is_noted_once_and_only_if_it_is_a_path)
{
	AUTO_FREE char *data = xasprintf("%s/data", root);

	note_in(data);
	target_note_pushed(&call);
	target_note_pushed(&call);
	must("test \"$(cat data/pushed-below)\" = %s", base);
	must("printf /other >data/pushed-below"); /* a line that was cut */
	target_note_pushed(&call);
	target_note_pushed(&call);
	must("test \"$(cat data/pushed-below)\" = \"$(echo /other; echo %s)\"", base);
	must("echo %s >data/pushed-below", base);
	set_destination(URL_SSH, "b", "ssh://h/b.git", "/srv/b.git");
	target_note_pushed(&call);
	must("test \"$(cat data/pushed-below)\" = %s", base);
}

TEST(git_and_http_urls_have_no_way)
{
	static const enum url_kind kinds[] = { URL_GIT, URL_HTTP, URL_OTHER };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		destination.kind = kinds[i];
		assert_fails(create(), ERR_CONFIG);
		assert_non_null(strstr(err.remedy, "adminUrl"));
		assert_fails(target_delete(&call, &err), ERR_CONFIG);
		assert_fails(target_set_head(&call, "refs/heads/x", &err), ERR_CONFIG);
	}
}

TEST(all_admin_urls_are_served_and_one_that_has_nothing_is_no_failure)
{
	AUTO_FREE char *one = xasprintf("%s/one/${name}.git", root);
	AUTO_FREE char *two = xasprintf("%s/two/${name}.git", root);

	destination.kind = URL_HTTP;
	add_url(true, one);
	add_url(true, two);
	assert_ok(create());
	must("test -d one/team/*.git/refs && test -d two/team/*.git/refs");
	must("rm -r one/team");
	assert_ok(target_set_head(&call, "refs/heads/next", &err));
	must("grep -q next two/team/*.git/HEAD");
	assert_ok(target_delete(&call, &err));
	must("test ! -e two/team");
	assert_fails(target_delete(&call, &err), ERR_MISSING);
	assert_fails(target_set_head(&call, "refs/heads/next", &err), ERR_MISSING);
}

TEST(the_first_admin_url_that_fails_fails_all)
{
	AUTO_FREE char *one = xasprintf("%s/one/${name}.git", root);
	AUTO_FREE char *two = xasprintf("%s/two/${name}.git", root);

	add_url(true, one);
	add_url(true, two);
	must("touch one");
	assert_int_equal(create(), -1);
	assert_non_null(strstr(err.text, "/one"));
	must("rm one");
	assert_ok(create());
}

TEST(a_quoted_word_is_the_same_text_for_a_shell)
{
	static const char *const texts[] = {
		"",      "plain",    "a b",         "it's",     "'",      "a;b",
		"$(id)", "`id`",     "line\nbreak", "\"\\\\\"", "!!",     "~root",
		"*",     "\xff\x01", "a=b",         "-n",       "tail\n", "#x",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		AUTO_STR struct str line = STR_INIT;
		str_add(&line, "printf '%s.' ");
		ssh_command_quote(texts[i], &line);
		AUTO_FREE char *wanted = xasprintf("%s.", texts[i]);
		AUTO_FREE char *seen = output_of("%s", line.data);
		assert_string_equal(seen, wanted);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_repository_is_made_with_the_head_and_the_directories_above),
		CASE(ref_log_and_object_format_are_as_asked),
		CASE(without_a_head_that_names_a_ref_git_chooses_one),
		CASE(a_repository_that_is_there_stays_untouched),
		CASE(what_is_no_repository_is_in_the_way_unless_it_is_empty),
		CASE(what_a_crash_left_half_made_is_replaced),
		CASE(head_is_set_only_where_a_repository_is),
		CASE(head_is_on_disk_once_it_is_set),
		CASE(a_deleted_repository_waits_in_the_trash_of_the_fixed_part),
		CASE(without_a_name_in_the_url_the_trash_is_beside_the_repository),
		CASE(the_fixed_part_of_a_file_url_is_found_although_it_is_encoded),
		CASE(only_a_whole_repository_is_deleted),
		CASE(a_repository_with_another_inside_stays),
		CASE(a_repository_that_cannot_be_listed_may_have_another_inside),
		CASE(no_link_is_followed_out_of_the_tree),
		CASE(the_tree_itself_and_its_trash_are_no_repository),
		CASE(a_tree_that_is_away_is_no_missing_repository),
		CASE(nothing_is_made_where_a_file_system_with_copies_is_not_mounted),
		CASE(another_place_is_new_and_an_empty_directory_too),
		CASE(what_is_pushed_to_is_noted_once_and_only_if_it_is_a_path),
		CASE(git_and_http_urls_have_no_way),
		CASE(all_admin_urls_are_served_and_one_that_has_nothing_is_no_failure),
		CASE(the_first_admin_url_that_fails_fails_all),
		CASE(a_quoted_word_is_the_same_text_for_a_shell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
