/*
 * What the settings come to for the repositories that there are.
 */
#include "base/map.h"
#include "push/destination.h"
#include "push/pattern.h"

#define EXAMPLES 3
#define SHOWN_MOST 100
#define NAMES_MOST 20 /* of one collision */

/* Who goes to one place. */
struct place {
	json_t *object; /* borrowed; NULL: only one so far */
	char *uri;
	char *name;
	const char *remote;
};

struct explaining {
	const struct push_settings *settings;
	struct map places; /* to struct place, owned */
	json_t *remotes, *collisions, *failures;
	size_t collided;
};

/* Names of remotes, URLs and values may be any bytes. */
static void append(json_t *array, const char *text)
{
	AUTO_STR struct str utf8 = STR_INIT;

	str_add_utf8(&utf8, text, strlen(text));
	json_array_append_new(array, json_string(utf8.data));
}

/* Local places have several texts. */
static const char *place_key(const struct destination *destination)
{
	return destination->kind == URL_LOCAL ? destination->path : destination->uri;
}

static void add_once(json_t *array, const char *text)
{
	for (size_t i = 0; i < json_array_size(array); i++)
		if (strcmp(json_string_value(json_array_get(array, i)), text) == 0)
			return;
	if (json_array_size(array) < NAMES_MOST)
		append(array, text);
}

static void add_collision(struct explaining *explaining, struct place *place,
			  const struct destination *destination)
{
	if (!place->object) {
		explaining->collided++;
		if (json_array_size(explaining->collisions) >= SHOWN_MOST)
			return;
		place->object = json_object();
		json_put_text(place->object, "uri", place->uri);
		json_put(place->object, "names", json_array());
		json_put(place->object, "remotes", json_array());
		json_array_append_new(explaining->collisions, place->object);
		add_once(json_object_get(place->object, "names"), place->name);
		add_once(json_object_get(place->object, "remotes"), place->remote);
	}
	add_once(json_object_get(place->object, "names"), destination->project);
	add_once(json_object_get(place->object, "remotes"), destination->remote->name);
}

static void see_place(struct explaining *explaining,
		      const struct destination *destination)
{
	struct place *place = map_get(&explaining->places, place_key(destination));

	if (place) {
		add_collision(explaining, place, destination);
		return;
	}
	place = xcalloc(1, sizeof(*place));
	place->uri = xstrdup(destination->uri);
	place->name = xstrdup(destination->project);
	place->remote = destination->remote->name;
	map_put(&explaining->places, place_key(destination), place);
}

static void push_explain_add_failure(struct explaining *explaining,
				     const struct push_remote *remote, const char *name,
				     const struct err *err)
{
	json_t *object;

	if (json_array_size(explaining->failures) >= SHOWN_MOST)
		return;
	object = json_object();
	json_put_text(object, "name", name);
	json_put_text(object, "remote", remote->name);
	json_put_message(object, "failure", err->text);
	json_array_append_new(explaining->failures, object);
}

static void see_repository(struct explaining *explaining,
			   const struct push_remote *remote, const char *name,
			   json_t *examples)
{
	for (size_t i = 0; i < remote->urls.count; i++) {
		AUTO_DESTINATION struct destination one;
		struct err err;
		if (destination_make(remote, i, name, &one, &err) != 0) {
			push_explain_add_failure(explaining, remote, name, &err);
			continue;
		}
		see_place(explaining, &one);
		if (json_array_size(examples) >= EXAMPLES)
			continue;
		json_t *example = json_object();
		json_put_text(example, "name", name);
		json_put_text(example, "uri", one.uri);
		json_array_append_new(examples, example);
	}
}

static json_t *notes_of(const struct push_settings *settings, size_t first, size_t count)
{
	json_t *array = json_array();

	for (size_t i = first; i < first + count; i++)
		append(array, settings->notes.items[i]);
	return array;
}

static void push_explain_describe_remote(const struct push_settings *settings,
					 const struct push_remote *remote, json_t *object)
{
	json_t *urls = json_array(), *specs = json_array();

	for (size_t i = 0; i < remote->urls.count; i++)
		append(urls, remote->urls.items[i].template);
	for (size_t i = 0; i < remote->specs.count; i++) {
		AUTO_STR struct str spec = STR_INIT;
		push_spec_render(&remote->specs.items[i], &spec);
		append(specs, spec.data);
	}
	json_put_text(object, "name", remote->name);
	json_put(object, "urls", urls);
	json_put(object, "push", specs);
	json_put(object, "notes", notes_of(settings, remote->first_note, remote->notes));
}

static void see_remote(struct explaining *explaining, const struct push_remote *remote,
		       const char *const *names, size_t count)
{
	json_t *object = json_object(), *examples = json_array();
	int64_t taken = 0;

	push_explain_describe_remote(explaining->settings, remote, object);
	for (size_t i = 0; i < count; i++) {
		if (!push_remote_takes(remote, names[i]))
			continue;
		taken++;
		see_repository(explaining, remote, names[i], examples);
	}
	json_put_number(object, "repositories", taken);
	json_put(object, "examples", examples);
	json_array_append_new(explaining->remotes, object);
}

/* Those before, between and behind the remotes'. */
static json_t *other_notes(const struct push_settings *settings)
{
	json_t *array = json_array();
	size_t at = 0;

	for (size_t i = 0; i <= settings->remotes.count; i++) {
		const struct push_remote *remote =
			i < settings->remotes.count ? &settings->remotes.items[i] : NULL;
		size_t end = remote ? remote->first_note : settings->notes.count;
		json_t *more = notes_of(settings, at, end - at);
		json_array_extend(array, more);
		json_decref(more);
		at = remote ? remote->first_note + remote->notes : end;
	}
	return array;
}

static void free_places(struct map *places)
{
	const struct map_entry *entry;
	size_t at = 0;

	while ((entry = map_next(places, &at)) != NULL) {
		struct place *place = entry->value;
		free(place->uri);
		free(place->name);
		free(place);
	}
	map_clear(places);
}

json_t *push_settings_explain(const struct push_settings *settings,
			      const char *const *names, size_t count)
{
	struct explaining explaining = { .settings = settings,
					 .remotes = json_array(),
					 .collisions = json_array(),
					 .failures = json_array() };
	json_t *object = json_object();

	for (size_t i = 0; i < settings->remotes.count; i++)
		see_remote(&explaining, &settings->remotes.items[i], names, count);
	json_put(object, "remotes", explaining.remotes);
	json_put(object, "notes", other_notes(settings));
	json_put(object, "collisions", explaining.collisions);
	json_put_number(object, "collisions_count", (int64_t)explaining.collided);
	json_put(object, "failures", explaining.failures);
	free_places(&explaining.places);
	return object;
}
