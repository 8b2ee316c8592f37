#include "git/oid.h"

bool oid_parse(const char *text, size_t len, struct oid *oid)
{
	*oid = (struct oid){ .len = (unsigned char)len };
	return text_from_hex(text, oid->bytes, len);
}

bool oid_equal(const struct oid *a, const struct oid *b)
{
	return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

bool oid_is_null(const struct oid *oid)
{
	for (size_t i = 0; i < oid->len; i++)
		if (oid->bytes[i] != 0)
			return false;
	return true;
}

int oid_compare(const void *a, const void *b)
{
	const struct oid *left = a, *right = b;

	if (left->len != right->len)
		return left->len < right->len ? -1 : 1;
	return memcmp(left->bytes, right->bytes, left->len);
}

void oid_add_text(const struct oid *oid, struct str *out)
{
	str_add_hex(out, oid->bytes, oid->len);
}

const char *oid_text(const struct oid *oid, char text[OID_MAX_TEXT])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < oid->len; i++) {
		text[2 * i] = digits[oid->bytes[i] >> 4];
		text[2 * i + 1] = digits[oid->bytes[i] & 15];
	}
	text[2 * (size_t)oid->len] = '\0';
	return text;
}

void oid_list_tidy(oid_list *list)
{
	size_t kept = 0;

	vec_sort(list, oid_compare);
	for (size_t i = 0; i < list->count; i++)
		if (kept == 0 || !oid_equal(&list->items[kept - 1], &list->items[i]))
			list->items[kept++] = list->items[i];
	list->count = kept;
}

bool oid_list_has(const oid_list *list, const struct oid *oid)
{
	return list->count > 0 &&
	       bsearch(oid, list->items, list->count, sizeof(*list->items), oid_compare);
}

bool oid_list_has_any(const oid_list *list, const oid_list *others)
{
	for (size_t i = 0; i < others->count; i++)
		if (oid_list_has(list, &others->items[i]))
			return true;
	return false;
}

void oid_list_add_lines(const oid_list *list, const char *before, struct str *out)
{
	for (size_t i = 0; i < list->count; i++) {
		str_add(out, before);
		oid_add_text(&list->items[i], out);
		str_add_char(out, '\n');
	}
}
