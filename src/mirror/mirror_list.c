#include "mirror/mirror_list.h"

#include "base/str.h"
#include "net/http.h"

#define LIST(kind, member) SETTING_AT(kind, struct mirror_list, member)
#define LIST_TEXTS(member)                                                               \
	.type = SETTING_OWN, .offset = offsetof(struct mirror_list, member),             \
	.read = setting_add_text, .is_repeated = true, .at_start = true

static const struct setting mirror_list_rows[] = {
	{ "from", LIST(CHOICE, source.from), .words = upstream_from_words,
	  .is_required = true, .at_start = true },
	{ "url", LIST(TEXT, source.url), .is_required = true, .at_start = true },
	{ "tokenFile", LIST(PATH, token_file), .at_start = true },
	{ "caFile", LIST(PATH, ca_file), .at_start = true },
	{ "include", LIST_TEXTS(source.include) },
	{ "exclude", LIST_TEXTS(source.exclude) },
	{ "forks", LIST(BOOL, source.has_forks), "false", .at_start = true },
	{ "archived", LIST(BOOL, source.has_archived), "false", .at_start = true },
	{ "maxSize", LIST(SIZE, source.max_size), "0", .at_start = true },
	{ "adopt", LIST(BOOL, adopts), "false", .at_start = true },
	{ "interval", LIST(DURATION, interval_ms), "5m", .min = CONF_SECOND,
	  .at_start = true },
	{ "watcher", LIST_TEXTS(watchers) },
	{ "depth", LIST(NUMBER, depth), "0", .max = MIRROR_DEPTH_MOST, .at_start = true },
	{ "checkout", LIST(BOOL, has_checkout), "false", .at_start = true },
	{ "lfs", LIST(BOOL, has_lfs), "false", .at_start = true },
	{ "webhookSecretFile", LIST(PATH, webhook_secret_file), .at_start = true },
	{ 0 },
};

const struct setting_table mirror_list_settings_table = { .section = "mirrors",
							  .rows = mirror_list_rows,
							  .has_subsection = true,
							  .needs_keys = true };

static bool mirror_list_may_be_path(const struct mirror_list *list)
{
	return list->source.from == UPSTREAM_DIRECTORY ||
	       (list->source.from == UPSTREAM_GROKMIRROR && list->source.url[0] == '/');
}

static int mirror_list_check_path(const struct conf_entry *entry,
				  const struct mirror_list *list, struct err *err)
{
	if (list->source.url[0] != '/') {
		conf_error(entry, err, "it is not an absolute path");
		return err_remedy(err, "name the directory by its whole path");
	}
	if (list->token_file || list->ca_file) {
		const char *key = list->token_file ? "tokenFile" : "caFile";
		conf_error(entry, err, "%s has no effect with a path", key);
		return err_remedy(err, "remove %s", key);
	}
	return 0;
}

static int mirror_list_check_url(const struct conf_entry *entry,
				 const struct mirror_list *list, struct err *err)
{
	AUTO_STR struct str host = STR_INIT;
	const char *why;

	if (mirror_list_may_be_path(list))
		return mirror_list_check_path(entry, list, err);
	why = http_check_url(list->source.url, false, &host);
	if (!why)
		return 0;
	conf_error(entry, err, "%s", why);
	return err_remedy(err, list->source.from == UPSTREAM_GROKMIRROR
				       ? "give the manifest's URL, or its path"
				       : "give the API's URL of an organisation, group "
					 "or user; a token goes into tokenFile");
}

int mirror_list_read(const struct conf *conf, const char *name, struct mirror_list *list,
		     struct err *err)
{
	*list = (struct mirror_list){ .name = xstrdup(name) };
	if (settings_read(&mirror_list_settings_table, conf, name, list, err) != 0)
		return -1;
	return mirror_list_check_url(conf_get(conf, "mirrors", name, "url"), list, err);
}

void mirror_list_clear(struct mirror_list *list)
{
	settings_clear(&mirror_list_settings_table, list);
	text_list_clear(&list->source.include);
	text_list_clear(&list->source.exclude);
	text_list_clear(&list->watchers);
	free(list->name);
	*list = (struct mirror_list){ 0 };
}

bool mirror_list_are_texts_same(const text_list *one, const text_list *other)
{
	bool is_same = one->count == other->count;

	for (size_t i = 0; is_same && i < one->count; i++)
		is_same = strcmp(one->items[i], other->items[i]) == 0;
	return is_same;
}

bool mirror_list_is_same(const struct mirror_list *one, const struct mirror_list *other)
{
	const struct upstream_source *source = &one->source, *others = &other->source;

	return strcmp(one->name, other->name) == 0 &&
	       settings_are_same(&mirror_list_settings_table, one, other) &&
	       mirror_list_are_texts_same(&source->include, &others->include) &&
	       mirror_list_are_texts_same(&source->exclude, &others->exclude) &&
	       mirror_list_are_texts_same(&one->watchers, &other->watchers);
}

static void mirror_list_add_texts(const char *key, const text_list *texts,
				  struct str *out)
{
	for (size_t i = 0; i < texts->count; i++)
		str_addf(out, "%s %s\n", key, texts->items[i]);
}

char *mirror_list_question(const struct mirror_list *list)
{
	const struct upstream_source *source = &list->source;
	AUTO_STR struct str text = STR_INIT;

	str_addf(&text, "%s %s\n%d %d %" PRIu64 "\n", upstream_from_words[source->from],
		 source->url, source->has_forks, source->has_archived, source->max_size);
	if (list->adopts)
		str_add(&text, "adopt\n");
	mirror_list_add_texts("include", &source->include, &text);
	mirror_list_add_texts("exclude", &source->exclude, &text);
	return str_take(&text);
}
