#include "web/answer.h"

#include <ctype.h>
#include <stdarg.h>
#include <strings.h>

#include "wire/wire.h"

static const char *skip_blanks(const char *text)
{
	return text + strspn(text, " \t");
}

/* A word of a list, cut to what counts. */
struct word {
	const char *text;
	size_t len;
};

static bool negotiate_is_word(const struct word *word, const char *text)
{
	return word->len == strlen(text) && strncasecmp(word->text, text, word->len) == 0;
}

/* Whether the weight behind ";" is zero: "q=0", "q=0.", "q=0.000". What is no weight
 * counts as one. */
static bool negotiate_is_refused(const char *text, size_t len)
{
	const char *end = text + len;

	text = skip_blanks(text);
	if (end - text < 3 || (*text != 'q' && *text != 'Q') || text[1] != '=')
		return false;
	for (text += 2; text < end && *text != ' ' && *text != '\t'; text++)
		if (*text != '0' && *text != '.')
			return false;
	return true;
}

bool negotiate_gzip(const char *accept_encoding)
{
	bool takes_any = false;

	if (!accept_encoding)
		return false;
	for (const char *at = accept_encoding; *at;) {
		size_t len = strcspn(at, ",");
		size_t word_len = strcspn(at, ",;");
		struct word word = { skip_blanks(at), 0 };
		word.len = strcspn(word.text, " \t,;");
		bool is_taken =
			word_len == len ||
			!negotiate_is_refused(at + word_len + 1, len - word_len - 1);
		if (negotiate_is_word(&word, "gzip") ||
		    negotiate_is_word(&word, "x-gzip"))
			return is_taken;
		if (negotiate_is_word(&word, "*"))
			takes_any = is_taken;
		at += len + (at[len] == ',');
	}
	return takes_any;
}

/* A tag's length with its quotes, or 0. */
static size_t tag_length(const char *text)
{
	const char *end = *text == '"' ? strchr(text + 1, '"') : NULL;

	return end ? (size_t)(end - text) + 1 : 0;
}

enum comparison { WEAK, STRONG };

/* Whether a list of tags has it. */
static bool lists(const char *tags, const char *etag, enum comparison comparison)
{
	size_t etag_len = strlen(etag);
	const char *at = tags;

	if (!at || etag_len == 0)
		return false;
	at = skip_blanks(at);
	if (*at == '*')
		return *skip_blanks(at + 1) == '\0';
	while (*at) {
		at += strspn(at, " \t,");
		bool is_weak = at[0] == 'W' && at[1] == '/';
		if (is_weak)
			at += 2;
		size_t len = tag_length(at);
		if (len == 0)
			return false;
		if (len == etag_len && memcmp(at, etag, len) == 0 &&
		    !(is_weak && comparison == STRONG))
			return true;
		at = skip_blanks(at + len);
		if (*at && *at != ',')
			return false;
	}
	return false;
}

bool negotiate_matches(const char *if_none_match, const char *etag)
{
	return lists(if_none_match, etag, WEAK);
}

bool negotiate_allows(const char *if_match, const char *etag)
{
	return !if_match || lists(if_match, etag, STRONG);
}

bool negotiate_is_part_of(const char *if_range, const char *etag)
{
	return !if_range || strcmp(skip_blanks(if_range), etag) == 0;
}

/* Digits at the start; more than fits is the largest there is. */
static uint64_t take_number(const char **text, bool *has)
{
	uint64_t value = 0;

	for (*has = false; **text >= '0' && **text <= '9'; (*text)++) {
		unsigned digit = (unsigned)(**text - '0');
		*has = true;
		value = value > (UINT64_MAX - digit) / 10 ? UINT64_MAX
							  : value * 10 + digit;
	}
	return value;
}

/* "first-", "first-last", "-count" behind "bytes=". False: it is none, or several. */
static bool read_range(const char *text, uint64_t size, uint64_t *begin, uint64_t *end)
{
	bool has_first, has_last;
	uint64_t first = take_number(&text, &has_first);

	if (*text++ != '-')
		return false;
	uint64_t last = take_number(&text, &has_last);
	if (*skip_blanks(text) || (!has_first && !has_last) ||
	    (has_first && has_last && last < first))
		return false;
	if (!has_first) {
		*begin = last < size ? size - last : 0;
		*end = size;
		return true;
	}
	*begin = first;
	*end = has_last && last < size ? last + 1 : size;
	return true;
}

enum negotiated_range negotiate_range(const char *range, uint64_t size, uint64_t *begin,
				      uint64_t *length)
{
	uint64_t end = 0;

	if (!range || strncasecmp(range, "bytes=", 6) != 0 ||
	    !read_range(skip_blanks(range + 6), size, begin, &end))
		return RANGE_ALL;
	if (*begin >= end)
		return RANGE_NONE;
	*length = end - *begin;
	return RANGE_PART;
}

void web_set_header(struct web_response *response, const char *name, const char *value)
{
	struct web_header_field field = { .name = name, .value = value };

	vec_add(&response->headers, field);
}

void web_add_header(struct web_response *response, const char *name, const char *fmt, ...)
{
	struct web_header_field field = { .name = name };
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&field.own, fmt, args) < 0)
		abort();
	va_end(args);
	for (char *c = field.own; *c; c++) /* never a second header inside of one */
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
	field.value = field.own;
	vec_add(&response->headers, field);
}

static void drop_body(struct web_response *response)
{
	if (response->stream && response->close)
		response->close(response->stream);
	response->stream = NULL;
	response->read = NULL;
	answer_release(&response->shared);
	str_clear(&response->body);
}

void answer_release(struct web_shared *shared)
{
	if (shared->owner)
		shared->release(shared->owner);
	*shared = (struct web_shared){ 0 };
}

void web_answer_tagged(const struct web_request *request, struct web_response *response,
		       const char *etag)
{
	struct web_header_field field = { .name = "ETag", .own = xstrdup(etag) };

	field.value = field.own;
	vec_add(&response->headers, field);
	if (!negotiate_matches(web_header(request, "If-None-Match"), etag))
		return;
	/* The library leaves the body out, and tells its length, as RFC 9110 wants it. */
	response->status = 304;
}

void web_answer_json(struct web_response *response, int status, json_t *object)
{
	response->status = status;
	response->content_type = "application/json";
	str_reset(&response->body);
	json_render(object, &response->body);
	str_add_char(&response->body, '\n');
	json_decref(object);
}

/* "EVENTS_GONE" is "Events gone"; the classes of errors have better words. */
static void add_title(const char *code, struct str *title)
{
	static const char *const words[][2] = {
		{ "AUTH", "Not permitted" },
		{ "CONFIG", "Invalid request or setting" },
		{ "CORRUPT", "Damaged data" },
		{ "DISK", "Disk failure" },
		{ "INTERNAL", "Internal error" },
		{ "LOST", "Lease lost" },
		{ "MISSING", "Not found" },
		{ "NETWORK", "Network failure" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(code, words[i][0]) == 0) {
			str_add(title, words[i][1]);
			return;
		}
	for (const char *c = code; *c; c++)
		str_add_char(title, *c == '_'  ? ' '
				    : c > code ? (char)tolower((unsigned char)*c)
					       : *c);
}

/* Takes the problem, and adds what RFC 9457 wants beside our own members, which came
 * first and stay. */
static void answer_problem(struct web_response *response, int status, const char *code,
			   json_t *problem)
{
	AUTO_FREE char *type = xasprintf("urn:refrelay:error:%s", code);
	AUTO_STR struct str title = STR_INIT;

	add_title(code, &title);
	json_put_text(problem, "type", type);
	json_put_text(problem, "title", title.data);
	json_put_number(problem, "status", status);
	json_put(problem, "detail", json_incref(json_object_get(problem, "message")));
	web_answer_json(response, status, problem);
	response->content_type = WEB_PROBLEM_TYPE;
}

void web_answer_problem(struct web_response *response, int status, const char *code,
			const char *message, const char *remedy)
{
	answer_problem(response, status, code, json_problem(code, message, remedy));
}

static int answer_find_status(enum err_class class)
{
	switch (class) {
	case ERR_MISSING:
		return 404;
	case ERR_CONFLICT:
	case ERR_BUSY:
		return 409;
	case ERR_CONFIG:
		return 400;
	case ERR_AUTH:
		return 403;
	case ERR_DISK:
		return 507;
	case ERR_TIMEOUT:
		return 504;
	case ERR_CANCELED:
	case ERR_LOCK_TIMEOUT:
	case ERR_LOCK_UNAVAILABLE:
		return 503;
	default:
		return 500;
	}
}

void answer_err(struct web_response *response, int status, const struct err *err)
{
	char code[ERR_CODE_SIZE];

	err_class_code(err->class, code);
	json_t *problem = json_problem(code, err->text, err->remedy);
	if (err->reason != REASON_NONE)
		json_put_text(problem, "reason", err_reason_name(err->reason));
	answer_reset(response);
	answer_problem(response, status ? status : answer_find_status(err->class), code,
		       problem);
	if (err->class == ERR_LOCK_TIMEOUT || err->class == ERR_LOCK_UNAVAILABLE)
		web_set_header(response, "Retry-After", "10");
	if (err->reason != REASON_NONE)
		web_set_header(response, WIRE_ERROR_REASON, err_reason_name(err->reason));
}

/* NULL: the body is none. The caller owns it. */
static json_t *problem_of(const struct web_response *response)
{
	struct err err;

	if (!response->content_type ||
	    strcmp(response->content_type, WEB_PROBLEM_TYPE) != 0)
		return NULL;
	return json_parse_object(response->body.data, response->body.len,
				 response->body.len, &err);
}

void answer_as_text(struct web_response *response)
{
	json_auto_t *problem = problem_of(response);

	if (!problem)
		return;
	const char *remedy = json_string_value(json_object_get(problem, "remedy"));
	const char *message = json_string_value(json_object_get(problem, "message"));
	str_reset(&response->body);
	str_addf(&response->body, "%s\n", message ? message : "");
	if (remedy && *remedy)
		str_addf(&response->body, "%s\n", remedy);
	response->content_type = "text/plain; charset=utf-8";
}

void answer_as_json(struct web_response *response)
{
	if (response->content_type &&
	    strcmp(response->content_type, WEB_PROBLEM_TYPE) == 0)
		response->content_type = "application/json";
}

void answer_as_lfs(struct web_response *response)
{
	static const char *const others[] = { "type", "title", "status", "detail" };
	json_auto_t *problem = problem_of(response);
	AUTO_STR struct str text = STR_INIT;

	if (!problem)
		return;
	const char *remedy = json_string_value(json_object_get(problem, "remedy"));
	const char *message = json_string_value(json_object_get(problem, "message"));
	str_add(&text, message ? message : "");
	if (remedy && *remedy)
		str_addf(&text, " (%s)", remedy);
	json_put_text(problem, "message", text.data);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		json_object_del(problem, others[i]);
	str_reset(&response->body);
	json_render(problem, &response->body);
	str_add_char(&response->body, '\n');
	response->content_type = "application/vnd.git-lfs+json";
}

void answer_reset(struct web_response *response)
{
	drop_body(response);
	vec_clear_members(&response->headers, own);
	*response = (struct web_response){ .status = 200, .body = STR_INIT };
}

bool answer_has_header(const struct web_response *response, const char *name)
{
	for (size_t i = 0; i < response->headers.count; i++)
		if (strcasecmp(response->headers.items[i].name, name) == 0)
			return true;
	return false;
}
