#include "test.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/hash.h"
#include "mirror/webhook.h"

#define A "a10867b14bb761a232cd80139fbd4c0d33264240"
#define B "1481a2de7b2a7d02428ad93446ab166be7793fbb"
#define ZERO "0000000000000000000000000000000000000000"

/* What the forges' documents show, with what is read of it. */
#define GITHUB_PUSH                                                                      \
	"{\"ref\":\"refs/heads/main\",\"before\":\"" A "\",\"after\":\"" B "\","         \
	"\"created\":false,\"deleted\":false,\"forced\":false,\"base_ref\":null,"        \
	"\"compare\":\"https://github.com/octo/hello/compare/a...b\","                   \
	"\"commits\":[{\"id\":\"" B "\",\"message\":\"Update \\\"README\\\" [x] {y}\","  \
	"\"added\":[],\"removed\":[],\"modified\":[\"README.md\"]}],"                    \
	"\"repository\":{\"id\":1,\"name\":\"hello\",\"full_name\":\"Octo/Hello\","      \
	"\"private\":false,\"clone_url\":\"https://github.com/Octo/Hello.git\","         \
	"\"ssh_url\":\"git@github.com:Octo/Hello.git\",\"default_branch\":\"main\"},"    \
	"\"pusher\":{\"name\":\"octo\",\"email\":\"o@example.com\"}}"
#define GITHUB_PING                                                                      \
	"{\"zen\":\"Design for failure.\",\"hook_id\":7,\"hook\":{\"type\":"             \
	"\"Repository\",\"active\":true,\"events\":[\"push\"]},"                         \
	"\"repository\":{\"full_name\":\"octo/hello\"}}"
#define GITEA_CREATE                                                                     \
	"{\"sha\":\"" B "\",\"ref\":\"v1.0\",\"ref_type\":\"tag\","                      \
	"\"repository\":{\"full_name\":\"gitea/webhooks\"}}"
#define GITEA_DELETE                                                                     \
	"{\"ref\":\"old/topic\",\"ref_type\":\"branch\",\"pusher_type\":\"user\","       \
	"\"repository\":{\"full_name\":\"gitea/webhooks\"}}"
#define GITLAB_PUSH                                                                      \
	"{\"object_kind\":\"push\",\"event_name\":\"push\",\"before\":\"" A "\","        \
	"\"after\":\"" B "\",\"ref\":\"refs/heads/master\",\"checkout_sha\":\"" B "\","  \
	"\"project_id\":15,\"project\":{\"id\":15,\"name\":\"Diaspora\","                \
	"\"git_ssh_url\":\"git@example.com:mike/diaspora.git\","                         \
	"\"git_http_url\":\"http://example.com/mike/diaspora.git\","                     \
	"\"path_with_namespace\":\"mike/diaspora\",\"default_branch\":\"master\"},"      \
	"\"commits\":[],\"total_commits_count\":0}"
#define GITLAB_SYSTEM                                                                    \
	"{\"event_name\":\"repository_update\",\"user_id\":1,\"project_id\":1,"          \
	"\"project\":{\"path_with_namespace\":\"jsmith/example\"},"                      \
	"\"changes\":[{\"before\":\"" A "\",\"after\":\"" B "\","                        \
	"\"ref\":\"refs/heads/master\"},{\"before\":\"" ZERO "\",\"after\":\"" B "\","   \
	"\"ref\":\"refs/tags/v2\"}],\"refs\":[\"refs/heads/master\"]}"

static const char secret_text[] = "It's a Secret to Everybody";

static struct webhook webhook;

static size_t taken; /* bytes into texts */

void str_add_bytes(struct str *str, const void *bytes, size_t len)
{
	taken += len;
	str_reserve(str, len);
	memcpy(str->data + str->len, bytes, len);
	str->len += len;
	str->data[str->len] = '\0';
}

static int file_with(const char *body, size_t len)
{
	int fd = memfd_create("body", MFD_CLOEXEC);

	assert_true(fd > 0);
	assert_int_equal(write(fd, body, len), len);
	return fd;
}

/* From a file it is the same. */
static int read_both(const struct webhook_request *request)
{
	AUTO_CLOSE int fd = file_with(request->body, request->len);
	struct webhook_request in_file = *request;
	struct err why;

	in_file.body = NULL;
	in_file.len = 0;
	in_file.fd = fd;
	int result = webhook_read(&in_file, &webhook, &why);
	webhook_clear(&webhook);
	assert_int_equal(webhook_read(request, &webhook, &err), result);
	if (result != 0)
		assert_string_equal(err.text, why.text);
	return result;
}

/* Reads it with these headers; the secret is that of GitHub's own example. */
static int read_with(const char *secret, const char *body, size_t len,
		     const struct http_header *headers)
{
	AUTO_STR struct str key = STR_INIT;
	const struct webhook_request request = {
		.headers = headers, .body = body, .len = len, .secret = &key
	};

	str_add(&key, secret);
	return read_both(&request);
}

static void sign(const char *body, const char *prefix, char text[80])
{
	AUTO_STR struct str key = STR_INIT, out = STR_INIT;
	unsigned char digest[32];

	str_add(&key, secret_text);
	hash_hmac(&key, body, strlen(body), digest);
	str_add(&out, prefix);
	str_add_hex(&out, digest, sizeof(digest));
	snprintf(text, 80, "%s", out.data);
}

static int read_github(const char *event, const char *body)
{
	char text[80];
	const struct http_header headers[] = { { "X-GitHub-Event", event },
					       { "X-GitHub-Delivery", "72d3162e-cc78" },
					       { "X-Hub-Signature", "sha1=00" },
					       { "x-hub-signature-256", text },
					       { 0 } };

	sign(body, "sha256=", text);
	return read_with(secret_text, body, strlen(body), headers);
}

/* Gitea sends its own headers, those of Gogs, and those of GitHub. */
static int read_gitea(const char *event, const char *body)
{
	char text[80], bare[80];
	const struct http_header headers[] = { { "X-Gogs-Event", event },
					       { "X-GitHub-Event", event },
					       { "X-Gitea-Event", event },
					       { "X-Gitea-Delivery", "f6266f16" },
					       { "X-GitHub-Delivery", "f6266f16" },
					       { "X-Gitea-Signature", bare },
					       { "X-Gogs-Signature", bare },
					       { "X-Hub-Signature-256", text },
					       { 0 } };

	sign(body, "sha256=", text);
	sign(body, "", bare);
	return read_with(secret_text, body, strlen(body), headers);
}

static int read_gitlab(const char *event, const char *token, const char *body)
{
	const struct http_header headers[] = {
		{ "X-Gitlab-Event", event }, { "Idempotency-Key", "4a8f-11" },
		{ "webhook-id", "4a8f-11" }, { "webhook-timestamp", "1614265330" },
		{ "X-Gitlab-Token", token }, { 0 }
	};

	return read_with(secret_text, body, strlen(body), headers);
}

static void assert_ref(size_t i, const char *name, const char *before, const char *after)
{
	char text[OID_MAX_TEXT];

	assert_true(i < webhook.refs.count);
	const struct webhook_ref *ref = &webhook.refs.items[i];
	assert_string_equal(ref->name, name);
	assert_string_equal(ref->before.len ? oid_text(&ref->before, text) : "", before);
	assert_string_equal(ref->after.len ? oid_text(&ref->after, text) : "", after);
}

TEST(a_push_at_github_names_ref_repository_and_delivery)
{
	assert_ok(read_github("push", GITHUB_PUSH));
	assert_int_equal(webhook.sender, WEBHOOK_GITHUB);
	assert_int_equal(webhook.kind, WEBHOOK_PUSH);
	assert_string_equal(webhook.event, "push");
	assert_string_equal(webhook.delivery, "72d3162e-cc78");
	assert_string_equal(webhook.repository, "Octo/Hello");
	assert_int_equal(webhook.refs.count, 1);
	assert_ref(0, "refs/heads/main", A, B);
	webhook_clear(&webhook);
}

TEST(a_ping_and_other_events_are_told_apart_from_pushes)
{
	assert_ok(read_github("ping", GITHUB_PING));
	assert_int_equal(webhook.kind, WEBHOOK_PING);
	webhook_clear(&webhook);
	assert_ok(read_github("issues", GITHUB_PUSH));
	assert_int_equal(webhook.kind, WEBHOOK_OTHER);
	assert_int_equal(webhook.refs.count, 0);
	webhook_clear(&webhook);
	assert_ok(read_gitlab("Note Hook", secret_text, "{\"object_kind\":\"note\"}"));
	assert_int_equal(webhook.kind, WEBHOOK_OTHER);
	assert_null(webhook.repository);
	webhook_clear(&webhook);
}

TEST(a_form_is_read_as_the_json_that_it_holds)
{
	static const char body[] =
		"payload=%7B%22ref%22%3A%22refs%2Fheads%2Fa%2Bb%22%2C+%22repository%22"
		"%3A%7B%22full_name%22%3A%22o%2Fr%22%7D%7D&more=1";
	char text[80];
	const struct http_header headers[] = {
		{ "Content-Type", "application/x-www-form-urlencoded; charset=x" },
		{ "X-GitHub-Event", "push" },
		{ "X-Hub-Signature-256", text },
		{ 0 }
	};

	sign(body, "sha256=", text);
	assert_ok(read_with(secret_text, body, strlen(body), headers));
	assert_ref(0, "refs/heads/a+b", "", "");
	assert_string_equal(webhook.repository, "o/r");
	webhook_clear(&webhook);
	assert_fails(read_with(secret_text, body, strlen(body), headers + 1),
		     ERR_CORRUPT);
}

TEST(branches_and_tags_made_or_deleted_at_gitea_are_changes)
{
	assert_ok(read_gitea("create", GITEA_CREATE));
	assert_int_equal(webhook.sender, WEBHOOK_GITEA);
	assert_int_equal(webhook.kind, WEBHOOK_PUSH);
	assert_string_equal(webhook.delivery, "f6266f16");
	assert_ref(0, "refs/tags/v1.0", "", "");
	webhook_clear(&webhook);
	assert_ok(read_gitea("delete", GITEA_DELETE));
	assert_ref(0, "refs/heads/old/topic", "", "");
	webhook_clear(&webhook);
	assert_ok(read_gitea("push", GITHUB_PUSH));
	assert_ref(0, "refs/heads/main", A, B);
	webhook_clear(&webhook);
}

TEST(forgejo_is_known_by_its_own_headers)
{
	char text[80];
	const struct http_header headers[] = {
		{ "X-Gitea-Event", "push" },     { "X-GitHub-Event", "push" },
		{ "X-Forgejo-Event", "push" },   { "X-Forgejo-Delivery", "f" },
		{ "X-Forgejo-Signature", text }, { 0 }
	};

	sign(GITHUB_PUSH, "", text);
	assert_ok(read_with(secret_text, GITHUB_PUSH, strlen(GITHUB_PUSH), headers));
	assert_int_equal(webhook.sender, WEBHOOK_FORGEJO);
	assert_string_equal(webhook.delivery, "f");
	webhook_clear(&webhook);
}

TEST(gitlab_sends_its_secret_token)
{
	assert_ok(read_gitlab("Push Hook", secret_text, GITLAB_PUSH));
	assert_int_equal(webhook.sender, WEBHOOK_GITLAB);
	assert_int_equal(webhook.kind, WEBHOOK_PUSH);
	assert_string_equal(webhook.delivery, "4a8f-11");
	assert_string_equal(webhook.repository, "mike/diaspora");
	assert_ref(0, "refs/heads/master", A, B);
	webhook_clear(&webhook);
	assert_fails(read_gitlab("Push Hook", "it's a Secret to Everybody", GITLAB_PUSH),
		     ERR_AUTH);
	assert_fails(read_gitlab("Push Hook", "It's a Secret to Everybod", GITLAB_PUSH),
		     ERR_AUTH);
	assert_fails(read_gitlab("Push Hook", "It's a Secret to Everybody ", GITLAB_PUSH),
		     ERR_AUTH);
	assert_fails(read_gitlab("Push Hook", "", GITLAB_PUSH), ERR_AUTH);
}

TEST(a_system_hook_of_gitlab_names_all_refs_of_a_push)
{
	assert_ok(read_gitlab("System Hook", secret_text, GITLAB_SYSTEM));
	assert_int_equal(webhook.kind, WEBHOOK_PUSH);
	assert_int_equal(webhook.refs.count, 2);
	assert_ref(0, "refs/heads/master", A, B);
	assert_ref(1, "refs/tags/v2", ZERO, B);
	webhook_clear(&webhook);
}

/* The example of Standard Webhooks. */
#define SIGNING "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define SIGNED_ID "msg_p5jXN8AQM9LWM0D4loKWxJek"
#define SIGNED_BODY "{\"test\": 2432232314}"
#define SIGNATURE "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

static int read_signed(const char *secret, const char *id, const char *signature,
		       const char *token)
{
	const struct http_header headers[] = { { "X-Gitlab-Event", "Push Hook" },
					       { "webhook-id", id },
					       { "webhook-timestamp", "1614265330" },
					       { "webhook-signature", signature },
					       { token ? "X-Gitlab-Token" : NULL, token },
					       { 0 } };

	return read_with(secret, SIGNED_BODY, strlen(SIGNED_BODY), headers);
}

TEST(a_signing_token_of_gitlab_is_the_key_of_its_signature)
{
	assert_ok(read_signed(SIGNING, SIGNED_ID, SIGNATURE, NULL));
	webhook_clear(&webhook);
	assert_ok(read_signed(SIGNING, SIGNED_ID, "v2,x  v1,AAAA " SIGNATURE, NULL));
	webhook_clear(&webhook);
	assert_fails(read_signed(SIGNING, "msg_other", SIGNATURE, NULL), ERR_AUTH);
	assert_fails(read_signed(SIGNING, SIGNED_ID, "", NULL), ERR_AUTH);
	assert_fails(read_signed(SIGNING, SIGNED_ID, SIGNATURE "=", NULL), ERR_AUTH);
	assert_fails(read_signed(SIGNING, SIGNED_ID, &SIGNATURE[1], NULL), ERR_AUTH);
	assert_fails(read_signed("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx", SIGNED_ID,
				 SIGNATURE, NULL),
		     ERR_AUTH);
	assert_fails(read_signed("whsec_", SIGNED_ID, SIGNATURE, NULL), ERR_AUTH);
	assert_fails(read_signed("whsec_%%%%", SIGNED_ID, SIGNATURE, NULL), ERR_AUTH);
}

TEST(a_signature_by_another_key_leaves_the_secret_token_to_decide)
{
	assert_ok(read_signed("plain", SIGNED_ID, SIGNATURE, "plain"));
	webhook_clear(&webhook);
	assert_fails(read_signed("plain", SIGNED_ID, SIGNATURE, NULL), ERR_AUTH);
	assert_fails(read_signed("plain", SIGNED_ID, SIGNATURE, "other"), ERR_AUTH);
	assert_fails(read_signed(SIGNING, SIGNED_ID, "v1,AAAA", SIGNING), ERR_AUTH);
}

TEST(the_example_in_githubs_documents_is_genuine)
{
	char text[] = "sha256=757107ea0eb2509fc211221cce984b8a"
		      "37570b6d7586c22c46f4379c8b043e17";
	const struct http_header headers[] = { { "X-GitHub-Event", "push" },
					       { "X-Hub-Signature-256", text },
					       { 0 } };

	/* It is signed; only then it is seen that it is no JSON. */
	assert_fails(read_with(secret_text, "Hello, World!", 13, headers), ERR_CORRUPT);
	assert_fails(read_with(secret_text, "Hello, World?", 13, headers), ERR_AUTH);
	assert_fails(read_with(secret_text, "Hello, World!", 12, headers), ERR_AUTH);
	assert_fails(read_with("It's a Secret", "Hello, World!", 13, headers), ERR_AUTH);
	text[70] = '8';
	assert_fails(read_with(secret_text, "Hello, World!", 13, headers), ERR_AUTH);
}

TEST(signatures_that_are_cut_empty_or_in_another_form_are_refused)
{
	static const char *const wrong[] = {
		"",
		"sha256=",
		"757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
		"sha1=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
		"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e1",
		"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
		"0",
		"sha256= "
		"757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
		"sha256=z57107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		const struct http_header headers[] = { { "X-GitHub-Event", "push" },
						       { "X-Hub-Signature-256",
							 wrong[i] },
						       { 0 } };
		assert_fails(read_with(secret_text, "Hello, World!", 13, headers),
			     ERR_AUTH);
	}
}

TEST(each_signature_that_is_there_must_be_right)
{
	char right[80], prefixed[80], wrong[80];
	const struct http_header both[] = { { "X-GitHub-Event", "push" },
					    { "X-Hub-Signature-256", prefixed },
					    { "X-Gitea-Signature", wrong },
					    { 0 } };
	const struct http_header doubled[] = { { "X-GitHub-Event", "push" },
					       { "X-Hub-Signature-256", prefixed },
					       { "X-HUB-signature-256", prefixed },
					       { 0 } };
	const struct http_header token[] = { { "X-GitHub-Event", "push" },
					     { "X-Gitea-Signature", right },
					     { "X-Gitlab-Token", "x" },
					     { 0 } };

	sign("{}", "sha256=", prefixed);
	sign("{}", "", right);
	sign("{ }", "", wrong);
	assert_fails(read_with(secret_text, "{}", 2, both), ERR_AUTH);
	assert_fails(read_with(secret_text, "{}", 2, doubled), ERR_AUTH);
	assert_fails(read_with(secret_text, "{}", 2, token), ERR_AUTH);
	assert_ok(read_with(secret_text, "{}", 2,
			    (struct http_header[]){ both[0], both[1], { 0 } }));
	webhook_clear(&webhook);
}

TEST(without_a_signature_or_a_secret_nothing_is_genuine)
{
	const struct http_header none[] = { { "X-GitHub-Event", "push" }, { 0 } };
	const struct http_header empty[] = { { "X-Gitlab-Event", "Push Hook" },
					     { "X-Gitlab-Token", "" },
					     { 0 } };

	assert_fails(read_with(secret_text, GITHUB_PUSH, strlen(GITHUB_PUSH), none),
		     ERR_AUTH);
	assert_fails(read_with("", GITLAB_PUSH, strlen(GITLAB_PUSH), empty), ERR_CONFIG);
	assert_fails(read_with("", GITHUB_PUSH, strlen(GITHUB_PUSH), none), ERR_CONFIG);
}

TEST(a_forge_must_be_known_by_its_event)
{
	char text[80];
	const struct http_header headers[] = { { "X-Hub-Signature-256", text }, { 0 } };
	const struct http_header odd[] = { { "X-Hub-Signature-256", text },
					   { "X-GitHub-Event", "pu\x1bsh" },
					   { 0 } };
	const struct http_header twice[] = { { "X-Hub-Signature-256", text },
					     { "X-GitHub-Event", "push" },
					     { "X-GitHub-Event", "ping" },
					     { 0 } };

	sign("{}", "sha256=", text);
	assert_fails(read_with(secret_text, "{}", 2, headers), ERR_CONFIG);
	assert_fails(read_with(secret_text, "{}", 2, odd), ERR_CONFIG);
	assert_fails(read_with(secret_text, "{}", 2, twice), ERR_AUTH);
}

TEST(what_is_signed_and_makes_no_sense_is_refused_as_a_whole)
{
	static const char *const bodies[] = { "",
					      "[]",
					      "null",
					      "{\"ref\"",
					      "{} {}",
					      "{\"a\":\"\xff\"}",
					      "payload=%7B%7D" };

	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++)
		assert_fails(read_github("push", bodies[i]), ERR_CORRUPT);
}

TEST(members_of_other_types_are_as_if_they_were_not_there)
{
	assert_ok(read_github("push",
			      "{\"ref\":7,\"before\":[],\"after\":{},\"repository\":"
			      "\"x\",\"changes\":[1,{\"ref\":\"refs/heads/../x\"},"
			      "{\"ref\":\"refs/heads/a\",\"before\":\"abc\"}]}"));
	assert_int_equal(webhook.kind, WEBHOOK_PUSH);
	assert_null(webhook.repository);
	assert_int_equal(webhook.refs.count, 1);
	assert_ref(0, "refs/heads/a", "", "");
	webhook_clear(&webhook);
}

TEST(bodies_are_bounded)
{
	AUTO_FREE char *many = xmalloc(2100000);
	AUTO_FREE char *big = xcalloc(WEBHOOK_BODY_MAX + 2, 1);
	size_t len = (size_t)snprintf(many, 2100000, "{\"a\":[");

	for (size_t i = 0; i < 1000000; i++, len += 2)
		memcpy(many + len, "1,", 2);
	snprintf(many + len, 4, "1]}");
	assert_fails(read_github("push", many), ERR_CORRUPT);
	memset(big, ' ', WEBHOOK_BODY_MAX + 1);
	memcpy(big, "{}", 2);
	assert_fails(read_github("push", big), ERR_CORRUPT);
	big[WEBHOOK_BODY_MAX] = '\0';
	assert_ok(read_github("push", big));
	webhook_clear(&webhook);
}

TEST(what_is_not_genuine_is_not_loaded)
{
	const struct http_header headers[] = {
		{ "X-GitHub-Event", "push" },
		{ "X-Hub-Signature-256", "sha256=" ZERO "000000000000000000000000" },
		{ 0 }
	};
	AUTO_STR struct str key = STR_INIT;
	AUTO_CLOSE int fd = file_with("{", 1);
	const struct webhook_request request = { .headers = headers,
						 .fd = fd,
						 .secret = &key };

	str_add(&key, secret_text);
	assert_int_equal(ftruncate(fd, WEBHOOK_BODY_MAX), 0);
	taken = 0;
	assert_fails(webhook_read(&request, &webhook, &err), ERR_AUTH);
	assert_true(taken < 4096);
	AUTO_CLOSE int directory = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct webhook_request unreadable = { .headers = headers,
						    .fd = directory,
						    .secret = &key };
	assert_fails(webhook_read(&unreadable, &webhook, &err), ERR_CONFIG);
	assert_int_equal(err.sys_errno, EISDIR);
}

TEST(a_payload_of_another_repository_is_told_apart)
{
	static const struct {
		const char *url;
		bool is_same;
	} cases[] = {
		{ "https://github.com/octo/hello.git", true },
		{ "https://github.com/OCTO/hello/", true },
		{ "ssh://git@ssh.github.com:443/octo/hello", true },
		{ "git@github.com:octo/hello.git", true },
		{ "https://git.example.com/sub/octo/hello", true },
		{ "/srv/git/anything.git", true },
		{ "https://github.com/octo/hello2.git", false },
		{ "https://github.com/xocto/hello.git", false },
		{ "https://github.com/hello.git", false },
		{ "https://github.com/octo/hello/wiki", false },
	};

	assert_ok(read_github("push", GITHUB_PUSH));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_URI struct uri_text uri;
		assert_ok(uri_text_read(cases[i].url, &uri, &err));
		if (webhook_is_of(&webhook, &uri) != cases[i].is_same)
			fail_msg("%s", cases[i].url);
	}
	webhook_clear(&webhook);
}

TEST(no_error_has_the_secret_or_what_was_sent_for_it)
{
	assert_fails(read_gitlab("Push Hook", "glpat-something", GITLAB_PUSH), ERR_AUTH);
	assert_null(strstr(err.text, "something"));
	assert_null(strstr(err.text, "Everybody"));
	assert_true(err.remedy[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_push_at_github_names_ref_repository_and_delivery),
		cmocka_unit_test(a_ping_and_other_events_are_told_apart_from_pushes),
		cmocka_unit_test(a_form_is_read_as_the_json_that_it_holds),
		cmocka_unit_test(branches_and_tags_made_or_deleted_at_gitea_are_changes),
		cmocka_unit_test(forgejo_is_known_by_its_own_headers),
		cmocka_unit_test(gitlab_sends_its_secret_token),
		cmocka_unit_test(a_system_hook_of_gitlab_names_all_refs_of_a_push),
		cmocka_unit_test(a_signing_token_of_gitlab_is_the_key_of_its_signature),
		cmocka_unit_test(
			a_signature_by_another_key_leaves_the_secret_token_to_decide),
		cmocka_unit_test(the_example_in_githubs_documents_is_genuine),
		cmocka_unit_test(
			signatures_that_are_cut_empty_or_in_another_form_are_refused),
		cmocka_unit_test(each_signature_that_is_there_must_be_right),
		cmocka_unit_test(without_a_signature_or_a_secret_nothing_is_genuine),
		cmocka_unit_test(a_forge_must_be_known_by_its_event),
		cmocka_unit_test(what_is_signed_and_makes_no_sense_is_refused_as_a_whole),
		cmocka_unit_test(members_of_other_types_are_as_if_they_were_not_there),
		cmocka_unit_test(bodies_are_bounded),
		cmocka_unit_test(what_is_not_genuine_is_not_loaded),
		cmocka_unit_test(a_payload_of_another_repository_is_told_apart),
		cmocka_unit_test(no_error_has_the_secret_or_what_was_sent_for_it),
	};

	return cmocka_run_group_tests_name("webhook", tests, NULL, NULL);
}
