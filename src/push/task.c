#include "push/task.h"

#include "base/hash.h"
#include "base/json.h"
#include "net/uri_text.h"
#include "push/destination.h"
#include "push/schedule.h"

/*
 * Written by hand, since the bytes must be those of Gson, which jansson cannot give: no
 * blanks, fields in this order, "<", ">", "&", "=", "'" and U+2028/9 escaped for HTML's
 * sake, other characters outside ASCII as they are.
 */

static const char *short_escape(char c)
{
	switch (c) {
	case '"':
		return "\\\"";
	case '\\':
		return "\\\\";
	case '\t':
		return "\\t";
	case '\b':
		return "\\b";
	case '\n':
		return "\\n";
	case '\r':
		return "\\r";
	case '\f':
		return "\\f";
	default:
		return NULL;
	}
}

static bool is_line_separator(const char *text)
{
	return strncmp(text, "\u2028", 3) == 0 || strncmp(text, "\u2029", 3) == 0;
}

static void write_text(const char *text, struct str *out)
{
	str_add_char(out, '"');
	for (; *text; text++) {
		if (short_escape(*text)) {
			str_add(out, short_escape(*text));
		} else if ((unsigned char)*text < 0x20 || strchr("<>&='", *text)) {
			str_addf(out, "\\u%04x", (unsigned)*text);
		} else if (is_line_separator(text)) {
			text += 2;
			str_addf(out, "\\u%x", 0x2000U | (*text & 0x3f));
		} else {
			str_add_char(out, *text);
		}
	}
	str_add_char(out, '"');
}

void task_write(const struct task *task, struct str *out)
{
	str_add(out, "{\"project\":");
	write_text(task->project, out);
	str_add(out, ",\"refs\":[");
	for (size_t i = 0; i < task->refs.count; i++) {
		str_add(out, i > 0 ? "," : "");
		write_text(task->refs.items[i], out);
	}
	str_add(out, "],\"uri\":");
	write_text(task->uri, out);
	str_add(out, ",\"remote\":");
	write_text(task->remote, out);
	str_add(out, "}\n");
}

static int task_json_read_text(const char *key, const json_t *value, char **text,
			       struct err *err)
{
	if (!json_is_string(value))
		return err_set(err, ERR_CORRUPT, "no task: \"%s\" is no text", key);
	if (json_string_length(value) == 0)
		return err_set(err, ERR_CORRUPT, "no task: \"%s\" is empty", key);
	*text = xstrdup(json_string_value(value));
	return 0;
}

static int task_json_read_ref(const char *key, const json_t *value, text_list *refs,
			      struct err *err)
{
	char *ref = NULL;

	if (task_json_read_text(key, value, &ref, err) != 0)
		return -1;
	vec_add(refs, ref);
	return 0;
}

static int task_json_read_refs(const char *key, const json_t *value, text_list *refs,
			       struct err *err)
{
	size_t at;
	json_t *ref;

	if (!json_is_array(value))
		return err_set(err, ERR_CORRUPT, "no task: \"%s\" is no list", key);
	json_array_foreach(value, at, ref) if (task_json_read_ref(key, ref, refs, err) !=
					       0) return -1;
	return 0;
}

static int task_json_read_field(const char *key, const json_t *value, struct task *task,
				struct err *err)
{
	AUTO_STR struct str shown = STR_INIT;

	if (strcmp(key, "project") == 0)
		return task_json_read_text(key, value, &task->project, err);
	if (strcmp(key, "uri") == 0)
		return task_json_read_text(key, value, &task->uri, err);
	if (strcmp(key, "remote") == 0)
		return task_json_read_text(key, value, &task->remote, err);
	if (strcmp(key, "refs") == 0)
		return task_json_read_refs(key, value, &task->refs, err);
	if (strcmp(key, "ref") == 0)
		return task_json_read_ref(key, value, &task->refs, err);
	str_add_printable(&shown, key);
	err_set(err, ERR_CORRUPT, "no task: it has an unknown field \"%.100s\"",
		shown.data);
	return err_remedy(err, "it may be of a newer Gerrit or refrelay");
}

static int read_fields(json_t *object, struct task *task, struct err *err)
{
	const char *key;
	json_t *value;

	json_object_foreach(object, key,
			    value) if (task_json_read_field(key, value, task, err) !=
				       0) return -1;
	if (!task->project || !task->uri || !task->remote)
		return err_set(err, ERR_CORRUPT, "no task: it has no \"%s\"",
			       !task->project ? "project"
			       : !task->uri   ? "uri"
					      : "remote");
	if (json_object_get(object, "ref") && json_object_get(object, "refs"))
		return err_set(err, ERR_CORRUPT,
			       "no task: it has both \"ref\" and \"refs\"");
	if (task->refs.count == 0)
		return err_set(err, ERR_CORRUPT, "no task: it names no refs");
	return 0;
}

int task_read(const char *text, size_t len, struct task *task, struct err *err)
{
	*task = (struct task){ 0 };
	if (len == 0)
		return err_set(err, ERR_CORRUPT, "no task: the file is empty");
	json_auto_t *object = json_parse_object(text, len, TASK_SIZE_MAX, err);
	if (!object)
		return err_prefix(err, "no task");
	if (read_fields(object, task, err) == 0)
		return 0;
	task_clear(task);
	return -1;
}

static void add_replaced(struct str *out, const char *name, char slash)
{
	for (; *name; name++)
		str_add_char(out, *name == '/' ? slash : *name);
}

static void add_basename(struct str *out, const char *name)
{
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
	const char *dot = strrchr(base, '.');

	str_add_bytes(out, base, dot ? (size_t)(dot - base) : strlen(base));
}

/* Gerrit does it behind the encoding, which comes to the same: no character that is
 * looked for here is encoded, and none comes into being. */
void name_add_styled(struct str *out, const char *project, enum name_style style)
{
	switch (style) {
	case NAME_DASH:
		add_replaced(out, project, '-');
		break;
	case NAME_UNDERSCORE:
		add_replaced(out, project, '_');
		break;
	case NAME_BASENAME:
		add_basename(out, project);
		break;
	case NAME_SLASH:
		str_add(out, project);
		break;
	}
}

void task_clear(struct task *task)
{
	free(task->project);
	free(task->uri);
	free(task->remote);
	text_list_clear(&task->refs);
	*task = (struct task){ 0 };
}

bool task_is_all(const struct task *task)
{
	return text_list_has(&task->refs, TASK_ALL_REFS);
}

void task_order(struct task *task)
{
	java_order(&task->refs);
}

void task_key(const struct task *task, char key[TASK_KEY_SIZE])
{
	AUTO_STR struct str text = STR_INIT;

	str_addf(&text, "%s\n[", task->project);
	for (size_t i = 0; i < task->refs.count; i++)
		str_addf(&text, "%s%s", i > 0 ? ", " : "", task->refs.items[i]);
	str_addf(&text, "]\n%s\n%s", task->uri, task->remote);
	uri_key_of(text.data, key);
}

void uri_key_of(const char *uri, char key[URI_KEY_SIZE])
{
	AUTO_STR struct str hex = STR_INIT;

	hash_add_hex(HASH_SHA1, uri, strlen(uri), hash_size(HASH_SHA1), &hex);
	memcpy(key, hex.data, URI_KEY_SIZE);
}
