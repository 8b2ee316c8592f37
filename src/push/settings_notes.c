/*
 * What is said of keys that are not obeyed, and of unknown ones.
 */
#include <strings.h>

#include "push/keys.h"
#include "push/settings_parts.h"

static bool same_remote(const struct conf_entry *entry,
			const struct remote_source *source)
{
	if (strcasecmp(entry->section, "remote") != 0)
		return false;
	return source->subsection ? entry->subsection && strcmp(entry->subsection,
								source->subsection) == 0
				  : !entry->subsection;
}

/* Of the first key of a section that is not read, what is said of it. */
static bool is_repeated(const struct conf_list *all, size_t which)
{
	if (push_has_section(all->items[which]))
		return false;
	for (size_t i = 0; i < which; i++)
		if (strcasecmp(all->items[i]->section, all->items[which]->section) == 0)
			return true;
	return false;
}

static void note_entry(struct settings_reader *reader, const struct conf_entry *entry)
{
	const char *remark = push_key_remark(entry);

	if (remark)
		settings_note(reader->settings, entry, "%s", remark);
}

/* Some keys are given many times, as authGroup. */
static bool is_first_of_key(const struct conf_list *all, size_t which,
			    const struct remote_source *source)
{
	for (size_t i = 0; i < which; i++)
		if (same_remote(all->items[i], source) &&
		    strcasecmp(all->items[i]->key, all->items[which]->key) == 0)
			return false;
	return true;
}

void settings_note_remote(struct settings_reader *reader,
			  const struct remote_source *source)
{
	const struct conf_list *all = conf_entries(source->conf);

	for (size_t i = 0; i < all->count; i++)
		if (same_remote(all->items[i], source) && is_first_of_key(all, i, source))
			note_entry(reader, all->items[i]);
}

/* Keys that are not of a remote. In our own file, others know the other sections. */
static void settings_notes_note_others(struct settings_reader *reader,
				       const struct conf *conf)
{
	const struct conf_list *all = conf_entries(conf);

	for (size_t i = 0; i < all->count; i++) {
		const struct conf_entry *entry = all->items[i];
		if (strcasecmp(entry->section, "remote") == 0) {
			if (!entry->subsection)
				settings_note(reader->settings, entry,
					      "[remote] needs a name, as in [remote "
					      "\"name\"]: it is ignored");
			continue;
		}
		if ((conf == reader->own && !push_has_section(entry)) ||
		    is_repeated(all, i))
			continue;
		if (push_has_section(entry) && entry->subsection)
			settings_note(reader->settings, entry,
				      "[%s] has no subsections: it is ignored",
				      entry->section);
		else
			note_entry(reader, entry);
	}
}

static void note_fan(struct settings_reader *reader, const struct conf *conf)
{
	const struct conf_list *all = conf_entries(conf);

	for (size_t i = 0; i < all->count; i++)
		if (strcasecmp(all->items[i]->section, "remote") != 0)
			settings_note(reader->settings, all->items[i],
				      "only [remote] is read in this file");
}

/* sshKey of a remote that is not in Gerrit's file would silently do nothing. */
static void note_strangers(struct settings_reader *reader)
{
	struct conf_names names = { 0 };

	conf_subsections(reader->own, "remote", &names);
	for (size_t i = 0; i < names.count; i++) {
		bool is_known = false;
		for (size_t k = 0; k < reader->sources.count; k++)
			is_known |= strcmp(reader->sources.items[k].name,
					   names.items[i]) == 0;
		if (!is_known)
			vec_add(&reader->settings->notes,
				xasprintf("[remote \"%s\"]: there is no such remote in "
					  "Gerrit's files",
					  names.items[i]));
	}
	vec_clear(&names);
}

void settings_note_keys(struct settings_reader *reader)
{
	settings_notes_note_others(reader, reader->main);
	for (size_t i = 0; i < reader->fans.count; i++)
		note_fan(reader, reader->fans.items[i]);
	if (reader->gerrit)
		note_strangers(reader);
}
