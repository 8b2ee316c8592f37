/*
 * Answers are compared with those of `git http-backend`, byte for byte, for the same
 * requests to the same repository.
 */
#include "upload_pack_test.h"

#include <sys/resource.h>

#include "base/clock.h"
#include "base/thread.h"

/* The answer is http-backend's, without its headers. */
static void assert_as_backend(const char *environment)
{
	AUTO_STR struct str theirs = STR_INIT;

	must("env GIT_PROJECT_ROOT=%s GIT_HTTP_EXPORT_ALL=1 %s git http-backend "
	     "</dev/null >theirs",
	     root, environment);
	must("sed -i '1,/^\\r$/d' theirs");
	assert_ok(file_read(root_fd, "theirs", 1 << 24, &theirs, &err));
	if (theirs.len != answer.len || memcmp(theirs.data, answer.data, answer.len) != 0)
		fail_msg("[%s] is not [%s]", answer.data, theirs.data);
}

#define GET                                                                              \
	"REQUEST_METHOD=GET PATH_INFO=/r.git/info/refs "                                 \
	"QUERY_STRING=service=git-upload-pack "

static void assert_advertisements_are_equal(void)
{
	request.step = UPLOAD_PACK_ADVERTISE;
	request.protocol = NULL;
	serve();
	assert_as_backend(GET);
	request.protocol = "version=1";
	serve();
	assert_as_backend(GET "GIT_PROTOCOL=version=1");
	request.protocol = "version=2"; /* by our default, which the backend lacks */
	serve();
	must("cp r.git/config kept && git -C r.git config uploadpack.allowFilter true");
	assert_as_backend(GET "GIT_PROTOCOL=version=2");
	must("cp kept r.git/config");
}

TEST(advertisements_are_those_of_http_backend)
{
	fill();
	assert_advertisements_are_equal();
	request.protocol = "version=1:x:version=2";
	serve();
	assert_true(text_starts_with(answer.data, "000eversion 2\n"));
	request.protocol = "version=9";
	serve();
	assert_as_backend(GET);
}

TEST(an_empty_repository_is_advertised_as_http_backend_does)
{
	assert_advertisements_are_equal();
}

TEST(a_detached_head_is_advertised_as_http_backend_does)
{
	fill();
	must("git -C r.git update-ref --no-deref HEAD refs/heads/topic");
	assert_advertisements_are_equal();
}

TEST(a_long_advertisement_is_whole)
{
	AUTO_STR struct str refs = STR_INIT;
	char text[OID_MAX_TEXT];

	for (int i = 0; i < 20000; i++)
		str_addf(&refs, "%s refs/heads/b%d\n", oid_text(&commits[i % 50], text),
			 i);
	write_file("r.git/packed-refs", refs.data, refs.len);
	assert_advertisements_are_equal();
}

TEST(refs_that_the_repository_hides_are_not_advertised)
{
	fill();
	must("git -C r.git config transfer.hideRefs refs/heads/topic");
	assert_advertisements_are_equal();
	request.protocol = NULL;
	serve();
	assert_null(memmem(answer.data, answer.len, "topic", 5));
	assert_non_null(memmem(answer.data, answer.len, "refs/heads/main\n", 16));
}

TEST(a_repository_may_keep_readers_out_but_no_copies)
{
	fill();
	must("git -C r.git config http.uploadpack false");
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_AUTH);
	assert_int_equal(err.reason, REASON_CLOSED);
	request.is_for_copy = true;
	serve();
	request.is_for_copy = false;
	must("git -C r.git config http.uploadpack true");
	serve();
	must("git config --file more http.uploadpack 0 && "
	     "git -C r.git config include.path %s/more",
	     root);
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_AUTH);
	assert_int_equal(err.reason, REASON_CLOSED);
}

TEST(the_refs_alone_are_the_advertisement_without_its_first_line)
{
	AUTO_STR struct str whole = STR_INIT;

	fill();
	request.step = UPLOAD_PACK_ADVERTISE;
	serve();
	str_add_bytes(&whole, answer.data, answer.len);
	request.step = UPLOAD_PACK_REFS;
	serve();
	assert_int_equal(answer.len + 34, whole.len);
	assert_memory_equal(answer.data, whole.data + 34, answer.len);
}

TEST(partial_clones_are_offered_by_protocol_2_unless_the_repository_says_no)
{
	fill();
	request.protocol = "version=2";
	serve();
	assert_non_null(strstr(answer.data, "fetch=shallow"));
	assert_non_null(strstr(answer.data, " filter"));
	must("git -C r.git config uploadpack.allowFilter false");
	serve();
	assert_null(strstr(answer.data, " filter"));
	assert_as_backend(GET "GIT_PROTOCOL=version=2");
}

TEST(protocol_0_allows_and_offers_what_the_repository_says)
{
	fill();
	must("cd r.git && git config uploadpack.allowFilter true && "
	     "git config uploadpack.allowReachableSHA1InWant true && "
	     "git config uploadpack.allowTipSHA1InWant true");
	assert_advertisements_are_equal();
	request.protocol = NULL;
	serve();
	assert_non_null(memmem(answer.data, answer.len, "allow-reachable-sha1", 20));
}

/* The child does not get the header, but the version that git would find in it. */
TEST(of_an_odd_protocol_header_only_the_version_is_kept)
{
	char text[300];

	fill();
	memset(text, 'a', sizeof(text));
	memcpy(text, "version=1:", 10);
	text[299] = '\0';
	request.protocol = text;
	serve();
	assert_as_backend(GET "GIT_PROTOCOL=version=1");
	request.protocol = "side=\"a b\":version=1";
	serve();
	assert_as_backend(GET "GIT_PROTOCOL=version=1");
	request.protocol = "version=2\nx";
	serve();
	assert_as_backend(GET);
	text[8] = '2';
	request.protocol = text;
	serve();
	assert_true(text_starts_with(answer.data, "000eversion 2\n"));
}

TEST(a_pack_is_sent_by_protocol_0)
{
	fill();
	want(&commits[9], "", true);
	serve();
	assert_true(text_starts_with(answer.data, "0008NAK\n"));
	assert_memory_equal(answer.data + answer.len - 4, "0000", 4);
	assert_non_null(memmem(answer.data, answer.len, "PACK", 4));
	close_body();
}

TEST(refs_and_a_pack_are_sent_by_protocol_2)
{
	char text[OID_MAX_TEXT];

	fill();
	command("command=ls-refs", "ref-prefix refs/heads/t");
	serve();
	assert_non_null(strstr(answer.data, "refs/heads/topic"));
	assert_null(strstr(answer.data, "refs/heads/main"));
	AUTO_FREE char *line = xasprintf("want %s", oid_text(&commits[9], text));
	command("command=fetch", line);
	serve();
	assert_true(text_starts_with(answer.data, "000dpackfile\n"));
	assert_non_null(memmem(answer.data, answer.len, "PACK", 4));
	close_body();
}

TEST(the_first_round_of_a_shallow_clone_ends_well)
{
	fill();
	want(&commits[9], "deepen 1", false);
	serve();
	assert_true(text_starts_with(answer.data, "0034shallow "));
	assert_int_equal(answer.len, 0x34 + 4);
	close_body();
}

TEST(refs_may_be_asked_for_by_name_where_the_repository_allows_it)
{
	fill();
	request.protocol = "version=2";
	serve();
	assert_null(strstr(answer.data, "ref-in-want"));
	must("git -C r.git config uploadpack.allowRefInWant true");
	serve();
	assert_non_null(strstr(answer.data, " ref-in-want"));
	command("command=fetch", "want-ref refs/heads/topic");
	serve();
	assert_true(text_starts_with(answer.data, "0010wanted-refs\n"));
	assert_non_null(memmem(answer.data, answer.len, "PACK", 4));
	close_body();
}

static size_t count_keepalives(void)
{
	size_t count = 0;

	for (size_t i = 0; i + 5 <= answer.len; i++)
		count += memcmp(answer.data + i, "0005\1", 5) == 0;
	return count;
}

/* pack-objects counts until the test lets it go on. A client that wants at least a byte
 * a second must see that git lives: of three such signs at git's own pace the last would
 * come after 15 seconds. What waits there is confined: it runs the system's programs, and
 * reads what is in the repository. */
TEST(while_git_counts_it_says_each_second_that_it_lives)
{
	char text[OID_MAX_TEXT], buffer[4096];
	int64_t started = clock_boot_ms();
	AUTO_FREE char *line = xasprintf("want %s", oid_text(&commits[9], text));
	ssize_t got = 1;

	fill();
	must("mkfifo r.git/go && git config --file gitconfig-serve-partial "
	     "uploadpack.packObjectsHook "
	     "'sh -c '\\''cat %s/r.git/go >/dev/null; exec \"$@\"'\\'' sh'",
	     root);
	command("command=fetch", line);
	str_reset(&answer);
	assert_ok(upload_pack_open(&request, &pack, &err));
	while (count_keepalives() < 3) {
		got = upload_pack_read(pack, buffer, sizeof(buffer), &err);
		assert_true(got > 0);
		str_add_bytes(&answer, buffer, (size_t)got);
	}
	assert_true(clock_boot_ms() - started < 12000);
	must("echo >r.git/go");
	if (read_all(7777) != 0)
		fail_msg("%s", err.text);
	upload_pack_close(pack);
	assert_non_null(memmem(answer.data, answer.len, "PACK", 4));
	close_body();
}

TEST(the_empty_request_of_a_probe_has_an_empty_answer)
{
	AUTO_STR struct str body = STR_INIT;

	str_add(&body, "0000");
	open_body(&body);
	serve();
	assert_int_equal(answer.len, 0);
	close_body();
}

TEST(a_refusal_is_an_answer)
{
	struct oid nobody = commits[0];

	fill();
	memset(nobody.bytes, 0x11, 20);
	want(&nobody, "", true);
	serve();
	assert_non_null(strstr(answer.data, "ERR upload-pack: not our ref 1111"));
	close_body();
}

/* Packs are moved away: what git then says is no answer to a client that asks for what
 * a ref has, and still is one to a client that asks for something else. */
TEST(a_refusal_of_what_a_ref_has_and_is_lost_is_damage)
{
	static const char *const protocols[] = { NULL, "version=1", "version=2" };
	char text[OID_MAX_TEXT];
	AUTO_FREE char *line = xasprintf("want %s", oid_text(&commits[9], text));
	struct oid nobody = commits[0];

	fill();
	memset(nobody.bytes, 0x11, 20);
	must("git -C r.git repack -adq && rm -f r.git/objects/info/alternates && "
	     "mv r.git/objects/pack away");
	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++) {
		if (i < 2)
			want(&commits[9], "", true);
		else
			command("command=fetch", line);
		request.protocol = protocols[i];
		assert_fails(upload_pack_open(&request, &pack, &err), ERR_CORRUPT);
		assert_int_equal(err.reason, REASON_LOST_OBJECT);
		close_body();
	}
	request.protocol = NULL;
	want(&nobody, "", true);
	serve();
	assert_non_null(strstr(answer.data, "ERR upload-pack: not our ref 1111"));
	close_body();
}

/* The first time git does not have the ref, which is made when it has read the request:
 * that moves the file's offset. */
TEST(a_refusal_of_what_came_just_now_is_no_doubt)
{
	char text[OID_MAX_TEXT];

	fill();
	oid_text(&commits[40], text);
	must("mkdir bin && printf '#!/bin/sh\n"
	     "case \"$*\" in *upload-pack*)\n"
	     "if ! test -e refs/heads/new; then\n"
	     "\tcat >/dev/null\n"
	     "\tuntil test -e refs/heads/new; do sleep 0.01; done\n"
	     "\tprintf \"0049ERR upload-pack: not our ref %s\"; exit 128\n"
	     "fi;;\n"
	     "esac\n"
	     "exec /usr/bin/git \"$@\"\n' >bin/git && chmod +x bin/git",
	     text);
	AUTO_FREE char *before = xstrdup(getenv("PATH"));
	AUTO_FREE char *shimmed = xasprintf("%s/bin:%s", root, before);
	want(&commits[40], "", true);
	must("{ until grep -q 'pos:.*[1-9]' /proc/%d/fdinfo/%d || test $((i+=1)) -gt "
	     "2000; do sleep 0.01; done; "
	     "git -C r.git update-ref refs/heads/new %s; } >/dev/null 2>&1 &",
	     getpid(), request.body_fd, text);
	setenv("PATH", shimmed, 1);
	assert_ok(git_setup(root, &err));
	serve();
	setenv("PATH", before, 1);
	assert_non_null(memmem(answer.data, answer.len, "PACK", 4));
	close_body();
}

/* The index may be whole again when the object is looked for: then git was wrong all the
 * same, unless it hides what it refuses. As nothing is proved, it is a doubt. */
TEST(a_refusal_of_what_a_ref_has_and_is_back_is_a_doubt)
{
	char text[OID_MAX_TEXT];

	fill();
	must("mkdir bin && printf '#!/bin/sh\n"
	     "case \"$*\" in *upload-pack*)\n"
	     "\tprintf \"0049ERR upload-pack: not our ref %s\"; exit 128;;\n"
	     "esac\n"
	     "exec /usr/bin/git \"$@\"\n' >bin/git && chmod +x bin/git",
	     oid_text(&commits[9], text));
	AUTO_FREE char *before = xstrdup(getenv("PATH"));
	AUTO_FREE char *shimmed = xasprintf("%s/bin:%s", root, before);
	setenv("PATH", shimmed, 1);
	assert_ok(git_setup(root, &err));
	want(&commits[9], "", true);
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_CORRUPT);
	assert_int_equal(err.reason, REASON_NONE);
	close_body();
	must("/usr/bin/git -C r.git config transfer.hideRefs refs/hidden");
	want(&commits[9], "", true);
	serve();
	setenv("PATH", before, 1);
	assert_non_null(strstr(answer.data, "ERR upload-pack: not our ref "));
	close_body();
}

/* Git finds it out behind the first packet, the pack's. */
TEST(what_breaks_soon_after_its_beginning_is_an_error)
{
	char text[OID_MAX_TEXT];
	AUTO_FREE char *line = xasprintf("want %s", oid_text(&commits[9], text));

	fill();
	must("git -C r.git repack -adq && rm -f r.git/objects/info/alternates && "
	     "mv r.git/objects/pack/*.pack p && rm -f r.git/objects/pack/* && "
	     "git -C r.git unpack-objects -q <p && "
	     "rm -f r.git/objects/$(git -C r.git rev-parse main~3 | "
	     "sed 's,..,&/,')");
	command("command=fetch", line);
	request.holds_back = true;
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_CORRUPT);
	close_body();
	command("command=fetch", line);
	request.holds_back = false;
	assert_ok(upload_pack_open(&request, &pack, &err));
	assert_int_equal(read_all(4096), -1);
	assert_non_null(memmem(answer.data, answer.len, "aborting due to", 15));
	upload_pack_close(pack);
	close_body();
}

TEST(hidden_refs_and_what_no_ref_reaches_are_refused_by_protocol_0)
{
	fill();
	must("git -C r.git config transfer.hideRefs refs/heads/topic");
	want(&commits[19], "", true);
	serve();
	assert_non_null(strstr(answer.data, "ERR upload-pack: not our ref "));
	want(&commits[40], "", true);
	serve();
	assert_non_null(strstr(answer.data, "ERR upload-pack: not our ref "));
	want(&commits[9], "", true);
	serve();
	assert_null(strstr(answer.data, "not our ref"));
	close_body();
}

/* A body that does not fit into a pipe, to a child that answers before it has read it. */
TEST(a_body_in_memory_is_read_as_one_in_a_file)
{
	AUTO_STR struct str body = STR_INIT;
	char text[OID_MAX_TEXT];

	fill();
	add_packet(&body, "command=fetch");
	str_add(&body, "0001");
	for (int i = 0; i < 20000; i++) {
		AUTO_FREE char *line = xasprintf("want %s", oid_text(&commits[9], text));
		add_packet(&body, line);
	}
	add_packet(&body, "done");
	str_add(&body, "0000");
	request.step = UPLOAD_PACK_ANSWER;
	request.protocol = "version=2";
	request.body = &body;
	serve();
	assert_non_null(memmem(answer.data, answer.len, "PACK", 4));
	str_reset(&body);
	str_add(&body, "garbage");
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_CONFIG);
}

/* More than http-backend takes: 11 MB. */
TEST(a_client_may_want_220000_objects)
{
	AUTO_STR struct str body = STR_INIT;
	char text[2][OID_MAX_TEXT];

	fill();
	oid_text(&commits[9], text[0]);
	oid_text(&commits[19], text[1]);
	add_packet(&body, "command=fetch");
	str_add(&body, "0001");
	for (int i = 0; i < 220000; i++)
		str_addf(&body, "0032want %s\n", text[i % 2]);
	add_packet(&body, "done");
	str_add(&body, "0000");
	assert_true(body.len > (10 << 20));
	open_body(&body);
	request.protocol = "version=2";
	serve();
	assert_non_null(memmem(answer.data, answer.len, "PACK", 4));
	close_body();
}

/* Says its niceness and policy in the answer: it is confined, and so writes nowhere
 * else. */
static void make_telling_git(void)
{
	must("mkdir bin && printf '#!/bin/sh\n"
	     "case \"$*\" in *upload-pack*)\n"
	     "\techo \"($(nice) $(chrt -p $$ | sed -n \"s/.*policy: //p\"))\";;\n"
	     "esac\n"
	     "exec /usr/bin/git \"$@\"\n' >bin/git && chmod +x bin/git");
}

static void assert_priority(int niceness, const char *policy)
{
	AUTO_FREE char *line = xasprintf("(%d %s)\n", niceness, policy);

	if (!memmem(answer.data, answer.len, line, strlen(line)))
		fail_msg("no %s in [%.200s]", line, answer.data);
}

/* ls-refs needs no pipe of git's; a pack is made by children of the child. */
TEST(all_that_makes_a_pack_yields_to_others)
{
	int own = getpriority(PRIO_PROCESS, 0);

	fill();
	make_telling_git();
	AUTO_FREE char *before = xstrdup(getenv("PATH"));
	AUTO_FREE char *shimmed = xasprintf("%s/bin:%s", root, before);
	setenv("PATH", shimmed, 1);
	assert_ok(git_setup(root, &err));
	want(&commits[9], "", true);
	serve();
	assert_priority(own + 5, "SCHED_BATCH");
	request.step = UPLOAD_PACK_ADVERTISE;
	serve();
	assert_priority(own, "SCHED_OTHER");
	setenv("PATH", before, 1);
	close_body();
}

TEST(a_body_that_is_no_request_is_an_error_at_once)
{
	AUTO_STR struct str body = STR_INIT;

	fill();
	str_add(&body, "garbage");
	open_body(&body);
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_CONFIG);
	assert_non_null(strstr(err.text, "bad line length"));
	str_reset(&body);
	add_packet(&body, "command=nonsense");
	str_add(&body, "00010000");
	open_body(&body);
	request.protocol = "version=2";
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_CONFIG);
	close_body();
}

static void ask(const char *protocol, const struct str *body)
{
	bool is_bad = false;

	open_body(body);
	request.protocol = protocol;
	request.is_bad = &is_bad;
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_CONFIG);
	assert_true(is_bad);
	close_body();
}

/* `lines` end in NULL; "" is the packet between a command and its arguments. */
static void ask_lines(const char *protocol, const char *const *lines)
{
	AUTO_STR struct str body = STR_INIT;

	for (; *lines; lines++)
		if (**lines)
			add_packet(&body, *lines);
		else
			str_add(&body, "0001");
	str_add(&body, "0000");
	ask(protocol, &body);
}

#define FETCH "command=fetch", "", want_line

/* Git dies of each in words of its own, some with the client's in it: they must not be
 * taken for words of damage. */
TEST(whatever_a_client_says_the_repository_is_not_blamed_for_it)
{
	char text[OID_MAX_TEXT];
	AUTO_FREE char *want_line = xasprintf("want %s", oid_text(&commits[9], text));
	AUTO_FREE char *no_commit = NULL;
	const char *const *const new[] = {
		(const char *const[]){ "command=fetch", "is corrupt", NULL },
		(const char *const[]){ "agent=x", NULL },
		(const char *const[]){ "command=fetch", "command=fetch", NULL },
		(const char *const[]){ "command=is corrupt", NULL },
		(const char *const[]){ "command=fetch", "object-format=sha256", NULL },
		(const char *const[]){ "command=fetch", "object-format=bad object",
				       NULL },
		(const char *const[]){ "command=fetch", "object-format", NULL },
		(const char *const[]){ "ERR refrelay says corrupt: bad object", NULL },
		(const char *const[]){ "command=fetch", "", "bad object", NULL },
		(const char *const[]){ "command=fetch", "", "x\nfatal: bad object",
				       NULL },
		(const char *const[]){ "command=fetch", "", "want bad object", NULL },
		(const char *const[]){ "command=fetch", "", "have bad object", NULL },
		(const char *const[]){ "command=ls-refs", "", "bad object", NULL },
		(const char *const[]){ FETCH, "", NULL },
		(const char *const[]){ FETCH, "shallow bad object", NULL },
		(const char *const[]){ FETCH, "deepen x", NULL },
		(const char *const[]){ FETCH, "deepen-since x", NULL },
		(const char *const[]){ FETCH, "deepen-not bad object", NULL },
		(const char *const[]){ FETCH, "filter bad object", NULL },
		(const char *const[]){ FETCH, "filter tree:0", "filter tree:0", NULL },
		(const char *const[]){ FETCH, "deepen-not refs/heads/main", "done",
				       NULL },
		(const char *const[]){ FETCH, "deepen 1", "deepen-since 1", "done",
				       NULL },
	};
	const char *const *const old[] = {
		(const char *const[]){ "bad object", NULL },
		(const char *const[]){ "want bad object", NULL },
		(const char *const[]){ "ERR refrelay says corrupt: bad object", NULL },
		(const char *const[]){ want_line, "shallow bad object", NULL },
		(const char *const[]){ want_line, "deepen-not bad object", NULL },
		(const char *const[]){ want_line, "filter blob:none", NULL },
	};

	fill();
	request.holds_back = true; /* some say it behind the beginning of an answer */
	for (size_t i = 0; i < ARRAY_SIZE(new); i++)
		ask_lines("version=2", new[i]);
	for (size_t i = 0; i < ARRAY_SIZE(old); i++)
		ask_lines(i % 2 ? "version=1" : NULL, old[i]);
	no_commit = output_of("git -C r.git rev-parse refs/heads/main^{tree}");
	AUTO_FREE char *shallow = xasprintf("shallow %.40s", no_commit);
	ask_lines("version=2", (const char *const[]){ FETCH, shallow, NULL });
}

/* Git says 4096 bytes of it. */
TEST(nor_is_it_if_the_client_says_so_much_that_the_beginning_is_far_from_the_end)
{
	AUTO_STR struct str line = STR_INIT;

	fill();
	while (line.len < 5000)
		str_add(&line, "password=bad object\nfatal: bad object x\n");
	ask_lines("version=2", (const char *const[]){ "command=fetch", line.data, NULL });
}

TEST(a_filter_by_a_blob_that_is_not_there_is_refused_as_the_filter_that_it_is)
{
	char text[OID_MAX_TEXT];
	const char *sparse = "filter sparse:oid=nosuch";
	AUTO_STR struct str body = STR_INIT;

	fill();
	command("command=fetch", sparse);
	serve();
	assert_non_null(strstr(answer.data, "ERR filter 'sparse:oid' not supported"));
	must("git -C r.git config uploadpack.allowFilter true");
	AUTO_FREE char *line = xasprintf("want %s filter", oid_text(&commits[9], text));
	add_packet(&body, line);
	add_packet(&body, sparse);
	str_add(&body, "0000");
	add_packet(&body, "done\n");
	open_body(&body);
	request.protocol = NULL;
	serve();
	assert_non_null(strstr(answer.data, "ERR filter 'sparse:oid' not supported"));
	close_body();
}

/* In words that a later git may have. */
TEST(what_git_dies_of_in_unknown_words_may_be_the_requests_fault)
{
	bool is_bad = false;

	fill();
	must("mkdir bin && printf '#!/bin/sh\n"
	     "case \"$*\" in *upload-pack*) echo fatal: phase of the moon >&2; exit "
	     "128;; "
	     "esac\nexec /usr/bin/git \"$@\"\n' >bin/git && chmod +x bin/git");
	AUTO_FREE char *before = xstrdup(getenv("PATH"));
	AUTO_FREE char *shimmed = xasprintf("%s/bin:%s", root, before);
	setenv("PATH", shimmed, 1);
	assert_ok(git_setup(root, &err));
	request.is_bad = &is_bad;
	want(&commits[9], "", true);
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_INTERNAL);
	assert_true(is_bad);
	request.step = UPLOAD_PACK_ADVERTISE; /* there nothing is asked for */
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_INTERNAL);
	assert_false(is_bad);
	setenv("PATH", before, 1);
	close_body();
}

TEST(a_repository_that_is_not_there_or_damaged_is_told_before_the_answer)
{
	AUTO_FREE char *nowhere = xasprintf("%s/nowhere.git", root);

	request.path = nowhere;
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_MISSING);
	request.path = path;
	must("rm -r r.git/refs");
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_CORRUPT);
	must("mkdir r.git/refs && rm -f r.git/packed-refs && mkfifo r.git/packed-refs");
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_CONFIG);
}

TEST(git_works_in_the_directory_that_was_found_whatever_stands_at_its_path_now)
{
	fill();
	request.dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must("cp -r r.git outside.git && mv r.git away.git && ln -s outside.git r.git");
	must("git -C outside.git update-ref refs/heads/secret refs/heads/main");
	for (int step = UPLOAD_PACK_ADVERTISE; step <= UPLOAD_PACK_REFS; step++) {
		request.step = (enum upload_pack_step)step;
		serve();
		assert_non_null(memmem(answer.data, answer.len, "topic", 5));
		assert_null(memmem(answer.data, answer.len, "secret", 6));
	}
	must("rm -r away.git/refs");
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_CORRUPT);
	close(request.dir);
}

/* Each held a git, and with some of them all who wait for one. */
TEST(what_would_hold_git_among_the_refs_is_refused)
{
	static const char *const commands[] = {
		"mkfifo r.git/refs/heads/pipe",
		"rm r.git/refs/heads/pipe && ln -s . r.git/refs/heads/a && "
		"ln -s . r.git/refs/heads/b",
		"cd r.git/refs/heads && rm a b && "
		"for i in $(seq 100); do mkdir d && cd d || exit 1; done",
	};

	fill();
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		must("%s", commands[i]);
		assert_fails(upload_pack_open(&request, &pack, &err), ERR_CONFIG);
	}
	must("rm -r r.git/refs/heads/d && ln -s heads r.git/refs/linked");
	assert_ok(upload_pack_open(&request, &pack, &err));
	upload_pack_close(pack);
}

/* A pack with a hole in the middle: git notices when it has sent some of it, as it
 * compares nothing. */
TEST(an_answer_that_breaks_off_is_an_error)
{
	must("git -C r.git config pack.window 0");
	must("rm r.git/objects/info/alternates && cd r.git && "
	     "for i in 1 2 3; do head -c 300000 /dev/urandom >../f$i; "
	     "git hash-object -w ../f$i; done | sed 's/.*/100644 blob &\\t&/' | "
	     "git mktree | xargs -I{} git commit-tree -m m {} >../tip && "
	     "git update-ref refs/heads/main $(cat ../tip)");
	must("chmod -R u+w r.git/objects && find r.git/objects -type f -size +200k | "
	     "sort | tail -n 1 | xargs -I{} truncate -s 100000 {}");
	AUTO_FREE char *tip = output_of("cat tip");
	struct oid oid;
	assert_true(oid_parse(tip, 20, &oid));
	want(&oid, "", true);
	assert_ok(upload_pack_open(&request, &pack, &err));
	assert_int_equal(read_all(4096), -1);
	if (err.class != ERR_CORRUPT)
		fail_msg("%s", err.text);
	assert_int_equal(read_all(4096), -1);
	upload_pack_close(pack);
	close_body();
}

/* More than a pipe takes, so that git cannot have ended. */
TEST(a_stop_breaks_the_answer_off)
{
	struct stop stop;
	struct oid oid;
	char buffer[4];

	must("rm r.git/objects/info/alternates && cd r.git && "
	     "head -c 3000000 /dev/urandom >../f && git hash-object -w ../f | "
	     "sed 's/.*/100644 blob &\\tf/' | git mktree | "
	     "xargs -I{} git commit-tree -m m {} >../tip && "
	     "git update-ref refs/heads/main $(cat ../tip)");
	AUTO_FREE char *tip = output_of("cat tip");
	assert_true(oid_parse(tip, 20, &oid));
	stop_init(&stop);
	request.stop = &stop;
	want(&oid, "", true);
	assert_ok(upload_pack_open(&request, &pack, &err));
	assert_true(upload_pack_read(pack, buffer, sizeof(buffer), &err) > 0);
	stop_request(&stop);
	assert_int_equal(read_all(4096), -1);
	assert_int_equal(err.class, ERR_CANCELED);
	upload_pack_close(pack);
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_CANCELED);
	stop_clear(&stop);
	close_body();
}

TEST(the_time_for_a_request_is_limited)
{
	int ends[2];

	fill();
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	request.step = UPLOAD_PACK_ANSWER;
	request.body_fd = ends[0];
	request.timeout_ms = 50;
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_TIMEOUT);
	close(ends[0]);
	close(ends[1]);
}

TEST(a_child_that_says_nothing_is_not_waited_for)
{
	int ends[2];

	fill();
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	request.step = UPLOAD_PACK_ANSWER;
	request.body_fd = ends[0];
	request.silence_ms = 100;
	assert_fails(upload_pack_open(&request, &pack, &err), ERR_TIMEOUT);
	assert_non_null(strstr(err.text, "nothing was heard of it"));
	close(ends[0]);
	close(ends[1]);
}

/* A child that starts late is silent, too; not for long, if it is tried more than once.
 */
TEST(a_client_that_pauses_is_not_a_child_that_is_silent)
{
	bool is_whole = false;

	fill();
	request.step = UPLOAD_PACK_ADVERTISE;
	for (int ms = 100; ms <= 12800 && !is_whole; ms *= 2) {
		request.silence_ms = ms;
		str_reset(&answer);
		if (upload_pack_open(&request, &pack, &err) != 0)
			continue;
		usleep((useconds_t)ms * 1500);
		is_whole = read_all(16) == 0;
		upload_pack_close(pack);
	}
	assert_true(is_whole);
}

TEST(hooks_and_programs_in_the_repositorys_config_are_not_run)
{
	fill();
	must("git -C r.git config uploadpack.packObjectsHook 'touch %s/ran; false'",
	     root);
	must("mkdir -p r.git/hooks && for h in post-upload-pack pre-upload-pack; do "
	     "printf '#!/bin/sh\\ntouch %s/ran\\n' >r.git/hooks/$h; "
	     "chmod +x r.git/hooks/$h; done",
	     root);
	want(&commits[9], "", true);
	serve();
	assert_int_equal(faccessat(root_fd, "ran", F_OK, 0), -1);
	close_body();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(advertisements_are_those_of_http_backend),
		CASE(an_empty_repository_is_advertised_as_http_backend_does),
		CASE(a_detached_head_is_advertised_as_http_backend_does),
		CASE(a_long_advertisement_is_whole),
		CASE(refs_that_the_repository_hides_are_not_advertised),
		CASE(a_repository_may_keep_readers_out_but_no_copies),
		CASE(the_refs_alone_are_the_advertisement_without_its_first_line),
		CASE(partial_clones_are_offered_by_protocol_2_unless_the_repository_says_no),
		CASE(protocol_0_allows_and_offers_what_the_repository_says),
		CASE(of_an_odd_protocol_header_only_the_version_is_kept),
		CASE(a_pack_is_sent_by_protocol_0),
		CASE(refs_and_a_pack_are_sent_by_protocol_2),
		CASE(the_first_round_of_a_shallow_clone_ends_well),
		CASE(refs_may_be_asked_for_by_name_where_the_repository_allows_it),
		CASE(while_git_counts_it_says_each_second_that_it_lives),
		CASE(the_empty_request_of_a_probe_has_an_empty_answer),
		CASE(a_refusal_is_an_answer),
		CASE(a_refusal_of_what_a_ref_has_and_is_lost_is_damage),
		CASE(a_refusal_of_what_came_just_now_is_no_doubt),
		CASE(a_refusal_of_what_a_ref_has_and_is_back_is_a_doubt),
		CASE(what_breaks_soon_after_its_beginning_is_an_error),
		CASE(hidden_refs_and_what_no_ref_reaches_are_refused_by_protocol_0),
		CASE(a_body_in_memory_is_read_as_one_in_a_file),
		CASE(a_client_may_want_220000_objects),
		CASE(all_that_makes_a_pack_yields_to_others),
		CASE(a_body_that_is_no_request_is_an_error_at_once),
		CASE(whatever_a_client_says_the_repository_is_not_blamed_for_it),
		CASE(nor_is_it_if_the_client_says_so_much_that_the_beginning_is_far_from_the_end),
		CASE(a_filter_by_a_blob_that_is_not_there_is_refused_as_the_filter_that_it_is),
		CASE(what_git_dies_of_in_unknown_words_may_be_the_requests_fault),
		CASE(a_repository_that_is_not_there_or_damaged_is_told_before_the_answer),
		CASE(git_works_in_the_directory_that_was_found_whatever_stands_at_its_path_now),
		CASE(what_would_hold_git_among_the_refs_is_refused),
		CASE(an_answer_that_breaks_off_is_an_error),
		CASE(a_stop_breaks_the_answer_off),
		CASE(the_time_for_a_request_is_limited),
		CASE(a_child_that_says_nothing_is_not_waited_for),
		CASE(a_client_that_pauses_is_not_a_child_that_is_silent),
		CASE(hooks_and_programs_in_the_repositorys_config_are_not_run),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
