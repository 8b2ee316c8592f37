#include "web/negotiate.h"

#include <strings.h>

static const char *skip_blanks(const char *text)
{
	return text + strspn(text, " \t");
}

/* A word of a list, cut to what counts. */
struct word {
	const char *text;
	size_t len;
};

static bool is_word(const struct word *word, const char *text)
{
	return word->len == strlen(text) && strncasecmp(word->text, text, word->len) == 0;
}

/* Whether the weight behind ";" is zero: "q=0", "q=0.", "q=0.000". What is no weight
 * counts as one. */
static bool is_refused(const char *text, size_t len)
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
		bool is_taken = word_len == len ||
				!is_refused(at + word_len + 1, len - word_len - 1);
		if (is_word(&word, "gzip") || is_word(&word, "x-gzip"))
			return is_taken;
		if (is_word(&word, "*"))
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

bool negotiate_matches(const char *if_none_match, const char *etag)
{
	size_t etag_len = strlen(etag);
	const char *at = if_none_match;

	if (!at || etag_len == 0)
		return false;
	at = skip_blanks(at);
	if (*at == '*')
		return *skip_blanks(at + 1) == '\0';
	while (*at) {
		at += strspn(at, " \t,");
		if (at[0] == 'W' && at[1] == '/') /* weak or not is the same here */
			at += 2;
		size_t len = tag_length(at);
		if (len == 0)
			return false;
		if (len == etag_len && memcmp(at, etag, len) == 0)
			return true;
		at = skip_blanks(at + len);
		if (*at && *at != ',')
			return false;
	}
	return false;
}
