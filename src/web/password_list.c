#include "web/password_list.h"

#include <ctype.h>

/* More would hold a processor for half a minute for each guess. */
enum { COST_LEAST = 4, COST_MOST = 17 };

#define SALT_AND_HASH 53
#define BCRYPT_DIGITS "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static bool is_bcrypt(const char *text)
{
	int cost;

	if (strlen(text) != PASSWORD_HASH_LEN || text[0] != '$' || text[1] != '2' ||
	    !strchr("aby", text[2]) || text[3] != '$' || text[6] != '$' ||
	    !isdigit((unsigned char)text[4]) || !isdigit((unsigned char)text[5]))
		return false;
	cost = 10 * (text[4] - '0') + text[5] - '0';
	return cost >= COST_LEAST && cost <= COST_MOST &&
	       strspn(text + 7, BCRYPT_DIGITS) == SALT_AND_HASH;
}

/* Logs and hooks tell who it was by this name: it must not pass for a token's. */
static bool is_user(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if (iscntrl((unsigned char)name[i]))
			return false;
	return len > 0 && len <= PASSWORD_USER_MAX && text_is_utf8(name, len) &&
	       strcmp(name, "operator") != 0 && !text_starts_with(name, "token ");
}

/* `line` ends in a NUL, and is changed. */
static bool password_list_parse_line(char *line, size_t number,
				     struct password_list *list)
{
	char *colon = strchr(line, ':');
	struct password_user user = { .line = number };

	if (!colon || !is_bcrypt(colon + 1))
		return false;
	*colon = '\0';
	if (!is_user(line))
		return false;
	user.name = xstrdup(line);
	memcpy(user.hash, colon + 1, sizeof(user.hash));
	vec_add(&list->users, user);
	return true;
}

static void count_unused(struct password_list *list, size_t line)
{
	if (list->unused++ == 0 || line < list->unused_line)
		list->unused_line = line;
}

static void password_list_take_line(const char *text, size_t len, size_t number,
				    struct password_list *list)
{
	while (len > 0 && isspace((unsigned char)text[len - 1]))
		len--;
	if (len == 0 || text[0] == '#')
		return;
	AUTO_FREE char *line = xstrndup(text, len);
	/* What follows a NUL would be lost without a word. */
	if (strlen(line) == len && password_list_parse_line(line, number, list))
		return;
	count_unused(list, number);
}

static int password_list_compare_names(const void *a, const void *b)
{
	const struct password_user *one = a, *other = b;

	return strcmp(one->name, other->name);
}

static int password_list_compare_users(const void *a, const void *b)
{
	const struct password_user *one = a, *other = b;
	int order = password_list_compare_names(a, b);

	return order ? order : (one->line > other->line) - (one->line < other->line);
}

static void password_list_drop_doubles(struct password_list *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->users.count; i++) {
		struct password_user *user = &list->users.items[i];
		if (kept > 0 &&
		    strcmp(list->users.items[kept - 1].name, user->name) == 0) {
			count_unused(list, user->line);
			free(user->name);
		} else {
			list->users.items[kept++] = *user;
		}
	}
	list->users.count = kept;
}

void password_list_parse(const struct str *text, struct password_list *list)
{
	size_t number = 0, at = 0;

	while (at < text->len) {
		const char *line = text->data + at;
		const char *end = memchr(line, '\n', text->len - at);
		size_t len = end ? (size_t)(end - line) : text->len - at;
		password_list_take_line(line, len, ++number, list);
		at += len + 1;
	}
	vec_sort(&list->users, password_list_compare_users);
	password_list_drop_doubles(list);
}

void password_list_clear(struct password_list *list)
{
	for (size_t i = 0; i < list->users.count; i++) {
		explicit_bzero(list->users.items[i].hash, PASSWORD_HASH_LEN);
		free(list->users.items[i].name);
	}
	vec_clear(&list->users);
	*list = (struct password_list){ 0 };
}

const struct password_user *password_list_find(const struct password_list *list,
					       const char *name)
{
	struct password_user wanted = { .name = (char *)(uintptr_t)name };

	if (list->users.count == 0)
		return NULL;
	return bsearch(&wanted, list->users.items, list->users.count, sizeof(wanted),
		       password_list_compare_names);
}
