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
