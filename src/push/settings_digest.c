#include "base/hash.h"
#include "push/pattern.h"
#include "push/settings_parts.h"
#include "push/spec.h"

/* Each with its length, so that no two lists look the same. */
static void settings_digest_add_text(struct str *out, const char *text)
{
	str_addf(out, "%zu:%s", text ? strlen(text) : 0, text ? text : "");
}

static void add_patterns(struct str *out, const name_patterns *patterns)
{
	str_addf(out, "\n%zu", patterns->count);
	for (size_t i = 0; i < patterns->count; i++)
		name_pattern_render(patterns->items[i], out);
}

static void settings_digest_add_remote(struct str *out, const struct push_remote *remote)
{
	settings_digest_add_text(out, remote->name);
	str_addf(out, "\n%zu", remote->urls.count);
	for (size_t i = 0; i < remote->urls.count; i++) {
		settings_digest_add_text(out, remote->urls.items[i].template);
		settings_digest_add_text(out, remote->urls.items[i].uri_user);
	}
	str_addf(out, "\n%zu", remote->specs.count);
	for (size_t i = 0; i < remote->specs.count; i++) {
		AUTO_STR struct str spec = STR_INIT;
		push_spec_render(&remote->specs.items[i], &spec);
		settings_digest_add_text(out, spec.data);
	}
	add_patterns(out, &remote->projects);
	add_patterns(out, &remote->excluded_projects);
	add_patterns(out, &remote->excluded_refs);
	str_addf(out, "\n%d %d %d %d %d\n", (int)remote->style,
		 remote->replicates_permissions, remote->replicates_deletions,
		 remote->mirrors, remote->replicates_note_db_meta);
}

void settings_make_digest(struct push_settings *settings)
{
	AUTO_STR struct str all = STR_INIT;
	AUTO_STR struct str hex = STR_INIT;
	AUTO_HASH struct hash hash;
	unsigned char digest[HASH_MAX_SIZE];

	for (size_t i = 0; i < settings->remotes.count; i++)
		settings_digest_add_remote(&all, &settings->remotes.items[i]);
	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, all.data, all.len);
	hash_end(&hash, digest);
	str_add_hex(&hex, digest, hash_size(HASH_SHA256));
	memcpy(settings->digest, hex.data, sizeof(settings->digest));
}
