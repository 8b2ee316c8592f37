#include "base/log.h"

#include <stdatomic.h>
#include <strings.h>

#include "base/clock.h"

static atomic_int threshold = LOG_LEVEL_INFO;
static _Thread_local struct log_context context;

static const char *const level_names[] = { "debug", "info", "warn", "error" };
static const char *const first[] = { "dur_ms", "bytes", "err", "code" };

void log_set_level(enum log_level level)
{
	atomic_store(&threshold, (int)level);
}

bool log_is_on(enum log_level level)
{
	return (int)level >= atomic_load_explicit(&threshold, memory_order_relaxed);
}

struct log_context log_set_context(struct log_context next)
{
	struct log_context before = context;

	context = next;
	return before;
}

/*
 * Redaction looks for the places where secrets stand: userinfo in URLs, values behind
 * certain names, and words that begin like known tokens. When in doubt it masks a word
 * more, but never the rest of the line.
 */

static bool log_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_word_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
}

/* What ends an unquoted secret behind a name. */
static bool ends_secret(char c)
{
	return c == '\0' || strchr(" \t\"'&\n\r<>);,", c) != NULL;
}

static size_t word_length(const char *text)
{
	size_t len = 0;

	while (!ends_secret(text[len]))
		len++;
	return len;
}

/* The length of one secret word, or of a text in quotes without the second quote. A
 * quote that is not closed belongs to what is around, and hides one word only. */
static size_t secret_length(const char *text)
{
	size_t len = 1;

	if (*text != '"' && *text != '\'')
		return word_length(text);
	while (text[len] && text[len] != *text)
		len += text[len] == '\\' && text[len + 1] ? 2 : 1;
	return text[len] ? len : 1 + word_length(text + 1);
}

/* The length of the userinfo and its '@' behind "://", or 0. RFC 3986 lets userinfo
 * contain ! $ & ' ( ) * + , ; = as they are. A slash ends it, but people forget to
 * write %2f: what stands behind a colon and is no port is a password, too. */
static size_t userinfo_length(const char *text)
{
	size_t authority = strcspn(text, "/ \t\r\n\"<>");
	size_t all = strcspn(text, " \t\r\n\"<>");
	const char *colon = memchr(text, ':', authority);
	const char *at = memrchr(text, '@', authority);

	if (!at && colon && *text != '[') {
		size_t port = strspn(colon + 1, "0123456789");
		if (colon + 1 + port < text + authority)
			at = memrchr(text, '@', all);
	}
	return at ? (size_t)(at - text) + 1 : 0;
}

enum { NAMED_PLAIN, NAMED_SCHEME, NAMED_COOKIE };

struct secret_name {
	const char *name;
	int kind; /* of the value: NAMED_... */
};

/* The header, parameter or JSON member at text whose value is secret, or NULL. */
static const struct secret_name *find_secret_name(const char *text)
{
	static const struct secret_name names[] = {
		{ "authorization:", NAMED_SCHEME }, { "authorization\":", NAMED_SCHEME },
		{ "-token:", NAMED_PLAIN }, /* Private-Token, Job-Token, X-Gitlab-Token */
		{ "api-key:", NAMED_PLAIN },        { "cookie:", NAMED_COOKIE },
		{ "token=", NAMED_PLAIN },          { "token\":", NAMED_PLAIN },
		{ "password=", NAMED_PLAIN },       { "password\":", NAMED_PLAIN },
		{ "passwd=", NAMED_PLAIN },         { "secret=", NAMED_PLAIN },
		{ "secret\":", NAMED_PLAIN },       { "api_key=", NAMED_PLAIN },
		{ "apikey=", NAMED_PLAIN },
	};

	if (!strchr("-aAcCpPsStT", *text)) /* their first letters */
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strncasecmp(text, names[i].name, strlen(names[i].name)) == 0)
			return &names[i];
	return NULL;
}

/* The length of "Bearer " and its like, or 0. */
static size_t scheme_length(const char *text)
{
	static const char *const schemes[] = { "basic",     "bearer", "token", "digest",
					       "negotiate", "ntlm",   "apikey" };

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		size_t len = strlen(schemes[i]);
		if (strncasecmp(text, schemes[i], len) == 0 && log_is_blank(text[len]))
			return len + strspn(text + len, " \t");
	}
	return 0;
}

/* "a=b; c=d": as long as a semicolon is followed by another pair. */
static size_t cookie_length(const char *text)
{
	size_t len = secret_length(text);

	while (text[len] == ';') {
		size_t next = len + 1 + strspn(text + len + 1, " \t");
		size_t pair = secret_length(text + next);
		if (!memchr(text + next, '=', pair))
			break;
		len = next + pair;
	}
	return len;
}

/* Behind a secret's name: blanks, then what must not be seen. */
static size_t secret_value_length(const char *text, int kind)
{
	size_t blanks = strspn(text, " \t");

	text += blanks;
	if (kind == NAMED_COOKIE)
		return blanks + cookie_length(text);
	if (kind == NAMED_SCHEME) {
		size_t scheme = scheme_length(text);
		return blanks + scheme + secret_length(text + scheme);
	}
	return blanks + secret_length(text);
}

/* The length of a token that is known by its first letters, or 0. */
static size_t token_length(const char *text, bool begins_word)
{
	static const char *const marks[] = { "ghp_",   "gho_",        "ghu_",   "ghs_",
					     "ghr_",   "github_pat_", "glpat-", "gldt-",
					     "glptt-", "glrt-",       "glcbt-", "glsoat-",
					     "glft-",  "eyJ" };
	size_t mark = 0;

	if (*text != 'g' && *text != 'e')
		return 0;
	while (mark < ARRAY_SIZE(marks) && !text_starts_with(text, marks[mark]))
		mark++;
	if (mark == ARRAY_SIZE(marks) || (*text == 'e' && !begins_word))
		return 0; /* "eyJ", the start of a JWT, may be inside a word */

	size_t len = 0;
	while (is_word_char(text[len]) ||
	       (text[len] == '.' && is_word_char(text[len + 1])))
		len++;
	return len;
}

/* Copies or masks what stands at text, at least a character; returns how much. */
static size_t redact_step(const char *text, bool begins_word, struct str *out)
{
	const struct secret_name *named = find_secret_name(text);
	size_t token = token_length(text, begins_word);

	if (named) {
		size_t len = strlen(named->name);
		str_add_bytes(out, text, len);
		str_add(out, "***");
		return len + secret_value_length(text + len, named->kind);
	}
	if (text_starts_with(text, "://")) {
		size_t userinfo = userinfo_length(text + 3);
		str_add(out, userinfo > 0 ? "://***@" : "://");
		return 3 + userinfo;
	}
	if (token > 0)
		str_add(out, "***");
	else
		str_add_char(out, *text);
	return token > 0 ? token : 1;
}

void log_redact(const char *text, struct str *out)
{
	bool begins_word = true;

	while (*text) {
		text += redact_step(text, begins_word, out);
		begins_word = !is_word_char(text[-1]);
	}
}

/* Names of files and of refs may hold any bytes; a line of the log is UTF-8. */
static void escape(const struct str *text, struct str *out)
{
	const char *at = text->data;
	size_t left = text->len, step;

	for (; left > 0; at += step, left -= step) {
		step = 1;
		if (*at == '"' || *at == '\\')
			str_addf(out, "\\%c", *at);
		else if (*at == '\n')
			str_add(out, "\\n");
		else
			step = str_add_printable_step(out, at, left);
	}
}

static void log_add_text(struct str *line, const char *name, const char *value)
{
	AUTO_STR struct str clean = STR_INIT;
	AUTO_STR struct str escaped = STR_INIT;

	log_redact(value, &clean);
	escape(&clean, &escaped);
	bool is_plain =
		clean.len > 0 && escaped.len == clean.len && !strpbrk(clean.data, " =");
	str_addf(line, is_plain ? " %s=%s" : " %s=\"%s\"", name, escaped.data);
}

static void add_field(struct str *line, const struct log_field *field)
{
	if (field->text)
		log_add_text(line, field->name, field->text);
	else
		str_addf(line, " %s=%" PRId64, field->name, field->number);
}

static bool is_first(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(first); i++)
		if (strcmp(name, first[i]) == 0)
			return true;
	return false;
}

static void add_fields(struct str *line, const struct log_field *fields)
{
	for (size_t i = 0; i < ARRAY_SIZE(first); i++)
		for (const struct log_field *field = fields; field->name; field++)
			if (strcmp(field->name, first[i]) == 0)
				add_field(line, field);
	for (const struct log_field *field = fields; field->name; field++)
		if (!is_first(field->name))
			add_field(line, field);
}

void log_write(enum log_level level, const char *ev, const struct log_field *fields)
{
	const struct {
		const char *name, *text;
	} attached[] = {
		{ "site", context.site }, { "job", context.job },
		{ "repo", context.repo }, { "ref", context.ref },
		{ "peer", context.peer }, { "job_id", context.job_id },
	};
	AUTO_STR struct str line = STR_INIT;
	char ts[CLOCK_TEXT_SIZE];
	int saved = errno;

	if (!log_is_on(level))
		return;
	clock_format(clock_wall_ms(), ts);
	str_addf(&line, "ts=%s level=%s ev=%s", ts, level_names[level], ev);
	for (size_t i = 0; i < ARRAY_SIZE(attached); i++)
		if (attached[i].text)
			log_add_text(&line, attached[i].name, attached[i].text);
	add_fields(&line, fields);
	str_add_char(&line, '\n');
	ssize_t ignored = write(STDERR_FILENO, line.data, line.len); /* one piece */
	(void)ignored;
	errno = saved;
}
