#include "alert/settings.h"

#include <ctype.h>
#include <limits.h>
#include <strings.h>

#include "mirror/then.h"
#include "mirror/upstream.h"
#include "net/http.h"
#include "net/mail.h"

#define NAME_LONGEST 64
#define DISK_LEAST ((uint64_t)1 << 20)

static const char *const kind_words[ALERT_KINDS + 1] = {
	"lag",    "failures", "held",  "damage", "disk",
	"expiry", "silence",  "hooks", "leases", "storage",
};

const char *alert_kind_name(enum alert_kind kind)
{
	return kind_words[kind];
}

int alert_kind_of_name(const char *name)
{
	for (int kind = 0; kind < ALERT_KINDS; kind++)
		if (strcmp(kind_words[kind], name) == 0)
			return kind;
	return -1;
}

/* A bit more for each entry. */
static int alert_read_kind(const struct setting *row, const struct conf_entry *entry,
			   void *target, struct err *err)
{
	unsigned *kinds = setting_field(row, target);
	size_t kind = 0;

	if (conf_read_choice(entry, kind_words, &kind, err) != 0)
		return -1;
	*kinds |= 1u << kind;
	return 0;
}

/* "5%" of the file system, or so many bytes: few are a share without its sign. */
static int alert_read_disk(const struct setting *row, const struct conf_entry *entry,
			   void *target, struct err *err)
{
	struct alert *alert = target;

	(void)row;
	alert->disk_share = 0;
	alert->disk_bytes = 0;
	if (entry->value && strchr(entry->value, '%'))
		return conf_read_share(entry, &alert->disk_share, err);
	if (conf_read_size(entry, &alert->disk_bytes, err) != 0)
		return -1;
	if (alert->disk_bytes == 0 || alert->disk_bytes >= DISK_LEAST)
		return 0;
	conf_error(entry, err, "\"%.20s\" is less than a megabyte", entry->value);
	return err_remedy(err, "write 10%% or 20g, for example; 0: do not report it");
}

#define ALERT(kind, member) SETTING_AT(kind, struct alert, member)

static const struct setting alert_rows[] = {
	{ "url", ALERT(TEXT, url) },
	{ "format", ALERT(CHOICE, format), "json",
	  .words = (const char *const[]){ "json", "slack", NULL } },
	{ "secretFile", ALERT(PATH, secret_file) },
	{ "caFile", ALERT(PATH, ca_file) },
	{ "command", ALERT(TEXT, command) },
	{ "mail", .type = SETTING_OWN, .offset = offsetof(struct alert, mail),
	  .read = setting_add_text, .is_repeated = true },
	{ "smtp", ALERT(TEXT, smtp), "smtp://127.0.0.1" },
	{ "from", ALERT(TEXT, from) },
	{ "userName", ALERT(TEXT, user_name) },
	{ "passwordFile", ALERT(PATH, password_file) },
	{ "kind", .type = SETTING_OWN, .offset = offsetof(struct alert, kinds),
	  .read = alert_read_kind, .is_repeated = true },
	{ "lag", ALERT(DURATION, lag_ms), "10m", .min = CONF_SECOND },
	{ "failures", ALERT(DURATION, failures_ms), "1h", .min = CONF_SECOND },
	{ "silence", ALERT(DURATION, silence_ms), "5m", .min = CONF_SECOND },
	{ "expiry", ALERT(DURATION, expiry_ms), "14d", .unit = CONF_DAY,
	  .min = CONF_HOUR },
	{ "disk", .type = SETTING_OWN, .initial = "5%", .read = alert_read_disk },
	{ "settle", ALERT(DURATION, settle_ms), "1m", .min = CONF_SECOND },
	{ "repeat", ALERT(DURATION, repeat_ms), "1d" },
	{ "heartbeat", ALERT(TEXT, heartbeat) },
	{ "heartbeatInterval", ALERT(DURATION, heartbeat_ms), "1m", .min = CONF_SECOND },
	{ 0 },
};

const struct setting_table alert_settings_table = {
	.section = "alert", .rows = alert_rows, .has_subsection = true, .needs_keys = true
};

static void alert_free(struct alert *alert)
{
	settings_clear(&alert_settings_table, alert);
	text_list_clear(&alert->mail);
	free(alert->name);
	free(alert);
}

void alerts_clear(struct alerts *alerts)
{
	for (size_t i = 0; i < alerts->list.count; i++)
		alert_free(alerts->list.items[i]);
	vec_clear(&alerts->list);
}

static const struct conf_entry *alert_entry(const struct conf *conf,
					    const struct alert *alert, const char *key)
{
	return conf_get(conf, "alert", alert->name, key);
}

/* It goes into the head of a mail. */
static int alert_check_name(const char *name, struct err *err)
{
	const size_t len = strlen(name);
	bool is_good = len > 0 && len <= NAME_LONGEST && text_is_utf8(name, len);

	for (size_t i = 0; i < len; i++)
		is_good = is_good && !iscntrl((unsigned char)name[i]);
	if (is_good)
		return 0;
	err_set(err, ERR_CONFIG,
		"the name of an [alert] must have 1 to %d bytes without control "
		"characters",
		NAME_LONGEST);
	return err_remedy(err, "give the section another name");
}

static int alert_check_url(const struct conf_entry *entry, const char *url,
			   struct err *err)
{
	const char *why = url ? http_check_url(url, true, NULL) : NULL;

	if (!why)
		return 0;
	conf_error(entry, err, "%s", why);
	return err_remedy(err, "set it to a URL such as https://alerts.example.com/hook");
}

static int alert_check_command(const struct conf_entry *entry, const char *command,
			       struct err *err)
{
	AUTO_TEXT_LIST text_list words = { 0 };

	if (!command || then_split(command, &words, err) == 0)
		return 0;
	return conf_prefix(entry, err);
}

static int alert_check_address(const struct conf_entry *entry, const char *address,
			       struct err *err)
{
	if (mail_is_address(address))
		return 0;
	conf_error(entry, err, "\"%.80s\" is not a mail address", address);
	return err_remedy(err, "write it as NAME@HOST");
}

static int alert_check_mail(const struct conf *conf, const struct alert *alert,
			    struct err *err)
{
	const struct conf_entry *entry = alert_entry(conf, alert, "mail");
	const char *why = mail_check_server(alert->smtp);

	for (size_t i = 0; i < alert->mail.count; i++)
		if (alert_check_address(entry, alert->mail.items[i], err) != 0)
			return -1;
	if (alert->from &&
	    alert_check_address(alert_entry(conf, alert, "from"), alert->from, err) != 0)
		return -1;
	if (why) {
		conf_error(alert_entry(conf, alert, "smtp"), err, "%s", why);
		return err_remedy(err, "set it to a URL such as "
				       "smtps://mail.example.com:465");
	}
	if (!alert->user_name == !alert->password_file)
		return 0;
	conf_error(
		alert_entry(conf, alert, alert->user_name ? "userName" : "passwordFile"),
		err, "userName and passwordFile need each other");
	return err_remedy(err, "set both, or take out both");
}

/* Keys that only one way to send takes. */
static int alert_check_stray(const struct conf *conf, const struct alert *alert,
			     struct err *err)
{
	const struct {
		const char *key, *way;
		bool is_used;
	} keys[] = {
		{ "secretFile", "url", alert->url },
		{ "format", "url", alert->url },
		{ "smtp", "mail", alert->mail.count > 0 },
		{ "from", "mail", alert->mail.count > 0 },
		{ "userName", "mail", alert->mail.count > 0 },
		{ "passwordFile", "mail", alert->mail.count > 0 },
		{ "heartbeatInterval", "heartbeat", alert->heartbeat },
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct conf_entry *entry = alert_entry(conf, alert, keys[i].key);
		if (!entry || keys[i].is_used)
			continue;
		conf_error(entry, err, "it has an effect only with %s", keys[i].way);
		return err_remedy(err, "set %s in this section, or take out %s",
				  keys[i].way, keys[i].key);
	}
	return 0;
}

static int alert_check_ways(const struct alert *alert, struct err *err)
{
	const int ways =
		(alert->url != NULL) + (alert->command != NULL) + (alert->mail.count > 0);

	if (ways == 1 || (ways == 0 && alert->heartbeat))
		return 0;
	err_set(err, ERR_CONFIG,
		ways == 0 ? "alert.%s sends no messages"
			  : "alert.%s has more than one way to send",
		alert->name);
	return err_remedy(err, ways == 0 ? "set url, command, mail or heartbeat in that "
					   "section"
					 : "set one of url, command and mail; give each "
					   "other one a section [alert] of its own");
}

static int alert_read(const struct conf *conf, struct alert *alert, struct err *err)
{
	if (alert_check_name(alert->name, err) != 0 ||
	    settings_read(&alert_settings_table, conf, alert->name, alert, err) != 0)
		return -1;
	if (alert->kinds == 0)
		alert->kinds = (1u << ALERT_KINDS) - 1;
	if (alert_check_ways(alert, err) != 0 ||
	    alert_check_stray(conf, alert, err) != 0 ||
	    alert_check_url(alert_entry(conf, alert, "url"), alert->url, err) != 0 ||
	    alert_check_url(alert_entry(conf, alert, "heartbeat"), alert->heartbeat,
			    err) != 0 ||
	    alert_check_command(alert_entry(conf, alert, "command"), alert->command,
				err) != 0)
		return -1;
	return alert->mail.count > 0 ? alert_check_mail(conf, alert, err) : 0;
}

int alerts_read(const struct conf *conf, struct alerts *alerts, struct err *err)
{
	struct conf_names names = { 0 };
	int result = 0;

	*alerts = (struct alerts){ 0 };
	conf_subsections(conf, "alert", &names);
	for (size_t i = 0; i < names.count && result == 0; i++) {
		struct alert *alert = xcalloc(1, sizeof(*alert));
		alert->name = xstrdup(names.items[i]);
		vec_add(&alerts->list, alert);
		result = alert_read(conf, alert, err);
	}
	vec_clear(&names);
	return result;
}

const struct alert *alerts_find(const struct alerts *alerts, const char *name)
{
	for (size_t i = 0; i < alerts->list.count; i++)
		if (strcmp(alerts->list.items[i]->name, name) == 0)
			return alerts->list.items[i];
	return NULL;
}

const char *alert_way(const struct alert *alert)
{
	return alert->url              ? "url"
	       : alert->command        ? "command"
	       : alert->mail.count > 0 ? "mail"
				       : "none";
}

/* What a URL has behind the host is the secret of most services. */
void alert_target(const struct alert *alert, struct str *out)
{
	AUTO_TEXT_LIST text_list words = { 0 };

	if (alert->url)
		http_check_url(alert->url, true, out);
	else if (alert->command && then_split(alert->command, &words, ERR_IGNORED) == 0)
		str_add(out, words.items[0]);
	for (size_t i = 0; i < alert->mail.count; i++)
		str_addf(out, "%s%s", i > 0 ? ", " : "", alert->mail.items[i]);
}

static int alert_check_file(const char *path, struct err *err)
{
	struct str secret = STR_INIT;
	int result = path ? upstream_read_secret(path, &secret, err) : 0;

	str_wipe(&secret);
	return result;
}

int alert_check(const struct alert *alert, struct err *err)
{
	AUTO_TEXT_LIST text_list words = { 0 };

	if (alert_check_file(alert->secret_file, err) != 0 ||
	    alert_check_file(alert->password_file, err) != 0)
		return err_prefix(err, "alert %s", alert->name);
	if (alert->ca_file && access(alert->ca_file, R_OK) != 0)
		return err_errno(err, "alert %s cannot read %s", alert->name,
				 alert->ca_file);
	if (!alert->command)
		return 0;
	if (then_split(alert->command, &words, err) != 0)
		return -1;
	return access(words.items[0], X_OK) == 0
		       ? 0
		       : err_errno(err, "alert %s cannot run %s", alert->name,
				   words.items[0]);
}
