/*
 * Who follows a manifest deletes what is not in it. So a repository is left out only if
 * it is known that there is nothing to follow: one that cannot be read now keeps its last
 * entry, and if it has none yet, or the directory of all is not there, or it is not known
 * yet which there are, who asks gets no manifest at all.
 */
#include "web/manifest.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/fair.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "change/event_log.h"
#include "change/origin_root.h"
#include "git/cuts.h"
#include "mirror/manifest.h"
#include "pull/followed.h"
#include "replicable/name.h"
#include "replicable/origin_rows.h"
#include "replicable/registry.h"
#include "serve/http_service.h"
#include "upkeep/copies_root.h"
#include "web/access.h"
#include "web/listen.h"
#include "web/route.h"
#include "web/services.h"

#define PAGE 500
#define STAMP_SIZE 64

enum { PLACE_MS = 5000, CHECK_MS = 10 * 1000, WAITING_MAX = 16 };

/* One repository as it was at a generation. */
struct manifest_page {
	enum { PAGE_UNREAD, PAGE_LISTED, PAGE_LEFT_OUT } state;
	char stamp[STAMP_SIZE]; /* of what was read; empty: nothing yet */
	uint64_t round;         /* of the last answer in which it was there */
	bool is_told;           /* that it cannot be read is in the log */
	struct manifest_entry entry;
};

struct manifest_book {
	const char *root;
	struct fair *places; /* one: who has it makes an answer, and has what follows */
	struct map pages;    /* of struct manifest_page, owned */
	uint64_t round, changes;
	/* Clients compare times of whole seconds: each state has one of its own. */
	int64_t modified;           /* wall seconds */
	atomic_bool has_new_rights; /* readers may see others than before */
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

	book->places =
		fair_new(&(struct fair_limits){ .places = 1, .waiting = WAITING_MAX });
	book->root = root;
	book->modified = clock_wall_ms() / 1000;
	return book;
}

void manifest_book_renew(struct manifest_book *book)
{
	if (book)
		atomic_store(&book->has_new_rights, true);
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
	fair_free(book->places);
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

static int manifest_check_compared(struct store *store, struct err *err)
{
	int was_compared = followed_was_compared(store, KIND_REPOSITORY, err);

	if (was_compared != 0)
		return was_compared > 0 ? 0 : -1;
	return err_set(err, ERR_BUSY,
		       "the repositories have not been compared with the primary's yet");
}

/* Whether all that there is has a row. Asked before the rows are read. */
static int manifest_check_known(const struct web_services *services, struct err *err)
{
	enum event_scanned scanned;

	if (services->role == SITE_SECONDARY)
		return manifest_check_compared(services->store, err);
	if (event_log_scanned(services->store, KIND_REPOSITORY, &scanned, err) != 0)
		return -1;
	if (scanned == SCANNED_NOTHING)
		return err_set(err, ERR_BUSY,
			       "the first scan of the repositories is not finished");
	if (scanned == SCANNED_PART)
		return err_set(err, ERR_BUSY,
			       "no scan could read all of the repositories yet");
	return 0;
}

static int manifest_list_origin(struct store_tx *tx, void *arg, struct err *err)
{
	manifest_rows *rows = arg;
	size_t count = PAGE;

	manifest_rows_clear(rows);
	while (count == PAGE) {
		AUTO_ORIGIN_ROWS origin_rows page = { 0 };
		const struct origin_filter rest = {
			.kind = KIND_REPOSITORY,
			.after = rows->count > 0 ? rows->items[rows->count - 1].name
						 : NULL,
			.limit = PAGE
		};
		if (origin_rows_find(tx, &rest, &page, err) != 0)
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

/* The directory tells whether its copy is here: of a row of a new database, or of another
 * primary's log, nothing is recorded, and what is gone may yet be held for a person. */
static int manifest_add_copy(struct store_tx *tx, const struct registry_row *row,
			     void *arg, struct err *err)
{
	manifest_rows *rows = arg;

	(void)tx;
	(void)err;
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

/* What the rows stand for, while they are looked at. */
struct manifest_view {
	int root;
	json_t *mounts; /* folders on which file systems should be; NULL: none */
};

static void manifest_view_clear(struct manifest_view *view)
{
	if (view->root >= 0)
		close(view->root);
	json_decref(view->mounts);
}

/* Whether the directory is that of the rows. */
static int manifest_view_open(const struct web_services *services, const char *path,
			      struct manifest_view *view, struct err *err)
{
	const struct origin_root root = { services->store, KIND_REPOSITORY, path,
					  dir_open(AT_FDCWD, path, err) };

	*view = (struct manifest_view){ .root = root.fd };
	if (root.fd < 0)
		return -1;
	int result = services->role == SITE_SECONDARY
			     ? copies_root_check(root.store, root.kind, path, err)
			     : origin_root_check_known(&root, err);
	return result == 0 ? origin_root_mounts(&root, &view->mounts, err) : -1;
}

/* Whether it is sure that there is nothing to be followed: it is gone, damaged, or of a
 * form that nobody can clone whole. */
static bool manifest_is_proof(const struct manifest_view *view,
			      const struct manifest_row *row, struct err *err)
{
	const char *mount = mounts_find_away(view->mounts, view->root, row->path);

	if (mount) {
		mounts_say_away(mount, err);
		return false;
	}
	return err->class == ERR_MISSING || err->class == ERR_CORRUPT ||
	       (err->class == ERR_CONFIG && err->sys_errno == 0);
}

/* Also in the middle of a change of the cuts, which a dead upstream may leave so. */
static bool manifest_is_cut(const char *path)
{
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, path, ERR_IGNORED);

	return dir >= 0 && cuts_are_ours(dir);
}

/* Nobody can follow what is not read over HTTP. */
static int manifest_check_open(const char *path, struct err *err)
{
	const struct git_work work = git_work_for(NULL, CHECK_MS);
	AUTO_REPO struct repo repo = REPO_INIT;

	if (repo_open(AT_FDCWD, path, &repo, err) != 0)
		return -1;
	if (http_service_check_read(path, &repo, &work, err) == 0)
		return 0;
	return err->reason == REASON_CLOSED
		       ? err_set(err, ERR_CONFIG, "it is closed to readers")
		       : -1;
}

static int manifest_read_page(const struct manifest_book *book,
			      const struct manifest_row *row, struct manifest_page *page,
			      struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/%s", book->root, row->path);
	AUTO_READING struct ref_reading reading = { 0 };

	if (manifest_check_open(path, err) != 0)
		return -1;
	int result = ref_reading_take(AT_FDCWD, path, &reading, err);
	if (result != 0 && !manifest_is_cut(path))
		return -1;
	if (result != 0 || reading.refs.cuts.count > 0)
		return err_set(err, ERR_CONFIG, "its history is cut short");
	manifest_entry_clear(&page->entry);
	manifest_describe(row->name, &reading, row->changed_at / 1000, &page->entry);
	snprintf(page->stamp, sizeof(page->stamp), "%s", row->stamp);
	return 0;
}

static void manifest_look_up(struct manifest_book *book, const struct manifest_view *view,
			     const struct manifest_row *row)
{
	struct manifest_page *page = map_get(&book->pages, row->name);
	struct err err;

	if (!page) {
		page = xcalloc(1, sizeof(*page));
		map_put(&book->pages, row->name, page);
	}
	page->round = book->round;
	if (page->state == PAGE_LISTED && strcmp(page->stamp, row->stamp) == 0)
		return;
	if (manifest_read_page(book, row, page, &err) == 0) {
		page->state = PAGE_LISTED;
		page->is_told = false;
		book->changes++;
	} else if (manifest_is_proof(view, row, &err) ||
		   (page->state == PAGE_UNREAD && err_is_of_data(&err))) {
		book->changes += page->state == PAGE_LISTED;
		page->state = PAGE_LEFT_OUT;
	} else if (page->state == PAGE_UNREAD && !page->is_told) {
		page->is_told = true;
		log_warn("manifest.not_read", LOG_ERR(&err), LOG_TEXT("repo", row->name));
	}
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
 * for all. -1: the node ends. */
static int manifest_refresh(struct manifest_book *book, const struct manifest_view *view,
			    const manifest_rows *rows, const struct stop *cut,
			    struct err *err)
{
	const uint64_t changes = book->changes;
	int64_t now = clock_wall_ms() / 1000;

	book->round++;
	for (size_t i = 0; i < rows->count; i++) {
		if (stop_is_requested(cut))
			return err_set(err, ERR_CANCELED, "the node ends");
		manifest_look_up(book, view, &rows->items[i]);
	}
	manifest_forget_others(book);
	if (atomic_exchange(&book->has_new_rights, false) || book->changes != changes)
		book->modified = now > book->modified ? now : book->modified + 1;
	return 0;
}

/* What this reader may read, of what was just looked at. -1: some of it is not known. */
static int manifest_write(struct manifest_book *book, const struct web_request *request,
			  const manifest_rows *rows, struct manifest_writer *writer,
			  struct err *err)
{
	for (size_t i = 0; i < rows->count; i++) {
		const char *name = rows->items[i].name;
		const struct manifest_page *page = map_get(&book->pages, name);
		if (page->state == PAGE_LEFT_OUT ||
		    !access_may_read(request->services->access, request, name))
			continue;
		if (page->state == PAGE_UNREAD)
			return err_set(err, ERR_BUSY,
				       "a repository cannot be read now: %s", name);
		manifest_add(writer, &page->entry);
	}
	manifest_end(writer);
	return 0;
}

/* 1: the client knows it already; 0; -1: it cannot be made now. */
static int manifest_make(const struct web_request *request, const manifest_rows *rows,
			 struct manifest_writer *writer, char date[CLOCK_HTTP_SIZE],
			 struct err *err)
{
	struct manifest_book *book = request->services->manifest;
	const char *since = web_header(request, "If-Modified-Since");
	struct manifest_view view;
	int result = manifest_view_open(request->services, book->root, &view, err);

	if (result == 0)
		result = manifest_refresh(book, &view, rows, request->cut, err);
	manifest_view_clear(&view);
	if (result != 0)
		return -1;
	clock_format_http(book->modified * 1000, date);
	if (since && strcmp(since, date) == 0)
		return 1;
	return manifest_write(book, request, rows, writer, err);
}

/* What failed is for the log: it names what not everybody may read. */
static void manifest_refuse(struct web_response *response)
{
	web_answer_problem(response, 503, "BUSY",
			   "the manifest cannot be made now: nothing is taken for "
			   "deleted meanwhile",
			   "try again in a moment");
	response->is_expected = true;
	web_set_header(response, "Retry-After", "10");
}

static int manifest_get_in_turn(const struct web_request *request,
				struct web_response *response, struct err *err)
{
	const struct web_services *services = request->services;
	struct manifest_writer writer = MANIFEST_WRITER_INIT;
	manifest_rows rows = { 0 };
	char date[CLOCK_HTTP_SIZE];
	const bool is_known = manifest_check_known(services, err) == 0;
	int made = -1, result = 0;

	if (is_known)
		result = store_read(services->store,
				    services->role == SITE_SECONDARY
					    ? manifest_list_copies
					    : manifest_list_origin,
				    &rows, err);
	if (is_known && result == 0)
		made = manifest_make(request, &rows, &writer, date, err);
	manifest_rows_clear(&rows);
	if (made >= 0) {
		web_add_header(response, "Last-Modified", "%s", date);
		web_set_header(response, "Cache-Control", "no-cache");
		response->content_type = "application/gzip";
	} else if (result == 0) {
		log_warn("manifest.not_made", LOG_ERR(err));
		manifest_refuse(response);
	}
	if (made > 0)
		response->status = 304;
	if (made == 0)
		manifest_pack(&writer.text, &response->body);
	str_clear(&writer.text);
	return result;
}

static int get_manifest(const struct web_request *request, struct web_response *response,
			struct err *err)
{
	struct fair *places = request->services->manifest->places;
	struct fair_place place;
	struct client client;

	client_of_request(request, &client);
	if (fair_enter(places, &place, &client.names, PLACE_MS, request->stop) !=
	    FAIR_ENTERED) {
		manifest_refuse(response);
		return 0;
	}
	int result = manifest_get_in_turn(request, response, err);
	fair_leave(places, &place);
	return result;
}

const struct web_route web_manifest_routes[] = {
	{ "GET", "/manifest.js.gz", WEB_GIT_LIST, WEB_BODY_NONE, get_manifest },
	{ 0 },
};
