/*
 * Secrets are held as little as they can be: of the operator's token only a digest is
 * kept, and digests are compared in constant time, so that neither the time of a
 * comparison nor a dump of this memory tells the token.
 *
 * Who shows a credential is judged by it alone: a wrong one is refused even where
 * nobody would need one, since whoever shows it believes that it counts.
 */
#include "web/access.h"

#include <ctype.h>
#include <openssl/crypto.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "base/vec.h"
#include "web/credential.h"
#include "web/git_request.h"

enum { TOKEN_MIN = 16, TOKEN_FILE_MAX = 4096, LOG_INTERVAL_MS = 1000 };

/* What the configuration says. */
struct rules {
	bool anonymous_read; /* of Git */
	bool trusts_loopback;
	bool has_operator;
	unsigned char operator[HASH_MAX_SIZE]; /* SHA-256 of the token */
	VEC(struct site_key) keys;             /* in the order of the configuration */
};

struct access {
	pthread_mutex_t mutex;
	struct rules rules;    /* guarded by mutex */
	int64_t logged_at;     /* guarded by mutex */
	uint64_t unlogged;     /* guarded by mutex; refused since then */
	struct nonces *nonces; /* kept for the life of the process's access */
};

static void digest_token(const char *token, size_t len,
			 unsigned char digest[HASH_MAX_SIZE])
{
	AUTO_HASH struct hash hash;

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, token, len);
	hash_end(&hash, digest);
}

static void rules_clear(struct rules *rules)
{
	for (size_t i = 0; i < rules->keys.count; i++)
		site_key_clear(&rules->keys.items[i]);
	vec_clear(&rules->keys);
	*rules = (struct rules){ 0 };
}

/* *err without the file and line, which conf_error puts before it. */
static int entry_failed(const struct conf_entry *entry, struct err *err)
{
	struct err cause = *err;

	conf_error(entry, err, "%s", cause.text);
	return err_remedy(err, "%s", cause.remedy);
}

static int check_mode(const char *path, struct err *err)
{
	struct stat st;

	if (stat(path, &st))
		return err_errno(err, "%s", path);
	if (!S_ISREG(st.st_mode) || !(st.st_mode & (S_IROTH | S_IWOTH)))
		return 0;
	err_set(err, ERR_CONFIG, "everybody can read or change %s", path);
	return err_remedy(err, "chmod o= %s, and put a new token into it", path);
}

static int read_token(const char *path, struct rules *rules, struct err *err)
{
	AUTO_STR struct str token = STR_INIT;

	if (check_mode(path, err) ||
	    file_read_any(AT_FDCWD, path, TOKEN_FILE_MAX, &token, err))
		return -1;
	while (token.len > 0 && isspace((unsigned char)token.data[token.len - 1]))
		token.len--;
	if (token.len < TOKEN_MIN) {
		err_set(err, ERR_CONFIG, "the token in %s is shorter than %d bytes", path,
			TOKEN_MIN);
		return err_remedy(err, "make one: openssl rand -hex 32 >%s", path);
	}
	digest_token(token.data, token.len, rules->operator);
	rules->has_operator = true;
	explicit_bzero(token.data, token.len);
	return 0;
}

static int read_http(const struct conf *conf, struct rules *rules, struct err *err)
{
	const struct conf_entry *token =
		conf_get(conf, "http", NULL, "operatorTokenFile");
	const char *path = NULL, *url = NULL;

	if (conf_read_bool(conf_get(conf, "http", NULL, "anonymousRead"),
			   &rules->anonymous_read, err) ||
	    conf_read_text(conf_get(conf, "http", NULL, "url"), &url, err) ||
	    conf_read_text(token, &path, err))
		return -1;
	/* With a URL there may be a server in front, whose requests all come from
	 * loopback. */
	rules->trusts_loopback = !url;
	if (path && read_token(path, rules, err))
		return entry_failed(token, err);
	return 0;
}

static int read_site(const struct conf *conf, const char *site, struct rules *rules,
		     struct err *err)
{
	const struct conf_entry *file = conf_get(conf, "secondary", site, "secretFile");
	struct site_key key;
	const char *path = NULL;
	bool is_enabled = true;

	if (conf_read_bool(conf_get(conf, "secondary", site, "enabled"), &is_enabled,
			   err) ||
	    conf_read_text(file, &path, err))
		return -1;
	if (!is_enabled)
		return 0;
	if (!path)
		return err_set(err, ERR_CONFIG, "secondary.%s.secretFile is not set",
			       site);
	if (site_key_read(site, path, &key, err))
		return entry_failed(file, err);
	vec_add(&rules->keys, key);
	return 0;
}

static int read_rules(const struct conf *conf, struct rules *rules, struct err *err)
{
	struct conf_names sites = { 0 };
	int result = read_http(conf, rules, err);

	conf_subsections(conf, "secondary", &sites);
	for (size_t i = 0; i < sites.count && result == 0; i++)
		result = read_site(conf, sites.items[i], rules, err);
	vec_clear(&sites);
	return result;
}

int access_read(const struct conf *conf, struct access **access, struct err *err)
{
	struct rules rules = { 0 };

	if (read_rules(conf, &rules, err)) {
		rules_clear(&rules);
		return -1;
	}
	struct access *new = xcalloc(1, sizeof(*new));
	mutex_init(&new->mutex);
	new->rules = rules;
	new->logged_at = INT64_MIN / 2;
	new->nonces = nonces_new();
	*access = new;
	return 0;
}

void access_free(struct access *access)
{
	if (!access)
		return;
	rules_clear(&access->rules);
	nonces_free(access->nonces);
	pthread_mutex_destroy(&access->mutex);
	free(access);
}

/* The nonces stay: what was used before is not good again. */
void access_replace(struct access *access, struct access *with)
{
	lock(&access->mutex);
	struct rules old = access->rules;
	access->rules = with->rules;
	unlock(&access->mutex);
	with->rules = old;
	access_free(with);
}

static bool is_operator(struct access *access, const char *credential)
{
	unsigned char digest[HASH_MAX_SIZE];

	digest_token(credential, strlen(credential), digest);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&access->mutex);
	return access->rules.has_operator &&
	       CRYPTO_memcmp(digest, access->rules.operator, sizeof(digest)) == 0;
}

/* A copy, so that no lock is held while a token is checked. */
static bool copy_key(struct access *access, const char *site, struct site_key *key)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&access->mutex);

	for (size_t i = 0; i < access->rules.keys.count; i++) {
		const struct site_key *own = &access->rules.keys.items[i];
		if (strcmp(own->site, site) != 0)
			continue;
		memcpy(key->site, own->site, sizeof(key->site));
		str_add_bytes(&key->secret, own->secret.data, own->secret.len);
		return true;
	}
	return false;
}

static void refuse(struct access_answer *answer, int status, const char *code)
{
	answer->status = status;
	answer->code = code;
}

/* A site's token proves who asks, and that it is for this request. */
static void decide_site(struct access *access, const struct access_question *question,
			const char *token, struct access_answer *answer, struct err *err)
{
	AUTO_SITE_KEY struct site_key key = { .secret = STR_INIT };
	char site[SITE_NAME_SIZE];
	enum token_verdict verdict;

	if (!site_token_issuer(token, site)) {
		err_set(err, ERR_AUTH, "the token is not known here");
		err_remedy(err, "show the token in http.operatorTokenFile of this site");
		refuse(answer, 401, "BAD_CREDENTIALS");
		return;
	}
	if (!copy_key(access, site, &key)) {
		err_set(err, ERR_AUTH, "site \"%s\" may not follow this primary", site);
		err_remedy(err,
			   "[secondary \"%s\"] must be in the primary's configuration, "
			   "and be "
			   "enabled",
			   site);
		refuse(answer, 401, "UNKNOWN_SITE");
		return;
	}
	if (question->needs == WEB_GIT_READER)
		verdict = site_token_check_git(&key, token, question->git_service,
					       question->git_repository, err);
	else
		verdict = site_token_check_request(&key, token, question->request,
						   access->nonces, err);
	if (verdict != TOKEN_GOOD) {
		refuse(answer, 401, token_verdict_code(verdict));
	} else if (question->needs == WEB_OPERATOR) {
		err_set(err, ERR_AUTH, "this takes an operator, not a site");
		refuse(answer, 403, "OPERATOR_ONLY");
	} else {
		memcpy(answer->site, site, sizeof(answer->site));
	}
}

static bool needs_no_credential(struct access *access,
				const struct access_question *question)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&access->mutex);

	switch (question->needs) {
	case WEB_ANYBODY:
		return true;
	case WEB_READER:
		return access->rules.trusts_loopback && question->is_loopback &&
		       !question->is_forwarded;
	case WEB_GIT_READER:
		return access->rules.anonymous_read;
	default:
		return false;
	}
}

static void ask_for_credential(const struct access_question *question,
			       struct access_answer *answer, struct err *err)
{
	err_set(err, ERR_AUTH, "this needs a token");
	if (question->needs == WEB_GIT_READER)
		err_remedy(err, "give an operator's token as password, or set "
				"http.anonymousRead = true to let everybody read");
	else if (question->needs == WEB_SITE)
		err_remedy(err, "sign with the secret of a secondary of this site: "
				"primary.secretFile, or replicate --secret-file");
	else
		err_remedy(err, "send the token in http.operatorTokenFile of this site "
				"in the header Authorization, as Bearer");
	refuse(answer, 401, "NO_CREDENTIALS");
}

/* At most a line a second: who guesses tokens shall not fill the disk. */
static void log_refused(struct access *access, const struct access_answer *answer,
			const struct err *err)
{
	int64_t now = clock_boot_ms();
	uint64_t unlogged;

	lock(&access->mutex);
	bool is_due = now - access->logged_at >= LOG_INTERVAL_MS;
	unlogged = access->unlogged;
	access->unlogged = is_due ? 0 : unlogged + 1;
	if (is_due)
		access->logged_at = now;
	unlock(&access->mutex);
	if (is_due)
		log_warn("access.refused", LOG_ERR(err), LOG_TEXT("reason", answer->code),
			 LOG_NUMBER("status", answer->status),
			 LOG_NUMBER("unlogged", unlogged));
}

static void count_refused(const char *code)
{
	metric_add(metric_at(metric_counter("refrelay_http_refused_total",
					    "Requests that were not let in, by reason.",
					    "class"),
			     code),
		   1);
}

void access_decide(struct access *access, const struct access_question *question,
		   struct access_answer *answer, struct err *err)
{
	*answer = (struct access_answer){ 0 };
	if (question->needs == WEB_ANYBODY)
		return;
	if (question->authorization) {
		AUTO_CREDENTIAL char *credential =
			credential_read(question->authorization);
		if (!credential) {
			err_set(err, ERR_AUTH,
				"the header Authorization is not "
				"understood: neither Bearer nor Basic");
			refuse(answer, 401, "BAD_CREDENTIALS");
		} else if (!is_operator(access, credential)) {
			decide_site(access, question, credential, answer, err);
		}
	} else if (!needs_no_credential(access, question)) {
		ask_for_credential(question, answer, err);
	}
	if (answer->status == 0)
		return;
	count_refused(answer->code);
	log_refused(access, answer, err);
}

void access_sites(struct access *access, site_names *names)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&access->mutex);

	for (size_t i = 0; i < access->rules.keys.count; i++)
		vec_add(names, xstrdup(access->rules.keys.items[i].site));
}
