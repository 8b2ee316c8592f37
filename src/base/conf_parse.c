/*
 * Follows git's own parser (git_parse_source() in config.c) state by state, so that no
 * file means one thing to git and another to us. Two things that git lets pass are
 * errors here, since they can only be mistakes: a key before the first section header,
 * and a NUL byte, where git silently ends the value.
 */
#include "base/conf_parse.h"

#include "base/str.h"

struct parser {
	const char *name; /* of the file */
	const char *at, *end;
	unsigned next_line; /* of the character at `at` */
	unsigned line;      /* of the character returned last */
	bool at_end;        /* what was returned last is the end, as a newline */
	bool has_subsection;
	struct str section, subsection, key, value;
};

static void parser_clear(struct parser *parser)
{
	str_clear(&parser->section);
	str_clear(&parser->subsection);
	str_clear(&parser->key);
	str_clear(&parser->value);
}

/* The next character; CR LF counts as a newline, and so does the end. */
static int conf_parse_next_char(struct parser *parser)
{
	parser->line = parser->next_line;
	if (parser->at == parser->end) {
		parser->at_end = true;
		return '\n';
	}

	unsigned char c = (unsigned char)*parser->at++;
	if (c == '\r' && parser->at < parser->end && *parser->at == '\n')
		c = (unsigned char)*parser->at++;
	if (c == '\n')
		parser->next_line++;
	return c;
}

/* Git's own notion of these, whatever the locale. */
static bool conf_parse_is_blank(int c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_letter(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_key_char(int c)
{
	return is_letter(c) || (c >= '0' && c <= '9') || c == '-';
}

static int conf_parse_set_error(const struct parser *parser, const char *text,
				struct err *err)
{
	return err_set(err, ERR_CONFIG, "%s:%u: %s", parser->name, parser->line, text);
}

/* Reports a character that does not belong where it stands. */
static int wrong_char(const struct parser *parser, int c, const char *text,
		      struct err *err)
{
	char shown[8];

	if (c == '\n')
		snprintf(shown, sizeof(shown), "the end");
	else if (c > ' ' && c < 0x7f)
		snprintf(shown, sizeof(shown), "'%c'", c);
	else
		snprintf(shown, sizeof(shown), "\\x%02x", (unsigned)c & 0xff);
	return err_set(err, ERR_CONFIG, "%s:%u: %s, not %s", parser->name, parser->line,
		       text, shown);
}

/* Behind the opening quote of [section "subsection"]. */
static int parse_quoted_subsection(struct parser *parser, struct err *err)
{
	for (;;) {
		int c = conf_parse_next_char(parser);
		if (c == '"')
			break;
		if (c == '\\')
			c = conf_parse_next_char(
				parser); /* any character stands for itself */
		if (c == '\n')
			return conf_parse_set_error(
				parser, "the quote of the subsection is not closed", err);
		str_add_char(&parser->subsection, (char)c);
	}
	int c = conf_parse_next_char(parser);
	return c == ']' ? 0
			: wrong_char(parser, c, "a subsection is followed by ']'", err);
}

/* In [one.two "three"], git takes everything behind the first dot as the subsection. */
static int parse_subsection(struct parser *parser, struct err *err)
{
	int c;

	do
		c = conf_parse_next_char(parser);
	while (conf_parse_is_blank(c) && c != '\n');
	if (c != '"')
		return wrong_char(parser, c,
				  "a subsection stands in quotes, as in [section "
				  "\"name\"]",
				  err);
	if (parser->has_subsection)
		str_add_char(&parser->subsection, '.');
	parser->has_subsection = true;
	return parse_quoted_subsection(parser, err);
}

/* Behind the opening bracket. The old form [section.subsection] ignores case, for which
 * git makes it lower case. */
static int parse_header(struct parser *parser, struct err *err)
{
	int c;

	str_reset(&parser->section);
	str_reset(&parser->subsection);
	parser->has_subsection = false;
	while (is_key_char(c = conf_parse_next_char(parser)) || c == '.') {
		if (c == '.' && !parser->has_subsection)
			parser->has_subsection = true;
		else if (parser->has_subsection)
			str_add_char(&parser->subsection,
				     (char)(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c));
		else
			str_add_char(&parser->section, (char)c);
	}
	if (c == '\n')
		return conf_parse_set_error(parser,
					    "the section header is not closed by ]", err);
	if (c != ']' && !conf_parse_is_blank(c))
		return wrong_char(
			parser, c,
			"a section's name has letters, digits, '-' and '.' only", err);
	if (parser->section.len == 0)
		return conf_parse_set_error(parser, "the section has no name", err);
	return c == ']' ? 0 : parse_subsection(parser, err);
}

/* Behind a backslash. A newline there joins the lines and adds nothing. */
static int parse_escape(struct parser *parser, struct err *err)
{
	int c = conf_parse_next_char(parser);

	switch (c) {
	case '\n':
		return 0;
	case 't':
		c = '\t';
		break;
	case 'b':
		c = '\b';
		break;
	case 'n':
		c = '\n';
		break;
	case '\\':
	case '"':
		break;
	default:
		return wrong_char(parser, c,
				  "a backslash is followed by one of \\ \" n t b or the "
				  "end of the line",
				  err);
	}
	str_add_char(&parser->value, (char)c);
	return 0;
}

static void skip_comment(struct parser *parser)
{
	while (conf_parse_next_char(parser) != '\n')
		;
}

/* Behind the "=". Unquoted blanks are kept inside the value and cut at both its ends;
 * `kept` is its length without those that may turn out to be the end. */
static int conf_parse_value(struct parser *parser, struct err *err)
{
	bool quoted = false;
	size_t kept = 0;
	int c;

	str_reset(&parser->value);
	while ((c = conf_parse_next_char(parser)) != '\n') {
		if (conf_parse_is_blank(c) && !quoted) {
			if (parser->value.len > 0)
				str_add_char(&parser->value, (char)c);
			continue;
		}
		if ((c == '#' || c == ';') && !quoted) {
			skip_comment(parser);
			break;
		}
		if (c == '"')
			quoted = !quoted;
		else if (c != '\\')
			str_add_char(&parser->value, (char)c);
		else if (parse_escape(parser, err) != 0)
			return -1;
		kept = parser->value.len;
	}
	if (quoted)
		return conf_parse_set_error(parser, "the quote is not closed", err);
	str_truncate(&parser->value, kept);
	return 0;
}

/* From the first letter of the key to the end of the value. */
static int parse_assignment(struct parser *parser, int c, const struct conf_sink *sink,
			    struct err *err)
{
	unsigned line = parser->line;

	if (parser->section.len == 0)
		return conf_parse_set_error(
			parser, "this key stands before the first [section]", err);
	str_reset(&parser->key);
	for (; is_key_char(c); c = conf_parse_next_char(parser))
		str_add_char(&parser->key, (char)c);
	while (c == ' ' || c == '\t')
		c = conf_parse_next_char(parser);
	if (c != '\n' && c != '=')
		return wrong_char(parser, c,
				  "a key has letters, digits and '-' only and is "
				  "followed by '='",
				  err);
	if (c == '=' && conf_parse_value(parser, err) != 0)
		return -1;

	const struct conf_parsed parsed = {
		.section = parser->section.data,
		.subsection = parser->has_subsection ? parser->subsection.data : NULL,
		.key = parser->key.data,
		.value = c == '=' ? parser->value.data : NULL,
		.line = line,
	};
	return sink->add(sink->data, &parsed, err);
}

static int parse_all(struct parser *parser, const struct conf_sink *sink, struct err *err)
{
	while (!parser->at_end) {
		int c = conf_parse_next_char(parser), result = 0;
		if (conf_parse_is_blank(c))
			continue;
		if (c == '#' || c == ';')
			skip_comment(parser);
		else if (c == '[')
			result = parse_header(parser, err);
		else if (is_letter(c))
			result = parse_assignment(parser, c, sink, err);
		else
			result = wrong_char(
				parser, c,
				"a line begins with a key, a [section] or a comment",
				err);
		if (result != 0)
			return -1;
	}
	return 0;
}

static int refuse_nul(struct parser *parser, struct err *err)
{
	while (!parser->at_end)
		if (conf_parse_next_char(parser) == '\0')
			break;
	return conf_parse_set_error(parser, "there is a NUL byte in this line", err);
}

int conf_parse(const char *name, const char *text, size_t len,
	       const struct conf_sink *sink, struct err *err)
{
	static const char mark[] = "\xef\xbb\xbf"; /* byte order mark */
	struct parser parser = {
		.name = name,
		.at = text,
		.end = text + len,
		.next_line = 1,
		.section = STR_INIT,
		.subsection = STR_INIT,
		.key = STR_INIT,
		.value = STR_INIT,
	};
	int result;

	if (len >= 3 && memcmp(text, mark, 3) == 0)
		parser.at += 3;
	if (len > 0 && memchr(text, '\0', len))
		result = refuse_nul(&parser, err);
	else
		result = parse_all(&parser, sink, err);
	parser_clear(&parser);
	return result;
}
