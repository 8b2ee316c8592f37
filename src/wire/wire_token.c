/*
 * A token is only ever taken when it was signed with HS256: what its own header says of
 * the algorithm decides nothing ("none" and public-key algorithms are refused).
 *
 * A token for a request has `req`, `body` and `jti`; one for a git child has `git`. Each
 * check asks for its own claims, so that neither kind passes for the other.
 */
#include "wire/wire_token.h"

#include <ctype.h>
#include <jwt.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"

#define SECRET_MIN 16
#define SECRET_FILE_MAX 4096
#define TOKEN_MAX 8192
#define LEEWAY_S 5

/* The claims. */
#define ISS "iss"
#define IAT "iat"
#define EXP "exp"
#define JTI "jti"
#define REQ "req"
#define BODY "body"
#define GIT "git"

#define AUTO_JWT __attribute__((cleanup(token_free)))

static void token_free(jwt_t *const *jwt)
{
	jwt_free(*jwt);
}

static int trim_secret(const char *file, struct str *secret, struct err *err)
{
	size_t len = secret->len;

	while (len > 0 && isspace((unsigned char)secret->data[len - 1]))
		len--;
	str_truncate(secret, len);
	if (len >= SECRET_MIN)
		return 0;
	err_set(err, ERR_CONFIG, "the secret in %s has %zu bytes, fewer than %d", file,
		len, SECRET_MIN);
	return err_remedy(err, "make one on both sites: openssl rand -hex 32 >%s", file);
}

/* A file that is named but not there is an error of the configuration, not a thing that
 * somebody looked for. */
static int not_read(const char *file, struct err *err)
{
	if (err->class != ERR_MISSING)
		return -1;
	err->class = ERR_CONFIG;
	return err_remedy(err, "put the secret that both sites have into %s", file);
}

int site_key_read(const char *site, const char *file, struct site_key *key,
		  struct err *err)
{
	struct stat stat_of;

	*key = (struct site_key){ .secret = STR_INIT };
	if (strlen(site) >= SITE_NAME_SIZE)
		return err_set(err, ERR_CONFIG, "the site's name \"%s\" is too long",
			       site);
	memcpy(key->site, site, strlen(site) + 1);
	if (file_read_any(AT_FDCWD, file, SECRET_FILE_MAX, &key->secret, err) != 0)
		return not_read(file, err);
	if (stat(file, &stat_of) == 0 && S_ISREG(stat_of.st_mode) &&
	    (stat_of.st_mode & S_IROTH)) {
		err_set(err, ERR_CONFIG, "everybody can read the secret in %s", file);
		err_remedy(err, "chmod o-r %s, and change the secret on both sites",
			   file);
	} else if (trim_secret(file, &key->secret, err) == 0) {
		return 0;
	}
	site_key_clear(key);
	return -1;
}

void site_key_clear(struct site_key *key)
{
	str_wipe(&key->secret);
}

static void body_digest(const struct signed_request *request,
			char text[2 * HASH_MAX_SIZE + 1])
{
	AUTO_STR struct str hex = STR_INIT;

	hash_add_hex(HASH_SHA256, request->body_len > 0 ? request->body : "",
		     request->body_len, hash_size(HASH_SHA256), &hex);
	memcpy(text, hex.data, hex.len + 1);
}

struct claim {
	const char *name, *value;
};

/* Claims end with a name of NULL. */
static char *wire_token_sign_claims(const struct site_key *key, int64_t valid_s,
				    const struct claim *claims, struct err *err)
{
	AUTO_JWT jwt_t *jwt = NULL;
	int64_t now = clock_wall_ms() / 1000;
	int failure = jwt_new(&jwt);
	char *token = NULL;

	if (!failure)
		failure = jwt_set_alg(jwt, JWT_ALG_HS256,
				      (const unsigned char *)key->secret.data,
				      (int)key->secret.len);
	if (!failure)
		failure = jwt_add_grant(jwt, ISS, key->site);
	if (!failure)
		failure = jwt_add_grant_int(jwt, IAT, now);
	if (!failure)
		failure = jwt_add_grant_int(jwt, EXP, now + valid_s);
	for (; !failure && claims->name; claims++)
		failure = jwt_add_grant(jwt, claims->name, claims->value);
	if (!failure) {
		token = jwt_encode_str(jwt);
		failure = token ? 0 : errno;
	}
	if (!token) {
		errno = failure;
		err_set(err, ERR_INTERNAL, "cannot sign a request of site \"%s\": %m",
			key->site);
	}
	return token;
}

char *wire_token_for_request(const struct site_key *key,
			     const struct signed_request *request, struct err *err)
{
	char nonce[33], digest[2 * HASH_MAX_SIZE + 1];
	AUTO_FREE char *line = xasprintf("%s %s", request->method, request->target);

	random_hex(nonce, 16);
	body_digest(request, digest);
	return wire_token_sign_claims(
		key, WIRE_TOKEN_VALID_S,
		(const struct claim[]){
			{ JTI, nonce }, { REQ, line }, { BODY, digest }, { 0 } },
		err);
}

char *wire_token_for_git(const struct site_key *key, const char *service,
			 const char *repository, int64_t valid_s, struct err *err)
{
	AUTO_FREE char *what = xasprintf("%s %s", service, repository);

	return wire_token_sign_claims(
		key, valid_s, (const struct claim[]){ { GIT, what }, { 0 } }, err);
}

bool wire_token_issuer(const char *token, char site[SITE_NAME_SIZE])
{
	AUTO_JWT jwt_t *jwt = NULL;
	const char *issuer;

	if (strnlen(token, TOKEN_MAX) == TOKEN_MAX ||
	    jwt_decode(&jwt, token, NULL, 0) != 0)
		return false;
	issuer = jwt_get_grant(jwt, ISS);
	if (!issuer || !issuer[0] || strlen(issuer) >= SITE_NAME_SIZE)
		return false;
	memcpy(site, issuer, strlen(issuer) + 1);
	return true;
}

const char *token_verdict_code(enum token_verdict verdict)
{
	static const char *const codes[] = {
		[TOKEN_GOOD] = "GOOD",
		[TOKEN_BAD_SIGNATURE] = "BAD_SIGNATURE",
		[TOKEN_CLOCK_SKEW] = "CLOCK_SKEW",
		[TOKEN_REPLAYED] = "REPLAYED",
		[TOKEN_WRONG_REQUEST] = "WRONG_REQUEST",
		[TOKEN_TOO_MANY] = "TOO_MANY_REQUESTS",
	};

	return codes[verdict];
}

static enum token_verdict bad_signature(const struct site_key *key, struct err *err)
{
	err_set(err, ERR_AUTH,
		"the request is not signed with the secret that this site has for \"%s\"",
		key->site);
	err_remedy(err, "put the same secret into the secretFile of both sites");
	return TOKEN_BAD_SIGNATURE;
}

static enum token_verdict wire_token_refuse_request(const struct site_key *key,
						    struct err *err)
{
	err_set(err, ERR_AUTH, "the token of site \"%s\" was made for another request",
		key->site);
	err_remedy(err, "if a proxy stands between the sites, let it pass paths, queries "
			"and bodies on as they come");
	return TOKEN_WRONG_REQUEST;
}

/* A token that is good for long may be over because its work took too long. */
static enum token_verdict clock_skew(const struct site_key *key, int64_t made_s,
				     int64_t ends_s, struct err *err)
{
	int64_t now = clock_wall_ms() / 1000, ahead_s = made_s - now;

	if (ends_s - made_s > WIRE_TOKEN_VALID_S && ahead_s <= 0)
		err_set(err, ERR_AUTH,
			"the token of site \"%s\" ended %" PRId64
			" s ago, by this site's clock",
			key->site, now - ends_s);
	else
		err_set(err, ERR_AUTH,
			"the clock of site \"%s\" is %" PRId64 " s %s this site's",
			key->site, ahead_s < 0 ? -ahead_s : ahead_s,
			ahead_s < 0 ? "behind" : "ahead of");
	err_remedy(err, "let both machines follow a time server (NTP)");
	return TOKEN_CLOCK_SKEW;
}

/* A number that is there, and is one. */
static bool wire_token_get_number(jwt_t *jwt, const char *claim, int64_t *value)
{
	errno = 0;
	*value = jwt_get_grant_int(jwt, claim);
	return errno == 0;
}

static bool claim_is(jwt_t *jwt, const char *claim, const char *expected)
{
	const char *value = jwt_get_grant(jwt, claim);

	return value && strcmp(value, expected) == 0;
}

/* What both kinds have in common. *valid_s: for how long it was made. */
static enum token_verdict open_token(const struct site_key *key, const char *token,
				     jwt_t **jwt, int64_t *valid_s, struct err *err)
{
	int64_t now = clock_wall_ms() / 1000, made, ends;

	if (strnlen(token, TOKEN_MAX) == TOKEN_MAX || key->secret.len < SECRET_MIN ||
	    jwt_decode(jwt, token, (const unsigned char *)key->secret.data,
		       (int)key->secret.len) != 0 ||
	    jwt_get_alg(*jwt) != JWT_ALG_HS256)
		return bad_signature(key, err);
	if (!wire_token_get_number(*jwt, IAT, &made) ||
	    !wire_token_get_number(*jwt, EXP, &ends) || made < 0 || ends < made ||
	    !claim_is(*jwt, ISS, key->site))
		return wire_token_refuse_request(key, err);
	if (made > now + LEEWAY_S || ends <= now)
		return clock_skew(key, made, ends, err);
	*valid_s = ends - made;
	return TOKEN_GOOD;
}

enum token_verdict wire_token_check_request(const struct site_key *key, const char *token,
					    const struct signed_request *request,
					    char nonce[WIRE_NONCE_SIZE], struct err *err)
{
	AUTO_JWT jwt_t *jwt = NULL;
	AUTO_FREE char *line = xasprintf("%s %s", request->method, request->target);
	char digest[2 * HASH_MAX_SIZE + 1];
	int64_t valid_s;
	enum token_verdict verdict = open_token(key, token, &jwt, &valid_s, err);

	if (verdict != TOKEN_GOOD)
		return verdict;
	body_digest(request, digest);
	const char *used = jwt_get_grant(jwt, JTI);
	/* Nonces are not remembered for longer, so none may be good for longer. */
	if (valid_s > WIRE_TOKEN_VALID_S || !claim_is(jwt, REQ, line) ||
	    !claim_is(jwt, BODY, digest) || !used || !used[0] ||
	    strlen(used) >= WIRE_NONCE_SIZE)
		return wire_token_refuse_request(key, err);
	memcpy(nonce, used, strlen(used) + 1);
	return TOKEN_GOOD;
}

enum token_verdict wire_token_check_git(const struct site_key *key, const char *token,
					const char *service, const char *repository,
					struct err *err)
{
	AUTO_JWT jwt_t *jwt = NULL;
	AUTO_FREE char *what = xasprintf("%s %s", service, repository);
	int64_t valid_s;
	enum token_verdict verdict = open_token(key, token, &jwt, &valid_s, err);

	if (verdict != TOKEN_GOOD)
		return verdict;
	return claim_is(jwt, GIT, what) ? TOKEN_GOOD
					: wire_token_refuse_request(key, err);
}
