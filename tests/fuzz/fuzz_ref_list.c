/*
 * libFuzzer: any bytes are refused as no advertisement, or become a list; then its
 * answers are pkt-lines, one for each ref, in order, and each ref is found by its name.
 */
#include <assert.h>

#include "git/pkt_line.h"
#include "serve/ref_list.h"

static const struct ref_symbolic symbolic[] = {
	{ "HEAD", "refs/heads/main" },
	{ "refs/heads/loop", "refs/heads/loop" },
	{ "refs/heads/s", "refs/heads/t" },
	{ "refs/heads/t", "refs/heads/main" },
};

struct answer {
	struct str bytes;
	size_t lines;
};

static void ask(const struct ref_list *list, const struct ls_refs *request,
		struct answer *answer)
{
	struct pkt_reader reader;
	const char *line;
	size_t len;
	enum pkt pkt;

	*answer = (struct answer){ .bytes = STR_INIT };
	ref_list_answer(list, request, &answer->bytes);
	reader = (struct pkt_reader){ answer->bytes.data, answer->bytes.len };
	while ((pkt = pkt_next(&reader, &line, &len)) == PKT_LINE) {
		assert(len > 5 && line[len - 1] == '\n');
		answer->lines++;
	}
	assert(pkt == PKT_FLUSH && reader.left == 0);
}

static void assert_is_found(const struct ref_list *list, const char *name, size_t len)
{
	AUTO_LS_REFS struct ls_refs request = { 0 };
	char *prefix = xstrndup(name, len);
	struct answer answer;

	vec_add(&request.prefixes, prefix);
	ask(list, &request, &answer);
	assert(answer.lines >= 1);
	assert(memmem(answer.bytes.data, answer.bytes.len, name, len));
	str_clear(&answer.bytes);
}

/* Of an answer in which lines are only "<oid> <name>\n". */
static void assert_in_order(const struct ref_list *list, const struct answer *answer)
{
	struct pkt_reader reader = { answer->bytes.data, answer->bytes.len };
	AUTO_FREE char *last = NULL;
	const char *line;
	size_t len;

	if (answer->lines > ref_list_count(list)) {
		pkt_next(&reader, &line, &len);
		assert(len > 5 && memcmp(line + len - 6, " HEAD\n", 6) == 0);
	}
	while (pkt_next(&reader, &line, &len) == PKT_LINE) {
		const char *space = memchr(line, ' ', len);
		assert(space && (space - line == 40 || space - line == 64));
		size_t name_len = (size_t)(line + len - 1 - (space + 1));
		char *name = xstrndup(space + 1, name_len);
		assert(strlen(name) == name_len && (!last || strcmp(last, name) < 0));
		assert_is_found(list, name, name_len);
		free(last);
		last = name;
	}
}

static void look_at(const struct ref_list *list)
{
	static const struct ls_refs plain = { 0 };
	static const struct ls_refs rich = { .wants_peeled = true,
					     .wants_symrefs = true,
					     .wants_unborn = true };
	struct answer one, other;

	ask(list, &plain, &one);
	ask(list, &rich, &other);
	assert(one.lines - ref_list_count(list) <= 1); /* HEAD */
	assert(other.lines - ref_list_count(list) <= 1 && other.lines >= one.lines);
	assert(other.bytes.len >= one.bytes.len);
	assert_in_order(list, &one);
	str_clear(&one.bytes);
	str_clear(&other.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct err err = { 0 };
	struct ref_list *list = ref_list_parse((const char *)data, len, symbolic,
					       ARRAY_SIZE(symbolic), &err);

	if (!list) {
		assert(err.class == ERR_CORRUPT && err.text[0]);
		return 0;
	}
	look_at(list);
	ref_list_free(list);
	return 0;
}
