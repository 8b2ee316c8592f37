#include "test.h"

#include "base/setting.h"
#include "node/settings.h"

/* One field a type. */
struct sample {
	bool flag;
	uint64_t number, size;
	int64_t duration, slow;
	double share;
	enum { COLOR_RED, COLOR_GREEN, COLOR_BLUE } color;
	char *text, *path;
	unsigned repeated;
};

static int count_one(const struct setting *row, const struct conf_entry *entry,
		     void *target, struct err *e)
{
	unsigned *count = setting_field(row, target);

	if (entry->value && strcmp(entry->value, "bad") == 0)
		return conf_error(entry, e, "it is bad");
	(*count)++;
	return 0;
}

static void digest_number(const void *field, struct str *out)
{
	str_addf(out, "<%" PRIu64 ">", *(const uint64_t *)field);
}

#define AT(kind, member) SETTING_AT(kind, struct sample, member)

static const struct setting rows[] = {
	{ "flag", AT(BOOL, flag), "true" },
	{ "number", AT(NUMBER, number), "7", .min = 2, .max = 9, .at_start = true,
	  .digest = digest_number },
	{ "size", AT(SIZE, size), "4k", .digest = digest_number },
	{ "duration", AT(DURATION, duration), "1m", .min = CONF_SECOND },
	{ "slow", AT(DURATION, slow), "2", .min = 100, .unit = CONF_DAY },
	{ "share", AT(SHARE, share), "5%" },
	{ "color", AT(CHOICE, color), "blue",
	  .words = (const char *const[]){ "red", "green", "blue", NULL } },
	{ "text", AT(TEXT, text), "as it is" },
	{ "path", AT(PATH, path) },
	{ "repeated", .offset = offsetof(struct sample, repeated), .read = count_one,
	  .is_repeated = true },
	{ "single", .offset = offsetof(struct sample, repeated), .read = count_one },
	{ "old", .type = SETTING_IGNORED, .remark = "nothing" },
	{ "later", .type = SETTING_LATER, .initial = "now" },
	{ 0 },
};
static const struct setting needed_rows[] = {
	{ "path", AT(PATH, path), .is_required = true },
	{ 0 },
};
static const struct setting more_rows[] = { { .key = "reverifyInterval" }, { 0 } };
static const struct setting remote_rows[] = { { .key = "url" },
					      { .key = "threads" },
					      { 0 } };

static const struct setting_table table = { .section = "sample", .rows = rows };
static const struct setting_table more = { .section = "sample", .rows = more_rows };
static const struct setting_table named = { .section = "named",
					    .rows = needed_rows,
					    .has_subsection = true,
					    .needs_keys = true };
static const struct setting_table token = { .section = "token",
					    .rows = needed_rows,
					    .has_subsection = true };
static const struct setting_table needed = { .section = "needed", .rows = needed_rows };
static const struct setting_table lenient = { .section = "remote",
					      .rows = remote_rows,
					      .has_subsection = true,
					      .is_lenient = true };
static const struct setting_table *const tables[] = { &table, &more,    &named,
						      &token, &lenient, NULL };

static struct sample sample;

static int forget_sample(void **state)
{
	(void)state;
	settings_clear(&table, &sample);
	sample = (struct sample){ 0 };
	return 0;
}

#define SAMPLE_CASE(name) cmocka_unit_test_teardown(name, forget_sample)

static struct conf *parse(const char *text)
{
	struct conf *conf = NULL;

	assert_ok(conf_load_text("t.conf", text, strlen(text), &conf, &err));
	return conf;
}

static int read_sample(const char *lines)
{
	AUTO_FREE char *text = xasprintf("[sample]\n%s\n", lines);
	AUTO_CONF struct conf *conf = parse(text);

	forget_sample(NULL);
	return settings_read(&table, conf, NULL, &sample, &err);
}

TEST(what_is_not_said_has_the_default_of_its_row)
{
	assert_ok(read_sample(""));
	assert_true(sample.flag);
	assert_int_equal(sample.number, 7);
	assert_int_equal(sample.size, 4096);
	assert_int_equal(sample.duration, 60 * 1000);
	assert_int_equal(sample.slow, 2 * 24 * 3600 * 1000);
	assert_true(sample.share > 0.0499 && sample.share < 0.0501);
	assert_int_equal(sample.color, COLOR_BLUE);
	assert_string_equal(sample.text, "as it is");
	assert_null(sample.path);
	assert_int_equal(sample.repeated, 0);
}

TEST(each_type_is_read_into_its_field)
{
	assert_ok(read_sample("FLAG = no\nnumber = 9\nsize = 2m\nduration = 90\n"
			      "slow = 100ms\nshare = 0.5%\ncolor = Green\ntext =\n"
			      "path = /one\npath = /two\nrepeated\nrepeated = x\n"
			      "single = bad\nsingle = 1\n"));
	assert_false(sample.flag);
	assert_int_equal(sample.number, 9);
	assert_int_equal(sample.size, 2 << 20);
	assert_int_equal(sample.duration, 90 * 1000);
	assert_int_equal(sample.slow, 100);
	assert_true(sample.share > 0.00499 && sample.share < 0.00501);
	assert_int_equal(sample.color, COLOR_GREEN);
	assert_string_equal(sample.text, "");
	assert_string_equal(sample.path, "/two");
	assert_int_equal(sample.repeated, 3);
}

TEST(a_wrong_value_is_refused_with_its_place_and_what_is_right)
{
	static const struct {
		const char *line, *says;
	} cases[] = {
		{ "flag = maybe", "neither true" },
		{ "number = 1", "not a number from 2 to 9" },
		{ "number = 10", "not a number from 2 to 9" },
		{ "size = much", "not a size" },
		{ "duration = 999ms", "it must be 1s or more" },
		{ "slow = 99ms", "it must be 100ms or more" },
		{ "share = 101%", "not a share" },
		{ "color = pink", "not one of: red, green, blue" },
		{ "text", "a value is needed" },
		{ "path = here", "not an absolute path" },
		{ "path =", "not an absolute path" },
		{ "repeated = bad", "it is bad" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *line = xasprintf("#\n%s", cases[i].line);
		assert_fails(read_sample(line), ERR_CONFIG);
		if (!text_starts_with(err.text, "t.conf:3: sample.") ||
		    !strstr(err.text, cases[i].says))
			fail_msg("%s: %s", cases[i].line, err.text);
	}
}

TEST(what_is_required_is_missed_by_its_name)
{
	AUTO_CONF struct conf *conf = parse("[named \"x\"]\nother = 1\n");

	assert_fails(settings_read(&named, conf, "x", &sample, &err), ERR_CONFIG);
	assert_string_equal(err.text, "named.x.path is not set");
	assert_string_equal(err.remedy, "set path in the section [named \"x\"]");
	assert_fails(settings_read(&needed, conf, NULL, &sample, &err), ERR_CONFIG);
	assert_string_equal(err.text, "needed.path is not set");
}

TEST(fields_are_compared_and_digested_by_their_rows)
{
	AUTO_STR struct str digest = STR_INIT;
	struct sample before = { .text = (char[]){ "as it is" } };

	assert_ok(read_sample("number = 3"));
	settings_digest(&table, &sample, &digest);
	assert_string_equal(digest.data, "<3><4096>");
	before.number = 3;
	assert_true(setting_is_same(setting_find(&table, "number"), &before, &sample));
	before.number = 4;
	assert_false(setting_is_same(setting_find(&table, "NUMBER"), &before, &sample));
	assert_true(setting_is_same(setting_find(&table, "text"), &before, &sample));
	before.text = NULL;
	assert_false(setting_is_same(setting_find(&table, "text"), &before, &sample));
	assert_string_equal(setting_text(setting_find(&table, "color"), &sample), "blue");
	assert_false(setting_is_same(setting_find(&table, "color"), &before, &sample));
}

static int check(const char *text)
{
	AUTO_CONF struct conf *conf = parse(text);

	return settings_check(tables, conf, &err);
}

TEST(what_is_known_passes)
{
	assert_ok(check("[Sample]\nNUMBER = x\nreverifyInterval = 2\nold = 1\nlater\n"
			"[named \"paris\"]\npath = x\n[remote \"r\"]\nurl = x\n"));
}

TEST(what_is_unknown_is_told_with_the_nearest_name)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{ "[sample]\ndurations = 1",
		  "t.conf:2: unknown key sample.durations; did you mean duration?" },
		{ "[sample]\nreverfiyInterval = 1",
		  "t.conf:2: unknown key sample.reverfiyInterval; did you mean "
		  "reverifyInterval?" },
		{ "[sample]\nsahre = 1",
		  "t.conf:2: unknown key sample.sahre; did you mean share?" },
		{ "[named \"p\"]\nsecret = 1",
		  "t.conf:2: unknown key named.p.secret; the nearest known one is path" },
		{ "[sample]\nthreads = 1",
		  "t.conf:2: unknown key sample.threads; it belongs to [remote]" },
		{ "[smaple]\nsize = 1",
		  "t.conf:2: unknown section [smaple]; did you mean [sample]?" },
		{ "[zzzzzzzz]\nx = 1", "t.conf:2: unknown section [zzzzzzzz]; the "
				       "nearest known one is [sample]" },
		{ "[named]\npath = 1",
		  "t.conf:2: [named] needs a name, as in [named \"name\"]" },
		{ "[sample \"x\"]\nsize = 1",
		  "t.conf:2: [sample \"x\"]: this section has no subsections" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_fails(check(cases[i].text), ERR_CONFIG);
		assert_string_equal(err.text, cases[i].message);
	}
}

TEST(a_section_without_the_keys_that_it_needs_is_told)
{
	static const char *const fine[] = {
		"[remote \"r\"]\n",
		"[token \"t\"]\n#path = x\n",
		"[sample]\n[named]\n[other \"x\"]\n",
		"[named \"p\"]\npath = x\n[named \"p\"]\n",
		"[named \"p\"]\n#path = x\n[NAMED \"p\"]\n\npath = x\n",
	};

	assert_fails(check("[sample]\n\n [Named \"p\"] # path\n#path = x\n"
			   "[named \"P\"]\npath = x\n"),
		     ERR_CONFIG);
	assert_string_equal(err.text, "t.conf:3: the section [Named \"p\"] has no keys");
	assert_non_null(strstr(err.remedy, "remove its header"));
	assert_fails(check("[named \"p\"]"), ERR_CONFIG);
	assert_fails(check("[named.p]\n[sample]\nsize = 1"), ERR_CONFIG);
	for (size_t i = 0; i < ARRAY_SIZE(fine); i++)
		assert_ok(check(fine[i]));
}

TEST(very_long_names_are_only_unknown)
{
	AUTO_STR struct str text = STR_INIT;

	str_add(&text, "[sample]\n");
	for (int i = 0; i < 1000; i++)
		str_add_char(&text, 'x');
	assert_fails(check(text.data), ERR_CONFIG);
	assert_true(text_starts_with(err.text, "t.conf:2: unknown key sample.xxx"));
}

TEST(sections_of_others_may_have_any_key)
{
	assert_ok(check("[remote \"r\"]\nthread = 1\nfoo = 1\n[remote]\nurl = x\n"));
}

TEST(what_is_not_built_yet_is_known_by_its_row)
{
	AUTO_CONF struct conf *conf = parse("[sample]\nlater = now\nlater = then\nlater\n"
					    "size = 1\nunknown = 1\n");
	static const bool is_built[] = { true, false, false, true, true };

	for (size_t i = 0; i < ARRAY_SIZE(is_built); i++)
		assert_int_equal(setting_is_built(tables, conf_entries(conf)->items[i]),
				 is_built[i]);
}

TEST(the_section_sync_is_read_in_its_own_units)
{
	AUTO_CONF struct conf *conf =
		parse("[sync]\nrepositoryCapacity = 3\nverificationCapacity = 0\n"
		      "consistencyInterval = 90\ntimeout = 5m\nscanInterval = 100ms\n"
		      "reverifyInterval = 2\ndeleteBrake = 50%\nbandwidth = 1m\n");
	struct pull_settings sync = { 0 };

	assert_ok(settings_read(&pull_settings_table, conf, NULL, &sync, &err));
	assert_int_equal(sync.repository_capacity, 3);
	assert_int_equal(sync.verification_capacity, 0);
	assert_int_equal(sync.scan_interval_ms, 100);
	assert_int_equal(sync.consistency_interval_ms, 90 * 1000);
	assert_int_equal(sync.timeout_ms, 5 * 60 * 1000);
	assert_int_equal(sync.reverify_ms, (int64_t)2 * 24 * 3600 * 1000);
	assert_true(sync.delete_brake > 0.499 && sync.delete_brake < 0.501);
	assert_int_equal(sync.bandwidth, 1 << 20);
}

TEST(events_are_kept_for_a_while)
{
	AUTO_CONF struct conf *conf =
		parse("[events]\nkeepFor = 1m\nkeepNumber = 1\n"
		      "keepFor = 0\nkeepFor = 59s\nkeepNumber = 0\n");
	const struct conf_list *all = conf_entries(conf);
	static struct node_settings settings;

	for (size_t i = 0; i < all->count; i++) {
		const struct conf_entry *entry = all->items[i];
		int result = setting_read(settings_find(node_settings_tables, entry),
					  entry, &settings, &err);
		assert_int_equal(result, i < 2 ? 0 : -1);
	}
	assert_int_equal(settings.keep_for_ms, 60 * 1000);
	assert_int_equal(settings.keep_number, 1);
}

/* One line ".It Cm key , key Pq Sy start" of refrelay.conf(5), and what it says. */
struct documented {
	char section[32], key[64], mark[16], initial[64];
};
typedef VEC(struct documented) documented_list;

/* The word, without what ends a sentence. */
static void copy_word(const char *from, char *word, size_t size)
{
	size_t len = strcspn(from, " \n");

	while (len > 0 && strchr(".,;", from[len - 1]))
		len--;
	snprintf(word, size, "%.*s", (int)len, from);
}

static void add_keys(const char *line, const char *section, documented_list *list)
{
	const char *mark = strstr(line, " Pq Sy ");
	struct documented one = { 0 };

	snprintf(one.section, sizeof(one.section), "%s", section);
	if (mark)
		copy_word(mark + strlen(" Pq Sy "), one.mark, sizeof(one.mark));
	for (const char *at = line; at < (mark ? mark : line + strlen(line)); at++) {
		copy_word(at, one.key, sizeof(one.key));
		at += strcspn(at, " ");
		if (one.key[0])
			vec_add(list, one);
		if (!*at)
			break;
	}
}

/* "Default: 10." on one line, or "Default:" and ".Cm 1m ." on the next. */
static void set_initial(const char *line, documented_list *list, size_t first)
{
	for (size_t i = first; i < list->count; i++)
		copy_word(line, list->items[i].initial, sizeof(list->items[i].initial));
}

static void read_manual_line(const char *line, char section[32], bool *is_default,
			     size_t *first, documented_list *list)
{
	if (text_starts_with(line, ".Ss ")) {
		snprintf(section, 32, "%.*s", (int)strcspn(line + 5, " ]"), line + 5);
		if (line[4] != '[')
			section[0] = '\0';
	} else if (section[0] && text_starts_with(line, ".It Cm ")) {
		*first = list->count;
		add_keys(line + strlen(".It Cm "), section, list);
	} else if (*is_default && text_starts_with(line, ".Cm ")) {
		set_initial(line + strlen(".Cm "), list, *first);
	} else if (section[0] && text_starts_with(line, "Default: ")) {
		set_initial(line + strlen("Default: "), list, *first);
	}
	*is_default = strcmp(line, "Default:") == 0;
}

static void read_manual(struct str *text, documented_list *list)
{
	AUTO_FREE char *path =
		xasprintf("%s/../docs/man/refrelay.conf.5", getenv("TESTS"));
	char section[32] = "";
	bool is_default = false;
	size_t first = 0;

	assert_ok(file_read_any(AT_FDCWD, path, 1 << 20, text, &err));
	for (const char *at = text->data; *at; at += *at == '\n') {
		size_t len = strcspn(at, "\n");
		AUTO_FREE char *line = xstrndup(at, len);
		read_manual_line(line, section, &is_default, &first, list);
		at += len;
	}
	assert_true(list->count > 80);
}

static const struct documented *find_documented(const documented_list *list,
						const char *section, const char *key)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->items[i].section, section) == 0 &&
		    strcmp(list->items[i].key, key) == 0)
			return &list->items[i];
	return NULL;
}

static void check_row(const struct setting_table *of, const struct setting *row,
		      const struct documented *found)
{
	const char *mark = of->is_lenient ? "" : "reload";

	if (!found)
		fail_msg("%s.%s is not in refrelay.conf(5)", of->section, row->key);
	if (row->initial && strcmp(found->initial, row->initial) != 0)
		fail_msg("%s.%s: default %s, but in refrelay.conf(5) \"%s\"", of->section,
			 row->key, row->initial, found->initial);
	if (strcmp(found->mark, row->at_start ? "start" : mark) != 0)
		fail_msg("%s.%s: refrelay.conf(5) says \"%s\" of when it is obeyed",
			 of->section, row->key, found->mark);
}

TEST(the_manual_has_each_row_with_its_default_and_when_it_is_obeyed)
{
	AUTO_STR struct str text = STR_INIT;
	documented_list list = { 0 };

	read_manual(&text, &list);
	for (size_t i = 0; node_settings_tables[i]; i++) {
		const struct setting_table *of = node_settings_tables[i];
		for (const struct setting *row = of->rows; row->key; row++) {
			AUTO_FREE char *name = xasprintf("%s.%s", of->section, row->key);
			AUTO_FREE char *whole = xasprintf("[%s ", of->section);
			const struct documented *found =
				find_documented(&list, of->section, row->key);
			if (row->type == SETTING_LATER)
				assert_true(found || strstr(text.data, name) ||
					    strstr(text.data, whole));
			else if (row->type != SETTING_IGNORED)
				check_row(of, row, found);
		}
	}
	vec_clear(&list);
}

TEST(the_manual_has_no_key_that_is_no_row)
{
	AUTO_STR struct str text = STR_INIT;
	documented_list list = { 0 };

	read_manual(&text, &list);
	for (size_t i = 0; i < list.count; i++) {
		const struct documented *one = &list.items[i];
		bool is_row = false;
		for (size_t k = 0; node_settings_tables[k]; k++)
			is_row |= strcmp(node_settings_tables[k]->section,
					 one->section) == 0 &&
				  setting_find(node_settings_tables[k], one->key);
		if (!is_row)
			fail_msg("refrelay.conf(5) has %s.%s", one->section, one->key);
	}
	vec_clear(&list);
}

/* A default that its own type refuses would end the program at its start. */
TEST(every_default_fits_its_row)
{
	for (size_t i = 0; node_settings_tables[i]; i++) {
		const struct setting_table *of = node_settings_tables[i];
		AUTO_FREE char *target = xcalloc(1, 4096);
		settings_init(of, target);
		settings_clear(of, target);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SAMPLE_CASE(what_is_not_said_has_the_default_of_its_row),
		SAMPLE_CASE(each_type_is_read_into_its_field),
		SAMPLE_CASE(a_wrong_value_is_refused_with_its_place_and_what_is_right),
		SAMPLE_CASE(what_is_required_is_missed_by_its_name),
		SAMPLE_CASE(fields_are_compared_and_digested_by_their_rows),
		cmocka_unit_test(what_is_known_passes),
		cmocka_unit_test(what_is_unknown_is_told_with_the_nearest_name),
		cmocka_unit_test(a_section_without_the_keys_that_it_needs_is_told),
		cmocka_unit_test(very_long_names_are_only_unknown),
		cmocka_unit_test(sections_of_others_may_have_any_key),
		cmocka_unit_test(what_is_not_built_yet_is_known_by_its_row),
		cmocka_unit_test(the_section_sync_is_read_in_its_own_units),
		cmocka_unit_test(events_are_kept_for_a_while),
		cmocka_unit_test(
			the_manual_has_each_row_with_its_default_and_when_it_is_obeyed),
		cmocka_unit_test(the_manual_has_no_key_that_is_no_row),
		cmocka_unit_test(every_default_fits_its_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
