/*
 * libFuzzer: any text is refused with an error that names a line, or read; and what was
 * read, written down again with every value quoted, reads the same.
 *	clang -std=gnu17 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined -Isrc \
 *		tests/fuzz/fuzz_conf.c \
 *		src/base/{clock,conf{,_read},err,file,log,map,mem,setting,str}.c
 */
#include <assert.h>

#include "base/conf.h"
#include "base/setting.h"

static void add_quoted(struct str *out, const char *text, bool is_value)
{
	str_add_char(out, '"');
	for (; *text; text++) {
		if (*text == '\n' && is_value) {
			str_add(out, "\\n");
			continue;
		}
		if (*text == '"' || *text == '\\')
			str_add_char(out, '\\');
		str_add_char(out, *text);
	}
	str_add_char(out, '"');
}

static void write_down(const struct conf_entry *entry, struct str *out)
{
	str_addf(out, "[%s", entry->section);
	if (entry->subsection) {
		str_add_char(out, ' ');
		add_quoted(out, entry->subsection, false);
	}
	str_addf(out, "]%s", entry->key);
	if (entry->value) {
		str_add_char(out, '=');
		add_quoted(out, entry->value, true);
	}
	str_add_char(out, '\n');
}

static void assert_same_text(const char *one, const char *two)
{
	assert((one != NULL) == (two != NULL));
	assert(!one || strcmp(one, two) == 0);
}

static void read_values(const struct conf_entry *entry)
{
	const char *text;
	bool flag;
	uint64_t number;
	int64_t ms;
	double share;

	conf_read_text(entry, &text, ERR_IGNORED);
	conf_read_bool(entry, &flag, ERR_IGNORED);
	conf_read_size(entry, &number, ERR_IGNORED);
	if (conf_read_duration(entry, CONF_SECOND, &ms, ERR_IGNORED) == 0)
		assert(ms >= 0);
	if (conf_read_share(entry, &share, ERR_IGNORED) == 0)
		assert(share >= 0 && share <= 1);
}

static void look_at(const struct conf *conf)
{
	static const struct setting rows[] = { { .key = "name" },
					       { .key = "path" },
					       { 0 } };
	static const struct setting_table site = { .section = "site", .rows = rows };
	static const struct setting_table *const tables[] = { &site, NULL };
	AUTO_STR struct str text = STR_INIT;

	conf_render(conf, &text);
	settings_check(tables, conf, ERR_IGNORED);
}

static void assert_reads_the_same(const struct conf *conf)
{
	const struct conf_list *entries = conf_entries(conf);
	AUTO_STR struct str text = STR_INIT;
	AUTO_CONF struct conf *again = NULL;
	struct err err;

	for (size_t i = 0; i < entries->count; i++)
		write_down(entries->items[i], &text);
	int result = conf_load_text("again", text.data, text.len, &again, &err);
	assert(result == 0);
	assert(conf_entries(again)->count == entries->count);
	for (size_t i = 0; i < entries->count; i++) {
		const struct conf_entry *one = entries->items[i];
		const struct conf_entry *two = conf_entries(again)->items[i];
		assert_same_text(one->section, two->section);
		assert_same_text(one->subsection, two->subsection);
		assert_same_text(one->key, two->key);
		assert_same_text(one->value, two->value);
		assert(conf_get(conf, one->section, one->subsection, one->key));
		read_values(one);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_CONF struct conf *conf = NULL;
	struct err err = { 0 };

	if (conf_load_text("fuzz", (const char *)data, len, &conf, &err) != 0) {
		assert(err.class == ERR_CONFIG && strncmp(err.text, "fuzz:", 5) == 0);
		return 0;
	}
	assert_reads_the_same(conf);
	look_at(conf);
	return 0;
}
