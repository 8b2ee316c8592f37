#include "base/setting.h"

#include <assert.h>
#include <strings.h>

#include "base/vec.h"

void *setting_field(const struct setting *row, void *target)
{
	return (char *)target + row->offset;
}

int setting_add_text(const struct setting *row, const struct conf_entry *entry,
		     void *target, struct err *err)
{
	text_list *list = setting_field(row, target);
	const char *text = NULL;

	if (!entry->file)
		return 0;
	if (conf_read_text(entry, &text, err) != 0)
		return -1;
	if (!text || !text[0])
		return conf_error(entry, err, "is empty");
	vec_add(list, xstrdup(text));
	return 0;
}

static const void *field_of(const struct setting *row, const void *target)
{
	return (const char *)target + row->offset;
}

static int read_duration(const struct setting *row, const struct conf_entry *entry,
			 int64_t *field, struct err *err)
{
	bool has_seconds = row->min % CONF_SECOND == 0;
	int64_t value = 0;

	if (conf_read_duration(entry, row->unit ? row->unit : CONF_SECOND, &value, err) !=
	    0)
		return -1;
	if (value < (int64_t)row->min)
		return conf_error(entry, err, "it must be %" PRIu64 "%s or more",
				  has_seconds ? row->min / CONF_SECOND : row->min,
				  has_seconds ? "s" : "ms");
	*field = value;
	return 0;
}

static int read_choice(const struct setting *row, const struct conf_entry *entry,
		       unsigned *field, struct err *err)
{
	size_t choice = 0;

	if (conf_read_choice(entry, row->words, &choice, err) != 0)
		return -1;
	*field = (unsigned)choice;
	return 0;
}

static int setting_read_text(const struct setting *row, const struct conf_entry *entry,
			     char **field, struct err *err)
{
	const char *text = NULL;

	if (conf_read_text(entry, &text, err) != 0)
		return -1;
	if (row->type == SETTING_PATH && text[0] != '/') {
		conf_error(entry, err, "\"%.60s\" is not an absolute path", text);
		return err_remedy(err, "begin it with a slash");
	}
	free(*field);
	*field = xstrdup(text);
	return 0;
}

int setting_read(const struct setting *row, const struct conf_entry *entry, void *target,
		 struct err *err)
{
	void *field = setting_field(row, target);

	if (row->read)
		return row->read(row, entry, target, err);
	switch (row->type) {
	case SETTING_BOOL:
		return conf_read_bool(entry, field, err);
	case SETTING_NUMBER:
		return conf_read_uint(entry, row->min, row->max ? row->max : INT64_MAX,
				      field, err);
	case SETTING_SIZE:
		return conf_read_size(entry, field, err);
	case SETTING_DURATION:
		return read_duration(row, entry, field, err);
	case SETTING_SHARE:
		return conf_read_share(entry, field, err);
	case SETTING_CHOICE:
		return read_choice(row, entry, field, err);
	case SETTING_TEXT:
	case SETTING_PATH:
		return setting_read_text(row, entry, field, err);
	case SETTING_OWN:
	case SETTING_IGNORED:
	case SETTING_LATER:
		break;
	}
	return 0;
}

void settings_init(const struct setting_table *table, void *target)
{
	for (const struct setting *row = table->rows; row->key; row++) {
		const struct conf_entry entry = {
			.section = (char *)(uintptr_t)table->section,
			.key = (char *)(uintptr_t)row->key,
			.value = (char *)(uintptr_t)row->initial,
		};
		struct err err;
		int result = row->initial ? setting_read(row, &entry, target, &err) : 0;
		assert(result == 0);
	}
}

static int settings_miss(const struct setting_table *table, const char *subsection,
			 const struct setting *row, struct err *err)
{
	if (subsection) {
		err_set(err, ERR_CONFIG, "%s.%s.%s is not set", table->section,
			subsection, row->key);
		return err_remedy(err, "set %s in the section [%s \"%s\"]", row->key,
				  table->section, subsection);
	}
	err_set(err, ERR_CONFIG, "%s.%s is not set", table->section, row->key);
	return err_remedy(err, "set %s in the section [%s] of the configuration",
			  row->key, table->section);
}

int setting_read_all(const struct setting *row, const struct conf_list *all, void *target,
		     struct err *err)
{
	for (size_t i = 0; i < all->count; i++)
		if ((row->is_repeated || i + 1 == all->count) &&
		    setting_read(row, all->items[i], target, err) != 0)
			return -1;
	return 0;
}

/* What depends on other things. */
static int setting_read_derived(const struct setting_table *table,
				const struct setting *row, const struct conf *conf,
				void *target, struct err *err)
{
	AUTO_FREE char *value = row->derive ? row->derive(conf) : NULL;
	const struct conf_entry entry = {
		.section = (char *)(uintptr_t)table->section,
		.key = (char *)(uintptr_t)row->key,
		.value = value,
	};

	return value ? setting_read(row, &entry, target, err) : 0;
}

int settings_read(const struct setting_table *table, const struct conf *conf,
		  const char *subsection, void *target, struct err *err)
{
	settings_init(table, target);
	for (const struct setting *row = table->rows; row->key; row++) {
		const struct conf_list *all =
			conf_get_all(conf, table->section, subsection, row->key);
		if (all->count == 0 && row->is_required)
			return settings_miss(table, subsection, row, err);
		if ((all->count == 0 &&
		     setting_read_derived(table, row, conf, target, err) != 0) ||
		    setting_read_all(row, all, target, err) != 0)
			return -1;
	}
	return 0;
}

static void settings_add_section(const struct setting_table *table,
				 const char *subsection, struct conf *conf)
{
	for (const struct setting *row = table->rows; row->key; row++) {
		AUTO_FREE char *derived = row->derive ? row->derive(conf) : NULL;
		const char *value = derived ? derived : row->initial;
		if (table->is_lenient && !row->is_own &&
		    conf_get(conf, "replication", NULL, "config"))
			continue; /* it is in Gerrit's file */
		if (value && !conf_get(conf, table->section, subsection, row->key))
			conf_add_default(conf, table->section, subsection, row->key,
					 value);
	}
}

static bool settings_has_section(const struct setting_table *table,
				 const struct conf *conf)
{
	const struct conf_list *all = conf_entries(conf);

	for (size_t i = 0; i < all->count; i++)
		if (strcasecmp(all->items[i]->section, table->section) == 0)
			return true;
	return false;
}

void settings_add_defaults(const struct setting_table *const *tables, struct conf *conf)
{
	for (; *tables; tables++) {
		const struct setting_table *table = *tables;
		struct conf_names names = { 0 };
		if (table->has_subsection)
			conf_subsections(conf, table->section, &names);
		else if (!table->is_lenient || settings_has_section(table, conf))
			settings_add_section(table, NULL, conf);
		for (size_t i = 0; i < names.count; i++)
			settings_add_section(table, names.items[i], conf);
		vec_clear(&names);
	}
}

static bool is_text(const struct setting *row)
{
	return row->type == SETTING_TEXT || row->type == SETTING_PATH;
}

void settings_clear(const struct setting_table *table, void *target)
{
	for (const struct setting *row = table->rows; row->key; row++) {
		char **field = setting_field(row, target);
		if (is_text(row))
			free(TAKE(*field));
	}
}

const char *setting_text(const struct setting *row, const void *target)
{
	const void *field = field_of(row, target);

	if (row->type == SETTING_CHOICE)
		return row->words[*(const unsigned *)field];
	return is_text(row) ? *(char *const *)field : NULL;
}

bool setting_is_same(const struct setting *row, const void *one, const void *other)
{
	static const size_t sizes[] = {
		[SETTING_BOOL] = sizeof(bool),
		[SETTING_NUMBER] = sizeof(uint64_t),
		[SETTING_SIZE] = sizeof(uint64_t),
		[SETTING_SHARE] = sizeof(double),
		[SETTING_DURATION] = sizeof(int64_t),
		[SETTING_CHOICE] = sizeof(unsigned),
		[SETTING_LATER] = 0,
	};
	const char *a = setting_text(row, one), *b = setting_text(row, other);

	if (is_text(row))
		return strcmp(a ? a : "", b ? b : "") == 0;
	return memcmp(field_of(row, one), field_of(row, other), sizes[row->type]) == 0;
}

bool settings_are_same(const struct setting_table *table, const void *one,
		       const void *other)
{
	for (const struct setting *row = table->rows; row->key; row++)
		if (row->type != SETTING_OWN && row->type != SETTING_LATER &&
		    !setting_is_same(row, one, other))
			return false;
	return true;
}

void settings_digest(const struct setting_table *table, const void *target,
		     struct str *out)
{
	for (const struct setting *row = table->rows; row->key; row++)
		if (row->digest)
			row->digest(field_of(row, target), out);
}

const struct setting *setting_find(const struct setting_table *table, const char *key)
{
	for (const struct setting *row = table->rows; row->key; row++)
		if (strcasecmp(row->key, key) == 0)
			return row;
	return NULL;
}

static bool is_section(const struct setting_table *table, const struct conf_entry *entry)
{
	return strcasecmp(table->section, entry->section) == 0;
}

static bool is_for(const struct setting_table *table, const struct conf_entry *entry)
{
	return is_section(table, entry) &&
	       table->has_subsection == (entry->subsection != NULL);
}

const struct setting *settings_find(const struct setting_table *const *tables,
				    const struct conf_entry *entry)
{
	const struct setting *row = NULL;

	for (; *tables && !row; tables++)
		if (is_for(*tables, entry))
			row = setting_find(*tables, entry->key);
	return row;
}

bool setting_is_built(const struct setting_table *const *tables,
		      const struct conf_entry *entry)
{
	const struct setting *row = settings_find(tables, entry);

	if (!row || row->type != SETTING_LATER)
		return true;
	return row->initial && entry->value && strcmp(row->initial, entry->value) == 0;
}

struct nearest {
	const char *word; /* NULL: nothing was offered */
	size_t distance;
};

static void offer(struct nearest *nearest, const char *wanted, const char *word)
{
	size_t found = text_distance(wanted, word);

	if (!nearest->word || found < nearest->distance)
		*nearest = (struct nearest){ .word = word, .distance = found };
}

/* Near enough to be what was meant. */
static bool is_near(const struct nearest *nearest)
{
	return nearest->distance <= 1 + strlen(nearest->word) / 4;
}

static void say_unknown_section(const struct setting_table *const *tables,
				const struct conf_entry *entry, struct str *text)
{
	struct nearest nearest = { 0 };

	for (; *tables; tables++)
		offer(&nearest, entry->section, (*tables)->section);
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

static void say_unknown_key(const struct setting_table *const *tables,
			    const struct conf_entry *entry, struct str *text)
{
	const char *home = NULL; /* another section that knows the key */
	struct nearest nearest = { 0 };

	for (; *tables; tables++) {
		if (is_for(*tables, entry))
			for (const struct setting *row = (*tables)->rows; row->key; row++)
				offer(&nearest, entry->key, row->key);
		if (!home && setting_find(*tables, entry->key))
			home = (*tables)->section;
	}
	str_add(text, "unknown key ");
	conf_render_name(entry, text);
	if (nearest.word && is_near(&nearest))
		str_addf(text, "; did you mean %s?", nearest.word);
	else if (home)
		str_addf(text, "; it belongs to [%s]", home);
	else if (nearest.word)
		str_addf(text, "; the nearest known one is %s", nearest.word);
}

static int refuse_unknown(const struct setting_table *const *tables,
			  const struct conf_entry *entry, struct err *err)
{
	bool is_known_section = false, is_known_form = false;
	AUTO_STR struct str text = STR_INIT;

	for (size_t i = 0; tables[i]; i++) {
		if (is_section(tables[i], entry) && tables[i]->is_lenient)
			return 0;
		is_known_section |= is_section(tables[i], entry);
		is_known_form |= is_for(tables[i], entry);
	}
	if (!is_known_section)
		say_unknown_section(tables, entry, &text);
	else if (!is_known_form)
		say_wrong_form(entry, &text);
	else
		say_unknown_key(tables, entry, &text);
	return err_set(err, ERR_CONFIG, "%s:%u: %s", entry->file, entry->line, text.data);
}

/* Of a section without keys nobody would see that it lacks those that it needs: what it
 * is for would be left out of replication, or nobody told of trouble. Without those of
 * others less is permitted, and whoever takes the keys out, as of a token, wants that. */
static int settings_check_headers(const struct setting_table *const *tables,
				  const struct conf *conf, struct err *err)
{
	const struct conf_header *empty;

	for (size_t at = 0; (empty = conf_next_empty(conf, &at)) != NULL;)
		for (size_t i = 0; tables[i]; i++) {
			if (!tables[i]->needs_keys ||
			    strcasecmp(tables[i]->section, empty->section) != 0)
				continue;
			err_set(err, ERR_CONFIG,
				"%s:%u: the section [%s \"%s\"] has no keys", empty->file,
				empty->line, empty->section, empty->subsection);
			return err_remedy(err, "set its keys, or remove its header, too");
		}
	return 0;
}

int settings_check(const struct setting_table *const *tables, const struct conf *conf,
		   struct err *err)
{
	const struct conf_list *all = conf_entries(conf);

	for (size_t i = 0; i < all->count; i++)
		if (!settings_find(tables, all->items[i]) &&
		    refuse_unknown(tables, all->items[i], err) != 0)
			return -1;
	return settings_check_headers(tables, conf, err);
}

int settings_check_built(const struct setting_table *const *tables,
			 const struct conf *conf, struct err *err)
{
	const struct conf_list *all = conf_entries(conf);

	for (size_t i = 0; i < all->count; i++) {
		if (setting_is_built(tables, all->items[i]))
			continue;
		conf_error(all->items[i], err, "this is not implemented yet");
		return err_remedy(err, "remove it from the configuration");
	}
	return 0;
}
