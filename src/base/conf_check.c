#include "base/conf_check.h"

#include <strings.h>

struct known {
	const struct conf_section *const *sections;
	size_t count;
};

#define NAME_LIMIT 64 /* of names worth comparing */

static char lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
}

static size_t conf_check_minimum(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* How many letters must be put in, left out, replaced, or swapped with their
 * neighbour. The table's row i compares the first i letters of `one`. */
static size_t distance(const char *one, const char *two)
{
	size_t rows[NAME_LIMIT + 1][NAME_LIMIT + 1];
	size_t len_one = strlen(one), len_two = strlen(two);

	if (len_one > NAME_LIMIT || len_two > NAME_LIMIT)
		return SIZE_MAX;
	for (size_t j = 0; j <= len_two; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= len_one; i++) {
		char c = lower(one[i - 1]);
		rows[i][0] = i;
		for (size_t j = 1; j <= len_two; j++) {
			char d = lower(two[j - 1]);
			size_t best = rows[i - 1][j - 1] + (c != d);
			best = conf_check_minimum(best, rows[i - 1][j] + 1);
			best = conf_check_minimum(best, rows[i][j - 1] + 1);
			if (i > 1 && j > 1 && c == lower(two[j - 2]) &&
			    d == lower(one[i - 2]))
				best = conf_check_minimum(best, rows[i - 2][j - 2] + 1);
			rows[i][j] = best;
		}
	}
	return rows[len_one][len_two];
}

struct nearest {
	const char *word; /* NULL: nothing was offered */
	size_t distance;
};

static void offer(struct nearest *nearest, const char *wanted, const char *word)
{
	size_t found = distance(wanted, word);

	if (!nearest->word || found < nearest->distance)
		*nearest = (struct nearest){ .word = word, .distance = found };
}

/* Near enough to be what was meant. */
static bool is_near(const struct nearest *nearest)
{
	return nearest->distance <= 1 + strlen(nearest->word) / 4;
}

static bool has_key(const struct conf_section *section, const char *key)
{
	for (const char *const *known = section->keys; *known; known++)
		if (strcasecmp(*known, key) == 0)
			return true;
	return false;
}

static bool is_for(const struct conf_section *section, const struct conf_entry *entry)
{
	return strcasecmp(section->name, entry->section) == 0 &&
	       section->has_subsection == (entry->subsection != NULL);
}

static bool conf_check_is_known_key(const struct known *known,
				    const struct conf_entry *entry)
{
	for (size_t i = 0; i < known->count; i++)
		if (is_for(known->sections[i], entry) &&
		    has_key(known->sections[i], entry->key))
			return true;
	return false;
}

static bool has_section(const struct known *known, const char *name)
{
	for (size_t i = 0; i < known->count; i++)
		if (strcasecmp(known->sections[i]->name, name) == 0)
			return true;
	return false;
}

static bool has_form(const struct known *known, const struct conf_entry *entry)
{
	for (size_t i = 0; i < known->count; i++)
		if (is_for(known->sections[i], entry))
			return true;
	return false;
}

static bool is_lenient(const struct known *known, const char *name)
{
	for (size_t i = 0; i < known->count; i++)
		if (strcasecmp(known->sections[i]->name, name) == 0 &&
		    known->sections[i]->strictness == CONF_LENIENT)
			return true;
	return false;
}

static void say_unknown_section(const struct known *known, const struct conf_entry *entry,
				struct str *text)
{
	struct nearest nearest = { 0 };

	for (size_t i = 0; i < known->count; i++)
		offer(&nearest, entry->section, known->sections[i]->name);
	str_addf(text, "unknown section [%s]", entry->section);
	if (nearest.word)
		str_addf(text,
			 is_near(&nearest) ? "; did you mean [%s]?"
					   : "; the nearest known one is [%s]",
			 nearest.word);
}

static void say_wrong_form(const struct conf_entry *entry, struct str *text)
{
	if (entry->subsection)
		str_addf(text, "[%s \"%s\"]: this section has no subsections",
			 entry->section, entry->subsection);
	else
		str_addf(text, "[%s] needs a name, as in [%s \"name\"]", entry->section,
			 entry->section);
}

/* Another section that knows the key, or NULL. */
static const char *home_of_key(const struct known *known, const char *key)
{
	for (size_t i = 0; i < known->count; i++)
		if (has_key(known->sections[i], key))
			return known->sections[i]->name;
	return NULL;
}

static void say_unknown_key(const struct known *known, const struct conf_entry *entry,
			    struct str *text)
{
	const char *home = home_of_key(known, entry->key);
	struct nearest nearest = { 0 };

	for (size_t i = 0; i < known->count; i++)
		if (is_for(known->sections[i], entry))
			for (const char *const *key = known->sections[i]->keys; *key;
			     key++)
				offer(&nearest, entry->key, *key);
	str_add(text, "unknown key ");
	conf_render_name(entry, text);
	if (nearest.word && is_near(&nearest))
		str_addf(text, "; did you mean %s?", nearest.word);
	else if (home)
		str_addf(text, "; it belongs to [%s]", home);
	else if (nearest.word)
		str_addf(text, "; the nearest known one is %s", nearest.word);
}

static void say_what_is_wrong(const struct known *known, const struct conf_entry *entry,
			      struct str *text)
{
	str_addf(text, "%s:%u: ", entry->file, entry->line);
	if (!has_section(known, entry->section))
		say_unknown_section(known, entry, text);
	else if (!has_form(known, entry))
		say_wrong_form(entry, text);
	else
		say_unknown_key(known, entry, text);
}

int conf_check(const struct conf *conf, const struct conf_section *const *sections,
	       size_t count, const struct conf_report *report, struct err *err)
{
	const struct known known = { .sections = sections, .count = count };
	const struct conf_list *entries = conf_entries(conf);

	for (size_t i = 0; i < entries->count; i++) {
		const struct conf_entry *entry = entries->items[i];
		AUTO_STR struct str text = STR_INIT;

		if (conf_check_is_known_key(&known, entry))
			continue;
		say_what_is_wrong(&known, entry, &text);
		if (!is_lenient(&known, entry->section))
			return err_set(err, ERR_CONFIG, "%s", text.data);
		report->warn(report->data, text.data);
	}
	return 0;
}
