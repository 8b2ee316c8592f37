/*
 * libFuzzer: whatever a forge says of a repository is refused, or read; the name that a
 * mirror gets is one, and the URL leads by https or ssh to the host of the forge.
 */
#include <assert.h>
#include <strings.h>

#include "mirror/upstream_entry.h"
#include "replicable/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_entry(const struct upstream_entry *entry)
{
	AUTO_URI struct uri_text api, uri;
	AUTO_FREE char *name = NULL;
	const char *url = NULL;
	struct err err = { 0 };
	int result = uri_text_read("https://api.x.org/orgs/a", &api, &err);

	assert(result == 0);
	if (upstream_entry_make_name(entry, &name, &err) == 0)
		assert(name_judge(name, &err) == 0);
	else
		assert(!name && err.class == ERR_CONFIG);
	uri = (struct uri_text){ 0 };
	if (upstream_entry_choose_url(entry, &api, &url, &err) != 0) {
		assert(!url && err.class == ERR_CONFIG && err.text[0]);
		return;
	}
	result = uri_text_read(url, &uri, &err);
	assert(result == 0 && !uri.password);
	assert(uri.kind == URL_SSH || strcmp(uri.scheme, "https") == 0);
	assert(strcasecmp(uri.host, "x.org") == 0 ||
	       strcasecmp(uri.host, "api.x.org") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const enum upstream_from from[] = { UPSTREAM_GITHUB, UPSTREAM_GITLAB,
						   UPSTREAM_GITEA };
	const struct json_limits limits = { 1 << 16, 1000 };
	struct upstream_entry entry;
	struct err err = { 0 };
	json_auto_t *object = json_parse_foreign((const char *)data, len, &limits, &err);

	if (!object)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(from); i++) {
		if (upstream_entry_read(from[i], object, &entry, &err) != 0) {
			assert(err.class == ERR_CORRUPT);
			continue;
		}
		struct upstream_entry copy = upstream_entry_copy(&entry);
		upstream_entry_clear(&entry);
		check_entry(&copy);
		upstream_entry_clear(&copy);
	}
	return 0;
}
