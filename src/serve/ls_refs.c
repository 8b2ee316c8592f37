/*
 * Git 2.39's serve.c and ls-refs.c are the measure: a request that git would refuse, or
 * for which we cannot be sure, is left to git, whose own words the client then gets.
 */
#include "serve/ls_refs.h"

#include "base/str.h"
#include "git/pkt_line.h"

/* From so many lines with a prefix on, git forgets them all and shows every ref. */
enum { TOO_MANY_PREFIXES = 65536 };

struct reading {
	struct pkt_reader reader;
	struct ls_refs *request;
	size_t prefix_lines;
	size_t oid_digits;
	unsigned seen; /* bits: capabilities[] that were there */
};

/* Those with "=" at their end take any value. */
static const char *const capabilities[] = {
	"command=ls-refs", "object-format=sha1", "object-format=sha256",
	"agent=",          "session-id=",
};

enum {
	SEEN_COMMAND = 1 << 0,
	SEEN_SHA1 = 1 << 1,
	SEEN_SHA256 = 1 << 2,
};

static bool ls_refs_is_text(const char *line, size_t len, const char *text)
{
	return len == strlen(text) && memcmp(line, text, len) == 0;
}

static bool ls_refs_begins_with(const char *line, size_t len, const char *text)
{
	return len >= strlen(text) && memcmp(line, text, strlen(text)) == 0;
}

/* The next line without its newline, which may be missing. Git takes lines for C
 * strings, so that a NUL would cut them. */
static enum pkt ls_refs_next_line(struct reading *reading, const char **line, size_t *len)
{
	enum pkt pkt = pkt_next(&reading->reader, line, len);

	if (pkt != PKT_LINE)
		return pkt;
	if (*len > 0 && (*line)[*len - 1] == '\n')
		(*len)--;
	return memchr(*line, '\0', *len) ? PKT_BROKEN : PKT_LINE;
}

static bool ls_refs_read_capability(struct reading *reading, const char *line, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(capabilities); i++) {
		const char *text = capabilities[i];
		if (text_ends_with(text, "=") ? !ls_refs_begins_with(line, len, text)
					      : !ls_refs_is_text(line, len, text))
			continue;
		if (reading->seen & 1u << i)
			return false;
		reading->seen |= 1u << i;
		return true;
	}
	return false;
}

/* What ends them: PKT_FLUSH, PKT_DELIMITER, or PKT_BROKEN. */
static enum pkt ls_refs_read_capabilities(struct reading *reading)
{
	const char *line;
	size_t len;
	enum pkt pkt;

	while ((pkt = ls_refs_next_line(reading, &line, &len)) == PKT_LINE)
		if (!ls_refs_read_capability(reading, line, len))
			return PKT_BROKEN;
	return pkt;
}

/* Without a word of it, the client means SHA-1. */
static bool is_format_right(const struct reading *reading)
{
	if ((reading->seen & SEEN_SHA1) && (reading->seen & SEEN_SHA256))
		return false;
	return reading->oid_digits == (reading->seen & SEEN_SHA256 ? 64 : 40);
}

static void add_prefix(struct reading *reading, const char *text, size_t len)
{
	char *prefix;

	if (++reading->prefix_lines >= TOO_MANY_PREFIXES)
		return;
	prefix = xstrndup(text, len);
	vec_add(&reading->request->prefixes, prefix);
}

static bool read_argument(struct reading *reading, const char *line, size_t len)
{
	static const char ref_prefix[] = "ref-prefix ";
	size_t skipped = sizeof(ref_prefix) - 1;

	if (ls_refs_is_text(line, len, "peel"))
		reading->request->wants_peeled = true;
	else if (ls_refs_is_text(line, len, "symrefs"))
		reading->request->wants_symrefs = true;
	else if (ls_refs_is_text(line, len, "unborn"))
		reading->request->wants_unborn = true;
	else if (ls_refs_begins_with(line, len, ref_prefix))
		add_prefix(reading, line + skipped, len - skipped);
	else
		return false;
	return true;
}

static bool read_arguments(struct reading *reading)
{
	const char *line;
	size_t len;
	enum pkt pkt;

	while ((pkt = ls_refs_next_line(reading, &line, &len)) == PKT_LINE)
		if (!read_argument(reading, line, len))
			return false;
	return pkt == PKT_FLUSH;
}

static bool read_request(struct reading *reading)
{
	enum pkt pkt = ls_refs_read_capabilities(reading);

	if (!(reading->seen & SEEN_COMMAND) || !is_format_right(reading))
		return false;
	if (pkt == PKT_DELIMITER ? !read_arguments(reading) : pkt != PKT_FLUSH)
		return false;
	return reading->reader.left == 0;
}

static void drop_prefixes(struct ls_refs *request)
{
	vec_clear_owned(&request->prefixes);
}

/* In order, what a prefix stands before follows it at once. */
static void reduce_prefixes(struct ls_refs *request)
{
	char **items = request->prefixes.items;
	size_t kept = 0;

	vec_sort(&request->prefixes, text_list_order);
	for (size_t i = 0; i < request->prefixes.count; i++)
		if (kept > 0 && text_starts_with(items[i], items[kept - 1]))
			free(items[i]);
		else
			items[kept++] = items[i];
	request->prefixes.count = kept;
}

bool ls_refs_parse(const char *body, size_t len, size_t oid_digits,
		   struct ls_refs *request)
{
	struct reading reading = {
		.reader = { body, len },
		.request = request,
		.oid_digits = oid_digits,
	};

	*request = (struct ls_refs){ 0 };
	if (!read_request(&reading)) {
		ls_refs_clear(request);
		return false;
	}
	if (reading.prefix_lines >= TOO_MANY_PREFIXES)
		drop_prefixes(request);
	reduce_prefixes(request);
	return true;
}

void ls_refs_clear(struct ls_refs *request)
{
	drop_prefixes(request);
	*request = (struct ls_refs){ 0 };
}

int git_protocol_version(const char *header)
{
	static const char key[] = "version=";
	int version = 0;

	while (header && *header) {
		size_t len = strcspn(header, ":");
		char digit = header[len > 0 ? len - 1 : 0];
		if (len == sizeof(key) && ls_refs_begins_with(header, len, key) &&
		    (digit == '1' || digit == '2') && digit - '0' > version)
			version = digit - '0';
		header += len + (header[len] == ':');
	}
	return version;
}
