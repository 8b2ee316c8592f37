#include "base/conf.h"

#include <assert.h>
#include <stdarg.h>
#include <strings.h>

#define SHOWN "%.60s" /* of a wrong value */

int conf_error(const struct conf_entry *entry, struct err *err, const char *fmt, ...)
{
	AUTO_STR struct str name = STR_INIT;
	char text[sizeof(err->text)];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	conf_render_name(entry, &name);
	return err_set(err, ERR_CONFIG, "%s:%u: %s: %s", entry->file, entry->line,
		       name.data, text);
}

int conf_prefix(const struct conf_entry *entry, struct err *err)
{
	struct err cause = *err;

	conf_error(entry, err, "%s", cause.text);
	return err_remedy(err, "%s", cause.remedy);
}

/* An entry without "=" has the empty text, which no reader of numbers takes. */
static const char *conf_read_entry_text(const struct conf_entry *entry)
{
	return entry->value ? entry->value : "";
}

/* Reads the digits at the start; *rest is what follows. False: none, or too many. */
static bool conf_read_leading_number(const char *text, uint64_t *number,
				     const char **rest)
{
	size_t len = strspn(text, "0123456789");
	AUTO_FREE char *digits = xstrndup(text, len);

	*rest = text + len;
	return text_to_uint64(digits, number);
}

int conf_read_text(const struct conf_entry *entry, const char **value, struct err *err)
{
	if (!entry)
		return 0;
	if (!entry->value)
		return conf_error(entry, err, "a value is needed, as in %s = something",
				  entry->key);
	*value = entry->value;
	return 0;
}

static bool is_one_of(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (strcasecmp(text, *words) == 0)
			return true;
	return false;
}

int conf_read_bool(const struct conf_entry *entry, bool *value, struct err *err)
{
	static const char *const yes[] = { "true", "yes", "on", NULL };
	static const char *const no[] = { "false", "no", "off", "", NULL };
	uint64_t number;

	if (!entry)
		return 0;
	if (!entry->value || is_one_of(entry->value, yes))
		*value = true;
	else if (is_one_of(entry->value, no))
		*value = false;
	else if (text_to_uint64(entry->value, &number))
		*value = number != 0;
	else
		return conf_error(entry, err,
				  "\"" SHOWN "\" is neither true (yes, on, 1) nor false "
				  "(no, off, 0)",
				  entry->value);
	return 0;
}

int conf_read_uint(const struct conf_entry *entry, uint64_t min, uint64_t max,
		   uint64_t *value, struct err *err)
{
	uint64_t number;

	if (!entry)
		return 0;
	if (!text_to_uint64(conf_read_entry_text(entry), &number) || number < min ||
	    number > max)
		return conf_error(entry, err,
				  "\"" SHOWN "\" is not a number from %" PRIu64
				  " to %" PRIu64,
				  conf_read_entry_text(entry), min, max);
	*value = number;
	return 0;
}

/* The factor that a suffix stands for; 0: none that we know. */
static uint64_t size_factor(const char *suffix)
{
	if (!*suffix)
		return 1;
	if (strcasecmp(suffix, "k") == 0)
		return UINT64_C(1) << 10;
	if (strcasecmp(suffix, "m") == 0)
		return UINT64_C(1) << 20;
	if (strcasecmp(suffix, "g") == 0)
		return UINT64_C(1) << 30;
	return 0;
}

int conf_read_size(const struct conf_entry *entry, uint64_t *value, struct err *err)
{
	uint64_t number, factor = 0;
	const char *suffix;

	if (!entry)
		return 0;
	if (conf_read_leading_number(conf_read_entry_text(entry), &number, &suffix))
		factor = size_factor(suffix);
	if (factor == 0 || __builtin_mul_overflow(number, factor, &number))
		return conf_error(entry, err,
				  "\"" SHOWN "\" is not a size: a number of bytes, with "
				  "k, m or g behind it if you like",
				  conf_read_entry_text(entry));
	*value = number;
	return 0;
}

static int64_t duration_factor(const char *suffix, enum conf_unit bare)
{
	static const struct {
		const char *suffix;
		enum conf_unit unit;
	} units[] = {
		{ "ms", CONF_MILLISECOND }, { "s", CONF_SECOND }, { "m", CONF_MINUTE },
		{ "h", CONF_HOUR },         { "d", CONF_DAY },
	};

	if (!*suffix)
		return (int64_t)bare;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strcmp(suffix, units[i].suffix) == 0)
			return (int64_t)units[i].unit;
	return 0;
}

int conf_read_duration(const struct conf_entry *entry, enum conf_unit bare,
		       int64_t *value_ms, struct err *err)
{
	uint64_t number;
	int64_t factor = 0, ms;
	const char *suffix;

	if (!entry)
		return 0;
	if (conf_read_leading_number(conf_read_entry_text(entry), &number, &suffix))
		factor = duration_factor(suffix, bare);
	if (factor == 0 || __builtin_mul_overflow(number, factor, &ms))
		return conf_error(entry, err,
				  "\"" SHOWN "\" is not a duration: a number with ms, s, "
				  "m, h or d behind it, as 90s",
				  conf_read_entry_text(entry));
	*value_ms = ms;
	return 0;
}

/* Reads "5%" or "0.25%" by hand: strtod would obey the locale and take "nan". */
static bool parse_percent(const char *text, double *percent)
{
	uint64_t whole, part = 0;
	size_t places = 0;
	const char *rest;

	if (!conf_read_leading_number(text, &whole, &rest) || whole > 100)
		return false;
	if (*rest == '.') {
		const char *digits = rest + 1;
		if (!conf_read_leading_number(digits, &part, &rest))
			return false;
		places = (size_t)(rest - digits);
	}
	*percent = (double)part;
	while (places-- > 0)
		*percent /= 10;
	*percent += (double)whole;
	return strcmp(rest, "%") == 0 && *percent <= 100;
}

int conf_read_share(const struct conf_entry *entry, double *value, struct err *err)
{
	double percent;

	if (!entry)
		return 0;
	if (!parse_percent(conf_read_entry_text(entry), &percent))
		return conf_error(entry, err,
				  "\"" SHOWN
				  "\" is not a share from 0%% to 100%%, as 5%%",
				  conf_read_entry_text(entry));
	*value = percent / 100;
	return 0;
}

int conf_read_choice(const struct conf_entry *entry, const char *const *words,
		     size_t *value, struct err *err)
{
	AUTO_STR struct str accepted = STR_INIT;

	assert(words[0]);
	if (!entry)
		return 0;
	for (size_t i = 0; words[i]; i++) {
		if (strcasecmp(conf_read_entry_text(entry), words[i]) == 0) {
			*value = i;
			return 0;
		}
		str_addf(&accepted, "%s%s", i > 0 ? ", " : "", words[i]);
	}
	return conf_error(entry, err, "\"" SHOWN "\" is not one of: %s",
			  conf_read_entry_text(entry), accepted.data);
}
