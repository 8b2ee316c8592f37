#include "receive_test.h"

#include "base/thread.h"

TEST(a_push_creates_refs_and_tells_of_them_once)
{
	simple(&push, &commits[9], "refs/heads/main");
	assert_ok(go());
	assert_true(says("unpack ok") && says("ok refs/heads/main"));
	assert_memory_equal(push.answer.data + push.answer.len - 4, "0000", 4);
	assert_refs("refs/heads/main=9");
	assert_changed_once();
	assert_true(text_starts_with(push.refs_recorded, "refs/heads/main="));
	assert_null(strchr(push.refs_recorded, ' ')); /* and nobody is at work */
	assert_outcome(1, 1, 0);
	must("git -C r.git fsck --connectivity-only");
	assert_tidy();
}

TEST(one_push_may_create_change_and_delete)
{
	simple(&push, &commits[9], "refs/heads/main");
	assert_ok(go());
	push_clear(&push);
	push_init(&push);
	command(&push, &commits[9], &commits[19], "refs/heads/main", CAPS);
	command(&push, NULL, &commits[10], "refs/heads/topic", NULL);
	command(&push, NULL, &commits[11], "refs/heads/gone", NULL);
	pack_of(&push, &commits[19], "0000");
	assert_ok(go());
	assert_changed_once();
	assert_refs("refs/heads/gone=11 refs/heads/main=19 refs/heads/topic=10");
	push_clear(&push);
	push_init(&push);
	command(&push, &commits[11], NULL, "refs/heads/gone", CAPS);
	pkt_add_flush(&push.body);
	pkt_add_flush(&push.body);
	assert_ok(go());
	assert_true(says("ok refs/heads/gone"));
	assert_int_equal(push.deletions, 1);
	assert_refs("refs/heads/main=19 refs/heads/topic=10");
	assert_changed_once();
}

TEST(many_refs_are_one_change_whatever_comes_at_once)
{
	for (int i = 0; i < 400; i++) {
		AUTO_FREE char *name = xasprintf("refs/heads/b%d", i);
		command(&push, NULL, &commits[i % 50], name, CAPS);
	}
	pack_of(&push, &commits[50], "0000");
	push.at_once = 7;
	assert_ok(go());
	assert_outcome(400, 400, 0);
	assert_int_equal(push.deletions, 0);
	assert_changed_once();
	AUTO_FREE char *count = output_of("git -C r.git for-each-ref | wc -l");
	assert_int_equal(atoi(count), 400);
}

TEST(readers_are_kept_away_from_the_end_of_the_body_on)
{
	hook("pre-receive", "echo $(ls $GIT_DIR/refrelay/state/pending | wc -l) at work");
	push.lingers = true;
	simple(&push, &commits[9], "refs/heads/main");
	assert_ok(go());
	assert_true(says("1 at work"));
	assert_changed_once();
	push_clear(&push);
	push_init(&push);
	command(&push, &commits[9], NULL, "refs/heads/main", CAPS);
	pkt_add_flush(&push.body);
	pkt_add_flush(&push.body);
	assert_ok(go());
	assert_true(says("1 at work"));
}

TEST(an_atomic_push_with_one_bad_command_changes_nothing)
{
	command(&push, NULL, &commits[9], "refs/heads/main", "report-status atomic");
	command(&push, &commits[3], &commits[9], "refs/heads/other", NULL);
	pack_of(&push, &commits[9], "");
	assert_ok(go());
	assert_true(says("ng refs/heads/main") && says("ng refs/heads/other"));
	assert_outcome(2, 0, 2);
	assert_refs("");
	assert_int_equal(push.recorded, 1);
	assert_tidy();
}

TEST(hooks_refuse_and_the_client_reads_why)
{
	hook("update", "echo no entry to $1 >&2; [ $1 != refs/heads/main ]");
	command(&push, NULL, &commits[9], "refs/heads/main", CAPS);
	command(&push, NULL, &commits[8], "refs/heads/topic", NULL);
	pack_of(&push, &commits[9], "0000");
	assert_ok(go());
	assert_true(says("no entry to refs/heads/main") && says("hook declined"));
	assert_outcome(2, 1, 1);
	assert_refs("refs/heads/topic=8");
	push_clear(&push);
	push_init(&push);
	hook("pre-receive", "echo closed today; exit 1");
	simple(&push, &commits[9], "refs/heads/main");
	assert_ok(go());
	assert_true(says("closed today") && says("pre-receive hook declined"));
	assert_outcome(1, 0, 1);
	assert_refs("refs/heads/topic=8");
	assert_tidy();
}

/* Of a push that changes others, too. */
TEST(refused_deletions_are_told_from_other_refused_refs)
{
	simple(&push, &commits[9], "refs/heads/main");
	assert_ok(go());
	must("cd r.git && for i in 1 2 3; do git update-ref refs/heads/$i main; done");
	hook("update", "[ $1 != refs/heads/main ] && [ $1 != refs/heads/3 ]");
	push_clear(&push);
	push_init(&push);
	command(&push, &commits[9], &commits[19], "refs/heads/main", CAPS);
	command(&push, &commits[9], NULL, "refs/heads/1", NULL);
	command(&push, &commits[9], NULL, "refs/heads/2", NULL);
	command(&push, &commits[9], NULL, "refs/heads/3", NULL);
	pack_of(&push, &commits[19], "0000");
	assert_ok(go());
	assert_outcome(4, 2, 2);
	assert_int_equal(push.deletions, 3);
	assert_int_equal(push.outcome.refused_deletions, 1);
	assert_refs("refs/heads/3=9 refs/heads/main=9");
}

TEST(hooks_know_who_pushes_and_with_what_options)
{
	AUTO_STR struct str options = STR_INIT;

	hook("pre-receive", "cd \"$GIT_DIR\" && echo $REMOTE_USER $REMOTE_ADDR "
			    "$GIT_COMMITTER_NAME $GIT_COMMITTER_EMAIL "
			    "$GIT_PUSH_OPTION_COUNT $GIT_PUSH_OPTION_0 "
			    "$HTTPS_PROXY$SSH_AUTH_SOCK");
	hook("post-receive", "echo post $(git rev-parse refs/heads/main | head -c 4) "
			     "$(git config --get core.fsyncMethod)");
	must("git -C r.git config core.fsyncMethod writeout-only");
	setenv("HTTPS_PROXY", "leaked", 1);
	pkt_addf(&options, "ci.skip");
	pkt_add_flush(&options);
	command(&push, NULL, &commits[9], "refs/heads/main", CAPS);
	pack_of(&push, &commits[9], options.data);
	assert_ok(go());
	unsetenv("HTTPS_PROXY");
	assert_true(says("ann 192.0.2.7 ann ann@http.192.0.2.7 1 ci.skip\n"));
	assert_true(says("post ") && says(" fsync\n"));
	must("test -z \"$(git -C r.git config --get receive.autogc)\"");
}

/* What a hook says before is not held. */
TEST(the_report_is_held_until_it_is_recorded)
{
	push.fails = true;
	hook("pre-receive",
	     "echo early; while test ! -e ../answered; do sleep 0.01; done");
	simple(&push, &commits[9], "refs/heads/main");
	assert_fails(go(), ERR_DISK);
	assert_false(says("unpack ok"));
	assert_true(says("early"));
	assert_int_equal(push.reported, 0);
	assert_refs("refs/heads/main=9");
	assert_changed_once();
	assert_true(text_starts_with(push.refs_recorded, "refs/heads/main="));
	assert_tidy();
}

TEST(without_side_band_nothing_comes_before_it_is_recorded)
{
	push.fails = true;
	command(&push, NULL, &commits[9], "refs/heads/main", "report-status");
	pack_of(&push, &commits[9], "");
	assert_fails(go(), ERR_DISK);
	assert_int_equal(push.answer.len, 0);
	push_clear(&push);
	push_init(&push);
	command(&push, NULL, &commits[8], "refs/heads/two", "report-status");
	pack_of(&push, &commits[8], "");
	assert_ok(go());
	assert_string_equal(push.answer.data,
			    "000eunpack ok\n0016ok refs/heads/two\n0000");
}

#define ALIVE "0005\1"

/* Git says nothing while it moves refs, which may be thousands. */
TEST(a_silent_git_leaves_no_silence)
{
	hook("reference-transaction", "while test ! -e ../answered; do sleep 0.01; done");
	push.request.keep_alive_ms = 10;
	simple(&push, &commits[9], "refs/heads/topic");
	assert_ok(go());
	assert_true(text_starts_with(push.answer.data, ALIVE));
	assert_true(says("unpack ok") && says("ok refs/heads/topic"));
	assert_outcome(1, 1, 0);
	assert_changed_once();
	must("rm answered");
	push_clear(&push);
	push_init(&push);
	push.request.keep_alive_ms = 10;
	command(&push, &commits[9], NULL, "refs/heads/topic",
		"report-status side-band-64k");
	pkt_add_flush(&push.body);
	assert_ok(go());
	assert_true(text_starts_with(push.answer.data, ALIVE));
	assert_outcome(1, 1, 0);
}

TEST(a_client_without_side_band_gets_nothing_but_the_report)
{
	hook("reference-transaction", "sleep 0.1");
	push.request.keep_alive_ms = 10;
	command(&push, NULL, &commits[9], "refs/heads/main",
		"report-status agent=side-band-64k");
	pack_of(&push, &commits[9], "");
	assert_ok(go());
	assert_string_equal(push.answer.data,
			    "000eunpack ok\n0017ok refs/heads/main\n0000");
}

TEST(a_push_that_wants_no_report_is_recorded_at_its_end)
{
	command(&push, NULL, &commits[9], "refs/heads/main", NULL);
	pack_of(&push, &commits[9], "");
	assert_ok(go());
	assert_int_equal(push.answer.len, 0);
	assert_int_equal(push.reported, 1);
	assert_false(push.outcome.is_known);
	assert_int_equal(push.outcome.asked, 1);
	assert_changed_once();
	assert_refs("refs/heads/main=9");
}

TEST(a_probe_has_an_empty_answer_and_changes_nothing)
{
	char key[STATE_KEY_SIZE];

	pkt_add_flush(&push.body);
	assert_ok(go());
	assert_int_equal(push.answer.len, 0);
	assert_int_equal(push.recorded + push.reported, 0);
	read_key(key);
	assert_string_equal(push.key_before, key);
	assert_tidy();
}

TEST(a_repository_may_refuse_pushes)
{
	AUTO_STR struct str out = STR_INIT;

	must("git -C r.git config http.receivepack no");
	simple(&push, &commits[9], "refs/heads/main");
	assert_fails(go(), ERR_AUTH);
	assert_fails(receive_pack_advertise(&push.request, &out, &err), ERR_AUTH);
	must("git -C r.git config http.receivepack 1");
	assert_ok(receive_pack_advertise(&push.request, &out, &err));
	assert_ok(go());
}

/* Git takes such a push, but the change cannot be recorded. */
TEST(a_repository_that_is_not_whole_takes_no_pushes)
{
	AUTO_STR struct str out = STR_INIT;
	char text[OID_MAX_TEXT];

	simple(&push, &commits[9], "refs/heads/main");
	AUTO_FREE char *shallow = xasprintf("%s\n", oid_text(&commits[3], text));
	write_text("shallow", shallow);
	assert_fails(receive_pack_advertise(&push.request, &out, &err), ERR_AUTH);
	assert_fails(go(), ERR_AUTH);
	assert_refs("");
	must("rm r.git/shallow && git -C r.git config remote.up.promisor true");
	assert_fails(receive_pack_advertise(&push.request, &out, &err), ERR_AUTH);
	must("git -C r.git config --unset remote.up.promisor");
	assert_ok(go());
	assert_refs("refs/heads/main=9");
}

TEST(the_identity_of_a_token_is_an_address_without_blanks)
{
	hook("pre-receive", "echo $REMOTE_USER, $GIT_COMMITTER_NAME, "
			    "$GIT_COMMITTER_EMAIL");
	push.request.user = "token pusher";
	simple(&push, &commits[9], "refs/heads/main");
	assert_ok(go());
	assert_true(says("token pusher, token pusher, pusher@http.192.0.2.7\n"));
}

static void assert_as_backend(const struct str *out, const char *environment)
{
	AUTO_STR struct str theirs = STR_INIT;

	must("env GIT_PROJECT_ROOT=%s GIT_HTTP_EXPORT_ALL=1 REMOTE_USER=ann "
	     "REQUEST_METHOD=GET PATH_INFO=/r.git/info/refs "
	     "QUERY_STRING=service=git-receive-pack GIT_CONFIG_COUNT=1 "
	     "GIT_CONFIG_KEY_0=receive.advertisePushOptions GIT_CONFIG_VALUE_0=true "
	     "%s git http-backend </dev/null | sed '1,/^\\r$/d' >theirs",
	     root, environment);
	assert_ok(file_read(root_fd, "theirs", 1 << 24, &theirs, &err));
	assert_string_equal(out->data, theirs.data);
	assert_int_equal(out->len, theirs.len);
}

TEST(advertisements_are_those_of_http_backend)
{
	AUTO_STR struct str out = STR_INIT;

	assert_ok(receive_pack_advertise(&push.request, &out, &err));
	assert_as_backend(&out, "");
	simple(&push, &commits[9], "refs/heads/main");
	assert_ok(go());
	str_reset(&out);
	push.request.protocol = "version=1";
	assert_ok(receive_pack_advertise(&push.request, &out, &err));
	assert_as_backend(&out, "GIT_PROTOCOL=version=1");
	str_reset(&out);
	push.request.protocol = "version=2";
	assert_ok(receive_pack_advertise(&push.request, &out, &err));
	assert_as_backend(&out, "");
	assert_true(memmem(out.data, out.len, " push-options ", 14));
	must("git -C r.git config receive.advertisePushOptions false");
	str_reset(&out);
	assert_ok(receive_pack_advertise(&push.request, &out, &err));
	assert_null(memmem(out.data, out.len, " push-options ", 14));
}

/* Some 32 KiB each, so that few of them are enough. */
static void add_long_refs(int from, int to)
{
	char text[OID_MAX_TEXT];

	must("awk 'BEGIN { a = 1; while (length(a) < 30000) a = a a; "
	     "for (i = %d; i < %d; i++) print \"%s refs/heads/\" i a }' "
	     ">>r.git/packed-refs",
	     from, to, oid_text(&commits[9], text));
}

TEST(very_many_refs_are_advertised_up_to_a_limit)
{
	AUTO_STR struct str out = STR_INIT;

	simple(&push, &commits[9], "refs/heads/main");
	assert_ok(go());
	add_long_refs(1000, 3200);
	assert_ok(receive_pack_advertise(&push.request, &out, &err));
	assert_true(out.len > 64 << 20);
	str_reset(&out);
	add_long_refs(3200, 5400);
	assert_fails(receive_pack_advertise(&push.request, &out, &err), ERR_CONFIG);
	assert_non_null(strstr(err.text, "too many refs"));
	assert_int_equal(out.len, 0);
}

/* They may be hidden there, and very many. */
TEST(refs_of_a_lender_are_not_advertised)
{
	AUTO_STR struct str out = STR_INIT;

	must("echo %s/objects >r.git/objects/info/alternates", store_path);
	assert_ok(receive_pack_advertise(&push.request, &out, &err));
	assert_null(memmem(out.data, out.len, " .have", 6));
	simple(&push, &commits[9], "refs/heads/main");
	assert_ok(go());
	assert_refs("refs/heads/main=9");
	must("git -C r.git fsck --strict --connectivity-only >fsck 2>&1");
	must("git -C r.git config core.alternateRefsPrefixes refs/");
	str_reset(&out);
	assert_ok(receive_pack_advertise(&push.request, &out, &err));
	assert_non_null(memmem(out.data, out.len, " .have", 6));
}

static void *push_in_thread(void *arg)
{
	struct push *mine = arg;

	assert_int_equal(read_answer(mine), 0);
	return NULL;
}

static unsigned push_both(const char *first, const char *second)
{
	const char *names[2] = { first, second };
	struct push both[2];
	pthread_t threads[2];
	unsigned ok = 0;

	for (int i = 0; i < 2; i++) {
		push_init(&both[i]);
		both[i].request.recorded = note_nothing;
		both[i].request.is_bad = NULL;
		simple(&both[i], &commits[9 + i], names[i]);
	}
	for (int i = 0; i < 2; i++)
		thread_start(&threads[i], "push", push_in_thread, &both[i]);
	for (int i = 0; i < 2; i++) {
		thread_join(threads[i]);
		ok += memmem(both[i].answer.data, both[i].answer.len, "ok refs/heads", 13)
			      ? 1
			      : 0;
		assert_int_equal(both[i].recorded, 1);
		push_clear(&both[i]);
	}
	return ok;
}

TEST(two_pushes_run_side_by_side)
{
	assert_int_equal(push_both("refs/heads/one", "refs/heads/two"), 2);
	assert_refs("refs/heads/one=9 refs/heads/two=10");
	assert_int_equal(push_both("refs/heads/same", "refs/heads/same"), 1);
	assert_tidy();
}

/* Pushes that delete other refs write the same packed-refs; a hook, or a push of the same
 * ref, locks that ref. */
TEST(a_push_waits_for_locks_of_others)
{
	command(&push, NULL, &commits[9], "refs/heads/one", CAPS);
	pack_of(&push, &commits[9], "0000");
	assert_ok(go());
	push_clear(&push);
	push_init(&push);
	command(&push, &commits[9], NULL, "refs/heads/one", CAPS);
	pkt_add_flush(&push.body);
	pkt_add_flush(&push.body);
	must("git -C r.git pack-refs --all && "
	     "touch r.git/packed-refs.lock r.git/refs/heads/one.lock || exit 1; "
	     "(sleep 0.3; rm r.git/refs/heads/one.lock; sleep 1.4; "
	     "rm r.git/packed-refs.lock) >/dev/null 2>&1 &");
	assert_ok(go());
	assert_true(says("ok refs/heads/one"));
	assert_refs("");
}

/* Lines of a certificate, then its signature, each a packet. */
/* A tab ends a packet, too. */
static void add_lines(struct push *mine, const char *text)
{
	for (size_t len; *text; text += len) {
		len = strcspn(text, "\n\t") + 1;
		pkt_add(&mine->body, text, len);
	}
}

static const char *one_more_header = "";

/* Pushes main with a certificate; `sign` makes a signature of its stdin. */
static void push_signed(const char *sign, const struct oid *old, const struct oid *new)
{
	AUTO_STR struct str advert = STR_INIT;
	char before[OID_MAX_TEXT], after[OID_MAX_TEXT];

	must("git -C r.git config receive.certNonceSeed s && "
	     "git -C r.git config receive.certNonceSlop 600");
	hook("post-receive", "echo $GIT_PUSH_CERT_STATUS $GIT_PUSH_CERT_NONCE_STATUS");
	assert_ok(receive_pack_advertise(&push.request, &advert, &err));
	const char *at = memmem(advert.data, advert.len, " push-cert=", 11);
	assert_non_null(at);
	int len = (int)strcspn(at + 11, " \n");
	AUTO_FREE char *text = xasprintf(
		"certificate version 0.1\npusher ann@example.com 1700000000 +0000\n"
		"nonce %.*s\n%s\n%s %s refs/heads/main\n",
		len, at + 11, one_more_header, text_or_zero(old, before),
		text_or_zero(new, after));
	assert_ok(file_replace(root_fd, "cert", text, strlen(text), FILE_NO_SYNC, &err));
	AUTO_FREE char *signature = output_of("%s <cert 2>/dev/null", sign);
	pkt_add(&push.body, "push-cert\0report-status side-band-64k\n", 39);
	add_lines(&push, text);
	add_lines(&push, signature);
	add_lines(&push, "push-cert-end\n");
	if (new)
		pack_of(&push, new, "");
	else
		pkt_add_flush(&push.body);
	assert_ok(go());
	assert_true(says("ok refs/heads/main"));
}

TEST(a_signed_push_is_verified_where_the_repository_wants_it)
{
	must("ssh-keygen -q -t ed25519 -N '' -f key && "
	     "echo \"ann@example.com $(cat key.pub)\" >signers && cd r.git && "
	     "git config gpg.format ssh && "
	     "git config receive.denyDeleteCurrent ignore && "
	     "git config gpg.ssh.allowedSignersFile %s/signers",
	     root);
	push_signed("ssh-keygen -q -Y sign -n git -f key", NULL, &commits[9]);
	assert_true(says("G OK"));
	assert_changed_once();
	assert_int_equal(push.deletions, 0);
	push_clear(&push);
	push_init(&push);
	push_signed("ssh-keygen -q -Y sign -n git -f key", &commits[9], NULL);
	assert_true(says("G OK"));
	assert_changed_once();
	assert_int_equal(push.deletions, 1);
	assert_refs("");
}

#define UNSIGNED "echo -----BEGIN SSH SIGNATURE-----; cat >/dev/null"

/* For git, which puts packets of a certificate together before it looks for lines. */
TEST(what_only_looks_like_a_deletion_in_a_certificate_is_none)
{
	char line[200], main[OID_MAX_TEXT];

	must("git -C r.git config receive.denyDeleteCurrent ignore");
	snprintf(line, sizeof(line), "note\t%s %s refs/heads/none\n",
		 oid_text(&commits[9], main), text_or_zero(NULL, main));
	one_more_header = line;
	push_signed(UNSIGNED, NULL, &commits[9]);
	assert_int_equal(push.deletions, 1);
	assert_int_equal(push.outcome.refused_deletions, 1);
	push_clear(&push);
	push_init(&push);
	push_signed(UNSIGNED, &commits[9], NULL);
	one_more_header = "";
	assert_int_equal(push.deletions, 2);
	assert_int_equal(push.outcome.refused_deletions, 1);
	assert_refs("");
}

/* The secret key is not in the keyring by which it is judged. */
TEST(signatures_of_gpg_are_verified_by_the_keyring_that_the_node_was_given)
{
	AUTO_FREE char *gpg = output_of("command -v gpg || true");

	if (!*gpg)
		skip();
	must("mkdir -m 700 mine theirs && export GNUPGHOME=$PWD/mine && "
	     "gpg -q --batch --passphrase '' --quick-gen-key ann@example.com ed25519 "
	     "sign never 2>/dev/null && gpg -q --export >key && "
	     "GNUPGHOME=$PWD/theirs gpg -q --batch --import key 2>/dev/null && "
	     "echo $(gpg --list-keys --with-colons | sed -n "
	     "'s/^fpr:*\\([^:]*\\):/\\1:6:/p')"
	     " | GNUPGHOME=$PWD/theirs gpg -q --import-ownertrust 2>/dev/null");
	AUTO_FREE char *keyring = xasprintf("%s/theirs", root);
	setenv("GNUPGHOME", keyring, 1);
	push_signed("GNUPGHOME=$PWD/mine gpg -q --batch --armor --detach-sign", NULL,
		    &commits[9]);
	unsetenv("GNUPGHOME");
	must("GNUPGHOME=$PWD/mine gpgconf --kill gpg-agent; "
	     "GNUPGHOME=$PWD/theirs gpgconf --kill gpg-agent");
	assert_true(says("G OK"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_push_creates_refs_and_tells_of_them_once),
		CASE(one_push_may_create_change_and_delete),
		CASE(many_refs_are_one_change_whatever_comes_at_once),
		CASE(readers_are_kept_away_from_the_end_of_the_body_on),
		CASE(an_atomic_push_with_one_bad_command_changes_nothing),
		CASE(hooks_refuse_and_the_client_reads_why),
		CASE(refused_deletions_are_told_from_other_refused_refs),
		CASE(hooks_know_who_pushes_and_with_what_options),
		CASE(the_report_is_held_until_it_is_recorded),
		CASE(without_side_band_nothing_comes_before_it_is_recorded),
		CASE(a_silent_git_leaves_no_silence),
		CASE(a_client_without_side_band_gets_nothing_but_the_report),
		CASE(a_push_that_wants_no_report_is_recorded_at_its_end),
		CASE(a_probe_has_an_empty_answer_and_changes_nothing),
		CASE(a_repository_may_refuse_pushes),
		CASE(a_repository_that_is_not_whole_takes_no_pushes),
		CASE(the_identity_of_a_token_is_an_address_without_blanks),
		CASE(advertisements_are_those_of_http_backend),
		CASE(very_many_refs_are_advertised_up_to_a_limit),
		CASE(refs_of_a_lender_are_not_advertised),
		CASE(two_pushes_run_side_by_side),
		CASE(a_push_waits_for_locks_of_others),
		CASE(a_signed_push_is_verified_where_the_repository_wants_it),
		CASE(what_only_looks_like_a_deletion_in_a_certificate_is_none),
		CASE(signatures_of_gpg_are_verified_by_the_keyring_that_the_node_was_given),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
