/*
 * A config is read by lines, each with those that a backslash continues: enough to find
 * sections and variables, whatever their values are.
 */
#include "pull/clone_secrets.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

#define SPACES " \t\r\n"

struct clone_secrets {
	const struct clone_secrets_sink *sink;
	struct str *clean;
	bool is_any;
	bool section_goes; /* all of the one that the lines are in */
};

static void clone_secrets_find(struct clone_secrets *secrets, enum clone_secret form,
			       const char *text, size_t len)
{
	secrets->is_any = true;
	if (secrets->sink)
		secrets->sink->found(secrets->sink->arg, form, text, len);
}

static bool clone_secrets_ends_with(const char *text, size_t len, const char *word)
{
	const size_t need = strlen(word);

	return len >= need && strncasecmp(text + len - need, word, need) == 0;
}

/* Where userinfo begins and ends (the last '@'), from `at` on; NULL: there is none. */
static const char *clone_secrets_next_userinfo(const char *text, const char *at,
					       const char **end)
{
	while ((at = strstr(at, "://")) != NULL) {
		const char *begin = at + strlen("://");
		const size_t before = (size_t)(at - text);
		*end = memrchr(begin, '@', strcspn(begin, "/ \t\r\n\"'<>"));
		at = begin;
		if (*end && (clone_secrets_ends_with(text, before, "http") ||
			     clone_secrets_ends_with(text, before, "https")))
			return begin;
	}
	return NULL;
}

static void clone_secrets_strip(struct clone_secrets *secrets, const char *text)
{
	const char *at = text, *begin, *end;

	while ((begin = clone_secrets_next_userinfo(text, at, &end)) != NULL) {
		str_add_bytes(secrets->clean, at, (size_t)(begin - at));
		clone_secrets_find(secrets, CLONE_SECRET_URL, begin,
				   (size_t)(end - begin));
		at = end + 1;
	}
	str_add(secrets->clean, at);
}

bool clone_secrets_strip_urls(const char *text, const struct clone_secrets_sink *sink,
			      struct str *clean)
{
	struct clone_secrets secrets = { .sink = sink, .clean = clean };

	clone_secrets_strip(&secrets, text);
	return secrets.is_any;
}

/*
 * A config.
 */

/* Its bytes, with the line feed and the lines that continue it. */
static size_t clone_secrets_measure_line(const char *text)
{
	size_t len = 0;

	while (text[len]) {
		if (text[len] == '\\' && text[len + 1] == '\r' && text[len + 2] == '\n')
			len += 3;
		else if (text[len] == '\\' && text[len + 1])
			len += 2;
		else if (text[len++] == '\n')
			break;
	}
	return len;
}

/* Comments end with their line, whatever stands before its end. */
static size_t clone_secrets_measure(const char *text)
{
	const char *first = text + strspn(text, " \t");

	if (*first != '#' && *first != ';')
		return clone_secrets_measure_line(text);
	const size_t len = strcspn(text, "\n");
	return len + (text[len] == '\n');
}

/* Behind the "]" of a section's head. */
static const char *clone_secrets_end_head(const char *head)
{
	bool is_quoted = false;

	while (*head && *head != '\n' && (is_quoted || *head != ']')) {
		if (*head == '\\' && head[1])
			head++;
		else if (*head == '"')
			is_quoted = !is_quoted;
		head++;
	}
	return *head == ']' ? head + 1 : head;
}

static bool clone_secrets_is_section(const char *head, const char *name)
{
	const size_t len = strlen(name);

	head += 1 + strspn(head + 1, " \t");
	return strncasecmp(head, name, len) == 0 && strchr(".]\" \t", head[len]) &&
	       head[len];
}

/* [credential] says how to come by a secret, or is one; [url] with one was made for it.
 */
static bool clone_secrets_is_secret_section(const char *head, const char *end)
{
	AUTO_FREE char *text = xstrndup(head, (size_t)(end - head));
	const char *until;

	return clone_secrets_is_section(text, "credential") ||
	       (clone_secrets_is_section(text, "url") &&
		clone_secrets_next_userinfo(text, text, &until));
}

static bool clone_secrets_is_secret_variable(const char *text)
{
	static const char *const names[] = { "extraheader", "token", "password" };
	const size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz"
					"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (len == strlen(names[i]) && strncasecmp(text, names[i], len) == 0)
			return true;
	return false;
}

static void clone_secrets_drop(struct clone_secrets *secrets, const char *text)
{
	if (text[strspn(text, SPACES)])
		clone_secrets_find(secrets, CLONE_SECRET_TEXT, text, strlen(text));
}

/* A variable may stand behind the head in the same line. */
static void clone_secrets_strip_line(struct clone_secrets *secrets, const char *line)
{
	const char *at = line + strspn(line, SPACES), *end = at;

	if (*at == '[') {
		end = clone_secrets_end_head(at);
		secrets->section_goes = clone_secrets_is_secret_section(at, end);
		at = end + strspn(end, SPACES);
	}
	if (secrets->section_goes) {
		clone_secrets_drop(secrets, line);
		return;
	}
	if (!clone_secrets_is_secret_variable(at)) {
		clone_secrets_strip(secrets, line);
		return;
	}
	clone_secrets_drop(secrets, at);
	if (end > line && *line && memchr(line, '[', (size_t)(end - line))) {
		AUTO_FREE char *head = xstrndup(line, (size_t)(end - line));
		clone_secrets_strip(secrets, head);
		str_add_char(secrets->clean, '\n');
	}
}

bool clone_secrets_strip_config(const char *text, const struct clone_secrets_sink *sink,
				struct str *clean)
{
	struct clone_secrets secrets = { .sink = sink, .clean = clean };

	while (*text) {
		const size_t len = clone_secrets_measure(text);
		char *line = xstrndup(text, len);
		clone_secrets_strip_line(&secrets, line);
		text_wipe(line);
		text += len;
	}
	return secrets.is_any;
}

/*
 * Whose it was.
 */

static bool clone_secrets_is(const char *text, size_t len, const struct str *secret)
{
	return secret->len > 0 && len == secret->len &&
	       memcmp(text, secret->data, len) == 0;
}

static bool clone_secrets_has(const char *text, size_t len, const struct str *secret)
{
	return secret->len > 0 && memmem(text, len, secret->data, secret->len) != NULL;
}

/* "%2F" is "/". */
static void clone_secrets_decode_url(const char *text, size_t len, struct str *out)
{
	str_reserve(out, len);
	for (size_t i = 0; i < len; i++) {
		unsigned char byte = 0;
		char digits[3] = { 0 };
		if (text[i] == '%' && i + 2 < len) {
			memcpy(digits, text + i + 1, 2);
			if (text_from_hex(digits, &byte, 1)) {
				str_add_char(out, (char)byte);
				i += 2;
				continue;
			}
		}
		str_add_char(out, text[i]);
	}
}

/* A token may be in the password, or in place of the user's name. */
static bool clone_secrets_is_userinfo(const char *text, size_t len,
				      const struct str *secret)
{
	const char *colon = memchr(text, ':', len);
	const size_t user = colon ? (size_t)(colon - text) : len;
	struct str plain = STR_INIT;
	bool is_it;

	clone_secrets_decode_url(text, user, &plain);
	is_it = clone_secrets_is(plain.data, plain.len, secret);
	str_truncate(&plain, 0);
	if (!is_it && colon) {
		clone_secrets_decode_url(colon + 1, len - user - 1, &plain);
		is_it = clone_secrets_is(plain.data, plain.len, secret);
	}
	str_wipe(&plain);
	return is_it;
}

/* "Authorization: Basic <base64 of user:secret>". */
static bool clone_secrets_is_encoded(const char *word, size_t len,
				     const struct str *secret)
{
	struct str plain = STR_INIT;
	int got = -1;

	if (len == 0 || len % 4 != 0 || len > INT_MAX)
		return false;
	str_reserve(&plain, len);
	got = EVP_DecodeBlock((unsigned char *)plain.data, (const unsigned char *)word,
			      (int)len);
	const bool is_it = got > 0 && clone_secrets_has(plain.data, (size_t)got, secret);
	explicit_bzero(plain.data, len);
	str_clear(&plain);
	return is_it;
}

bool clone_secrets_are(enum clone_secret form, const char *text, size_t len,
		       const struct str *secret)
{
	static const char between[] = SPACES "\"':;";

	if (form == CLONE_SECRET_URL)
		return clone_secrets_is_userinfo(text, len, secret);
	if (clone_secrets_has(text, len, secret))
		return true;
	for (size_t i = 0, end; i < len; i = end + 1) {
		end = i;
		while (end < len && !memchr(between, text[end], sizeof(between) - 1))
			end++;
		if (clone_secrets_is_encoded(text + i, end - i, secret))
			return true;
	}
	return false;
}
