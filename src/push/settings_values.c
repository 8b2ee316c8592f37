#include "push/settings_parts.h"

#include <stdarg.h>
#include <strings.h>

#define SHOWN "%.60s"
#define LONGEST_MS (100 * 365 * (int64_t)CONF_DAY)
#define MOST_COUNT INT32_MAX /* as Gerrit */

void settings_note(struct push_settings *settings, const struct conf_entry *entry,
		   const char *fmt, ...)
{
	AUTO_STR struct str name = STR_INIT;
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	conf_render_name(entry, &name);
	vec_add(&settings->notes,
		xasprintf("%s:%u: %s: %s", entry->file, entry->line, name.data, text));
}

const struct conf_entry *settings_own(const struct settings_reader *reader,
				      const char *section, const char *subsection,
				      const char *key)
{
	const struct conf_entry *entry = conf_get(reader->own, section, subsection, key);

	return entry ? entry : conf_get(reader->main, section, subsection, key);
}

/* What a unit stands for; 0: it is none. Gerrit's own words, and those of all our
 * durations. */
static int64_t factor_of(const char *unit, enum conf_unit bare)
{
	static const struct {
		const char *words; /* each between blanks */
		int64_t ms;
	} units[] = {
		{ " ms milliseconds ", CONF_MILLISECOND },
		{ " s sec second seconds ", CONF_SECOND },
		{ " m min minute minutes ", CONF_MINUTE },
		{ " h hr hour hours ", CONF_HOUR },
		{ " d day days ", CONF_DAY },
		{ " w week weeks ", 7 * (int64_t)CONF_DAY },
		{ " mon month months ", 30 * (int64_t)CONF_DAY },
		{ " y year years ", 365 * (int64_t)CONF_DAY },
	};
	AUTO_FREE char *wanted = xasprintf(" %s ", unit);

	if (!*unit)
		return (int64_t)bare;
	for (size_t i = 0; i < ARRAY_SIZE(units) && !strchr(unit, ' '); i++)
		if (strcasestr(units[i].words, wanted))
			return units[i].ms;
	return 0;
}

int settings_read_time(const struct conf_entry *entry, enum conf_unit bare,
		       int64_t *value_ms, struct err *err)
{
	const char *text = entry && entry->value ? entry->value : "";
	const char *digits = text + (text[0] == '-');
	size_t len = strspn(digits, "0123456789");
	int64_t factor, ms;
	uint64_t number;

	if (!entry)
		return 0;
	AUTO_FREE char *leading = xstrndup(digits, len);
	factor = factor_of(digits + len + strspn(digits + len, " "), bare);
	if (!text_to_uint64(leading, &number) || factor == 0)
		return conf_error(entry, err,
				  "\"" SHOWN "\" is not a duration: a number with ms, s, "
				  "m, h or d behind it, as 90s",
				  text);
	if (__builtin_mul_overflow(number, factor, &ms) || ms > LONGEST_MS)
		return conf_error(entry, err,
				  "\"" SHOWN "\" is more than a hundred years", text);
	*value_ms = text[0] == '-' ? 0 : ms;
	return 0;
}

int settings_read_count(const struct conf_entry *entry, uint64_t *value, struct err *err)
{
	uint64_t number = 0;

	if (!entry)
		return 0;
	if (conf_read_size(entry, &number, ERR_IGNORED) != 0 || number > MOST_COUNT)
		return conf_error(entry, err,
				  "\"" SHOWN "\" is not a number from 0 to %d",
				  entry->value ? entry->value : "", MOST_COUNT);
	*value = number;
	return 0;
}

int settings_read_count_or_less(const struct conf_entry *entry, uint64_t *value,
				struct err *err)
{
	struct conf_entry positive;

	if (!entry || !entry->value || entry->value[0] != '-')
		return settings_read_count(entry, value, err);
	positive = *entry;
	positive.value++;
	if (settings_read_count(&positive, value, err) != 0)
		return -1;
	*value = 0;
	return 0;
}

int settings_read_text(const struct conf_entry *entry, char **value, struct err *err)
{
	const char *text = NULL;

	if (conf_read_text(entry, &text, err) != 0)
		return -1;
	if (text && *text) {
		free(*value);
		*value = xstrdup(text);
	}
	return 0;
}

int settings_read_path(const struct conf_entry *entry, char **value, struct err *err)
{
	if (entry && entry->value && entry->value[0] && entry->value[0] != '/')
		return conf_error(entry, err, "it must be an absolute path");
	return settings_read_text(entry, value, err);
}
