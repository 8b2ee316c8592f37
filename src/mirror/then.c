#include "mirror/then.h"

#include <strings.h>

#include "base/hash.h"
#include "base/json.h"

#define HEADS "refs/heads/"

bool then_is_webhook(const char *then)
{
	return strncasecmp(then, "https://", 8) == 0 ||
	       strncasecmp(then, "http://", 7) == 0;
}

static void then_put_oid(json_t *object, const char *key, const struct oid *oid)
{
	char text[OID_MAX_TEXT];

	json_put_text(object, key, oid ? oid_text(oid, text) : NULL);
}

/* A symbolic ref stands for what it names. */
static void then_put_value(json_t *object, const char *key, const struct ref *ref)
{
	if (ref && ref->target)
		json_put_text(object, key, ref->target);
	else
		then_put_oid(object, key, ref ? &ref->oid : NULL);
}

static void then_put_refs(json_t *document, const struct ref_diff *diff)
{
	size_t count =
		diff->changes.count < THEN_REFS_MAX ? diff->changes.count : THEN_REFS_MAX;
	json_t *refs = json_array();

	for (size_t i = 0; i < count; i++) {
		const struct ref_change *change = &diff->changes.items[i];
		json_t *ref = json_object();
		json_put_text(ref, "ref", change->name);
		then_put_value(ref, "old", change->before);
		then_put_value(ref, "new", change->after);
		json_array_append_new(refs, ref);
	}
	json_put(document, "refs", refs);
	json_put_number(document, "more", (int64_t)(diff->changes.count - count));
}

static void then_put_head(json_t *document, const struct ref_snapshot *refs)
{
	const char *target = refs->head_target;
	struct oid oid;
	bool is_born = ref_snapshot_head(refs, &oid);

	if (target && text_starts_with(target, HEADS))
		target += strlen(HEADS);
	json_put_text(document, "branch", is_born ? target : NULL);
	then_put_oid(document, "commit", is_born ? &oid : NULL);
}

void then_render(const struct then_change *change, struct str *out)
{
	json_auto_t *document = json_object();

	json_put_text(document, "mirror", change->mirror);
	json_put_text(document, "job", change->job);
	json_put_text(document, "watcher", change->watcher);
	then_put_head(document, change->refs);
	json_put_time(document, "checked_at", change->checked_at);
	then_put_refs(document, change->diff);
	json_render(document, out);
	str_add_char(out, '\n');
}

char *then_sign(const struct str *secret, const struct str *document)
{
	AUTO_STR struct str text = STR_INIT;

	if (secret->len == 0)
		return NULL;
	hash_sign(secret, document->data, document->len, &text);
	return str_take(&text);
}
