/*
 * The sections [mirror], [mirrors] and [watcher]: what is refused, and which names are
 * the same; and which mirrors there are when lists have told of some.
 */
#include "mirror/mirrors.h"

#include "base/thread.h"
#include "mirror/upstream.h"

#include "test.h"

static struct mirrors mirrors;

static int read_text(const char *text)
{
	AUTO_CONF struct conf *conf = NULL;

	assert_ok(conf_load_text("t.conf", text, strlen(text), &conf, &err));
	mirrors_clear(&mirrors);
	return mirrors_read(conf, &mirrors, &err);
}

static int forget(void **state)
{
	(void)state;
	mirrors_clear(&mirrors);
	mirrors = (struct mirrors){ 0 };
	return 0;
}

#define MIRRORS_CASE(name) cmocka_unit_test_teardown(name, forget)

static int read_names(const char *const names[])
{
	AUTO_STR struct str text = STR_INIT;

	for (; *names; names++)
		str_addf(&text, "[mirror \"%s\"]\nurl = https://example.com/r.git\n",
			 *names);
	return read_text(text.data);
}

TEST(a_name_has_one_usual_form)
{
	static const char *const cases[][2] = {
		{ "a/b", "a/b" },
		{ "/a//b.git/", "a/b" },
		{ "a/b///", "a/b" },
		{ "///", "" },
		{ "a.git/b", "a.git/b" },
		{ ".git", ".git" },
		{ "A/b.GIT", "A/b.GIT" },
		{ "x.git.git", "x" },
		{ "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *name = mirror_usual_name(cases[i][0]);
		assert_string_equal(name, cases[i][1]);
	}
}

TEST(two_that_would_be_one_directory_are_refused)
{
	static const char *const cases[][4] = {
		{ "acme/r", "acme/R" },
		{ "acme/r", "acme/r.git" },
		{ "acme/r", "/acme//r/" },
		{ "acme/r", "ACME/r.git/" },
		{ "a", "a.git/x" },
		{ "a", "a-b", "a.git/x" },
		{ "a", "a.git.git" },
		{ "A", "a-b", "a.git/b/c" },
		{ "x/a", "x/a.git/y", "x/b" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_fails(read_names(cases[i]), ERR_CONFIG);
		assert_non_null(strstr(err.text, "would be one directory"));
		assert_true(err.remedy[0]);
		assert_int_equal(mirror_set_count(mirrors.set), 0);
	}
}

TEST(both_are_named_as_they_are_written)
{
	static const char *const cases[][3] = { { "acme/r", "/acme//r.git/" },
						{ "acme/r", "acme/R" } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *one = xasprintf("\"%s\"", cases[i][0]);
		AUTO_FREE char *other = xasprintf("\"%s\"", cases[i][1]);
		assert_fails(read_names(cases[i]), ERR_CONFIG);
		assert_non_null(strstr(err.text, one));
		assert_non_null(strstr(err.text, other));
	}
}

TEST(what_only_looks_alike_is_not_refused)
{
	static const char *const names[] = { "a",       "a/b", "a-b", "ab.git/x",
					     "x.git/a", "x-a", NULL };

	assert_ok(read_names(names));
	assert_int_equal(mirror_set_count(mirrors.set), 6);
}

/* Each name that a mirror may have is found again by itself. */
TEST(names_that_lead_nowhere_are_refused)
{
	static const char *const bad[] = {
		"", "/", ".git", "a/.git", "a/../b", "./a", "a/.git/b", "a\\tb", "..",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		AUTO_FREE char *text = xasprintf(
			"[mirror \"%s\"]\nurl = https://example.com/r\n", bad[i]);
		if (i == 7)
			text[11] = '\t'; /* a control character itself */
		assert_fails(read_text(text), ERR_CONFIG);
	}
}

TEST(each_mirror_is_found_by_its_own_name)
{
	static const char *const names[] = { "z/r.git", "x.git.git", "a", "B", NULL };

	assert_ok(read_names(names));
	for (size_t i = 0; i < mirrors.sections.count; i++)
		assert_ptr_equal(mirrors_find(&mirrors, mirrors.sections.items[i]->name),
				 mirrors.sections.items[i]);
	assert_ptr_equal(mirrors_find(&mirrors, "//z/r.git/"),
			 mirrors_find(&mirrors, "z/r"));
	assert_null(mirrors_find(&mirrors, "b"));
	assert_null(mirrors_find(&mirrors, ""));
}

TEST(a_url_says_where_and_not_who)
{
	static const char *const good[] = {
		"https://example.com/r.git",
		"http://[::1]:8080/r",
		"ssh://git@example.com/r",
		"git@example.com:r.git",
		"git://example.com/r",
		"file:///srv/r.git",
		"/srv/r.git",
	};
	static const char *const bad[] = {
		"https://user:secret@example.com/r",
		"https://token@example.com/r",
		"ssh://git:secret@example.com/r",
		"ftp://example.com/r",
		"ext::sh -c true",
		"-u/srv/r",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		AUTO_FREE char *text = xasprintf("[mirror \"m\"]\nurl = %s\n", good[i]);
		assert_ok(read_text(text));
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		AUTO_FREE char *text = xasprintf("[mirror \"m\"]\nurl = %s\n", bad[i]);
		if (read_text(text) == 0)
			fail_msg("%s is taken", bad[i]);
		assert_int_equal(err.class, ERR_CONFIG);
		assert_non_null(strstr(err.text, "t.conf:2"));
		assert_null(strstr(err.text, "secret"));
	}
}

#define MIRROR_M "[mirror \"m\"]\nurl = https://example.com/m\n"

TEST(a_watcher_watches_what_there_is_with_one_credential)
{
	static const char *const cases[][2] = {
		{ MIRROR_M "[watcher \"w\"]\ntokenFile = /t\n", "watcher.w.mirror" },
		{ MIRROR_M "[watcher \"w\"]\nmirror = n\n", "no [mirror \"n\"] section" },
		{ MIRROR_M "[watcher \"w\"]\nmirror =\n", "is empty" },
		{ MIRROR_M "[watcher \"w\"]\nmirror = m\ntokenFile = /t\n"
			   "passwordFile = /p\nuserName = u\n",
		  "tokenFile and passwordFile" },
		{ MIRROR_M "[watcher \"w\"]\nmirror = m\npasswordFile = /p\n",
		  "passwordFile needs userName" },
		{ MIRROR_M "[watcher \"w\"]\nmirror = m\ntokenFile = t\n", "tokenFile" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_fails(read_text(cases[i][0]), ERR_CONFIG);
		if (!strstr(err.text, cases[i][1]))
			fail_msg("%zu: %s", i, err.text);
	}
}

TEST(a_working_tree_has_its_place_to_itself)
{
	static const char *const clashes[] = { "m.checkout", "M.CheckOut/x",
					       "m.checkout/a/b" };
	static const char *const fine[] = { "m.checkouts", "m/x.checkout",
					    "a/m.checkout" };
	AUTO_FREE char *name = xmalloc(251);

	for (size_t i = 0; i < ARRAY_SIZE(clashes); i++) {
		AUTO_FREE char *text = xasprintf(MIRROR_M "checkout = true\n"
							  "[mirror \"%s\"]\n"
							  "url = https://example.com/x\n",
						 clashes[i]);
		AUTO_FREE char *without = xasprintf(MIRROR_M "[mirror \"%s\"]\n"
							     "url = "
							     "https://example.com/x\n",
						    clashes[i]);
		assert_fails(read_text(text), ERR_CONFIG);
		assert_non_null(strstr(err.text, "would be one directory"));
		assert_ok(read_text(without));
	}
	for (size_t i = 0; i < ARRAY_SIZE(fine); i++) {
		AUTO_FREE char *text = xasprintf(MIRROR_M "checkout = true\n"
							  "[mirror \"%s\"]\n"
							  "url = https://example.com/x\n",
						 fine[i]);
		assert_ok(read_text(text));
	}
	memset(name, 'n', 250);
	name[250] = '\0';
	AUTO_FREE char *text = xasprintf(
		"[mirror \"%s\"]\nurl = https://example.com/m\ncheckout = true\n", name);
	assert_fails(read_text(text), ERR_CONFIG);
	assert_non_null(strstr(err.text, "too long"));
}

TEST(an_authority_is_for_https)
{
	assert_ok(read_text(MIRROR_M "caFile = /ca.pem\n"));
	assert_fails(read_text("[mirror \"m\"]\nurl = http://example.com/m\n"
			       "caFile = /ca.pem\n"),
		     ERR_CONFIG);
	assert_fails(read_text(MIRROR_M "caFile = ca.pem\n"), ERR_CONFIG);
}

TEST(a_depth_is_a_number_and_another_one_another_upstream)
{
	char whole[UPSTREAM_TIMELINE_SIZE], cut[UPSTREAM_TIMELINE_SIZE];

	assert_ok(read_text(MIRROR_M));
	assert_int_equal(mirrors_find(&mirrors, "m")->depth, 0);
	upstream_timeline(mirrors_find(&mirrors, "m"), whole);
	mirrors_clear(&mirrors);
	assert_ok(read_text(MIRROR_M "depth = 12\n"));
	assert_int_equal(mirrors_find(&mirrors, "m")->depth, 12);
	upstream_timeline(mirrors_find(&mirrors, "m"), cut);
	mirrors_clear(&mirrors);
	assert_string_not_equal(whole, cut);
	assert_fails(read_text(MIRROR_M "depth = -1\n"), ERR_CONFIG);
	assert_fails(read_text(MIRROR_M "depth = 2147483647\n"), ERR_CONFIG);
}

TEST(objects_of_lfs_come_only_where_a_server_of_them_is)
{
	assert_ok(read_text(MIRROR_M "lfs = true\n[mirror \"n\"]\nurl = ssh://x/n\n"));
	assert_string_equal(mirrors_find_with_lfs(&mirrors), "m");
	assert_ok(read_text("[mirror \"m\"]\nurl = /srv/m.git\nlfs = true\n"));
	assert_ok(read_text(MIRROR_M));
	assert_null(mirrors_find_with_lfs(&mirrors));
	assert_fails(read_text("[mirror \"m\"]\nurl = ssh://x/m\nlfs = true\n"),
		     ERR_CONFIG);
	assert_fails(read_text("[mirror \"m\"]\nurl = git://x/m\nlfs = true\n"),
		     ERR_CONFIG);
}

static const char two[] =
	"[watcher \"late\"]\nmirror = acme/*\ntokenFile = /late\n"
	"[mirror \"acme/a\"]\nurl = https://example.com/a\n"
	"[mirror \"acme/deep/b\"]\nurl = https://example.com/b\nrefs = refs/heads/*\n"
	"refs = refs/tags/v*\nexcludeRefs = refs/heads/tmp/*\n"
	"[watcher \"early\"]\nmirror = /acme//a.git\nmirror = other*\n";

static const char *watchers_of(const char *name)
{
	static struct str list = STR_INIT;
	const struct mirror *mirror = mirrors_find(&mirrors, name);
	const struct watcher *watcher;

	str_clear(&list);
	str_add(&list, "");
	for (size_t at = 0;
	     (watcher = mirrors_next_watcher(&mirrors, mirror, &at)) != NULL;)
		str_addf(&list, "%s ", watcher->name);
	return list.data;
}

TEST(watchers_come_in_the_files_order)
{
	const struct watcher *found;

	assert_ok(read_text(two));
	assert_string_equal(watchers_of("acme/a"), "late early ");
	assert_string_equal(watchers_of("acme/deep/b"), "late ");
	assert_ok(mirrors_find_watcher(&mirrors, mirrors_find(&mirrors, "acme/a"),
				       "early", &found, &err));
	assert_string_equal(found->name, "early");
	assert_fails(mirrors_find_watcher(&mirrors, mirrors_find(&mirrors, "acme/deep/b"),
					  "early", &found, &err),
		     ERR_CONFIG);
	assert_fails(mirrors_find_watcher(&mirrors, mirrors_find(&mirrors, "acme/a"),
					  "nobody", &found, &err),
		     ERR_CONFIG);
	watchers_of("acme/a");
}

TEST(refs_are_chosen_by_patterns)
{
	assert_ok(read_text(two));
	const struct mirror *all = mirrors_find(&mirrors, "acme/a");
	const struct mirror *some = mirrors_find(&mirrors, "acme/deep/b");

	assert_true(mirror_has_ref(all, "refs/pull/1/head"));
	assert_true(mirror_has_ref(some, "refs/heads/a/b"));
	assert_true(mirror_has_ref(some, "refs/tags/v1"));
	assert_false(mirror_has_ref(some, "refs/tags/x"));
	assert_false(mirror_has_ref(some, "refs/heads/tmp/x"));
	assert_false(mirror_has_ref(some, "refs/pull/1/head"));
}

TEST(a_pattern_that_matches_no_ref_is_refused)
{
	static const char *const fine[] = { "*",        "r*",
					    "refs*",    "ref?/*",
					    "[r]efs/*", "\\\\refs/*",
					    "refs/*",   "refs/heads/main" };
	static const char *const wrong[] = {
		"main",    "heads/*",    "HEAD",      "refs",
		"/refs/*", "main*",      "refs/",     "refs/heads/",
		"refs/*/", "refs/heads", "refs/tags", "refs/remotes"
	};

	for (size_t i = 0; i < ARRAY_SIZE(fine); i++) {
		AUTO_FREE char *text = xasprintf(MIRROR_M "refs = %s\nexcludeRefs = %s\n",
						 fine[i], fine[i]);
		assert_ok(read_text(text));
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		AUTO_FREE char *text = xasprintf(MIRROR_M "refs = %s\n", wrong[i]);
		assert_fails(read_text(text), ERR_CONFIG);
		assert_non_null(strstr(err.text, "mirror.m.refs"));
		assert_non_null(strstr(err.text, "matches no ref"));
		/* Where nothing comes of it. */
		AUTO_FREE char *out = xasprintf(MIRROR_M "excludeRefs = %s\n", wrong[i]);
		assert_ok(read_text(out));
	}
	assert_fails(read_text(MIRROR_M "refs =\n"), ERR_CONFIG);
	assert_fails(read_text(MIRROR_M "refs\n"), ERR_CONFIG);
}

TEST(each_change_of_a_section_is_seen)
{
	static const char *const others[] = {
		MIRROR_M,
		"[mirror \"m\"]\nurl = https://example.com/n\n" MIRROR_M
		"refs = refs/x\n",
		MIRROR_M "interval = 1m\n",
		MIRROR_M "excludeRefs = refs/x\n",
		MIRROR_M "webhookSecretFile = /s\n",
		MIRROR_M "then = /bin/true\n",
		MIRROR_M "then = https://example.com/x\n",
		MIRROR_M "then = https://example.com/x\nthenSecretFile = /s\n",
		MIRROR_M "[watcher \"w\"]\nmirror = m\n",
		MIRROR_M "[watcher \"w\"]\nmirror = m\ntokenFile = /t\n",
		MIRROR_M "[watcher \"v\"]\nmirror = m\n",
		MIRROR_M "[watcher \"w\"]\nmirror = *\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		for (size_t k = 0; k < ARRAY_SIZE(others); k++) {
			AUTO_MIRRORS struct mirrors one = { 0 };
			assert_ok(read_text(others[i]));
			one = mirrors;
			mirrors = (struct mirrors){ 0 };
			assert_ok(read_text(others[k]));
			assert_int_equal(mirrors_are_same(&one, &mirrors), i == k);
		}
}

#define LIST_A "[mirrors \"a\"]\nfrom = github\nurl = https://api.example.com/orgs/a\n"

TEST(a_list_says_what_it_is_and_where)
{
	static const char *const bad[][2] = {
		{ "[mirrors \"a\"]\nfrom = github\n", "mirrors.a.url" },
		{ "[mirrors \"a\"]\nurl = https://example.com/\n", "mirrors.a.from" },
		{ "[mirrors \"a\"]\nfrom = bitbucket\nurl = https://e.com\n", "github" },
		{ "[mirrors \"a\"]\nfrom = github\nurl = /srv/git\n", "mirrors.a.url" },
		{ "[mirrors \"a\"]\nfrom = gitea\nurl = https://u:p@e.com/\n",
		  "mirrors.a.url" },
		{ "[mirrors \"a\"]\nfrom = directory\nurl = srv/git\n", "absolute" },
		{ "[mirrors \"a\"]\nfrom = directory\nurl = /srv\ntokenFile = /t\n",
		  "tokenFile" },
		{ LIST_A "watcher = w\n", "no [watcher \"w\"] section" },
		{ LIST_A "interval = 1ms\n", "mirrors.a.interval" },
		{ LIST_A "include =\n", "is empty" },
	};
	static const char good[] = LIST_A
		"include = x*\ninclude = y\nexclude = z\nforks = true\nmaxSize = 3m\n"
		"watcher = w\ninterval = 1h\n[watcher \"w\"]\ntokenFile = /t\n"
		"[watcher \"v\"]\nmirror = yet/to-come\n"
		"[mirrors \"b\"]\nfrom = grokmirror\nurl = /srv/manifest.js.gz\n";

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_fails(read_text(bad[i][0]), ERR_CONFIG);
		if (!strstr(err.text, bad[i][1]))
			fail_msg("%zu: %s", i, err.text);
	}
	assert_ok(read_text(good));
	assert_int_equal(mirrors.lists.count, 2);
	const struct mirror_list *list = mirrors.lists.items[0];
	assert_int_equal(list->source.from, UPSTREAM_GITHUB);
	assert_int_equal(list->source.include.count, 2);
	assert_true(list->source.has_forks && !list->source.has_archived);
	assert_int_equal(list->source.max_size, 3 << 20);
	assert_int_equal(list->interval_ms, 3600000);
	assert_true(mirrors_are_any(&mirrors));
	assert_int_equal(mirror_set_count(mirrors.set), 0);
}

TEST(lists_that_differ_are_not_the_same)
{
	static const char *const others[] = {
		LIST_A "include = x\n",
		LIST_A "exclude = x\n",
		LIST_A "forks = true\n",
		LIST_A "maxSize = 1\n",
		LIST_A "interval = 9s\n",
		LIST_A "tokenFile = /t\n",
		LIST_A "archived = yes\n",
		LIST_A "adopt = yes\n",
		LIST_A "depth = 1\n",
		LIST_A "checkout = on\n",
		LIST_A "lfs = true\n",
		LIST_A "webhookSecretFile = /s\n",
		"",
	};
	AUTO_CONF struct conf *conf = NULL;
	AUTO_MIRRORS struct mirrors before = { 0 };

	assert_ok(conf_load_text("t.conf", LIST_A, strlen(LIST_A), &conf, &err));
	assert_ok(mirrors_read(conf, &before, &err));
	assert_ok(read_text(LIST_A));
	assert_true(mirrors_are_same(&before, &mirrors));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		assert_ok(read_text(others[i]));
		assert_false(mirrors_are_same(&before, &mirrors));
	}
}

static mirrors_told told;

static void tell(size_t list, const char *name, const char *host)
{
	struct mirror_told one = { .list = mirrors.lists.items[list],
				   .name = xstrdup(name),
				   .url = xasprintf("https://%s/%s.git", host, name) };

	vec_add(&told, one);
}

static struct str refused = STR_INIT;

static void hear_taken(void *arg, const struct mirror_told *one, const struct mirror *by)
{
	(void)arg;
	str_addf(&refused, "%s:%s(%s) ", one->list->name, one->name, by ? by->name : "-");
}

static void replace_told(void)
{
	str_reset(&refused);
	mirrors_replace_told(&mirrors, &told, hear_taken, NULL);
	mirrors_told_clear(&told);
}

/* "NAME@LIST " of all; of a section "NAME ". Good until the next call. */
static const char *all_there(void)
{
	static struct str names = STR_INIT;

	str_reset(&names);
	for (const struct mirror *mirror = NULL;
	     (mirror = mirrors_next(&mirrors, mirror)) != NULL;)
		str_addf(&names, mirror->list ? "%s@%s " : "%s ", mirror->name,
			 mirror->list ? mirror->list->name : "");
	return names.data;
}

TEST(a_section_goes_before_a_list_and_a_list_before_the_next)
{
	assert_ok(read_text(
		"[mirrors \"one\"]\nfrom = gitea\nurl = https://a.example/\nwatcher = w\n"
		"[mirror \"acme/s\"]\nurl = https://s.example/s\n"
		"[mirror \"deep.git/x\"]\nurl = https://s.example/x\n"
		"[mirrors \"two\"]\nfrom = gitea\nurl = https://b.example/\n"
		"[watcher \"w\"]\n[watcher \"all\"]\nmirror = acme/*\n"
		"[watcher \"w\"]\ntokenFile = /t\n"));
	tell(0, "acme/both", "a.example");
	tell(0, "acme/S", "a.example");
	tell(0, "deep", "a.example");
	tell(1, "ACME/both", "b.example");
	tell(1, "acme/other", "b.example");
	replace_told();
	assert_string_equal(all_there(),
			    "acme/both@one acme/other@two acme/s deep.git/x ");
	assert_string_equal(refused.data, "one:acme/S(acme/s) one:deep(deep.git/x) "
					  "two:ACME/both(acme/both) ");
	assert_string_equal(watchers_of("acme/both"), "all w ");
	assert_string_equal(watchers_of("acme/other"), "all ");
	assert_ptr_equal(mirrors_find_section(&mirrors, "/acme/s.git"),
			 mirrors_find(&mirrors, "acme/s"));
	assert_null(mirrors_find_section(&mirrors, "acme/both"));
	str_clear(&refused);
}

/* A list gives its mirrors what names it likes. */
TEST(a_credential_goes_to_hosts_of_its_own_alone)
{
	assert_ok(read_text(
		"[mirrors \"ours\"]\nfrom = github\nurl = "
		"https://api.ours.example/orgs/a\n"
		"watcher = listed\n"
		"[mirrors \"theirs\"]\nfrom = gitea\nurl = https://theirs.example/\n"
		"[mirror \"acme/s\"]\nurl = https://Ours.example/s\n"
		"[watcher \"section\"]\nmirror = acme/*\ntokenFile = /t\n"
		"[watcher \"listed\"]\nmirror = other/*\ntokenFile = /t\n"
		"[watcher \"lost\"]\nmirror = other/*\nsshKeyFile = /t\n"
		"[watcher \"open\"]\nmirror = *\n"));
	tell(0, "acme/a", "ours.example");
	tell(0, "other/a", "ours.example");
	tell(0, "former/a", "former.example"); /* the list was at another host */
	tell(1, "acme/b", "theirs.example");
	tell(1, "other/b", "theirs.example");
	replace_told();
	assert_string_equal(watchers_of("former/a"), "open ");
	assert_string_equal(watchers_of("acme/s"), "section open ");
	assert_string_equal(watchers_of("acme/a"), "section listed open ");
	assert_string_equal(watchers_of("other/a"), "listed open ");
	assert_string_equal(watchers_of("acme/b"), "open ");
	assert_string_equal(watchers_of("other/b"), "open ");
	assert_ok(read_text(LIST_A "[watcher \"w\"]\nmirror = *\ntokenFile = /t\n"));
	tell(0, "acme/a", "example.com");
	replace_told();
	assert_string_equal(watchers_of("acme/a"), "w ");
	str_clear(&refused);
}

TEST(each_of_a_list_is_as_its_section_says)
{
	assert_ok(
		read_text("[mirror \"s\"]\nurl = https://s.example/s\n"
			  "[mirror \"b.checkout/c\"]\nurl = https://s.example/c\n" LIST_A
			  "depth = 3\ncheckout = true\nlfs = true\n"));
	tell(0, "B", "a.example");
	tell(0, "a", "a.example");
	tell(0, "a.checkout", "a.example");
	replace_told();
	const struct mirror *mirror = mirrors_find(&mirrors, "a");
	assert_int_equal(mirror->depth, 3);
	assert_true(mirror->has_checkout && mirror->has_lfs);
	assert_string_equal(mirrors_find_with_lfs(&mirrors), "a");
	mirror = mirrors_find(&mirrors, "s");
	assert_false(mirror->depth > 0 || mirror->has_checkout || mirror->has_lfs);
	assert_string_equal(refused.data, "a:B(b.checkout/c) a:a.checkout(a) ");
	str_clear(&refused);
}

TEST(what_a_list_has_lost_can_still_be_looked_at)
{
	assert_ok(read_text(LIST_A));
	tell(0, "acme/a", "e.com");
	tell(0, "acme/b", "e.com");
	replace_told();
	const struct mirror *a = mirrors_find(&mirrors, "acme/a");
	const struct mirror *b = mirrors_find(&mirrors, "acme/b");
	assert_ptr_equal(mirrors_next(&mirrors, a), b);
	assert_string_equal(a->uri.host, "e.com");
	tell(0, "acme/b", "other.com");
	tell(0, "acme/c", "e.com");
	replace_told();
	assert_string_equal(all_there(), "acme/b@a acme/c@a ");
	assert_null(mirrors_find(&mirrors, "acme/a"));
	assert_string_equal(a->url, "https://e.com/acme/a.git");
	assert_string_equal(b->url, "https://e.com/acme/b.git");
	assert_ptr_not_equal(mirrors_find(&mirrors, "acme/b"), b);
	assert_string_equal(mirrors_next(&mirrors, a)->url,
			    "https://other.com/acme/b.git");
	const struct mirror *c = mirrors_find(&mirrors, "acme/c");
	tell(0, "acme/c", "e.com");
	replace_told();
	assert_ptr_equal(mirrors_find(&mirrors, "acme/c"), c);
	str_clear(&refused);
}

/* Each one that goes stays in memory. */
TEST(a_list_that_says_something_else_each_time_is_followed_no_more)
{
	size_t round = 0;

	assert_ok(read_text(LIST_A));
	do {
		AUTO_FREE char *host = xasprintf("h%zu.com", round++);
		tell(0, "acme/a", host);
		tell(0, "acme/b", "b.com");
		replace_told();
	} while (round < 20000 && (!refused.data || !refused.data[0]));
	assert_in_range(round, 10000, 10100);
	assert_string_equal(refused.data, "a:acme/a(acme/a) ");
	AUTO_FREE char *kept = xasprintf("h%zu.com", round - 2);
	assert_string_equal(mirrors_find(&mirrors, "acme/a")->uri.host, kept);
	tell(0, "acme/a", kept);
	tell(0, "acme/new", "e.com");
	replace_told();
	assert_string_equal(all_there(), "acme/a@a ");
	assert_string_equal(refused.data, "a:acme/new(-) ");
	str_clear(&refused);
}

static atomic_bool has_ended;

static void *look_again_and_again(void *arg)
{
	size_t *looks = arg;

	while (!has_ended || *looks == 0) {
		size_t count = 0;
		for (const struct mirror *mirror = NULL;
		     (mirror = mirrors_next(&mirrors, mirror)) != NULL; count++)
			assert_true(text_starts_with(mirror->url, "https://"));
		const struct mirror *stays = mirrors_find(&mirrors, "stays");
		assert_string_equal(stays->name, "stays");
		assert_true(count >= 2);
		(*looks)++;
	}
	return NULL;
}

/* The section and the one that all lists have are seen at any time. */
TEST(threads_look_while_mirrors_come_and_go)
{
	pthread_t threads[3];
	size_t looks[3] = { 0 };

	assert_ok(read_text(LIST_A "[mirror \"s\"]\nurl = https://e.com/s\n"));
	tell(0, "stays", "e.com");
	replace_told();
	has_ended = false;
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		thread_start(&threads[i], "look", look_again_and_again, &looks[i]);
	for (size_t round = 0; round < 300; round++) {
		tell(0, "stays", "e.com");
		for (size_t i = 0; i < round % 20; i++) {
			AUTO_FREE char *name = xasprintf("r%zu", (i * 7 + round) % 40);
			AUTO_FREE char *host = xasprintf("h%zu.com", round % 3);
			tell(0, name, host);
		}
		replace_told();
	}
	has_ended = true;
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		thread_join(threads[i]);
	str_clear(&refused);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MIRRORS_CASE(a_name_has_one_usual_form),
		MIRRORS_CASE(two_that_would_be_one_directory_are_refused),
		MIRRORS_CASE(both_are_named_as_they_are_written),
		MIRRORS_CASE(what_only_looks_alike_is_not_refused),
		MIRRORS_CASE(names_that_lead_nowhere_are_refused),
		MIRRORS_CASE(each_mirror_is_found_by_its_own_name),
		MIRRORS_CASE(a_url_says_where_and_not_who),
		MIRRORS_CASE(a_watcher_watches_what_there_is_with_one_credential),
		MIRRORS_CASE(a_working_tree_has_its_place_to_itself),
		MIRRORS_CASE(an_authority_is_for_https),
		MIRRORS_CASE(a_depth_is_a_number_and_another_one_another_upstream),
		MIRRORS_CASE(objects_of_lfs_come_only_where_a_server_of_them_is),
		MIRRORS_CASE(a_list_says_what_it_is_and_where),
		MIRRORS_CASE(lists_that_differ_are_not_the_same),
		MIRRORS_CASE(a_section_goes_before_a_list_and_a_list_before_the_next),
		MIRRORS_CASE(a_credential_goes_to_hosts_of_its_own_alone),
		MIRRORS_CASE(each_of_a_list_is_as_its_section_says),
		MIRRORS_CASE(what_a_list_has_lost_can_still_be_looked_at),
		MIRRORS_CASE(
			a_list_that_says_something_else_each_time_is_followed_no_more),
		MIRRORS_CASE(threads_look_while_mirrors_come_and_go),
		MIRRORS_CASE(watchers_come_in_the_files_order),
		MIRRORS_CASE(refs_are_chosen_by_patterns),
		MIRRORS_CASE(a_pattern_that_matches_no_ref_is_refused),
		MIRRORS_CASE(each_change_of_a_section_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
