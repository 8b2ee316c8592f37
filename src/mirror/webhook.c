#include "mirror/webhook.h"

#include <ctype.h>
#include <strings.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/hash.h"
#include "base/json.h"
#include "git/refs.h"

#define DIGEST_SIZE 32
#define VALUES_MAX 1000000
#define DELIVERY_MAX 128
#define BLOCK_SIZE 65536
#define SIGNING_TOKEN "whsec_"

/* A forge sends the headers of those it descends from as well: the first row that fits
 * counts. */
static const struct webhook_forge {
	enum webhook_sender sender;
	const char *event, *delivery;
} forges[] = {
	{ WEBHOOK_FORGEJO, "X-Forgejo-Event", "X-Forgejo-Delivery" },
	{ WEBHOOK_GITEA, "X-Gitea-Event", "X-Gitea-Delivery" },
	{ WEBHOOK_GITLAB, "X-Gitlab-Event", "Idempotency-Key" },
	{ WEBHOOK_GITHUB, "X-GitHub-Event", "X-GitHub-Delivery" },
};

/* Hexadecimal digits of the body's HMAC. */
static const struct {
	const char *header, *prefix;
} signatures[] = {
	{ "X-Hub-Signature-256", "sha256=" },
	{ "X-Forgejo-Signature", "" },
	{ "X-Gitea-Signature", "" },
	{ "X-Gogs-Signature", "" },
};

static int webhook_refuse(struct err *err, const char *why, const char *header)
{
	err_set(err, ERR_AUTH, "the webhook is not genuine: %s%s", why, header);
	return err_remedy(err, "see whether the secret is the same at the forge and in "
			       "webhookSecretFile");
}

/* What comes twice is of no worth: who reads the first and who the last would disagree.
 * 1: *value is it; 0: there is none. */
static int webhook_find_header(const struct webhook_request *request, const char *name,
			       const char **value, struct err *err)
{
	*value = NULL;
	for (const struct http_header *at = request->headers; at->name; at++) {
		if (strcasecmp(at->name, name) != 0)
			continue;
		if (*value)
			return webhook_refuse(err, "it has two headers ", name);
		*value = at->value ? at->value : "";
	}
	return *value != NULL;
}

/* The next block of the body's file. */
static ssize_t webhook_read_block(const struct webhook_request *request,
				  char block[BLOCK_SIZE], off_t at, struct err *err)
{
	ssize_t count = pread(request->fd, block, BLOCK_SIZE, at);

	return count < 0 ? err_errno(err, "cannot read the request's body") : count;
}

/* Of `before`, and the body behind it. Anybody may send one, so that much memory is not
 * taken for it. */
static int webhook_hmac(const struct webhook_request *request, const struct str *key,
			const char *before, unsigned char digest[DIGEST_SIZE],
			struct err *err)
{
	char block[BLOCK_SIZE];
	struct hash_hmac hmac;
	ssize_t count = 0;

	hash_hmac_init(&hmac, key);
	hash_hmac_add(&hmac, before, strlen(before));
	if (request->fd <= 0)
		hash_hmac_add(&hmac, request->body, request->len);
	for (off_t at = 0; request->fd > 0; at += count) {
		count = webhook_read_block(request, block, at, err);
		if (count <= 0)
			break;
		hash_hmac_add(&hmac, block, (size_t)count);
	}
	hash_hmac_end(&hmac, digest);
	return count < 0 ? -1 : 0;
}

/* 1, 0 or -1. */
static int webhook_is_hmac(const struct webhook_request *request, const char *said,
			   const char *prefix, struct err *err)
{
	unsigned char right[DIGEST_SIZE], got[DIGEST_SIZE];
	size_t len = strlen(prefix);

	if (strncmp(said, prefix, len) != 0 || strlen(said) != len + 2 * DIGEST_SIZE ||
	    !text_from_hex(said + len, got, sizeof(got)))
		return 0;
	if (webhook_hmac(request, request->secret, "", right, err) != 0)
		return -1;
	return CRYPTO_memcmp(right, got, sizeof(right)) == 0;
}

/* Of digests: what is compared then has one length, and tells nothing by its time. */
static bool webhook_is_token(const struct webhook_request *request, const char *said)
{
	unsigned char right[DIGEST_SIZE], got[DIGEST_SIZE];

	hash_hmac(request->secret, request->secret->data, request->secret->len, right);
	hash_hmac(request->secret, said, strlen(said), got);
	return CRYPTO_memcmp(right, got, sizeof(right)) == 0;
}

/* The key that a signing token is the text of. False: the secret is none. */
static bool webhook_read_signing_key(const struct str *secret, struct str *key)
{
	const char *text = secret->data + strlen(SIGNING_TOKEN);
	size_t len, padding = 0;

	if (!text_starts_with(secret->data, SIGNING_TOKEN))
		return false;
	len = secret->len - strlen(SIGNING_TOKEN);
	if (len == 0 || len % 4 != 0 || len > 1024)
		return false;
	while (padding < 2 && text[len - 1 - padding] == '=')
		padding++;
	str_reserve(key, len);
	int got = EVP_DecodeBlock((unsigned char *)key->data, (const unsigned char *)text,
				  (int)len);
	key->len = got > (int)padding ? (size_t)got - padding : 0;
	return key->len > 0;
}

/* "v1,BASE64", several parted by blanks while a token is being changed. */
static bool webhook_is_among(const char *said, const unsigned char digest[DIGEST_SIZE])
{
	unsigned char right[48];
	bool is_right = false;
	int len = EVP_EncodeBlock(right, digest, DIGEST_SIZE);

	while (*said) {
		size_t count = strcspn(said, " ");
		if (count == 3 + (size_t)len && memcmp(said, "v1,", 3) == 0 &&
		    CRYPTO_memcmp(said + 3, right, (size_t)len) == 0)
			is_right = true;
		said += count + strspn(said + count, " ");
	}
	return is_right;
}

/* As Standard Webhooks have it. 1: right; 0: there is none, or it is not for us. */
static int webhook_check_standard(const struct webhook_request *request, struct err *err)
{
	AUTO_STR struct str key = STR_INIT, text = STR_INIT;
	const char *said, *id, *timestamp;
	unsigned char digest[DIGEST_SIZE];
	int found = webhook_find_header(request, "webhook-signature", &said, err);

	if (found <= 0 || !webhook_read_signing_key(request->secret, &key))
		return found < 0 ? -1 : 0;
	if (webhook_find_header(request, "webhook-id", &id, err) < 0 ||
	    webhook_find_header(request, "webhook-timestamp", &timestamp, err) < 0)
		return -1;
	if (!id || !timestamp)
		return webhook_refuse(err, "it lacks webhook-id or webhook-timestamp",
				      "");
	str_addf(&text, "%s.%s.", id, timestamp);
	if (webhook_hmac(request, &key, text.data, digest, err) != 0)
		return -1;
	return webhook_is_among(said, digest)
		       ? 1
		       : webhook_refuse(err, "wrong webhook-signature", "");
}

/* 1: right; 0: there is none. */
static int webhook_check_gitlab(const struct webhook_request *request, struct err *err)
{
	const char *said;
	int found = webhook_check_standard(request, err);

	if (found != 0)
		return found;
	found = webhook_find_header(request, "X-Gitlab-Token", &said, err);
	if (found > 0 && !webhook_is_token(request, said))
		return webhook_refuse(err, "wrong X-Gitlab-Token", "");
	return found;
}

bool webhook_is_signed(const struct http_header *headers)
{
	const struct webhook_request request = { .headers = headers };
	const char *said;
	bool is_signed =
		webhook_find_header(&request, "webhook-signature", &said, ERR_IGNORED) ||
		webhook_find_header(&request, "X-Gitlab-Token", &said, ERR_IGNORED);

	for (size_t i = 0; i < ARRAY_SIZE(signatures); i++)
		is_signed |= webhook_find_header(&request, signatures[i].header, &said,
						 ERR_IGNORED) != 0;
	return is_signed;
}

static int webhook_check_genuine(const struct webhook_request *request, struct err *err)
{
	int found = 0, signed_by = 0;
	const char *said;

	if (request->secret->len == 0) {
		err_set(err, ERR_CONFIG, "the secret of webhooks is empty");
		return err_remedy(err, "write a long random text into webhookSecretFile, "
				       "and give it to the forge");
	}
	for (size_t i = 0; i < ARRAY_SIZE(signatures); i++) {
		const char *name = signatures[i].header;
		if ((found = webhook_find_header(request, name, &said, err)) < 0)
			return -1;
		if (found == 0)
			continue;
		found = webhook_is_hmac(request, said, signatures[i].prefix, err);
		if (found <= 0)
			return found < 0 ? -1 : webhook_refuse(err, "wrong ", name);
		signed_by++;
	}
	if ((found = webhook_check_gitlab(request, err)) < 0)
		return -1;
	return signed_by + found > 0 ? 0 : webhook_refuse(err, "it is not signed", "");
}

static bool webhook_is_word(const char *text)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len; i++)
		if (!isgraph((unsigned char)text[i]) && text[i] != ' ')
			return false;
	return len > 0 && len <= DELIVERY_MAX;
}

static int webhook_find_forge(const struct webhook_request *request,
			      struct webhook *webhook, struct err *err)
{
	const char *said;

	for (size_t i = 0; i < ARRAY_SIZE(forges); i++) {
		int found = webhook_find_header(request, forges[i].event, &said, err);
		if (found < 0)
			return -1;
		if (found == 0 || !webhook_is_word(said))
			continue;
		webhook->sender = forges[i].sender;
		webhook->event = xstrdup(said);
		found = webhook_find_header(request, forges[i].delivery, &said, err);
		if (found > 0 && webhook_is_word(said))
			webhook->delivery = xstrdup(said);
		return found < 0 ? -1 : 0;
	}
	err_set(err, ERR_CONFIG, "the webhook is of no forge that is known");
	return err_remedy(err, "GitHub, GitLab, Gitea and Forgejo are; set the hook up "
			       "as theirs");
}

/* Static; NULL: no such text. */
static const char *webhook_get_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static struct oid webhook_get_oid(const json_t *object, const char *key)
{
	const char *text = webhook_get_text(object, key);
	size_t digits = text ? strlen(text) : 0;
	struct oid oid = { 0 };

	if ((digits != 40 && digits != 64) || !oid_parse(text, digits / 2, &oid))
		return (struct oid){ 0 };
	return oid;
}

static void webhook_add_ref(struct webhook *webhook, const char *name,
			    const json_t *object)
{
	struct webhook_ref ref = { .before = webhook_get_oid(object, "before"),
				   .after = webhook_get_oid(object, "after") };

	if (!name || !ref_name_is_valid(name))
		return;
	ref.name = xstrdup(name);
	vec_add(&webhook->refs, ref);
}

/* Of the events "create" and "delete": a short name, and what it is of. */
static void webhook_add_short_ref(struct webhook *webhook, const json_t *payload)
{
	const char *name = webhook_get_text(payload, "ref");
	const char *type = webhook_get_text(payload, "ref_type");

	if (!name || !type)
		return;
	if (strcmp(type, "branch") != 0 && strcmp(type, "tag") != 0)
		return;
	AUTO_FREE char *whole = xasprintf(
		"refs/%s/%s", strcmp(type, "tag") == 0 ? "tags" : "heads", name);
	webhook_add_ref(webhook, whole, payload);
}

/* Of GitLab's system hooks: all refs of one push. */
static void webhook_add_changes(struct webhook *webhook, const json_t *payload)
{
	json_t *change;
	size_t i;

	json_array_foreach(json_object_get(payload, "changes"), i, change)
		webhook_add_ref(webhook, webhook_get_text(change, "ref"), change);
}

static void webhook_take_push(struct webhook *webhook, const json_t *payload)
{
	webhook->kind = WEBHOOK_PUSH;
	webhook_add_ref(webhook, webhook_get_text(payload, "ref"), payload);
	webhook_add_changes(webhook, payload);
}

static void webhook_take_event(struct webhook *webhook, const json_t *payload)
{
	const char *event = webhook->event;

	webhook->kind = WEBHOOK_OTHER;
	if (strcmp(event, "push") == 0) {
		webhook_take_push(webhook, payload);
	} else if (strcmp(event, "create") == 0 || strcmp(event, "delete") == 0) {
		webhook->kind = WEBHOOK_PUSH;
		webhook_add_short_ref(webhook, payload);
	} else if (strcmp(event, "ping") == 0) {
		webhook->kind = WEBHOOK_PING;
	}
}

/* GitLab's body says it, too; the header is the same for all that system hooks tell. */
static void webhook_take_gitlab_event(struct webhook *webhook, const json_t *payload)
{
	static const char *const pushes[] = { "push", "tag_push", "repository_update" };
	const char *kind = webhook_get_text(payload, "object_kind");

	if (!kind)
		kind = webhook_get_text(payload, "event_name");
	webhook->kind = WEBHOOK_OTHER;
	for (size_t i = 0; i < ARRAY_SIZE(pushes); i++)
		if (kind && strcmp(kind, pushes[i]) == 0)
			webhook_take_push(webhook, payload);
}

static void webhook_take_repository(struct webhook *webhook, const json_t *repository)
{
	const char *name = webhook_get_text(repository, "full_name");

	if (!name)
		name = webhook_get_text(repository, "path_with_namespace");
	if (name && name[0] && !webhook->repository)
		webhook->repository = xstrdup(name);
}

/* "payload=JSON", as a form is sent: that is how GitHub sets hooks up if it is not told
 * otherwise. NULL: it is no form; the caller frees. */
static char *webhook_read_form(const struct webhook_request *request)
{
	static const char key[] = "payload=";
	const size_t len = sizeof(key) - 1;
	const char *type = NULL, *end;

	if (webhook_find_header(request, "Content-Type", &type, ERR_IGNORED) <= 0 ||
	    strncasecmp(type, "application/x-www-form-urlencoded", 33) != 0 ||
	    request->len < len || memcmp(request->body, key, len) != 0)
		return NULL;
	end = memchr(request->body, '&', request->len);
	AUTO_FREE char *text =
		xstrndup(request->body + len,
			 (end ? (size_t)(end - request->body) : request->len) - len);
	for (char *at = text; *at; at++)
		if (*at == '+')
			*at = ' ';
	return uri_text_decode(text, strlen(text));
}

static json_t *webhook_parse(const struct webhook_request *request, struct err *err)
{
	const struct json_limits limits = { WEBHOOK_BODY_MAX, VALUES_MAX };
	AUTO_FREE char *form = webhook_read_form(request);
	const char *text = form ? form : request->body;
	json_t *payload = json_parse_foreign(text, form ? strlen(form) : request->len,
					     &limits, err);

	if (payload)
		return payload;
	err_prefix(err, "the webhook's body");
	err_remedy(err, "choose application/json as the content type at the forge");
	return NULL;
}

static int webhook_take_body(const struct webhook_request *request,
			     struct webhook *webhook, struct err *err)
{
	json_auto_t *payload = webhook_parse(request, err);

	if (!payload)
		return -1;
	if (webhook->sender == WEBHOOK_GITLAB)
		webhook_take_gitlab_event(webhook, payload);
	else
		webhook_take_event(webhook, payload);
	webhook_take_repository(webhook, json_object_get(payload, "project"));
	webhook_take_repository(webhook, json_object_get(payload, "repository"));
	return 0;
}

static int webhook_check_size(size_t len, struct err *err)
{
	return len <= WEBHOOK_BODY_MAX
		       ? 0
		       : err_set(err, ERR_CORRUPT, "the webhook has more than %zu bytes",
				 WEBHOOK_BODY_MAX);
}

static int webhook_take_file(const struct webhook_request *request,
			     struct webhook *webhook, struct err *err)
{
	AUTO_STR struct str body = STR_INIT;
	struct webhook_request loaded = *request;
	char block[BLOCK_SIZE];
	ssize_t count;

	while ((count = webhook_read_block(request, block, (off_t)body.len, err)) > 0) {
		str_add_bytes(&body, block, (size_t)count);
		if (webhook_check_size(body.len, err) != 0)
			return -1;
	}
	loaded.fd = 0;
	loaded.body = body.data;
	loaded.len = body.len;
	return count < 0 ? -1 : webhook_take_body(&loaded, webhook, err);
}

int webhook_read(const struct webhook_request *request, struct webhook *webhook,
		 struct err *err)
{
	*webhook = (struct webhook){ 0 };
	if (webhook_check_size(request->len, err) == 0 &&
	    webhook_check_genuine(request, err) == 0 &&
	    webhook_find_forge(request, webhook, err) == 0 &&
	    (request->fd > 0 ? webhook_take_file(request, webhook, err)
			     : webhook_take_body(request, webhook, err)) == 0)
		return 0;
	webhook_clear(webhook);
	return -1;
}

void webhook_clear(struct webhook *webhook)
{
	vec_clear_members(&webhook->refs, name);
	free(webhook->event);
	free(webhook->delivery);
	free(webhook->repository);
	*webhook = (struct webhook){ 0 };
}

/* How long a path is without the slashes and the ".git" at its end. */
static size_t webhook_trim(const char *path)
{
	size_t len = strlen(path);

	while (len > 0 && path[len - 1] == '/')
		len--;
	if (len > 4 && strncasecmp(path + len - 4, ".git", 4) == 0)
		len -= 4;
	return len;
}

bool webhook_is_of(const struct webhook *webhook, const struct uri_text *uri)
{
	const char *name = webhook->repository;

	if (!name || uri->kind == URL_LOCAL)
		return true;
	size_t len = strlen(name), path = webhook_trim(uri->path);
	if (path < len || strncasecmp(uri->path + path - len, name, len) != 0)
		return false;
	return path == len || uri->path[path - len - 1] == '/';
}
