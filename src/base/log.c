#include "base/log.h"

#include <ctype.h>
#include <stdatomic.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/vec.h"

static atomic_int threshold = LOG_LEVEL_INFO;
static _Thread_local struct log_context context;

static const char *const level_names[] = { "debug", "info", "warn", "error" };
static const int priorities[] = { 7, 6, 4, 3 }; /* of syslog(3) */
static const char *const first[] = { "dur_ms", "bytes", "err", "code" };

typedef VEC(struct log_field) log_fields; /* borrowed */

static atomic_int chosen = LOG_FORMAT_TEXT;
static atomic_bool shows_priority;
static atomic_int journal_fd = -1; /* once opened, for the life of the process */
static const char *journal = "/run/systemd/journal/socket";

/* JOURNAL_STREAM is "DEVICE:INODE" of the stream that systemd(1) connected to the
 * journal; stderr may be another one by now. */
static bool is_stderr_the_journals(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	struct stat st;
	char own[64];

	if (!stream || fstat(STDERR_FILENO, &st) != 0)
		return false;
	snprintf(own, sizeof(own), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return strcmp(own, stream) == 0;
}

void log_set_format(enum log_format format)
{
	atomic_store(&shows_priority, is_stderr_the_journals());
	atomic_store(&chosen, (int)format);
}

void log_set_journal(const char *path)
{
	journal = path;
}

/* -1: there can be none. Threads that meet here open two, and one is closed. */
static int journal_socket(void)
{
	int fd = atomic_load(&journal_fd), none = -1;

	if (fd >= 0)
		return fd;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || atomic_compare_exchange_strong(&journal_fd, &none, fd))
		return fd;
	close(fd);
	return none;
}

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

enum { ATTACHED = 6 };

/* What this thread works on, as fields; ends with a name of NULL. */
static void list_attached(struct log_field attached[ATTACHED + 1])
{
	const struct log_field all[ATTACHED] = {
		{ "site", context.site, 0 }, { "job", context.job, 0 },
		{ "repo", context.repo, 0 }, { "ref", context.ref, 0 },
		{ "peer", context.peer, 0 }, { "job_id", context.job_id, 0 },
	};
	size_t count = 0;

	for (size_t i = 0; i < ATTACHED; i++)
		if (all[i].text)
			attached[count++] = all[i];
	attached[count] = (struct log_field){ 0 };
}

static void add_logfmt(struct str *line, const struct log_field *fields)
{
	struct log_field attached[ATTACHED + 1];

	list_attached(attached);
	for (const struct log_field *field = attached; field->name; field++)
		log_add_text(line, field->name, field->text);
	add_fields(line, fields);
}

/*
 * JSON: bytes that are no UTF-8 are written as \xff, as in logfmt.
 */

/* A character of more than one byte, or one byte that is none; returns how long it is. */
static size_t add_json_wide(struct str *line, const char *at, size_t left)
{
	size_t before = line->len;
	size_t step = str_add_printable_step(line, at, left);

	if (line->data[before] == '\\') { /* "\xff" */
		AUTO_FREE char *shown = xstrdup(line->data + before);
		str_truncate(line, before);
		for (const char *c = shown; *c; c++)
			str_addf(line, *c == '\\' ? "\\%c" : "%c", *c);
	}
	return step;
}

static void add_json_text(struct str *line, const char *value)
{
	AUTO_STR struct str clean = STR_INIT;
	size_t step;

	log_redact(value, &clean);
	str_add_char(line, '"');
	for (size_t at = 0; at < clean.len; at += step) {
		unsigned char c = (unsigned char)clean.data[at];
		step = 1;
		if (c == '"' || c == '\\')
			str_addf(line, "\\%c", c);
		else if (c < ' ' || c == 0x7f)
			str_addf(line, "\\u%04x", c);
		else if (c < 0x80)
			str_add_char(line, (char)c);
		else
			step = add_json_wide(line, clean.data + at, clean.len - at);
	}
	str_add_char(line, '"');
}

static void add_json_field(struct str *line, const struct log_field *field)
{
	str_addf(line, ",\"%s\":", field->name);
	if (field->text)
		add_json_text(line, field->text);
	else
		str_addf(line, "%" PRId64, field->number);
}

static bool log_has_field(const struct log_field *fields, const char *name)
{
	for (; fields->name; fields++)
		if (strcmp(fields->name, name) == 0)
			return true;
	return false;
}

static void add_once(log_fields *list, const struct log_field *field)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->items[i].name, field->name) == 0)
			return;
	vec_add(list, *field);
}

/* Each name once: a field says it rather than what is attached, and the first of two. */
static void list_fields(const struct log_field *fields, log_fields *list)
{
	struct log_field attached[ATTACHED + 1];

	list_attached(attached);
	for (const struct log_field *field = attached; field->name; field++)
		if (!log_has_field(fields, field->name))
			vec_add(list, *field);
	for (size_t i = 0; i < ARRAY_SIZE(first); i++)
		for (const struct log_field *field = fields; field->name; field++)
			if (strcmp(field->name, first[i]) == 0)
				add_once(list, field);
	for (const struct log_field *field = fields; field->name; field++)
		add_once(list, field);
}

static void write_json(struct str *line, const char *ts, enum log_level level,
		       const char *ev, const struct log_field *fields)
{
	log_fields list = { 0 };

	list_fields(fields, &list);
	str_addf(line, "{\"ts\":\"%s\",\"level\":\"%s\",\"ev\":\"%s\"", ts,
		 level_names[level], ev);
	for (size_t i = 0; i < list.count; i++)
		add_json_field(line, &list.items[i]);
	str_add_char(line, '}');
	vec_clear(&list);
}

/*
 * The journal's own protocol: a datagram of NAME=VALUE lines; a value with a newline in
 * it comes behind its length, as 64 bits, little-endian.
 *
 * Source: https://systemd.io/JOURNAL_NATIVE_PROTOCOL/
 */

static void add_journal_text(struct str *entry, const char *name, const struct str *value)
{
	unsigned char length[8];

	if (!memchr(value->data, '\n', value->len)) {
		str_addf(entry, "%s=", name);
	} else {
		for (size_t i = 0; i < sizeof(length); i++)
			length[i] = (unsigned char)((uint64_t)value->len >> (8 * i));
		str_addf(entry, "%s\n", name);
		str_add_bytes(entry, length, sizeof(length));
	}
	str_add_bytes(entry, value->data, value->len);
	str_add_char(entry, '\n');
}

static void add_journal_field(struct str *entry, const struct log_field *field)
{
	AUTO_STR struct str name = STR_INIT;
	AUTO_STR struct str value = STR_INIT;

	str_add(&name, "REFRELAY_");
	for (const char *c = field->name; *c; c++)
		str_add_char(&name, (char)toupper((unsigned char)*c));
	if (field->text)
		log_redact(field->text, &value);
	else
		str_addf(&value, "%" PRId64, field->number);
	add_journal_text(entry, name.data, &value);
}

static bool send_entry(const struct str *entry)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = journal_socket();

	if (fd < 0 || strlen(journal) >= sizeof(address.sun_path))
		return false;
	memcpy(address.sun_path, journal, strlen(journal) + 1);
	return sendto(fd, entry->data, entry->len, MSG_NOSIGNAL,
		      (const struct sockaddr *)&address,
		      sizeof(address)) == (ssize_t)entry->len;
}

static bool write_journal(enum log_level level, const char *ev,
			  const struct log_field *fields)
{
	AUTO_STR struct str message = STR_INIT;
	AUTO_STR struct str entry = STR_INIT;
	log_fields list = { 0 };

	str_add(&message, ev);
	add_logfmt(&message, fields);
	add_journal_text(&entry, "MESSAGE", &message);
	str_addf(&entry, "PRIORITY=%d\nSYSLOG_IDENTIFIER=refrelay\nREFRELAY_EV=%s\n",
		 priorities[level], ev);
	list_fields(fields, &list);
	for (size_t i = 0; i < list.count; i++)
		add_journal_field(&entry, &list.items[i]);
	vec_clear(&list);
	return send_entry(&entry);
}

void log_write(enum log_level level, const char *ev, const struct log_field *fields)
{
	enum log_format format = (enum log_format)atomic_load(&chosen);
	AUTO_STR struct str line = STR_INIT;
	char ts[CLOCK_TEXT_SIZE];
	int saved = errno;

	if (!log_is_on(level))
		return;
	if (format == LOG_FORMAT_JOURNALD && write_journal(level, ev, fields)) {
		errno = saved;
		return;
	}
	clock_format(clock_wall_ms(), ts);
	if (atomic_load(&shows_priority))
		str_addf(&line, "<%d>", priorities[level]);
	if (format == LOG_FORMAT_JSON) {
		write_json(&line, ts, level, ev, fields);
	} else {
		str_addf(&line, "ts=%s level=%s ev=%s", ts, level_names[level], ev);
		add_logfmt(&line, fields);
	}
	str_add_char(&line, '\n');
	ssize_t ignored = write(STDERR_FILENO, line.data, line.len); /* one piece */
	(void)ignored;
	errno = saved;
}
