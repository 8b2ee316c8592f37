/*
 * libFuzzer: any target of a request is refused with an error, or taken apart; then its
 * path climbs nowhere, decoded or not, and each key of its query is found.
 */
#include <assert.h>

#include "base/str.h"
#include "web/router.h"

/* "/.." before a slash or at the end, or two slashes before the last part. */
static void assert_climbs_nowhere(const char *path)
{
	const char *at = path;

	assert(*path == '/');
	while ((at = strstr(at, "/..")) != NULL) {
		assert(at[3] != '\0' && at[3] != '/');
		at += 3;
	}
	assert(!strstr(path, "//"));
}

static void assert_query(const struct target *target)
{
	for (size_t i = 0; i < target->query.count; i++) {
		const struct target_field *field = &target->query.items[i];
		assert(strlen(field->key) + strlen(field->value) < strlen(target->raw));
		assert(target_query(target, field->key));
	}
	if (target->query.count > 0) {
		const struct target_field *last =
			&target->query.items[target->query.count - 1];
		assert(target_query(target, last->key) == last->value);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_FREE char *text = xstrndup((const char *)data, len);
	AUTO_FREE char *raw = xstrdup(text);
	AUTO_FREE char *path = NULL;
	struct err err = { 0 };
	struct target target;

	if (target_parse(raw, &target, &err) != 0) {
		assert(err.class == ERR_CONFIG && err.text[0]);
		target_clear(&target);
		return 0;
	}
	assert(strcmp(target.raw, raw) == 0 && text_starts_with(raw, target.path));
	path = target_decode(target.path, strlen(target.path));
	assert_climbs_nowhere(path);
	assert_query(&target);
	target_clear(&target);
	return 0;
}
