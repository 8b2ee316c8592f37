#include "web/manifest.h"

#include "base/clock.h"
#include "base/map.h"
#include "mirror/manifest.h"
#include "replicable/name.h"
#include "replicable/origin_rows.h"
#include "replicable/registry.h"
#include "web/access.h"
#include "web/route.h"
#include "web/services.h"

#define PAGE 500
#define STAMP_SIZE 64

/* One repository as it was at a generation. */
struct manifest_page {
	char stamp[STAMP_SIZE]; /* empty: it cannot be read */
	uint64_t round;         /* of the last answer in which it was there */
	struct manifest_entry entry;
};

struct manifest_book {
	const char *root;
	pthread_mutex_t mutex; /* held while an answer is made: one at a time */
	struct map pages;      /* of struct manifest_page, owned */
	uint64_t round, changes;
	/* Clients compare times of whole seconds: each state has one of its own. */
	int64_t modified; /* wall seconds */
};

/* What is listed, from rows of whichever side. */
struct manifest_row {
	char *name, *path; /* below the root; owned */
	char stamp[STAMP_SIZE];
	int64_t changed_at;
};

typedef VEC(struct manifest_row) manifest_rows;

struct manifest_book *manifest_book_new(const char *root)
{
	struct manifest_book *book = xcalloc(1, sizeof(*book));

	mutex_init(&book->mutex);
	book->root = root;
	book->modified = clock_wall_ms() / 1000;
	return book;
}

static void manifest_page_free(struct manifest_page *page)
{
	if (page)
		manifest_entry_clear(&page->entry);
	free(page);
}

void manifest_book_free(struct manifest_book *book)
{
	const struct map_entry *entry;

	if (!book)
		return;
	for (size_t at = 0; (entry = map_next(&book->pages, &at)) != NULL;)
		manifest_page_free(entry->value);
	map_clear(&book->pages);
	pthread_mutex_destroy(&book->mutex);
	free(book);
}

static void manifest_rows_clear(manifest_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		free(rows->items[i].name);
		free(rows->items[i].path);
	}
	vec_clear(rows);
}

/* Takes the path. */
static void manifest_rows_add(manifest_rows *rows, const char *name, char *path,
			      const char *timeline, uint64_t generation)
{
	struct manifest_row row = { .name = xstrdup(name), .path = path };

	snprintf(row.stamp, sizeof(row.stamp), "%s %" PRIu64, timeline, generation);
	vec_add(rows, row);
}

/* What cannot be read is nothing to be followed. */
static int manifest_list_origin(struct store_tx *tx, void *arg, struct err *err)
{
	manifest_rows *rows = arg;
	size_t count = PAGE;

	manifest_rows_clear(rows);
	while (count == PAGE) {
		AUTO_ORIGIN_ROWS origin_rows page = { 0 };
		const char *after =
			rows->count > 0 ? rows->items[rows->count - 1].name : NULL;
		if (origin_rows_list(tx, KIND_REPOSITORY, after, PAGE, &page, err) != 0)
			return -1;
		count = page.count;
		for (size_t i = 0; i < count; i++) {
			const struct origin_row *row = &page.items[i];
			manifest_rows_add(rows, row->name, xstrdup(row->path),
					  row->timeline, row->generation);
			rows->items[rows->count - 1].changed_at = row->changed_at;
		}
	}
	return 0;
}

static int manifest_add_copy(struct store_tx *tx, const struct registry_row *row,
			     void *arg, struct err *err)
{
	manifest_rows *rows = arg;

	(void)tx;
	(void)err;
	if (row->generation == 0 || row->is_gone)
		return 0;
	manifest_rows_add(rows, row->name, name_to_path(row->name), row->timeline,
			  row->generation);
	rows->items[rows->count - 1].changed_at = row->last_success_at;
	return 0;
}

static int manifest_list_copies(struct store_tx *tx, void *arg, struct err *err)
{
	const struct registry_filter all = { .kind = KIND_REPOSITORY,
					     .state = REGISTRY_ANY };

	manifest_rows_clear(arg);
	return registry_each_in(tx, &all, manifest_add_copy, arg, err);
}

/* False: it is not there, or cannot be read now: then it is not listed. */
static bool manifest_read_page(const struct manifest_book *book,
			       const struct manifest_row *row, struct manifest_page *page)
{
	AUTO_FREE char *path = xasprintf("%s/%s", book->root, row->path);
	AUTO_READING struct ref_reading reading = { 0 };

	if (ref_reading_take(AT_FDCWD, path, &reading, ERR_IGNORED) != 0 ||
	    reading.refs.cuts.count > 0) /* who clones by a manifest wants all */
		return false;
	manifest_entry_clear(&page->entry);
	manifest_describe(row->name, &reading, row->changed_at / 1000, &page->entry);
	snprintf(page->stamp, sizeof(page->stamp), "%s", row->stamp);
	return true;
}

/* One that cannot be read has no stamp: it is not listed. */
static void manifest_look_up(struct manifest_book *book, const struct manifest_row *row)
{
	struct manifest_page *page = map_get(&book->pages, row->name);

	if (!page) {
		page = xcalloc(1, sizeof(*page));
		map_put(&book->pages, row->name, page);
	}
	page->round = book->round;
	if (strcmp(page->stamp, row->stamp) == 0)
		return;
	book->changes++;
	if (!manifest_read_page(book, row, page))
		page->stamp[0] = '\0';
}

/* Of those that are there no more. */
static void manifest_forget_others(struct manifest_book *book)
{
	text_list gone = { 0 };
	const struct map_entry *entry;

	for (size_t at = 0; (entry = map_next(&book->pages, &at)) != NULL;)
		if (((const struct manifest_page *)entry->value)->round != book->round)
			vec_add(&gone, xstrdup(entry->key));
	for (size_t i = 0; i < gone.count; i++)
		manifest_page_free(map_remove(&book->pages, gone.items[i]));
	book->changes += gone.count;
	text_list_clear(&gone);
}

/* All are looked at, whoever asks: what changed for nobody in particular changes the time
 * for all. */
static void manifest_refresh(struct manifest_book *book, const manifest_rows *rows)
{
	const uint64_t changes = book->changes;
	int64_t now = clock_wall_ms() / 1000;

	book->round++;
	for (size_t i = 0; i < rows->count; i++)
		manifest_look_up(book, &rows->items[i]);
	manifest_forget_others(book);
	if (book->changes != changes)
		book->modified = now > book->modified ? now : book->modified + 1;
}

/* What this reader may read, of what was just looked at. */
static void manifest_write(struct manifest_book *book, const struct web_request *request,
			   const manifest_rows *rows, struct manifest_writer *writer)
{
	for (size_t i = 0; i < rows->count; i++) {
		const char *name = rows->items[i].name;
		const struct manifest_page *page = map_get(&book->pages, name);
		if (page && page->stamp[0] &&
		    access_may_read(request->services->access, request, name))
			manifest_add(writer, &page->entry);
	}
	manifest_end(writer);
}

static int get_manifest(const struct web_request *request, struct web_response *response,
			struct err *err)
{
	const struct web_services *services = request->services;
	struct manifest_book *book = services->manifest;
	struct manifest_writer writer = MANIFEST_WRITER_INIT;
	const char *since = web_header(request, "If-Modified-Since");
	manifest_rows rows = { 0 };
	char date[CLOCK_HTTP_SIZE];
	bool is_known;
	int result = store_read(services->store,
				services->role == SITE_SECONDARY ? manifest_list_copies
								 : manifest_list_origin,
				&rows, err);

	if (result == 0) {
		lock(&book->mutex);
		manifest_refresh(book, &rows);
		clock_format_http(book->modified * 1000, date);
		is_known = since && strcmp(since, date) == 0;
		if (!is_known)
			manifest_write(book, request, &rows, &writer);
		unlock(&book->mutex);
		web_add_header(response, "Last-Modified", "%s", date);
		web_set_header(response, "Cache-Control", "no-cache");
		response->content_type = "application/gzip";
		if (is_known)
			response->status = 304;
		else
			manifest_pack(&writer.text, &response->body);
	}
	manifest_rows_clear(&rows);
	str_clear(&writer.text);
	return result;
}

const struct web_route web_manifest_routes[] = {
	{ "GET", "/manifest.js.gz", WEB_GIT_LIST, WEB_BODY_NONE, get_manifest },
	{ 0 },
};
