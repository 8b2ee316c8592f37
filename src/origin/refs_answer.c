/*
 * The form is in docs/protocol.md, "Refs". Names of refs hold neither spaces nor line
 * feeds (ref_name_is_valid), so that lines need no quoting.
 */
#include <assert.h>

#include <openssl/evp.h>

#include "base/clock.h"
#include "origin/inventory.h"

static void add_base64(struct str *out, const char *text)
{
	size_t len = strlen(text);

	assert(len < INT32_MAX / 2);
	str_reserve(out, (len + 2) / 3 * 4);
	out->len += (size_t)EVP_EncodeBlock((unsigned char *)out->data + out->len,
					    (const unsigned char *)text, (int)len);
}

static void refs_answer_add_ref(struct str *out, const struct ref *ref)
{
	if (ref->target) {
		str_addf(out, "ref: %s %s\n", ref->target, ref->name);
		return;
	}
	oid_add_text(&ref->oid, out);
	str_addf(out, " %s", ref->name);
	if (ref->peel == REF_PEEL_TAG) {
		str_add_char(out, ' ');
		oid_add_text(&ref->peeled, out);
	}
	str_add_char(out, '\n');
}

static void refs_answer_add_head(struct str *out, const struct ref_snapshot *refs)
{
	str_add(out, "head ");
	if (refs->head_target)
		str_addf(out, "ref: %s", refs->head_target);
	else
		oid_add_text(&refs->head_oid, out);
	str_add_char(out, '\n');
}

void refs_answer(const struct noticed *noticed, const struct pushed *pushed,
		 struct str *out)
{
	const struct origin_row *row = &noticed->row;
	char changed_at[CLOCK_TEXT_SIZE];

	assert(row->checksum);
	clock_format(row->changed_at, changed_at);
	str_addf(out, "refrelay-refs 1\ntimeline %s\ngeneration %" PRIu64 "\n",
		 row->timeline, row->generation);
	str_addf(out, "checksum %s\nchanged-at %s\nobject-format %s\n", row->checksum,
		 changed_at, noticed->oid_len == 32 ? "sha256" : "sha1");
	refs_answer_add_head(out, &noticed->refs);
	if (noticed->description) {
		str_add(out, "description ");
		add_base64(out, noticed->description);
		str_add_char(out, '\n');
	}
	str_addf(out, "pushed-deletions %" PRIu64 " %" PRIu64 "\n", pushed->settled,
		 pushed->announced);
	str_add(out, "settings ");
	add_base64(out, noticed->settings);
	str_add_char(out, '\n');
	str_addf(out, "refs %zu\n\n", noticed->refs.refs.count);
	for (size_t i = 0; i < noticed->refs.refs.count; i++)
		refs_answer_add_ref(out, &noticed->refs.refs.items[i]);
}
