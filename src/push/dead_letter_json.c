#include "base/json.h"
#include "push/state_json.h"

void dead_letter_write(const struct err *why, const ref_failures *refs, int64_t failed_at,
		       struct str *out)
{
	json_auto_t *object = json_object();
	json_t *list = json_array();

	err_put_json(object, why);
	json_put_number(object, "failed_at", failed_at);
	for (size_t i = 0; i < refs->count; i++) {
		json_t *one = json_object();
		json_put_text(one, "ref", refs->items[i].ref);
		json_put_message(one, "text",
				 refs->items[i].text ? refs->items[i].text : "");
		json_array_append_new(list, one);
	}
	json_put(object, "refs", list);
	json_render(object, out);
	str_add_char(out, '\n');
}

static int dead_letter_read_failure(const json_t *one, ref_failures *refs,
				    struct err *err)
{
	AUTO_STR struct str ref = STR_INIT;
	AUTO_STR struct str text = STR_INIT;

	if (json_get_bytes(one, "ref", &ref, err) != 0 ||
	    json_get_bytes(one, "text", &text, err) != 0)
		return -1;
	struct ref_failure failure = { xstrdup(ref.data), xstrdup(text.data) };
	vec_add(refs, failure);
	return 0;
}

int dead_letter_read(const struct str *text, struct dead_letter *letter, struct err *err)
{
	json_auto_t *object = json_parse_object(text->data, text->len, SIZE_MAX, err);
	size_t at;
	json_t *one;

	if (!object)
		return -1;
	err_get_json(object, &letter->why);
	letter->failed_at = json_integer_value(json_object_get(object, "failed_at"));
	json_array_foreach(json_object_get(object, "refs"), at,
			   one) if (dead_letter_read_failure(one, &letter->refs, err) !=
				    0) return -1;
	return 0;
}

void err_put_json(json_t *object, const struct err *from)
{
	json_put_text(object, "class", err_class_name(from->class));
	json_put_text(object, "reason", err_reason_name(from->reason));
	json_put_message(object, "text", from->text);
	json_put_message(object, "remedy", from->remedy);
}

static void dead_letter_copy_text(const json_t *object, const char *key, char *to,
				  size_t size)
{
	const char *text = json_string_value(json_object_get(object, key));

	snprintf(to, size, "%s", text ? text : "");
}

void err_get_json(const json_t *object, struct err *to)
{
	const char *class = json_string_value(json_object_get(object, "class"));

	*to = (struct err){
		.class = err_class_of_name(class ? class : ""),
		.reason = err_reason_of_name(
			json_string_value(json_object_get(object, "reason"))),
	};
	dead_letter_copy_text(object, "text", to->text, sizeof(to->text));
	dead_letter_copy_text(object, "remedy", to->remedy, sizeof(to->remedy));
}
