#include "change/blob_changed.h"

#include "base/vec.h"

typedef VEC(struct blob_look) look_list;

size_t blob_changed_render(const char *type, char *const *ids, size_t count, size_t room,
			   struct str *out)
{
	size_t at = 0;

	str_addf(out, "%s/", type);
	for (; at < count; at++) {
		if (out->len + strlen(ids[at]) + 1 > room)
			break;
		str_addf(out, "%s%s", at > 0 ? "\n" : "", ids[at]);
	}
	return at;
}

/* Cuts the text into ids. */
static int read_ids(const struct blob_kind *kind, char *text, look_list *looks,
		    struct err *err)
{
	char *rest = text, *id;

	while ((id = strsep(&rest, "\n")) != NULL) {
		struct blob_look look = { .id = id };
		if (blob_id_check(kind, id, err) != 0)
			return -1;
		vec_add(looks, look);
	}
	return 0;
}

/* That it was deleted is a change like others, if this is the first to tell. */
static bool blob_changed_is_fault(const struct blob_look *look)
{
	return look->why.class != ERR_NONE &&
	       !(look->why.class == ERR_MISSING && look->is_changed);
}

static int blob_changed_compare(struct blob_notice *notice, const struct blob_kind *kind,
				look_list *looks, uint64_t *event_id, struct err *err)
{
	int result = blob_notice_compare(notice, kind, looks->items, looks->count, err);
	bool is_first = result == 0;

	for (size_t i = 0; i < looks->count; i++) {
		const struct blob_look *look = &looks->items[i];
		if (look->event_id > *event_id)
			*event_id = look->event_id;
		if (!is_first || !blob_changed_is_fault(look))
			continue;
		*err = look->why;
		is_first = false;
		result = -1;
	}
	return result;
}

int blob_changed(struct blob_notice *notice, const char *words, uint64_t *event_id,
		 struct err *err)
{
	AUTO_FREE char *text = xstrdup(words);
	char *ids = text;
	const char *type = strsep(&ids, "/");
	const struct blob_kind *kind = blob_notice_kind(notice, type);
	look_list looks = { 0 };

	*event_id = 0;
	if (!kind || !ids) {
		err_set(err, ERR_CONFIG, "this site has no blobs of type \"%.40s\"",
			type);
		return err_remedy(err, "name one of the sections [blob \"TYPE\"]");
	}
	int result = read_ids(kind, ids, &looks, err);
	if (result == 0)
		result = blob_changed_compare(notice, kind, &looks, event_id, err);
	for (size_t i = 0; i < looks.count; i++)
		blob_look_clear(&looks.items[i]);
	vec_clear(&looks);
	return result;
}
