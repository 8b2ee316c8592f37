/*
 * libFuzzer: whatever an htpasswd file has in it, each user that is read of it is found
 * again, once, has a bcrypt hash, and does not pass for a token.
 */
#include <assert.h>

#include "web/password_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_STR struct str text = STR_INIT;
	struct password_list list = { 0 };
	const struct map_entry *entry;
	size_t at = 0;

	str_add_bytes(&text, data, len);
	password_list_parse(&text, &list);
	assert(list.users.count == list.by_name.count);
	while ((entry = map_next(&list.by_name, &at)) != NULL) {
		const char *name = entry->key;
		const struct password_user *user = password_list_find(&list, name);
		assert(user == &list.users.items[(size_t)entry->value - 1]);
		assert(strlen(user->hash) == PASSWORD_HASH_LEN && user->hash[0] == '$');
		assert(*name && !strpbrk(name, ":\n"));
		assert(!text_starts_with(name, "token "));
	}
	assert((list.unused == 0) == (list.unused_line == 0));
	assert(list.unused + list.users.count <= len);
	password_list_clear(&list);
	return 0;
}
