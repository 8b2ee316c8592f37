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

	str_add_bytes(&text, data, len);
	password_list_parse(&text, &list);
	for (size_t i = 0; i < list.users.count; i++) {
		const struct password_user *user = &list.users.items[i];
		assert(password_list_find(&list, user->name) == user);
		assert(strlen(user->hash) == PASSWORD_HASH_LEN && user->hash[0] == '$');
		assert(*user->name && !strpbrk(user->name, ":\n"));
		assert(!text_starts_with(user->name, "token "));
	}
	assert((list.unused == 0) == (list.unused_line == 0));
	assert(list.unused + list.users.count <= len);
	password_list_clear(&list);
	return 0;
}
