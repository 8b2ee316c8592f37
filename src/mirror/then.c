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

/* One word, from its first character; where it ends, or NULL: a quote is open. */
static const char *then_take_word(const char *at, struct str *word)
{
	char quote = '\0';

	for (; *at && (quote || !strchr(" \t", *at)); at++) {
		if (*at == quote)
			quote = '\0';
		else if (!quote && (*at == '"' || *at == '\''))
			quote = *at;
		else
			str_add_char(word, *at);
	}
	return quote ? NULL : at;
}

int then_split(const char *command, text_list *words, struct err *err)
{
	const char *at = command;

	while (*(at += strspn(at, " \t"))) {
		AUTO_STR struct str word = STR_INIT;
		at = then_take_word(at, &word);
		if (!at) {
			err_set(err, ERR_CONFIG, "the command has a quote that is open");
			return err_remedy(err, "close it");
		}
		vec_add(words, word.data ? str_take(&word) : xstrdup(""));
	}
	if (words->count > 0 && words->items[0][0] == '/')
		return 0;
	err_set(err, ERR_CONFIG, "neither an http(s) URL nor the path of a program");
	return err_remedy(err, "give the program's absolute path; no shell runs it");
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

static void then_put_refs(json_t *document, const struct ref_diff *diff, size_t skipped)
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
	json_put_number(document, "more",
			(int64_t)(diff->changes.count - count + skipped));
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
	then_put_refs(document, change->diff, change->skipped);
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
