/*
 * SOURCE is a primary: what it has is its inventory.
 */
#include "cli/replicate_run.h"

#include "base/file.h"
#include "wire/wire_token.h"

#define PAGE 10000
#define TRIES 3

bool replicate_is_url(const char *source)
{
	return text_starts_with(source, "http://") ||
	       text_starts_with(source, "https://");
}

static int open_primary(struct replicate_run *run, struct err *err)
{
	const struct replicate_options *options = &run->options;
	AUTO_SITE_KEY struct site_key key = { .secret = STR_INIT };
	char host[SITE_NAME_SIZE] = "";

	gethostname(host, sizeof(host) - 1);
	if (options->secret_file && site_key_read(options->site ? options->site : host,
						  options->secret_file, &key, err) != 0)
		return -1;
	return primary_open(run->source_root, options->secret_file ? &key : NULL,
			    &run->primary, err);
}

static void replicate_primary_add_item(struct replicate_run *run,
				       const struct inventory_item *told)
{
	struct discovered found = { .name = xstrdup(told->name),
				    .path = xasprintf("%s.git", told->name) };
	struct item item = { .run = run,
			     .name = found.name,
			     .generation = told->generation };

	if (told->checksum)
		snprintf(item.checksum, sizeof(item.checksum), "%s", told->checksum);
	memcpy(item.timeline, told->timeline, sizeof(item.timeline));
	vec_add(&run->there.found, found);
	vec_add(&run->items, item);
}

/* 1: the log became another one between two pages (the primary was restored): what is
 * absent then proves nothing. */
static int list_once(struct replicate_run *run, struct primary_line *line,
		     struct err *err)
{
	AUTO_FREE char *after = NULL;
	char timeline[TIMELINE_SIZE] = "";
	int result = 0;

	discovery_clear(&run->there);
	run->items.count = 0;
	do {
		const struct page_question question = { .after = after, .limit = PAGE };
		struct inventory_page page;
		if (primary_inventory(line, NULL, &question, &page, err) < 0)
			return -1;
		if (timeline[0] && strcmp(timeline, page.timeline) != 0)
			result = 1;
		memcpy(timeline, page.timeline, sizeof(timeline));
		for (size_t i = 0; i < page.items.count; i++)
			replicate_primary_add_item(run, &page.items.items[i]);
		free(after);
		after = TAKE(page.next);
		inventory_page_clear(&page);
	} while (after && result == 0);
	return result;
}

static int replicate_primary_list_items(struct replicate_run *run,
					struct primary_line *line, struct err *err)
{
	int result = 1;

	for (int tries = 0; tries < TRIES && result > 0; tries++)
		result = list_once(run, line, err);
	if (result <= 0)
		return result;
	err_set(err, ERR_CONFLICT, "the primary's log begins anew while it is read");
	return err_remedy(err, "look at the primary's log, then repeat");
}

int replicate_open_primary(struct replicate_run *run, struct err *err)
{
	struct primary_line *line;
	int result;

	if (open_primary(run, err) != 0 ||
	    primary_line_open(run->primary, &run->stop, &line, err) != 0)
		return -1;
	result = replicate_primary_list_items(run, line, err);
	primary_line_close(line);
	return result;
}
