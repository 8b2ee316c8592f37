#include "push/state_json.h"

void uri_names_put_json(json_t *object, const char *uri, const char *remote,
			const char *project)
{
	json_put_text(object, "uri", uri);
	json_put_text(object, "remote", remote);
	json_put_text(object, "project", project);
}

static int get_text(const json_t *object, const char *key, char **text, struct err *err)
{
	AUTO_STR struct str got = STR_INIT;

	if (json_get_bytes(object, key, &got, err) != 0)
		return -1;
	*text = xstrdup(got.data);
	return 0;
}

int uri_names_get_json(const json_t *object, char **uri, char **remote, char **project,
		       struct err *err)
{
	if (get_text(object, "uri", uri, err) != 0 ||
	    get_text(object, "remote", remote, err) != 0)
		return -1;
	return get_text(object, "project", project, err);
}

void uri_state_write_json(const struct uri_state *state, struct str *out)
{
	json_auto_t *object = json_object();

	uri_names_put_json(object, state->uri, state->remote, state->project);
	json_put_number(object, "retry_at", state->retry_at);
	json_put_number(object, "failures", (int64_t)state->failures);
	json_put_number(object, "lock_failures", (int64_t)state->lock_failures);
	json_put_number(object, "failing_since", state->failing_since);
	json_put_number(object, "last_success_at", state->last_success_at);
	json_put_number(object, "held_since", state->held_since);
	json_put_text(object, "node", state->node);
	err_put_json(object, &state->failure);
	json_t *letters = json_array();
	for (size_t i = 0; i < state->letters.count; i++)
		json_array_append_new(letters, json_string(state->letters.items[i]));
	json_put(object, "given_up", letters);
	json_render(object, out);
	str_add_char(out, '\n');
}

static int64_t uri_state_json_get_number(const json_t *object, const char *key)
{
	int64_t number = json_integer_value(json_object_get(object, key));

	return number > 0 ? number : 0;
}

static void get_letters(const json_t *object, ref_names *letters)
{
	const json_t *list = json_object_get(object, "given_up");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *key = json_string_value(json_array_get(list, i));
		if (key)
			vec_add(letters, xstrdup(key));
	}
}

int uri_state_read_json(const struct str *text, struct uri_state *state, struct err *err)
{
	json_auto_t *object = json_parse_object(text->data, text->len, SIZE_MAX, err);
	const char *node;

	if (!object || uri_names_get_json(object, &state->uri, &state->remote,
					  &state->project, err) != 0)
		return -1;
	state->retry_at = uri_state_json_get_number(object, "retry_at");
	state->failures = (uint64_t)uri_state_json_get_number(object, "failures");
	state->lock_failures =
		(uint64_t)uri_state_json_get_number(object, "lock_failures");
	state->failing_since = uri_state_json_get_number(object, "failing_since");
	state->last_success_at = uri_state_json_get_number(object, "last_success_at");
	state->held_since = uri_state_json_get_number(object, "held_since");
	node = json_string_value(json_object_get(object, "node"));
	snprintf(state->node, sizeof(state->node), "%s", node ? node : "");
	err_get_json(object, &state->failure);
	get_letters(object, &state->letters);
	return 0;
}
