/*
 * libFuzzer: any body of a POST is left to git, or it is one request for ls-refs; then
 * its prefixes are in order, none of them covers another, and the answer is the one that
 * a look at each ref by itself gives.
 */
#include <assert.h>

#include "git/pkt_line.h"
#include "serve/ref_list.h"

#define A "1111111111111111111111111111111111111111"
#define B "2222222222222222222222222222222222222222"

static const struct shown {
	const char *name, *oid, *target, *peeled;
} shown[] = {
	{ "HEAD", A, "refs/heads/main", NULL },
	{ "refs/changes/01/1/1", B, NULL, NULL },
	{ "refs/heads/HEAD", A, NULL, NULL },
	{ "refs/heads/a", A, NULL, NULL },
	{ "refs/heads/a-b", A, NULL, NULL },
	{ "refs/heads/a/b", B, NULL, NULL },
	{ "refs/heads/main", A, NULL, NULL },
	{ "refs/heads/s", A, "refs/heads/main", NULL },
	{ "refs/heads/\xff", B, NULL, NULL },
	{ "refs/tags/v1", B, NULL, A },
	{ "refs/tags/v1.1", B, NULL, A },
	{ "refs/tags/v2", A, NULL, NULL },
};

static struct ref_list *list;

static void advertise(struct str *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
		size_t begin = pkt_begin(out);
		str_addf(out, "%s %s", shown[i].oid, shown[i].name);
		str_add_bytes(out, i == 0 ? "\0caps\n" : "\n", i == 0 ? 6 : 1);
		pkt_end(out, begin);
		if (shown[i].peeled)
			pkt_addf(out, "%s %s^{}\n", shown[i].peeled, shown[i].name);
	}
	pkt_add_flush(out);
}

static void make_list(void)
{
	static const struct ref_symbolic symbolic[] = {
		{ "HEAD", "refs/heads/main" },
		{ "refs/heads/s", "refs/heads/main" },
	};
	static struct str bytes = STR_INIT;
	struct err err;

	advertise(&bytes);
	list = ref_list_parse(bytes.data, bytes.len, symbolic, ARRAY_SIZE(symbolic),
			      &err);
	assert(list && ref_list_count(list) == ARRAY_SIZE(shown) - 1);
}

static bool matches(const struct ls_refs *request, const char *name)
{
	for (size_t i = 0; i < request->prefixes.count; i++)
		if (text_starts_with(name, request->prefixes.items[i]))
			return true;
	return request->prefixes.count == 0;
}

static void answer_one_by_one(const struct ls_refs *request, struct str *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
		const struct shown *ref = &shown[i];
		size_t begin;
		if (!matches(request, ref->name))
			continue;
		begin = pkt_begin(out);
		str_addf(out, "%s %s", ref->oid, ref->name);
		if (request->wants_symrefs && ref->target)
			str_addf(out, " symref-target:%s", ref->target);
		if (request->wants_peeled && ref->peeled)
			str_addf(out, " peeled:%s", ref->peeled);
		str_add_char(out, '\n');
		pkt_end(out, begin);
	}
	pkt_add_flush(out);
}

static void assert_tidy(const struct ls_refs *request)
{
	char *const *items = request->prefixes.items;

	for (size_t i = 1; i < request->prefixes.count; i++) {
		assert(strcmp(items[i - 1], items[i]) < 0);
		assert(!text_starts_with(items[i], items[i - 1]));
	}
}

static void assert_answered(const struct ls_refs *request)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_STR struct str wanted = STR_INIT;

	ref_list_answer(list, request, &answer);
	answer_one_by_one(request, &wanted);
	assert(answer.len == wanted.len);
	assert(memcmp(answer.data, wanted.data, wanted.len) == 0);
}

static void write_down(const struct ls_refs *request, size_t digits, struct str *out)
{
	pkt_addf(out, "command=ls-refs\n");
	pkt_addf(out, "object-format=%s\n", digits == 40 ? "sha1" : "sha256");
	str_add(out, "0001");
	if (request->wants_peeled)
		pkt_addf(out, "peel\n");
	if (request->wants_symrefs)
		pkt_addf(out, "symrefs\n");
	if (request->wants_unborn)
		pkt_addf(out, "unborn\n");
	for (size_t i = request->prefixes.count; i > 0; i--)
		pkt_addf(out, "ref-prefix %s\n", request->prefixes.items[i - 1]);
	pkt_add_flush(out);
}

static void assert_reads_the_same(const struct ls_refs *request, size_t digits)
{
	AUTO_LS_REFS struct ls_refs again;
	AUTO_STR struct str body = STR_INIT;

	write_down(request, digits, &body);
	bool is_ours = ls_refs_parse(body.data, body.len, digits, &again);
	assert(is_ours && again.prefixes.count == request->prefixes.count);
	for (size_t i = 0; i < again.prefixes.count; i++)
		assert(strcmp(again.prefixes.items[i], request->prefixes.items[i]) == 0);
	assert(again.wants_peeled == request->wants_peeled);
	assert(again.wants_symrefs == request->wants_symrefs);
	assert(again.wants_unborn == request->wants_unborn);
}

static bool look_at(const char *body, size_t len, size_t digits)
{
	AUTO_LS_REFS struct ls_refs request;

	if (!ls_refs_parse(body, len, digits, &request)) {
		assert(!request.prefixes.items && !request.wants_peeled);
		return false;
	}
	assert(len >= 23 && memcmp(body + len - 4, "0000", 4) == 0);
	assert(memmem(body, len, "command=ls-refs", 15));
	assert_tidy(&request);
	assert_answered(&request);
	assert_reads_the_same(&request, digits);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (!list)
		make_list();
	bool is_sha1 = look_at((const char *)data, len, 40);
	bool is_sha256 = look_at((const char *)data, len, 64);
	assert(!is_sha1 || !is_sha256);
	return 0;
}
