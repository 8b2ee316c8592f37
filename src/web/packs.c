/*
 * What is listed may be gone when it is asked for, because the repository was repacked:
 * then who asks lists again. A file that is being sent stays open, whatever becomes of
 * its name. Its tag is the digest that it ends in, so that parts of two files that had
 * one name are never put together.
 */
#include "web/packs.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/metrics.h"
#include "git/git_reach.h"
#include "git/pack_list.h"
#include "git/packs.h"
#include "git/repo.h"
#include "replicable/name.h"
#include "serve/find.h"
#include "web/answer.h"
#include "web/api.h"
#include "web/blobs.h"
#include "web/web_metrics.h"
#include "wire/wire_packs.h"
#include "wire/wire_refs.h"

#define FOLDER "objects/pack"

/* Each pack takes two requests: what is smaller is for git, as loose objects are. Of that
 * it must be little: who has the packs fetches it behind them. */
#define WORTH_LISTING ((uint64_t)256 << 10)
#define OUTSIDE_BYTES ((uint64_t)5 << 20)
#define OUTSIDE_LOOSE 1000

uint64_t web_packs_size(const struct web_services *services, const char *name)
{
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int dir = find_repository(services->root, name, &path, ERR_IGNORED);

	return dir < 0 ? 0 : packs_size(dir);
}

void web_packs_list_lenders(const struct web_services *services, const char *name,
			    text_list *lenders)
{
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int dir = find_repository(services->root, name, &path, ERR_IGNORED);
	AUTO_FREE char *root = NULL;
	git_reach_paths paths = { 0 };

	if (dir >= 0)
		git_reach_list_alternates(dir, &paths);
	if (paths.count > 0)
		root = path_resolve(services->root);
	for (size_t i = 0; i < paths.count; i++) {
		AUTO_FREE char *place =
			paths.items[i][0] == '/'
				? xstrdup(paths.items[i])
				: xasprintf("%s/%s", path, paths.items[i]);
		AUTO_FREE char *resolved = path_resolve(place);
		char *lender = name_of_objects(root, resolved);
		if (lender && lenders->count < WIRE_LENDERS_MOST &&
		    !text_list_has(lenders, lender))
			vec_add(lenders, TAKE(lender));
		free(lender);
	}
	vec_clear_owned(&paths);
}

struct outside {
	uint64_t bytes;
	size_t loose;
};

static bool web_packs_is_much(const struct outside *outside)
{
	return outside->bytes > OUTSIDE_BYTES || outside->loose > OUTSIDE_LOOSE;
}

static void web_packs_count_loose(int dir, struct outside *outside)
{
	char folder[16];

	for (unsigned i = 0; i < 256 && !web_packs_is_much(outside); i++) {
		struct dirent *entry;
		struct stat st;
		snprintf(folder, sizeof(folder), "objects/%02x", i);
		AUTO_CLOSEDIR DIR *list = dir_list(dir, folder);
		while (list && (entry = readdir(list)) != NULL) {
			if (entry->d_name[0] == '.' ||
			    fstatat(dirfd(list), entry->d_name, &st,
				    AT_SYMLINK_NOFOLLOW) != 0)
				continue;
			outside->bytes += (uint64_t)st.st_size;
			outside->loose++;
		}
	}
}

static bool web_packs_has(int folder, const char *pack, const char *end, struct stat *st)
{
	AUTO_FREE char *path = xasprintf("%s.%s", pack, end);

	return fstatat(folder, path, st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* What only its own git can make use of: objects that nothing reaches. */
static bool web_packs_is_cruft(int folder, const char *pack)
{
	struct stat st;

	return web_packs_has(folder, pack, "mtimes", &st);
}

/* One that cannot be named is for git, too. */
static void web_packs_take(int folder, const struct pack_item *item, wire_packs *packs,
			   struct outside *outside)
{
	AUTO_FREE char *file = xasprintf("%s.pack", item->name);
	struct wire_pack pack = { .bytes = item->bytes, .objects = item->objects };
	struct stat st;

	if (web_packs_is_cruft(folder, item->name) ||
	    !web_packs_has(folder, item->name, "idx", &st))
		return;
	if (item->bytes < WORTH_LISTING || !wire_pack_is_file(file) ||
	    packs->count == WIRE_PACKS_MOST) {
		outside->bytes += item->bytes;
		return;
	}
	snprintf(pack.name, sizeof(pack.name), "%s", item->name);
	pack.index_bytes = (uint64_t)st.st_size;
	vec_add(packs, pack);
}

ORDER_BY_TEXT(web_packs_order, struct wire_pack, name);

static int web_packs_collect(const struct repo *repo, wire_packs *packs,
			     struct outside *outside, struct err *err)
{
	AUTO_PACK_LIST pack_list list = { 0 };
	AUTO_CLOSE int folder = dir_open(repo->fd, FOLDER, err);

	if (folder < 0 || pack_list_read(repo, &list, err) != 0)
		return -1;
	for (size_t i = 0; i < list.count; i++)
		web_packs_take(folder, &list.items[i], packs, outside);
	vec_sort(packs, web_packs_order);
	web_packs_count_loose(repo->fd, outside);
	return 0;
}

/* NULL: its packs are what a whole copy needs. */
static const char *web_packs_why_not(const struct repo *repo)
{
	if (repo->has_alternates)
		return "some of its objects live in another repository";
	if (repo->is_partial)
		return "it lacks objects on purpose";
	return repo->is_shallow ? "its history is cut short" : NULL;
}

static int web_packs_refuse(struct web_response *response, const char *why)
{
	web_answer_problem(response, 409, WIRE_PACKS_UNAVAILABLE, why, "fetch it by git");
	return 0;
}

/* 1: it is answered why not. */
static int web_packs_open(const struct web_request *request, struct repo *repo,
			  struct web_response *response, struct err *err)
{
	AUTO_FREE char *path = NULL;

	if (!api_needs_role(request, SITE_PRIMARY, response))
		return 1;
	AUTO_CLOSE int dir =
		find_repository(request->services->root, request->name, &path, err);
	if (dir < 0)
		return api_repository_failed(response, err) == 0 ? 1 : -1;
	if (repo_open(dir, ".", repo, err) == 0)
		return 0;
	api_unreadable(response, err);
	return 1;
}

static int web_packs_list(const struct web_request *request,
			  struct web_response *response, struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	AUTO_WIRE_PACKS wire_packs packs = { 0 };
	struct outside outside = { 0 };
	int opened = web_packs_open(request, &repo, response, err);

	if (opened != 0)
		return opened < 0 ? -1 : 0;
	if (web_packs_why_not(&repo))
		return web_packs_refuse(response, web_packs_why_not(&repo));
	if (web_packs_collect(&repo, &packs, &outside, err) != 0)
		return -1;
	if (packs.count == 0 || web_packs_is_much(&outside))
		return web_packs_refuse(response, "much of it is not in packs of some "
						  "size");
	web_answer_json(response, 200, wire_packs_json(&packs));
	return 0;
}

static void web_packs_count(uint64_t bytes)
{
	struct metric *metric = metric_counter("refrelay_packs_retrieved_bytes_total",
					       "Bytes of packs, and of their indexes, "
					       "that were given out as files.");

	metric_add(metric_at(metric), (double)bytes);
}

void web_packs_begin_metrics(void)
{
	web_packs_count(0);
}

static void web_packs_end(const struct sending *sending)
{
	web_packs_count(sending->sent);
	close(sending->fd);
}

struct pack_file {
	int fd; /* owned */
	uint64_t size;
	char etag[2 + 2 * HASH_MAX_SIZE + 1];
};

/* 1: there is no such file. */
static int web_packs_open_file(const struct repo *repo, const char *file,
			       struct pack_file *opened, struct err *err)
{
	AUTO_CLOSE int folder = dir_open(repo->fd, FOLDER, err);
	unsigned char digest[HASH_MAX_SIZE];
	struct stat st;

	if (folder < 0)
		return -1;
	if (!wire_pack_is_file(file))
		return 1;
	opened->fd = openat(folder, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (opened->fd < 0)
		return errno == ENOENT || errno == ELOOP
			       ? 1
			       : err_errno(err, "cannot open " FOLDER "/%s", file);
	if (fstat(opened->fd, &st) != 0 || !S_ISREG(st.st_mode) ||
	    (uint64_t)st.st_size < 2 * repo->oid_len ||
	    pread(opened->fd, digest, repo->oid_len, st.st_size - (off_t)repo->oid_len) !=
		    (ssize_t)repo->oid_len)
		return 1;
	opened->size = (uint64_t)st.st_size;
	for (size_t i = 0; i < repo->oid_len; i++)
		snprintf(opened->etag + 1 + 2 * i, 3, "%02x", digest[i]);
	opened->etag[0] = opened->etag[1 + 2 * repo->oid_len] = '"';
	opened->etag[2 + 2 * repo->oid_len] = '\0';
	return 0;
}

/* Takes its descriptor. */
static void web_packs_answer(const struct web_request *request, struct pack_file *opened,
			     struct web_response *response)
{
	struct retrieve_part part;

	if (!negotiate_allows(web_header(request, "If-Match"), opened->etag)) {
		web_answer_problem(response, 412, "OTHER_VERSION",
				   "it is another version by now",
				   "begin anew with this one");
		return;
	}
	web_add_header(response, "ETag", "%s", opened->etag);
	web_set_header(response, "Accept-Ranges", "bytes");
	if (retrieve_choose_part(request, opened->etag, opened->size, &part, response))
		retrieve_send_part(&(struct sending){ .fd = TAKE_FD(opened->fd),
						      .end = web_packs_end },
				   &part, response);
}

/* {kind} is the name of the file. */
static int web_packs_get_file(const struct web_request *request,
			      struct web_response *response, struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	struct pack_file opened = { .fd = -1 };
	int result = web_packs_open(request, &repo, response, err);

	if (result != 0)
		return result < 0 ? -1 : 0;
	result = web_packs_open_file(&repo, request->kind, &opened, err);
	if (result == 0)
		web_packs_answer(request, &opened, response);
	else if (result > 0)
		web_answer_problem(response, 404, WIRE_FILE_NOT_FOUND,
				   "there is no such pack", "list the packs again");
	if (opened.fd >= 0)
		close(opened.fd);
	return result < 0 ? -1 : 0;
}

const struct web_route web_pack_routes[] = {
	{ "GET", "/api/v1/repositories/{name}/packs", WEB_SITE, WEB_BODY_NONE,
	  web_packs_list },
	{ "GET", "/api/v1/repositories/{name}/packs/{kind}", WEB_SITE, WEB_BODY_NONE,
	  web_packs_get_file },
	{ 0 },
};
