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

static int read_anonymous(const struct conf *conf, struct access_rules *rules,
			  struct err *err)
{
	const struct conf_list *all =
		conf_get_all(conf, "http", NULL, "anonymousRepository");

	for (size_t i = 0; i < all->count; i++)
		if (tokens_read_pattern(all->items[i], &rules->anonymous, err))
			return -1;
	return conf_read_bool(conf_get(conf, "http", NULL, "anonymousRead"),
			      &rules->anonymous_read, err);
}

static int read_passwords(const struct conf *conf, struct access_rules *rules,
			  struct err *err)
{
	const struct conf_entry *entry = conf_get(conf, "http", NULL, "passwordFile");
	const char *path = NULL;

	if (conf_read_text(entry, &path, err))
		return -1;
	if (path && password_file_open(path, &rules->passwords, err)) {
		err->class = ERR_CONFIG;
		return tokens_entry_failed(entry, err);
	}
	return 0;
}

static int read_http(const struct conf *conf, struct access_rules *rules, struct err *err)
{
	const char *url = NULL;

	if (conf_read_text(conf_get(conf, "http", NULL, "url"), &url, err))
		return -1;
	/* With a URL there may be a server in front, whose requests all come from
	 * loopback. */
	rules->trusts_loopback = !url;
	return read_anonymous(conf, rules, err) ||
			       tokens_read(conf, &rules->tokens, err) ||
			       read_passwords(conf, rules, err)
		       ? -1
		       : 0;
}

static int access_rules_read_site(const struct conf *conf, const char *site,
				  struct access_rules *rules, struct err *err)
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
		return tokens_entry_failed(file, err);
	vec_add(&rules->keys, key);
	return 0;
}

static int access_rules_read_all(const struct conf *conf, struct access_rules *rules,
				 struct err *err)
{
	struct conf_names sites = { 0 };
	int result = read_http(conf, rules, err);

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
