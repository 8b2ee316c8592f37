/*
 * Who shows a credential is judged by it alone: a wrong one is refused even where nobody
 * would need one, since whoever shows it believes that it counts. A good one opens at
 * least the repositories that are open to everybody.
 *
 * Nothing here looks at repositories: who may not is told the same whether there is one
 * or not.
 */
#include "web/access.h"

#include <openssl/evp.h>
#include <stdatomic.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/str.h"
#include "base/thread.h"
#include "net/nonces.h"
#include "replicable/name.h"
#include "web/route.h"
#include "web/web_metrics.h"

/*
 * What the configuration says of who may do what. Constant once read, but that the
 * password file is read again; kept as long as somebody uses it. Any thread.
 */

struct access_rules {
	atomic_uint users;
	bool is_primary;         /* else no site may follow */
	bool anonymous_read;     /* of all repositories */
	name_patterns anonymous; /* of these */
	bool trusts_loopback;
	struct tokens tokens;
	struct password_file *passwords; /* NULL: nobody logs in by password */
	VEC(struct site_key) keys;       /* in the order of the configuration */
};

static void rules_free(struct access_rules *rules)
{
	vec_clear_each(&rules->keys, site_key_clear);
	name_patterns_clear(&rules->anonymous);
	tokens_clear(&rules->tokens);
	password_file_close(rules->passwords);
	free(rules);
}

static int read_passwords(const struct setting *row, const struct conf_entry *entry,
			  void *target, struct err *err)
{
	struct access_rules *rules = target;
	const char *path = NULL;

	(void)row;
	if (conf_read_text(entry, &path, err))
		return -1;
	return password_file_open(path, &rules->passwords, err) ? conf_prefix(entry, err)
								: 0;
}

static int read_operator(const struct setting *row, const struct conf_entry *entry,
			 void *target, struct err *err)
{
	return tokens_read_operator(setting_field(row, target), entry, err);
}

static const struct setting access_rows[] = {
	{ "anonymousRead", SETTING_AT(BOOL, struct access_rules, anonymous_read),
	  "false" },
	{ "anonymousRepository", .type = SETTING_OWN, .read = name_patterns_read,
	  .offset = offsetof(struct access_rules, anonymous), .is_repeated = true },
	{ "operatorTokenFile", .type = SETTING_OWN, .read = read_operator,
	  .offset = offsetof(struct access_rules, tokens) },
	{ "passwordFile", .type = SETTING_OWN, .read = read_passwords },
	{ 0 },
};

static const struct setting secondary_rows[] = {
	{ "secretFile", SETTING_AT(TEXT, struct secondary_settings, secret_file) },
	{ "enabled", SETTING_AT(BOOL, struct secondary_settings, is_enabled), "true" },
	{ "bandwidth", SETTING_AT(SIZE, struct secondary_settings, bandwidth), "0" },
	{ "leavesOut", .type = SETTING_OWN, .read = setting_add_text,
	  .offset = offsetof(struct secondary_settings, leaves_out),
	  .is_repeated = true },
	{ 0 },
};

const struct setting_table access_settings_table = { .section = "http",
						     .rows = access_rows };
const struct setting_table secondary_settings_table = { .section = "secondary",
							.rows = secondary_rows,
							.has_subsection = true };

int secondary_settings_read(const struct conf *conf, const char *site,
			    struct secondary_settings *settings, struct err *err)
{
	*settings = (struct secondary_settings){ 0 };
	return settings_read(&secondary_settings_table, conf, site, settings, err);
}

void secondary_settings_clear(struct secondary_settings *settings)
{
	settings_clear(&secondary_settings_table, settings);
	text_list_clear(&settings->leaves_out);
}

static int access_rules_add_key(const struct conf *conf, const char *site,
				const char *path, struct access_rules *rules,
				struct err *err)
{
	struct site_key key;

	if (!path)
		return err_set(err, ERR_CONFIG, "secondary.%s.secretFile is not set",
			       site);
	if (site_key_read(site, path, &key, err))
		return conf_prefix(conf_get(conf, "secondary", site, "secretFile"), err);
	vec_add(&rules->keys, key);
	return 0;
}

static int access_rules_read_site(const struct conf *conf, const char *site,
				  struct access_rules *rules, struct err *err)
{
	struct secondary_settings settings;
	int result = secondary_settings_read(conf, site, &settings, err);

	if (result == 0 && settings.is_enabled)
		result = access_rules_add_key(conf, site, settings.secret_file, rules,
					      err);
	secondary_settings_clear(&settings);
	return result;
}

static int access_rules_read_all(const struct conf *conf, bool is_primary,
				 struct access_rules *rules, struct err *err)
{
	struct conf_names sites = { 0 };
	int result = settings_read(&access_settings_table, conf, NULL, rules, err);

	rules->is_primary = is_primary;
	/* With a URL there may be a server in front, whose requests all come from
	 * loopback. */
	rules->trusts_loopback = !conf_get(conf, "http", NULL, "url");
	if (result == 0)
		result = tokens_read(conf, &rules->tokens, err);
	if (is_primary)
		conf_subsections(conf, "secondary", &sites);
	for (size_t i = 0; i < sites.count && result == 0; i++)
		result = access_rules_read_site(conf, sites.items[i], rules, err);
	vec_clear(&sites);
	return result;
}

static int access_rules_read(const struct conf *conf, bool is_primary,
			     struct access_rules **rules, struct err *err)
{
	struct access_rules *new = xcalloc(1, sizeof(*new));

	new->users = 1;
	if (access_rules_read_all(conf, is_primary, new, err)) {
		rules_free(new);
		return -1;
	}
	*rules = new;
	return 0;
}

static struct access_rules *access_rules_ref(struct access_rules *rules)
{
	atomic_fetch_add(&rules->users, 1);
	return rules;
}

static void access_rules_unref(struct access_rules *rules)
{
	if (atomic_fetch_sub(&rules->users, 1) == 1)
		rules_free(rules);
}

#define AUTO_ACCESS_RULES __attribute__((cleanup(access_rules_release)))

static void access_rules_release(struct access_rules *const *rules)
{
	access_rules_unref(*rules);
}

/* NULL: it may not follow. */
static const struct site_key *access_rules_key(const struct access_rules *rules,
					       const char *site)
{
	for (size_t i = 0; i < rules->keys.count; i++)
		if (strcmp(rules->keys.items[i].site, site) == 0)
			return &rules->keys.items[i];
	return NULL;
}

/* What is no name ("public/../secret") is in no pattern. */
static bool access_rules_match_name(const name_patterns *patterns, const char *name)
{
	return name && name_check(name, ERR_IGNORED) == 0 &&
	       name_patterns_take(patterns, name);
}

/* Whether everybody may read this repository. `name` is not checked yet. */
static bool access_rules_let_read(const struct access_rules *rules, const char *name)
{
	return rules->anonymous_read || access_rules_match_name(&rules->anonymous, name);
}

/* Whether there is any credential that may push some repository. Users come and go with
 * their lines in the password file, which is looked at only when somebody shows a
 * password: so the file counts even if nobody was in it. */
static bool access_rules_let_push(const struct access_rules *rules)
{
	int64_t now = clock_wall_ms();

	for (size_t i = 0; i < rules->tokens.list.count; i++) {
		const struct token *token = &rules->tokens.list.items[i];
		if (token->rights >= RIGHTS_PUSH && now < token->expires_ms)
			return true;
	}
	return rules->passwords != NULL;
}

/* Whether the token is for this repository. */
static bool access_rules_token_takes(const struct token *token, const char *name)
{
	return token->repositories.count == 0 ||
	       access_rules_match_name(&token->repositories, name);
}

enum { CREDENTIAL_MAX = 8192 };

/* The value behind a scheme's name, or NULL if it is another scheme. */
static const char *behind_scheme(const char *header, const char *scheme)
{
	size_t len = strlen(scheme);

	if (strncasecmp(header, scheme, len) != 0 || header[len] != ' ')
		return NULL;
	return header + len + strspn(header + len, " ");
}

/* Padding is decoded to NULs. Another NUL would make two texts of one: refused. */
static bool credential_decode(const char *base64, size_t len, char *text)
{
	int got = len <= CREDENTIAL_MAX && len % 4 == 0
			  ? EVP_DecodeBlock((unsigned char *)text,
					    (const unsigned char *)base64, (int)len)
			  : -1;

	for (size_t at = len; got > 0 && at > 0 && base64[at - 1] == '='; at--)
		got--;
	return got >= 0 && strlen(text) == (size_t)got;
}

/* "dXNlcjpwYXNz" -> "user", "pass". */
static bool read_basic(const char *base64, struct credential *credential)
{
	size_t len = strlen(base64);
	char *text = xcalloc(1, len + 1);
	const char *colon =
		credential_decode(base64, len, text) ? strchr(text, ':') : NULL;

	if (colon) {
		credential->user = xstrndup(text, (size_t)(colon - text));
		credential->secret = xstrdup(colon + 1);
	}
	explicit_bzero(text, len);
	free(text);
	return colon;
}

bool credential_read(const char *authorization, struct credential *credential)
{
	const char *token = behind_scheme(authorization, "Bearer");
	const char *base64 = behind_scheme(authorization, "Basic");

	*credential = (struct credential){ 0 };
	if (base64)
		return read_basic(base64, credential);
	if (!token)
		return false;
	credential->secret = xstrdup(token);
	return true;
}

void credential_clear(struct credential *credential)
{
	if (credential->secret)
		explicit_bzero(credential->secret, strlen(credential->secret));
	free(credential->secret);
	free(credential->user);
	*credential = (struct credential){ 0 };
}

enum { LOG_INTERVAL_MS = 1000 };

struct access {
	pthread_mutex_t mutex;
	struct access_rules *rules; /* guarded by mutex: the pointer */
	int64_t logged_at;          /* guarded by mutex */
	uint64_t unlogged;          /* guarded by mutex; refused since then */
	struct nonces *nonces;      /* kept for the life of the process's access */
};

/* Who it is: one of them. */
struct principal {
	const struct site_key *site;
	const struct token *token;
	const char *user;
};

/* One decision. */
struct decision {
	const struct access_rules *rules;
	const struct access_question *question;
	struct nonces *nonces;
	struct access_answer *answer;
	struct err *err;
};

int access_read(const struct conf *conf, bool is_primary, struct access **access,
		struct err *err)
{
	struct access_rules *rules;

	if (access_rules_read(conf, is_primary, &rules, err))
		return -1;
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
	access_rules_unref(access->rules);
	nonces_free(access->nonces);
	pthread_mutex_destroy(&access->mutex);
	free(access);
}

void access_keep_nonces(struct access *access, const char *directory)
{
	nonces_keep(access->nonces, directory);
}

/* The nonces stay: what was used before is not good again. */
void access_replace(struct access *access, struct access *with)
{
	lock(&access->mutex);
	struct access_rules *old = access->rules;
	access->rules = with->rules;
	unlock(&access->mutex);
	with->rules = old;
	access_free(with);
}

static struct access_rules *take_rules(struct access *access)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&access->mutex);

	return access_rules_ref(access->rules);
}

/* Always false, so that a check can end in it. */
static bool access_refuse(const struct decision *decision, int status, const char *code)
{
	decision->answer->status = status;
	decision->answer->code = code;
	return false;
}

static bool asks_for(const struct access_question *question, const char *service)
{
	return question->needs == WEB_GIT && question->git_service &&
	       strcmp(question->git_service, service) == 0;
}

/* What is not known to read is taken for a push. */
static bool is_push(const struct access_question *question)
{
	return question->needs == WEB_GIT && !asks_for(question, GIT_UPLOAD_PACK);
}

/* Its token proves who asks, and that it is for this request. */
static bool identify_site(const struct decision *decision, const char *site,
			  const char *token, struct principal *principal)
{
	const struct access_question *question = decision->question;
	const struct site_key *key = access_rules_key(decision->rules, site);
	enum token_verdict verdict;

	if (!decision->rules->is_primary) {
		err_set(decision->err, ERR_AUTH,
			"the site that \"%s\" asks is no primary", site);
		err_remedy(decision->err, "see primary.url of site \"%s\"", site);
		return access_refuse(decision, 409, "WRONG_ROLE");
	}
	if (!key) {
		err_set(decision->err, ERR_AUTH,
			"site \"%s\" may not follow this primary", site);
		err_remedy(decision->err,
			   "[secondary \"%s\"] must be in the primary's configuration, "
			   "and be enabled",
			   site);
		return access_refuse(decision, 401, "UNKNOWN_SITE");
	}
	verdict = question->needs == WEB_GIT
			  ? wire_token_check_git(key, token, question->git_service,
						 question->git_repository, decision->err)
			  : nonces_check_request(decision->nonces, key, token,
						 question->request, decision->err);
	principal->site = key;
	return verdict == TOKEN_GOOD ||
	       access_refuse(decision, verdict == TOKEN_TOO_MANY ? 429 : 401,
			     token_verdict_code(verdict));
}

static bool identify_token(const struct decision *decision, const struct token *token,
			   struct principal *principal)
{
	char ended[CLOCK_TEXT_SIZE];

	principal->token = token;
	if (clock_wall_ms() < token->expires_ms)
		return true;
	clock_format(token->expires_ms, ended);
	err_set(decision->err, ERR_AUTH, "this token (%s) was good until %s", token->name,
		ended);
	err_remedy(decision->err, "ask the operator of this site for a new one");
	return access_refuse(decision, 401, "TOKEN_EXPIRED");
}

static bool refuse_user(const struct decision *decision, enum password_verdict verdict)
{
	if (verdict == PASSWORD_LATER)
		return access_refuse(decision, ACCESS_LATER, NULL);
	if (verdict == PASSWORD_TOO_MANY) {
		err_set(decision->err, ERR_AUTH, "too many log in at this moment");
		err_remedy(decision->err, "try again in a moment");
		return access_refuse(decision, 429, "TOO_MANY_LOGINS");
	}
	err_set(decision->err, ERR_AUTH, "this user and password are not known here");
	err_remedy(decision->err, "ask the operator of this site for an entry in "
				  "http.passwordFile, or for a token");
	return access_refuse(decision, 401, "BAD_CREDENTIALS");
}

static bool identify_user(const struct decision *decision,
			  const struct credential *credential,
			  struct principal *principal)
{
	struct password_file *file = decision->rules->passwords;
	enum password_verdict verdict =
		decision->question->is_quick
			? password_file_check_now(file, credential->user,
						  credential->secret)
			: password_file_check(file, decision->question->client,
					      credential->user, credential->secret);

	principal->user = credential->user;
	return verdict == PASSWORD_GOOD || refuse_user(decision, verdict);
}

static bool identify(const struct decision *decision, const struct credential *credential,
		     struct principal *principal)
{
	const char *secret = credential->secret;
	const struct token *token = tokens_find(&decision->rules->tokens, secret);
	char site[SITE_NAME_SIZE];

	*principal = (struct principal){ 0 };
	if (token)
		return identify_token(decision, token, principal);
	if (wire_token_issuer(secret, site))
		return identify_site(decision, site, secret, principal);
	if (credential->user && decision->rules->passwords)
		return identify_user(decision, credential, principal);
	err_set(decision->err, ERR_AUTH, "the token is not known here");
	err_remedy(decision->err, "show a token that the configuration of this site "
				  "names, as http.operatorTokenFile");
	return access_refuse(decision, 401, "BAD_CREDENTIALS");
}

static bool may_use_repository(const struct decision *decision,
			       const struct principal *principal)
{
	const struct access_question *question = decision->question;
	const struct token *token = principal->token;

	if (!is_push(question) &&
	    access_rules_let_read(decision->rules, question->git_repository))
		return true;
	if (principal->site)
		return !is_push(question);
	return !token ||
	       (token->rights >= (is_push(question) ? RIGHTS_PUSH : RIGHTS_READ) &&
		access_rules_token_takes(token, question->git_repository));
}

static bool has_right(const struct decision *decision, const struct principal *principal)
{
	bool is_operator = principal->token && principal->token->rights == RIGHTS_OPERATE;
	bool is_limited = principal->token && principal->token->repositories.count > 0;

	switch (decision->question->needs) {
	case WEB_ANYBODY:
		return true;
	case WEB_READER:
		return !is_limited;
	case WEB_SITE:
		return is_operator || principal->site;
	case WEB_OPERATOR:
	case WEB_PRIMARY_OPERATOR:
		return is_operator;
	case WEB_GIT:
		return may_use_repository(decision, principal);
	case WEB_GIT_LIST:
		return !principal->token || principal->token->rights >= RIGHTS_READ;
	}
	return false;
}

static const char *access_get_principal_name(const struct principal *principal)
{
	if (principal->site)
		return principal->site->site;
	return principal->token ? principal->token->name : principal->user;
}

static bool needs_operator(const struct access_question *question)
{
	return question->needs == WEB_OPERATOR || question->needs == WEB_PRIMARY_OPERATOR;
}

static bool forbid(const struct decision *decision, const struct principal *principal)
{
	const char *name = access_get_principal_name(principal);

	if (needs_operator(decision->question) && principal->site) {
		err_set(decision->err, ERR_AUTH, "this takes an operator, not a site");
		return access_refuse(decision, 403, "OPERATOR_ONLY");
	}
	if (decision->question->needs == WEB_GIT)
		err_set(decision->err, ERR_AUTH, "\"%s\" may not %s this repository",
			name, is_push(decision->question) ? "push to" : "read");
	else
		err_set(decision->err, ERR_AUTH, "\"%s\" is not permitted to do this",
			name);
	err_remedy(decision->err, "ask the operator of this site for the right");
	return access_refuse(decision, 403, "FORBIDDEN");
}

static void report_who(const struct principal *principal, struct access_answer *answer)
{
	answer->may_operate =
		principal->token && principal->token->rights == RIGHTS_OPERATE;
	if (principal->site)
		snprintf(answer->site, sizeof(answer->site), "%s", principal->site->site);
	else
		snprintf(answer->user, sizeof(answer->user), "%s",
			 access_get_principal_name(principal));
}

static bool access_authorize(const struct decision *decision)
{
	AUTO_CREDENTIAL struct credential credential;
	struct principal principal;

	if (!credential_read(decision->question->authorization, &credential)) {
		err_set(decision->err, ERR_AUTH,
			"the header Authorization is not understood: neither Bearer nor "
			"Basic");
		return access_refuse(decision, 401, "BAD_CREDENTIALS");
	}
	if (!identify(decision, &credential, &principal))
		return false;
	if (!has_right(decision, &principal))
		return forbid(decision, &principal);
	report_who(&principal, decision->answer);
	return true;
}

static bool needs_no_credential(const struct decision *decision)
{
	const struct access_question *question = decision->question;

	switch (question->needs) {
	case WEB_ANYBODY:
		return true;
	case WEB_READER:
		return decision->rules->trusts_loopback && question->is_loopback &&
		       !question->is_forwarded;
	case WEB_GIT:
		return !is_push(question) &&
		       access_rules_let_read(decision->rules, question->git_repository);
	case WEB_GIT_LIST:
		return decision->rules->anonymous_read ||
		       decision->rules->anonymous.count > 0;
	default:
		return false;
	}
}

/* Git asks a person for a password when it is told 401; here none would help. */
static bool refuse_all_pushes(const struct decision *decision)
{
	err_set(decision->err, ERR_AUTH, "nobody may push to this site");
	err_remedy(decision->err, "set http.passwordFile, or a [token] with rights = "
				  "push, in its configuration");
	return access_refuse(decision, 403, "NO_PUSHES");
}

static bool ask_for_credential(const struct decision *decision)
{
	const struct access_question *question = decision->question;
	struct err *err = decision->err;

	if (asks_for(question, GIT_RECEIVE_PACK) && !question->is_forwarded_push &&
	    !access_rules_let_push(decision->rules))
		return refuse_all_pushes(decision);
	err_set(err, ERR_AUTH, "this needs a password or a token");
	if (is_push(question))
		err_remedy(err, "send user and password, or a token with the right to "
				"push as password");
	else if (question->needs == WEB_GIT || question->needs == WEB_GIT_LIST)
		err_remedy(err, "send user and password, or a token as password; or set "
				"http.anonymousRead = true to permit anonymous reading");
	else if (question->needs == WEB_SITE)
		err_remedy(err, "sign with the secret of a secondary of this site: "
				"primary.secretFile, or replicate --secret-file");
	else
		err_remedy(err,
			   "send a token as Bearer in the header Authorization: that "
			   "of http.operatorTokenFile (set it if it is missing), or "
			   "one of a [token] section");
	return access_refuse(decision, 401, "NO_CREDENTIALS");
}

static struct metric *access_refusals(void)
{
	return metric_counter("refrelay_http_refused_total",
			      "Requests that were not let in, by reason.", "class");
}

static void count_refused(const char *code)
{
	metric_add(metric_at(access_refusals(), code), 1);
}

/* Who guesses tokens shall not fill the disk. */
void access_log_refused(struct access *access, const struct access_answer *answer,
			const struct err *err)
{
	int64_t now = clock_boot_ms();
	uint64_t unlogged;

	count_refused(answer->code);
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

/* Git asks without a credential first, also where it has one: that is no news, and must
 * not take the place of the line about the credential that follows. */
static void log_refused(struct access *access, const struct access_answer *answer,
			const struct access_question *question, const struct err *err)
{
	if (question->needs != WEB_GIT || question->authorization) {
		access_log_refused(access, answer, err);
		return;
	}
	count_refused(answer->code);
	log_debug("access.asked", LOG_ERR(err), LOG_TEXT("reason", answer->code));
}

void access_begin_metrics(void)
{
	metric_begin(access_refusals(),
		     METRIC_LIST("NO_CREDENTIALS", "BAD_CREDENTIALS", "TOKEN_EXPIRED",
				 "UNKNOWN_SITE", "WRONG_ROLE", "OPERATOR_ONLY",
				 "FORBIDDEN", "NO_PUSHES", "TOO_MANY_LOGINS"),
		     NULL);
	for (int verdict = TOKEN_BAD_SIGNATURE; verdict <= TOKEN_TOO_MANY; verdict++)
		metric_at(access_refusals(),
			  token_verdict_code((enum token_verdict)verdict));
}

/* Whatever is shown: the primary is shown it, too. */
static bool access_is_for_primary(const struct access_question *question)
{
	return question->is_forwarded_push && (question->needs == WEB_PRIMARY_OPERATOR ||
					       asks_for(question, GIT_RECEIVE_PACK));
}

void access_decide(struct access *access, const struct access_question *question,
		   struct access_answer *answer, struct err *err)
{
	AUTO_ACCESS_RULES struct access_rules *rules = take_rules(access);
	const struct decision decision = { rules, question, access->nonces, answer, err };
	bool is_let_in;

	*answer = (struct access_answer){ 0 };
	if (question->needs == WEB_ANYBODY)
		return;
	if (!question->authorization)
		is_let_in =
			needs_no_credential(&decision) || ask_for_credential(&decision);
	else
		is_let_in =
			access_is_for_primary(question) || access_authorize(&decision);
	if (is_let_in || answer->status == ACCESS_LATER)
		return;
	log_refused(access, answer, question, err);
}

/* By the name that report_who() gave; a token that is no more takes nothing. */
static bool access_rules_user_takes(const struct access_rules *rules, const char *user,
				    const char *name)
{
	for (size_t i = 0; i < rules->tokens.list.count; i++)
		if (strcmp(rules->tokens.list.items[i].name, user) == 0)
			return access_rules_token_takes(&rules->tokens.list.items[i],
							name);
	return !text_starts_with(user, "token ");
}

bool access_may_read(struct access *access, const struct web_request *request,
		     const char *name)
{
	AUTO_ACCESS_RULES struct access_rules *rules = take_rules(access);

	if (access_rules_let_read(rules, name) || request->site[0])
		return true;
	return request->user[0] && access_rules_user_takes(rules, request->user, name);
}
