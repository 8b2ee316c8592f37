/*
 * Secrets are held as little as they can be: of a token only its digest is kept, and
 * digests are compared in constant time, so that neither the time of a comparison nor a
 * dump of this memory tells a token.
 */
#include "web/tokens.h"

#include <ctype.h>
#include <openssl/crypto.h>

#include "base/clock.h"
#include "base/file.h"

enum { TOKEN_MIN = 16, TOKEN_FILE_MAX = 4096, NAME_MAX_LEN = 64 };

static void tokens_digest_text(const char *text, size_t len,
			       unsigned char digest[HASH_MAX_SIZE])
{
	AUTO_HASH struct hash hash;

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, text, len);
	hash_end(&hash, digest);
}

static void token_clear(struct token *token)
{
	free(token->name);
	name_patterns_clear(&token->repositories);
}

void tokens_clear(struct tokens *tokens)
{
	vec_clear_each(&tokens->list, token_clear);
}

static int tokens_check_mode(const char *path, struct err *err)
{
	struct stat st;

	if (stat(path, &st))
		return err_errno(err, "%s", path);
	if (!S_ISREG(st.st_mode) || !(st.st_mode & (S_IROTH | S_IWOTH)))
		return 0;
	err_set(err, ERR_CONFIG, "everybody can read or change %s", path);
	return err_remedy(err, "chmod o= %s, and put a new token into it", path);
}

static int tokens_read_digest(const char *path, unsigned char digest[HASH_MAX_SIZE],
			      struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	size_t len;

	if (tokens_check_mode(path, err) ||
	    file_read_any(AT_FDCWD, path, TOKEN_FILE_MAX, &text, err))
		return -1;
	for (len = text.len; len > 0 && isspace((unsigned char)text.data[len - 1]); len--)
		;
	tokens_digest_text(text.data, len, digest);
	explicit_bzero(text.data, text.len);
	if (len >= TOKEN_MIN)
		return 0;
	err_set(err, ERR_CONFIG, "the token in %s is shorter than %d bytes", path,
		TOKEN_MIN);
	return err_remedy(err, "make one: openssl rand -hex 32 >%s", path);
}

static int tokens_read_file(const struct setting *row, const struct conf_entry *entry,
			    void *target, struct err *err)
{
	struct token *token = target;
	const char *path = NULL;

	(void)row;
	if (conf_read_text(entry, &path, err))
		return -1;
	return tokens_read_digest(path, token->digest, err) ? conf_prefix(entry, err) : 0;
}

/* Who writes the 30th of February means another day than we would take. */
static bool is_real_time(const char *text, int64_t wall_ms)
{
	char back[CLOCK_TEXT_SIZE];

	clock_format(wall_ms, back);
	return strncmp(back, text, strlen("2027-01-01T12:00:00")) == 0;
}

static int read_expires(const struct setting *row, const struct conf_entry *entry,
			void *target, struct err *err)
{
	int64_t *wall_ms = setting_field(row, target);
	const char *text = NULL;

	if (conf_read_text(entry, &text, err))
		return -1;
	AUTO_FREE char *whole =
		xasprintf("%s%s", text, strchr(text, 'T') ? "" : "T00:00:00Z");
	if (clock_parse(whole, wall_ms) && is_real_time(whole, *wall_ms))
		return 0;
	return conf_error(
		entry, err,
		"invalid time \"%.40s\": use 2027-01-01 or 2027-01-01T12:00:00Z", text);
}

static const struct setting rows[] = {
	{ "file", .type = SETTING_OWN, .read = tokens_read_file, .is_required = true },
	{ "rights", SETTING_AT(CHOICE, struct token, rights), "read",
	  .words = (const char *const[]){ "read", "push", "operate", NULL } },
	{ "repository", .type = SETTING_OWN,
	  .offset = offsetof(struct token, repositories), .read = name_patterns_read,
	  .is_repeated = true },
	{ "expires", SETTING_AT(DURATION, struct token, expires_ms),
	  .read = read_expires },
	{ 0 },
};

const struct setting_table token_settings_table = { .section = "token",
						    .rows = rows,
						    .has_subsection = true };

/* It goes into logs, and into the environment of hooks. */
static bool is_good_name(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if (iscntrl((unsigned char)name[i]))
			return false;
	return len > 0 && len <= NAME_MAX_LEN && text_is_utf8(name, len);
}

static int read_named(const struct conf *conf, const char *name, struct token *token,
		      struct err *err)
{
	if (!is_good_name(name))
		return err_set(err, ERR_CONFIG,
			       "a token's name has 1 to %d bytes without control "
			       "characters",
			       NAME_MAX_LEN);
	token->name = xasprintf("token %s", name);
	if (settings_read(&token_settings_table, conf, name, token, err))
		return -1;
	if (token->rights == RIGHTS_OPERATE && token->repositories.count > 0)
		return conf_error(conf_get(conf, "token", name, "rights"), err,
				  "who operates does so for all repositories: not with "
				  "repository");
	return 0;
}

static const struct token *find_digest(const struct tokens *tokens,
				       const unsigned char digest[HASH_MAX_SIZE])
{
	const struct token *found = NULL;

	for (size_t i = 0; i < tokens->list.count; i++)
		if (CRYPTO_memcmp(digest, tokens->list.items[i].digest, HASH_MAX_SIZE) ==
		    0)
			found = &tokens->list.items[i];
	return found;
}

/* Takes the token. */
static int tokens_add(struct tokens *tokens, struct token *token, struct err *err)
{
	const struct token *same = find_digest(tokens, token->digest);
	int result = 0;

	if (same)
		result = err_set(err, ERR_CONFIG, "%s and %s are the same text",
				 same->name, token->name);
	if (same)
		err_remedy(err, "make one for each: openssl rand -hex 32");
	vec_add(&tokens->list, *token);
	return result;
}

int tokens_read_operator(struct tokens *tokens, const struct conf_entry *entry,
			 struct err *err)
{
	struct token token = { .rights = RIGHTS_OPERATE, .expires_ms = INT64_MAX };

	token.name = xstrdup("operator");
	if (tokens_read_file(NULL, entry, &token, err) == 0)
		return tokens_add(tokens, &token, err);
	token_clear(&token);
	return -1;
}

static int tokens_read_one(const struct conf *conf, const char *name,
			   struct tokens *tokens, struct err *err)
{
	struct token token = { .expires_ms = INT64_MAX };

	if (read_named(conf, name, &token, err) == 0)
		return tokens_add(tokens, &token, err);
	token_clear(&token);
	return -1;
}

int tokens_read(const struct conf *conf, struct tokens *tokens, struct err *err)
{
	struct conf_names names = { 0 };
	int result = 0;

	conf_subsections(conf, "token", &names);
	for (size_t i = 0; i < names.count && result == 0; i++)
		result = tokens_read_one(conf, names.items[i], tokens, err);
	vec_clear(&names);
	return result;
}

const struct token *tokens_find(const struct tokens *tokens, const char *text)
{
	unsigned char digest[HASH_MAX_SIZE];

	tokens_digest_text(text, strlen(text), digest);
	return find_digest(tokens, digest);
}
