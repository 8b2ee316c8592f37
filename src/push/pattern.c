/*
 * What Java's syntax has and PCRE2 takes for something else, without an error, is
 * refused: sets within sets, as [a[bc]] and [a-z&&[^b]]. The rest means the same, or is
 * an error.
 */
#include "push/pattern.h"

/* JGit's rule. */
static bool is_side(const char *side)
{
	const char *star = strchr(side, '*');

	return side[0] && side[0] != '/' && !strstr(side, "//") &&
	       !text_ends_with(side, "/") && !(star && strchr(star + 1, '*'));
}

static int check_sides(const struct push_spec *spec, const char *text, struct err *err)
{
	if (!is_side(spec->src) || !is_side(spec->dst))
		err_set(err, ERR_CONFIG,
			"\"%.100s\" is not a push spec such as "
			"+refs/heads/*:refs/heads/*",
			text);
	else if (!strchr(spec->src, '*') != !strchr(spec->dst, '*'))
		err_set(err, ERR_CONFIG,
			"\"%.100s\" has a * on one side only; Gerrit refuses it, too",
			text);
	else if (text_starts_with(spec->src, "refs/") &&
		 !text_starts_with(spec->dst, "refs/"))
		err_set(err, ERR_CONFIG,
			"\"%.100s\": the destination must begin with refs/", text);
	else
		return 0;
	return -1;
}

int push_spec_read(const char *text, struct push_spec *spec, struct err *err)
{
	const char *sides = text[0] == '+' ? text + 1 : text;
	const char *colon = strrchr(sides, ':');

	if (strchr(sides, '^') || text_starts_with(sides, ":"))
		return err_set(err, ERR_CONFIG,
			       "\"%.100s\" is not supported: name what is pushed, as "
			       "+refs/heads/*:refs/heads/*",
			       text);
	if (!colon && strchr(sides, '*'))
		return err_set(err, ERR_CONFIG,
			       "\"%.100s\" has a * and no destination; Gerrit refuses "
			       "it, too",
			       text);
	*spec = (struct push_spec){
		.src = colon ? xstrndup(sides, (size_t)(colon - sides)) : xstrdup(sides),
		.dst = xstrdup(colon ? colon + 1 : sides),
		.force = text[0] == '+',
	};
	if (check_sides(spec, text, err) == 0)
		return 0;
	push_spec_clear(spec);
	return -1;
}

void push_spec_clear(struct push_spec *spec)
{
	free(spec->src);
	free(spec->dst);
	*spec = (struct push_spec){ 0 };
}

/* A "*" stands for one character at least. */
bool push_spec_maps(const struct push_spec *spec, const char *ref, char **dst)
{
	const char *star = strchr(spec->src, '*'), *place = strchr(spec->dst, '*');
	size_t len = strlen(ref), head, tail;

	if (!star) {
		if (strcmp(ref, spec->src) != 0)
			return false;
		*dst = xstrdup(spec->dst);
		return true;
	}
	head = (size_t)(star - spec->src);
	tail = strlen(star + 1);
	if (len <= head + tail || memcmp(ref, spec->src, head) != 0 ||
	    !text_ends_with(ref, star + 1))
		return false;
	*dst = xasprintf("%.*s%.*s%s", (int)(place - spec->dst), spec->dst,
			 (int)(len - head - tail), ref + head, place + 1);
	return true;
}

void push_spec_render(const struct push_spec *spec, struct str *out)
{
	str_addf(out, "%s%s:%s", spec->force ? "+" : "", spec->src, spec->dst);
}

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/log.h"

/* Names match within some hundred steps; this is some milliseconds. */
#define STEPS_LIMIT 100000
#define HEAP_LIMIT_KIB 4096

enum pattern_kind { PATTERN_EXACT, PATTERN_PREFIX, PATTERN_REGEX };

struct name_pattern {
	enum pattern_kind kind;
	char *text;
	pcre2_code *code;             /* of a regular expression, else NULL */
	pcre2_match_context *context; /* likewise */
};

enum answer { ANSWER_NO, ANSWER_YES, ANSWER_NONE };

static struct name_pattern *pattern_of(enum pattern_kind kind, const char *text)
{
	struct name_pattern *pattern = xcalloc(1, sizeof(*pattern));

	pattern->kind = kind;
	pattern->text = xstrdup(text);
	return pattern;
}

int name_patterns_read(const struct setting *row, const struct conf_entry *entry,
		       void *target, struct err *err)
{
	name_patterns *patterns = setting_field(row, target);
	struct name_pattern *pattern;
	const char *text = NULL;

	if (conf_read_text(entry, &text, err) != 0)
		return -1;
	if (name_pattern_new(text, &pattern, err) != 0)
		return conf_prefix(entry, err);
	vec_add(patterns, pattern);
	return 0;
}

static void name_pattern_free(struct name_pattern *pattern)
{
	if (!pattern)
		return;
	pcre2_code_free(pattern->code);
	pcre2_match_context_free(pattern->context);
	free(pattern->text);
	free(pattern);
}

void name_patterns_clear(name_patterns *patterns)
{
	for (size_t i = 0; i < patterns->count; i++)
		name_pattern_free(patterns->items[i]);
	vec_clear(patterns);
}

/* Behind a backslash: the character, or all of \Q...\E. */
static const char *skip_escape(const char *at)
{
	if (*at == 'Q') {
		const char *end = strstr(at, "\\E");
		return end ? end + 2 : at + strlen(at);
	}
	return *at ? at + 1 : at;
}

static bool has_set_in_set(const char *text)
{
	bool in_set = false;

	while (*text) {
		char c = *text++;
		if (c == '\\')
			text = skip_escape(text);
		else if (in_set && (c == '[' || (c == '&' && *text == '&')))
			return true;
		else if (c == ']')
			in_set = false;
		else if (c == '[')
			in_set = true;
	}
	return false;
}

static int compile(struct name_pattern *pattern, struct err *err)
{
	PCRE2_UCHAR said[200];
	PCRE2_SIZE offset;
	int code;

	if (has_set_in_set(pattern->text))
		return err_set(err, ERR_CONFIG,
			       "\"%.100s\" has a set of characters within a set, or &&, "
			       "which is not supported",
			       pattern->text);
	pattern->code = pcre2_compile((PCRE2_SPTR)pattern->text, PCRE2_ZERO_TERMINATED,
				      PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED |
					      PCRE2_NEVER_BACKSLASH_C,
				      &code, &offset, NULL);
	if (!pattern->code) {
		pcre2_get_error_message(code, said, sizeof(said));
		return err_set(
			err, ERR_CONFIG,
			"\"%.100s\" is not a valid regular expression: %s, at offset %zu",
			pattern->text, (const char *)said, offset);
	}
	pattern->context = pcre2_match_context_create(NULL);
	if (!pattern->context)
		abort();
	pcre2_set_match_limit(pattern->context, STEPS_LIMIT);
	pcre2_set_heap_limit(pattern->context, HEAP_LIMIT_KIB);
	return 0;
}

int name_pattern_new_regex(const char *text, struct name_pattern **pattern,
			   struct err *err)
{
	struct name_pattern *made = pattern_of(PATTERN_REGEX, text);

	if (compile(made, err) != 0) {
		name_pattern_free(made);
		return -1;
	}
	*pattern = made;
	return 0;
}

int name_pattern_new(const char *text, struct name_pattern **pattern, struct err *err)
{
	if (text[0] == '^')
		return name_pattern_new_regex(text, pattern, err);
	*pattern = pattern_of(text_ends_with(text, "*") ? PATTERN_PREFIX : PATTERN_EXACT,
			      text);
	if ((*pattern)->kind == PATTERN_PREFIX)
		(*pattern)->text[strlen(text) - 1] = '\0';
	return 0;
}

void name_pattern_render(const struct name_pattern *pattern, struct str *out)
{
	str_addf(out, "%d:%zu:%s", (int)pattern->kind, strlen(pattern->text),
		 pattern->text);
}

void name_pattern_show(const struct name_pattern *pattern, struct str *out)
{
	str_addf(out, "%s%s", pattern->text, pattern->kind == PATTERN_PREFIX ? "*" : "");
}

bool name_pattern_is_exact(const struct name_pattern *pattern)
{
	return pattern->kind == PATTERN_EXACT;
}

static enum answer name_pattern_classify_result(const struct name_pattern *pattern,
						int result, const char *name)
{
	if (result >= 0)
		return ANSWER_YES;
	if (result == PCRE2_ERROR_NOMATCH)
		return ANSWER_NO;
	log_warn("push.pattern_gave_up", LOG_TEXT("pattern", pattern->text),
		 LOG_TEXT("name", name), LOG_NUMBER("result", result));
	return ANSWER_NONE;
}

/* Names of refs may be any bytes: those that are not UTF-8 are U+FFFD then, which is
 * what Java makes of them. */
static enum answer match_regex(const struct name_pattern *pattern, const char *name)
{
	AUTO_STR struct str text = STR_INIT;
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);

	if (!data)
		abort();
	str_add_utf8(&text, name, strlen(name));
	int result = pcre2_match(pattern->code, (PCRE2_SPTR)text.data, text.len, 0,
				 PCRE2_NO_UTF_CHECK, data, pattern->context);
	pcre2_match_data_free(data);
	return name_pattern_classify_result(pattern, result, name);
}

static enum answer match(const struct name_pattern *pattern, const char *name)
{
	bool matches;

	if (pattern->kind == PATTERN_REGEX)
		return match_regex(pattern, name);
	matches = pattern->kind == PATTERN_PREFIX ? text_starts_with(name, pattern->text)
						  : strcmp(name, pattern->text) == 0;
	return matches ? ANSWER_YES : ANSWER_NO;
}

bool name_patterns_take(const name_patterns *patterns, const char *name)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (match(patterns->items[i], name) == ANSWER_YES)
			return true;
	return false;
}

bool name_patterns_leave_out(const name_patterns *patterns, const char *name)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (match(patterns->items[i], name) != ANSWER_NO)
			return true;
	return false;
}
