#include "web/access_rules.h"

#include "base/clock.h"
#include "replicable/name.h"

static void rules_free(struct access_rules *rules)
{
	for (size_t i = 0; i < rules->keys.count; i++)
		site_key_clear(&rules->keys.items[i]);
	vec_clear(&rules->keys);
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
	{ 0 },
};

const struct setting_table access_settings_table = { .section = "http",
						     .rows = access_rows };
const struct setting_table secondary_settings_table = { .section = "secondary",
							.rows = secondary_rows,
							.has_subsection = true };

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
	struct secondary_settings settings = { 0 };
	int result = settings_read(&secondary_settings_table, conf, site, &settings, err);

	if (result == 0 && settings.is_enabled)
		result = access_rules_add_key(conf, site, settings.secret_file, rules,
					      err);
	settings_clear(&secondary_settings_table, &settings);
	return result;
}

static int access_rules_read_all(const struct conf *conf, struct access_rules *rules,
				 struct err *err)
{
	struct conf_names sites = { 0 };
	int result = settings_read(&access_settings_table, conf, NULL, rules, err);

	/* With a URL there may be a server in front, whose requests all come from
	 * loopback. */
	rules->trusts_loopback = !conf_get(conf, "http", NULL, "url");
	if (result == 0)
		result = tokens_read(conf, &rules->tokens, err);
	conf_subsections(conf, "secondary", &sites);
	for (size_t i = 0; i < sites.count && result == 0; i++)
		result = access_rules_read_site(conf, sites.items[i], rules, err);
	vec_clear(&sites);
	return result;
}

int access_rules_read(const struct conf *conf, struct access_rules **rules,
		      struct err *err)
{
	struct access_rules *new = xcalloc(1, sizeof(*new));

	new->users = 1;
	if (access_rules_read_all(conf, new, err)) {
		rules_free(new);
		return -1;
	}
	*rules = new;
	return 0;
}

struct access_rules *access_rules_ref(struct access_rules *rules)
{
	atomic_fetch_add(&rules->users, 1);
	return rules;
}

void access_rules_unref(struct access_rules *rules)
{
	if (atomic_fetch_sub(&rules->users, 1) == 1)
		rules_free(rules);
}

void access_rules_release(struct access_rules *const *rules)
{
	access_rules_unref(*rules);
}

const struct site_key *access_rules_key(const struct access_rules *rules,
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

bool access_rules_let_read(const struct access_rules *rules, const char *name)
{
	return rules->anonymous_read || access_rules_match_name(&rules->anonymous, name);
}

/* Users come and go with their lines in the password file, which is looked at only when
 * somebody shows a password: so the file counts even if nobody was in it. */
bool access_rules_let_push(const struct access_rules *rules)
{
	int64_t now = clock_wall_ms();

	for (size_t i = 0; i < rules->tokens.list.count; i++) {
		const struct token *token = &rules->tokens.list.items[i];
		if (token->rights >= RIGHTS_PUSH && now < token->expires_ms)
			return true;
	}
	return rules->passwords != NULL;
}

bool access_rules_token_takes(const struct token *token, const char *name)
{
	return token->repositories.count == 0 ||
	       access_rules_match_name(&token->repositories, name);
}
