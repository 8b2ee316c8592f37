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

static const char *const rights_words[] = { "read", "push", "operate", NULL };

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
	for (size_t i = 0; i < tokens->list.count; i++)
		token_clear(&tokens->list.items[i]);
	vec_clear(&tokens->list);
}

int tokens_entry_failed(const struct conf_entry *entry, struct err *err)
{
	struct err cause = *err;

	conf_error(entry, err, "%s", cause.text);
	return err_remedy(err, "%s", cause.remedy);
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

static int tokens_read_file(const struct conf_entry *entry, struct token *token,
			    struct err *err)
{
	const char *path = NULL;

	if (conf_read_text(entry, &path, err))
		return -1;
	return tokens_read_digest(path, token->digest, err)
		       ? tokens_entry_failed(entry, err)
		       : 0;
}

/* Who writes the 30th of February means another day than we would take. */
static bool is_real_time(const char *text, int64_t wall_ms)
{
	char back[CLOCK_TEXT_SIZE];

	clock_format(wall_ms, back);
	return strncmp(back, text, strlen("2027-01-01T12:00:00")) == 0;
}

static int read_expires(const struct conf_entry *entry, int64_t *wall_ms, struct err *err)
{
	const char *text = NULL;

	if (conf_read_text(entry, &text, err))
		return -1;
	if (!text)
		return 0;
	AUTO_FREE char *whole =
		xasprintf("%s%s", text, strchr(text, 'T') ? "" : "T00:00:00Z");
	if (clock_parse(whole, wall_ms) && is_real_time(whole, *wall_ms))
		return 0;
	return conf_error(entry, err,
			  "\"%.40s\" is no time: write it as 2027-01-01 or "
			  "2027-01-01T12:00:00Z",
			  text);
}

int tokens_read_pattern(const struct conf_entry *entry, name_patterns *patterns,
			struct err *err)
{
	struct name_pattern *pattern;
	const char *text = NULL;

	if (conf_read_text(entry, &text, err))
		return -1;
	if (name_pattern_new(text, &pattern, err))
		return tokens_entry_failed(entry, err);
	vec_add(patterns, pattern);
	return 0;
}

static int tokens_read_patterns(const struct conf *conf, const char *name,
				struct token *token, struct err *err)
{
	const struct conf_list *all = conf_get_all(conf, "token", name, "repository");

	for (size_t i = 0; i < all->count; i++)
		if (tokens_read_pattern(all->items[i], &token->repositories, err))
			return -1;
	return 0;
}

/* It goes into logs, and into the environment of hooks. */
static bool is_good_name(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if (iscntrl((unsigned char)name[i]))
			return false;
	return len > 0 && len <= NAME_MAX_LEN && text_is_utf8(name, len);
}

static int read_rights(const struct conf *conf, const char *name, struct token *token,
		       struct err *err)
{
	const struct conf_entry *rights = conf_get(conf, "token", name, "rights");
	size_t choice = RIGHTS_READ;

	if (conf_read_choice(rights, rights_words, &choice, err) ||
	    read_expires(conf_get(conf, "token", name, "expires"), &token->expires_ms,
			 err) ||
	    tokens_read_patterns(conf, name, token, err))
		return -1;
	token->rights = (enum rights)choice;
	if (token->rights == RIGHTS_OPERATE && token->repositories.count > 0)
		return conf_error(rights, err,
				  "who operates does so for all repositories: not with "
				  "repository");
	return 0;
}

static int read_named(const struct conf *conf, const char *name, struct token *token,
		      struct err *err)
{
	const struct conf_entry *file = conf_get(conf, "token", name, "file");

	if (!is_good_name(name))
		return err_set(err, ERR_CONFIG,
			       "a token's name has 1 to %d bytes without control "
			       "characters",
			       NAME_MAX_LEN);
	if (!file)
		return err_set(err, ERR_CONFIG, "token.%s.file is not set", name);
	token->name = xasprintf("token %s", name);
	return tokens_read_file(file, token, err) || read_rights(conf, name, token, err)
		       ? -1
		       : 0;
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

static int read_operator(const struct conf *conf, struct tokens *tokens, struct err *err)
{
	const struct conf_entry *entry =
		conf_get(conf, "http", NULL, "operatorTokenFile");
	struct token token = { .rights = RIGHTS_OPERATE, .expires_ms = INT64_MAX };

	if (!entry)
		return 0;
	token.name = xstrdup("operator");
	if (tokens_read_file(entry, &token, err) == 0)
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
	int result = read_operator(conf, tokens, err);

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
