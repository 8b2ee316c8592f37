/*
 * The keys of a remote that can be given several times, but for URLs.
 */
#include "push/pattern.h"
#include "push/settings_parts.h"
#include "push/spec.h"

const struct conf_list *remote_get_all(const struct remote_reader *at, const char *key)
{
	return conf_get_all(at->source->conf, "remote", at->source->subsection, key);
}

static int read_projects(const struct remote_reader *at, const char *key,
			 name_patterns *patterns, struct err *err)
{
	const struct conf_list *all = remote_get_all(at, key);

	for (size_t i = 0; i < all->count; i++) {
		struct name_pattern *pattern;
		const char *text = NULL;
		if (conf_read_text(all->items[i], &text, err) != 0)
			return -1;
		if (name_pattern_new(text, &pattern, err) != 0) {
			struct err why = *err;
			return conf_error(all->items[i], err, "%s", why.text);
		}
		vec_add(patterns, pattern);
	}
	return 0;
}

/* Gerrit ignores a wrong one, and so do we. */
static void read_excluded_refs(const struct remote_reader *at)
{
	const struct conf_list *all = remote_get_all(at, "excludedRefsPattern");

	for (size_t i = 0; i < all->count; i++) {
		const struct conf_entry *entry = all->items[i];
		struct name_pattern *pattern;
		struct err err;
		if (!entry->value)
			continue;
		if (name_pattern_new_regex(entry->value, &pattern, &err) == 0)
			vec_add(&at->remote->excluded_refs, pattern);
		else
			settings_note(at->reader->settings, entry,
				      "it is ignored, and leaves out nothing: %s",
				      err.text);
	}
}

static int read_specs(const struct remote_reader *at, struct err *err)
{
	const struct conf_list *all = remote_get_all(at, "push");
	struct push_spec spec;

	for (size_t i = 0; i < all->count; i++) {
		const char *text = NULL;
		if (conf_read_text(all->items[i], &text, err) != 0)
			return -1;
		if (push_spec_read(text, &spec, err) != 0) {
			struct err why = *err;
			return conf_error(all->items[i], err, "%s", why.text);
		}
		if (!text_starts_with(spec.src, "refs/"))
			settings_note(at->reader->settings, all->items[i],
				      "it matches no ref: their names begin with refs/");
		vec_add(&at->remote->specs, spec);
	}
	if (all->count > 0)
		return 0;
	spec = (struct push_spec){ .src = xstrdup("refs/*"),
				   .dst = xstrdup("refs/*"),
				   .force = at->reader->forces };
	vec_add(&at->remote->specs, spec);
	return 0;
}

int remote_read_lists(const struct remote_reader *at, struct err *err)
{
	if (read_projects(at, "projects", &at->remote->projects, err) != 0 ||
	    read_projects(at, "excludeProjects", &at->remote->excluded_projects, err) !=
		    0)
		return -1;
	read_excluded_refs(at);
	return read_specs(at, err);
}
