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

struct log_context log_set_context(struct log_context next)
{
	struct log_context before = context;

	context = next;
	return before;
}

/* What ends a token in a URL or a header. */
static bool ends_secret(char c)
{
	return c == '\0' || c == ' ' || c == '\t' || c == '"' || c == '\'' || c == '&' ||
	       c == '\n' || c == '\r' || c == '<' || c == '>' || c == ')' || c == ';' ||
	       c == ',';
}

static size_t secret_length(const char *text)
{
	size_t len = 0;

	while (!ends_secret(text[len]))
		len++;
	return len;
}

/* The length of the userinfo and its '@' behind "://", or 0. */
static size_t userinfo_length(const char *text)
{
	size_t last = 0;

	for (size_t i = 0; !ends_secret(text[i]) && text[i] != '/'; i++)
		if (text[i] == '@')
			last = i + 1;
	return last;
}

/* The length of a header's or parameter's name at text whose value is secret, or 0. */
static size_t secret_name_length(const char *text)
{
	static const char *const secret[] = {
		"authorization:", "proxy-authorization:", "private-token:", "job-token:",
		"cookie:",        "private_token=",       "access_token=",  "password=",
		"token=",
	};

	for (size_t i = 0; i < ARRAY_SIZE(secret); i++)
		if (strncasecmp(text, secret[i], strlen(secret[i])) == 0)
			return strlen(secret[i]);
	return 0;
}

static bool is_token(const char *text)
{
	static const char *const marks[] = { "ghp_", "gho_",        "ghu_",  "ghs_",
					     "ghr_", "github_pat_", "glpat-" };

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (text_starts_with(text, marks[i]))
			return true;
	return false;
}

/* Behind a header's name: blanks, then one or two words ("Bearer ..."). */
static size_t secret_value_length(const char *text)
{
	size_t len = strspn(text, " \t");
	size_t word = secret_length(text + len);

	if (word > 0 && text[len + word] == ' ' &&
	    (strncasecmp(text + len, "basic", word) == 0 ||
	     strncasecmp(text + len, "bearer", word) == 0)) {
		len += word + 1;
		word = secret_length(text + len);
	}
	return len + word;
}

void log_redact(const char *text, struct str *out)
{
	while (*text) {
		size_t name = secret_name_length(text), skip;
		if (name > 0) {
			str_add_bytes(out, text, name);
			str_add(out, "***");
			text += name + secret_value_length(text + name);
		} else if (text_starts_with(text, "://")) {
			str_add(out, "://");
			text += 3;
			skip = userinfo_length(text);
			if (skip > 0)
				str_add(out, "***@");
			text += skip;
		} else if (is_token(text)) {
			str_add(out, "***");
			text += secret_length(text);
		} else {
			str_add_char(out, *text++);
		}
	}
}

static bool needs_quotes(const char *text)
{
	if (!*text)
		return true;
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || *text == '"' || *text == '=' ||
		    *text == '\\' || *text == 0x7f)
			return true;
	return false;
}

static void add_text(struct str *line, const char *name, const char *value)
{
	AUTO_STR struct str clean = STR_INIT;

	log_redact(value, &clean);
	str_addf(line, " %s=", name);
	if (!needs_quotes(clean.data)) {
		str_add_bytes(line, clean.data, clean.len);
		return;
	}
	str_add_char(line, '"');
	for (size_t i = 0; i < clean.len; i++) {
		unsigned char c = (unsigned char)clean.data[i];
		if (c == '"' || c == '\\')
			str_addf(line, "\\%c", c);
		else if (c == '\n')
			str_add(line, "\\n");
		else if (c < ' ' || c == 0x7f)
			str_addf(line, "\\x%02x", c);
		else
			str_add_char(line, (char)c);
	}
	str_add_char(line, '"');
}

static void add_field(struct str *line, const struct log_field *field)
{
	if (field->text)
		add_text(line, field->name, field->text);
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
		{ "peer", context.peer },
	};
	AUTO_STR struct str line = STR_INIT;
	char ts[CLOCK_TEXT_SIZE];

	if ((int)level < atomic_load(&threshold))
		return;
	clock_format(clock_wall_ms(), ts);
	str_addf(&line, "ts=%s level=%s ev=%s", ts, level_names[level], ev);
	for (size_t i = 0; i < ARRAY_SIZE(attached); i++)
		if (attached[i].text)
			add_text(&line, attached[i].name, attached[i].text);
	add_fields(&line, fields);
	str_add_char(&line, '\n');
	ssize_t ignored = write(STDERR_FILENO, line.data, line.len); /* one piece */
	(void)ignored;
}
