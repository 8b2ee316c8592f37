/*
 * Pages are followed by Link: <URL>; rel="next", which all three forges send. What they
 * are ordered by does not change by a push: of GitHub the time a repository was made, of
 * the others its number, so that new ones come at the end. Then three things prove that
 * no page is missing: each but the last tells which is the last; no name comes twice; and
 * the total is the same all along. GitLab lists as many as that. Gitea leaves out what
 * the token may not read, but counts it.
 */
#include "mirror/upstream_list.h"

#include <fnmatch.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "mirror/manifest.h"
#include "net/http.h"
#include "net/site_client.h"
#include "replicable/discover.h"
#include "replicable/name.h"

#define PAGES_MAX 5000
#define PAGE_BYTES_MAX ((size_t)32 << 20)
#define PAGE_VALUES_MAX 400000
#define LIST_BYTES_MAX ((uint64_t)1 << 30) /* of all pages, as they come */
#define LIST_ENTRIES_MAX 1000000
#define CONNECT_MS 10000
#define SILENCE_MS 30000

/* What the list of a source's repositories is called, and how its pages are asked for. */
static const struct upstream_forge {
	const char *path, *query;
	size_t page_size; /* at most so many a page */
} forges[] = {
	[UPSTREAM_GITHUB] = { "/repos", "per_page=100&sort=created&direction=asc", 100 },
	[UPSTREAM_GITLAB] = { "/projects",
			      "per_page=100&order_by=id&sort=asc&include_subgroups=true"
			      "&with_shared=false",
			      100 },
	[UPSTREAM_GITEA] = { "/repos", "limit=50", 50 },
	[UPSTREAM_GROKMIRROR] = { NULL, NULL, SIZE_MAX },
};

struct upstream_walk {
	const struct upstream_list_call *call;
	const struct upstream_list *before;
	struct upstream_list *list; /* what is being read */
	struct http_line line;
	struct str host;     /* "https://api.github.com": nothing is asked of others */
	char *authorization; /* NULL: none */
	struct map seen;     /* URLs of pages */
	struct map names;    /* exactly as they came */
	uint64_t bytes;      /* of all pages */
	int64_t total, last; /* as the pages told them; -1: not yet */
	int64_t rest_ms;
};

static void upstream_page_clear(struct upstream_page *page)
{
	vec_clear_each(&page->entries, upstream_entry_clear);
	upstream_findings_clear(&page->findings);
	free(page->url);
	free(page->next);
	free(page->etag);
	free(page->modified);
}

void upstream_list_clear(struct upstream_list *list)
{
	for (size_t i = 0; i < list->chosen.count; i++)
		free(list->chosen.items[i].name);
	for (size_t i = 0; i < list->unfit.count; i++)
		free(list->unfit.items[i].name);
	for (size_t i = 0; i < list->pages.count; i++)
		upstream_page_clear(&list->pages.items[i]);
	vec_clear(&list->chosen);
	vec_clear(&list->unfit);
	text_list_clear(&list->mounts);
	upstream_findings_clear(&list->findings);
	vec_clear(&list->pages);
	*list = (struct upstream_list){ 0 };
}

/*
 * What is chosen of what is there.
 */

static bool upstream_list_fits(const text_list *patterns, const char *name)
{
	const char *slash = strrchr(name, '/');

	for (size_t i = 0; i < patterns->count; i++) {
		const char *pattern = patterns->items[i];
		const char *text = strchr(pattern, '/') || !slash ? name : slash + 1;
		if (fnmatch(pattern, text, 0) == 0)
			return true;
	}
	return false;
}

static bool upstream_list_wants(const struct upstream_source *source,
				const struct upstream_entry *entry)
{
	AUTO_FREE char *name = name_of_path(entry->name);

	if (source->include.count > 0 && !upstream_list_fits(&source->include, name))
		return false;
	return !upstream_list_fits(&source->exclude, name) &&
	       (source->has_forks || !entry->is_fork);
}

/* What may become true of a repository that is mirrored already. */
static bool upstream_list_is_unfit(const struct upstream_source *source,
				   const struct upstream_entry *entry)
{
	return (entry->is_archived && !source->has_archived) ||
	       (source->max_size > 0 && entry->size >= 0 &&
		(uint64_t)entry->size > source->max_size);
}

struct upstream_choice {
	const struct upstream_source *source;
	struct uri_text api;
	struct map folded; /* names in small letters, to those that have them */
	struct upstream_list *list;
};

/* The first that comes is the oldest, and keeps the name. */
static int upstream_list_check_apart(struct upstream_choice *choice, const char *name,
				     const struct upstream_entry *entry, struct err *err)
{
	AUTO_FREE char *key = text_fold(name);
	const char *other = map_get(&choice->folded, key);

	if (!other) {
		map_put(&choice->folded, key, entry->name);
		return 0;
	}
	err_set(err, ERR_CONFIG, "it would be one directory with %.100s", other);
	return err_remedy(err, "rename one of the two");
}

/* Where the operator's own directory leads is not judged: its path has no host. */
static int upstream_list_choose_url(const struct upstream_choice *choice,
				    const struct upstream_entry *entry, const char **url,
				    struct err *err)
{
	if (choice->api.host)
		return upstream_entry_choose_url(entry, &choice->api, url, err);
	*url = entry->http;
	return 0;
}

static int upstream_list_take(struct upstream_choice *choice,
			      const struct upstream_entry *entry, struct err *err)
{
	struct upstream_chosen chosen = { .entry = entry };
	AUTO_FREE char *name = NULL;

	if (upstream_entry_make_name(entry, &name, err) != 0 ||
	    upstream_list_check_apart(choice, name, entry, err) != 0 ||
	    upstream_list_choose_url(choice, entry, &chosen.url, err) != 0)
		return -1;
	chosen.name = TAKE(name);
	vec_add(&choice->list->chosen, chosen);
	return 0;
}

static void upstream_list_set_aside(struct upstream_choice *choice,
				    const struct upstream_entry *entry)
{
	struct upstream_chosen unfit = { .entry = entry };

	if (upstream_list_choose_url(choice, entry, &unfit.url, ERR_IGNORED) == 0 &&
	    upstream_entry_make_name(entry, &unfit.name, ERR_IGNORED) == 0)
		vec_add(&choice->list->unfit, unfit);
}

static void upstream_list_choose_page(struct upstream_choice *choice,
				      const struct upstream_page *page)
{
	struct err err;

	for (size_t i = 0; i < page->entries.count; i++) {
		const struct upstream_entry *entry = &page->entries.items[i];
		bool is_wanted = upstream_list_wants(choice->source, entry);
		bool is_unfit = upstream_list_is_unfit(choice->source, entry);
		choice->list->excluded += !is_wanted || is_unfit;
		if (is_wanted && is_unfit)
			upstream_list_set_aside(choice, entry);
		else if (is_wanted && upstream_list_take(choice, entry, &err) != 0)
			upstream_findings_add(&choice->list->findings, entry->name, &err);
	}
	upstream_findings_add_all(&choice->list->findings, &page->findings);
}

ORDER_BY_TEXT(upstream_list_order, struct upstream_chosen, name);

static int upstream_list_choose(const struct upstream_source *source,
				struct upstream_list *list, struct err *err)
{
	struct upstream_choice choice = { .source = source, .list = list };

	if (uri_text_read(source->url, &choice.api, err) != 0)
		return -1;
	for (size_t i = 0; i < list->pages.count; i++)
		upstream_list_choose_page(&choice, &list->pages.items[i]);
	vec_sort(&list->chosen, upstream_list_order);
	map_clear(&choice.folded);
	uri_text_clear(&choice.api);
	return 0;
}

/*
 * One page.
 */

/* The URL in Link: <URL>; rel="REL". NULL: there is none; the caller frees. */
static char *upstream_list_find_link(const struct http_call *call, const char *rel)
{
	AUTO_FREE char *mark = xasprintf("rel=\"%s\"", rel);
	const char *at;

	for (size_t i = 0; (at = http_find_header(call, "Link", i)) != NULL; i++)
		while ((at = strchr(at, '<')) != NULL) {
			const char *end = strchr(at, '>');
			if (!end)
				break;
			size_t rest = strcspn(end, ",");
			if (memmem(end, rest, mark, strlen(mark)))
				return xstrndup(at + 1, (size_t)(end - at) - 1);
			at = end + rest;
		}
	return NULL;
}

/* The number in a query, "?page=12"; -1: there is none. */
static int64_t upstream_list_read_page_number(const char *url)
{
	for (const char *at = url; (at = strstr(at, "page=")) != NULL; at++)
		if (at > url && (at[-1] == '?' || at[-1] == '&')) {
			AUTO_FREE char *text = xstrndup(at + 5, strcspn(at + 5, "&#"));
			uint64_t number;
			return text_to_uint64(text, &number) && number <= INT32_MAX
				       ? (int64_t)number
				       : -1;
		}
	return -1;
}

/* -1: it is not told. */
static int64_t upstream_list_read_total(const struct http_call *call)
{
	static const char *const names[] = { "X-Total", "X-Total-Count" };
	const char *value;
	uint64_t number;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if ((value = http_find_header(call, names[i], 0)) != NULL &&
		    text_to_uint64(value, &number) && number <= INT32_MAX)
			return (int64_t)number;
	return -1;
}

static char *upstream_list_copy_header(const struct http_call *call, const char *name)
{
	const char *value = http_find_header(call, name, 0);

	return value ? xstrdup(value) : NULL;
}

/* What changed in this very second may change in it again, and look the same. */
static void upstream_list_read_validators(const struct http_call *call,
					  struct upstream_page *page)
{
	const char *modified = http_find_header(call, "Last-Modified", 0);
	const char *date = http_find_header(call, "Date", 0);

	if (modified && (!date || strcmp(modified, date) == 0))
		return;
	page->etag = upstream_list_copy_header(call, "ETag");
	page->modified = modified ? xstrdup(modified) : NULL;
}

/* What pages tell of the whole list. */
static int upstream_list_read_head(struct upstream_walk *walk,
				   const struct http_call *call,
				   struct upstream_page *page, struct err *err)
{
	AUTO_FREE char *link = upstream_list_find_link(call, "last");
	int64_t last = link ? upstream_list_read_page_number(link) : -1;
	int64_t total = upstream_list_read_total(call);

	upstream_list_read_validators(call, page);
	page->next = upstream_list_find_link(call, "next");
	if (last > walk->last)
		walk->last = last;
	if (total >= 0 && walk->total >= 0 && total != walk->total) {
		err_set(err, ERR_CONFLICT,
			"the list had %" PRId64 " repositories, then %" PRId64,
			walk->total, total);
		return err_remedy(err, "it changed while it was read; it is read again");
	}
	if (total >= 0)
		walk->total = total;
	return 0;
}

static int upstream_list_parse(enum upstream_from from, const struct str *body,
			       struct upstream_page *page, struct err *err)
{
	static const char begin[] = "{\"all\":";
	const struct json_limits limits = { PAGE_BYTES_MAX + sizeof(begin),
					    PAGE_VALUES_MAX };
	AUTO_STR struct str text = STR_INIT;
	json_t *object;
	size_t i;

	str_addf(&text, "%s", begin);
	str_add_bytes(&text, body->data, body->len);
	str_add_char(&text, '}');
	json_auto_t *whole = json_parse_foreign(text.data, text.len, &limits, err);
	if (!whole)
		return -1;
	const json_t *all = json_object_get(whole, "all");
	if (json_object_size(whole) != 1 || !json_is_array(all))
		return err_set(err, ERR_CORRUPT, "it is no list of repositories");
	json_array_foreach(all, i, object)
	{
		struct upstream_entry entry;
		if (upstream_entry_read(from, object, &entry, err) != 0)
			return -1;
		vec_add(&page->entries, entry);
	}
	return 0;
}

/* NULL: not told, or no branch. */
static char *upstream_list_copy_branch(const char *head)
{
	static const char begin[] = "ref: refs/heads/";

	return head && text_starts_with(head, begin) ? xstrdup(head + strlen(begin))
						     : NULL;
}

static void upstream_list_take_manifest(const char *url, const struct manifest *manifest,
					struct upstream_page *page)
{
	const int folder = (int)(strrchr(url, '/') - url);

	for (size_t i = 0; i < manifest->entries.count; i++) {
		const struct manifest_entry *told = &manifest->entries.items[i];
		struct upstream_entry entry = {
			.name = xstrdup(told->path),
			.size = -1,
			.pushed_at = told->modified < INT32_MAX * INT64_C(1000)
					     ? told->modified * 1000
					     : 0,
			.branch = upstream_list_copy_branch(told->head),
			.fingerprint =
				told->fingerprint[0] ? xstrdup(told->fingerprint) : NULL,
		};
		AUTO_STR struct str place = STR_INIT;
		str_addf(&place, "%.*s", folder, url);
		if (url[0] == '/')
			str_addf(&place, "/%s", told->path);
		else
			url_add_path(&place, told->path);
		entry.http = str_take(&place);
		vec_add(&page->entries, entry);
	}
	upstream_findings_add_all(&page->findings, &manifest->findings);
}

static int upstream_list_parse_any(enum upstream_from from, const struct str *body,
				   struct upstream_page *page, struct err *err)
{
	AUTO_MANIFEST struct manifest manifest = { 0 };

	if (from != UPSTREAM_GROKMIRROR)
		return upstream_list_parse(from, body, page, err);
	if (manifest_read(body->data, body->len, &manifest, err) != 0)
		return -1;
	upstream_list_take_manifest(page->url, &manifest, page);
	return 0;
}

static int upstream_list_fail_limited(const struct http_call *call, struct err *err)
{
	err_set(err, ERR_NETWORK, "%s limits how often it is asked (HTTP %ld)",
		call->peer, call->status);
	err_because(err, REASON_RATE_LIMITED);
	return err_remedy(err,
			  "it is asked again when it allows it; a token, or a longer "
			  "mirrors.interval, helps");
}

static int upstream_list_fail_status(struct upstream_walk *walk,
				     const struct http_call *call, struct err *err)
{
	const long status = call->status;

	walk->rest_ms = http_get_rest_ms(call);
	if (status == 429 || (status == 403 && walk->rest_ms > 0))
		return upstream_list_fail_limited(call, err);
	if (status < 400) {
		err_set(err, ERR_CONFIG, "%s redirects elsewhere (HTTP %ld)", call->peer,
			status);
		return err_remedy(err, "set mirrors.url to where the list is now; a "
				       "redirect is not followed");
	}
	err_set(err, http_classify_status((int)status), "%s answers HTTP %ld", call->peer,
		status);
	if (status == 401 || status == 403)
		return err_remedy(err, "put a token that may list the repositories into "
				       "mirrors.tokenFile");
	if (status == 404)
		return err_remedy(err, "see whether mirrors.url names an organisation, "
				       "group or user, and the token may see it");
	return err_remedy(err, "see whether that server is well, and mirrors.url right");
}

/* A page that is as it was may come without the links that it had. */
static int upstream_list_keep_page(const struct http_call *call,
				   const struct upstream_page *before,
				   struct upstream_page *page, struct err *err)
{
	if (!before)
		return err_set(err, ERR_CORRUPT,
			       "it is said to be as before, and there "
			       "was none");
	if (!page->etag && !page->modified) {
		page->etag = before->etag ? xstrdup(before->etag) : NULL;
		page->modified = before->modified ? xstrdup(before->modified) : NULL;
	}
	if (!http_find_header(call, "Link", 0) && before->next)
		page->next = xstrdup(before->next);
	for (size_t i = 0; i < before->entries.count; i++)
		vec_add(&page->entries, upstream_entry_copy(&before->entries.items[i]));
	upstream_findings_add_all(&page->findings, &before->findings);
	return 0;
}

static int upstream_list_take_page(struct upstream_walk *walk,
				   const struct http_call *call,
				   const struct upstream_page *before,
				   struct upstream_page *page, struct err *err)
{
	const struct str *body = ((const struct http_limit *)call->taker)->body;

	if (call->status != 200 && call->status != 304)
		return upstream_list_fail_status(walk, call, err);
	walk->bytes += body->len;
	if (walk->bytes > LIST_BYTES_MAX || walk->names.count > LIST_ENTRIES_MAX)
		return err_set(err, ERR_CORRUPT, "the list is too long to be one");
	if (http_check_length(call, "see what answers at mirrors.url", err) != 0 ||
	    upstream_list_read_head(walk, call, page, err) != 0)
		return -1;
	return call->status == 304 ? upstream_list_keep_page(call, before, page, err)
				   : upstream_list_parse_any(walk->call->source->from,
							     body, page, err);
}

static int upstream_list_run(struct http_call *call, struct err *err)
{
	if (http_begin(call, err) != 0 || http_run(call, http_has_ended, err) != 0)
		return -1;
	if (http_check_end(call, err) == 0)
		return 0;
	return http_is_bad_certificate(call) ? -1 : err_remedy(err, "%s", call->remedy);
}

/* The page as it was, if it may be asked whether it still is. A last page that was full
 * may have got another behind it without being changed itself. */
static const struct upstream_page *upstream_list_find_before(
	const struct upstream_walk *walk, const char *url)
{
	const struct upstream_list *list = walk->before;
	const size_t full = forges[walk->call->source->from].page_size;

	for (size_t i = 0; i < list->pages.count; i++) {
		const struct upstream_page *page = &list->pages.items[i];
		if (strcmp(page->url, url) == 0)
			return (page->etag || page->modified) &&
					       (page->next || page->entries.count < full)
				       ? page
				       : NULL;
	}
	return NULL;
}

/* The caller clears the page in any case. */
static int upstream_list_ask(struct upstream_walk *walk, struct upstream_page *page,
			     struct err *err)
{
	const struct upstream_page *before = upstream_list_find_before(walk, page->url);
	AUTO_STR struct str body = STR_INIT;
	struct http_header headers[4] = { { "Accept", "application/json" } };
	size_t count = 1;
	int result;

	if (before && before->etag)
		headers[count++] = (struct http_header){ "If-None-Match", before->etag };
	else if (before)
		headers[count++] =
			(struct http_header){ "If-Modified-Since", before->modified };
	if (walk->authorization)
		headers[count++] =
			(struct http_header){ "Authorization", walk->authorization };
	struct http_call http = {
		.line = walk->line,
		.request = { .method = "GET",
			     .url = page->url,
			     .ca_file = walk->call->ca_file,
			     .headers = headers,
			     .connect_ms = CONNECT_MS,
			     .silence_ms = SILENCE_MS,
			     .until = clock_boot_ms() + walk->call->timeout_ms,
			     .stop = walk->call->stop },
		.peer = walk->host.data,
		.remedy = "see whether the forge can be reached from here",
		.take = http_take_limited,
		.taker = &(struct http_limit){ &body, PAGE_BYTES_MAX, ERR_CORRUPT,
					       "a page of the list does not end" },
	};
	result = upstream_list_run(&http, err);
	if (result == 0)
		result = upstream_list_take_page(walk, &http, before, page, err);
	http_end(&http);
	walk->line = http.line;
	return result;
}

/*
 * All pages.
 */

static int upstream_list_check_host(const struct upstream_walk *walk, const char *url,
				    struct err *err)
{
	AUTO_STR struct str host = STR_INIT;
	const char *why = http_check_url(url, true, &host);

	if (!why && strcmp(host.data, walk->host.data) == 0)
		return 0;
	err_set(err, ERR_CONFIG, "the next page of the list is %s%.200s, not at %.200s",
		why ? "no URL: " : "at ", why ? why : host.data, walk->host.data);
	return err_remedy(err, "let mirrors.url begin as the forge's own URLs do: the "
			       "token goes to no other host");
}

static int upstream_list_check_names(struct upstream_walk *walk,
				     const struct upstream_page *page, struct err *err)
{
	for (size_t i = 0; i < page->entries.count; i++) {
		const char *name = page->entries.items[i].name;
		if (!map_put(&walk->names, name, walk))
			continue;
		err_set(err, ERR_CONFLICT, "the list has %.100s twice", name);
		return err_remedy(err, "it may have changed while it was read; it is "
				       "read again");
	}
	return 0;
}

/* Takes url. */
static int upstream_list_add_page(struct upstream_walk *walk, char *url, struct err *err)
{
	struct upstream_page page = { .url = url };

	if (map_put(&walk->seen, url, walk) || walk->list->pages.count == PAGES_MAX) {
		free(url);
		return err_set(err, ERR_CORRUPT, "the pages of the list have no end");
	}
	if (upstream_list_ask(walk, &page, err) == 0 &&
	    upstream_list_check_names(walk, &page, err) == 0) {
		vec_add(&walk->list->pages, page);
		return 0;
	}
	upstream_page_clear(&page);
	return err_prefix(err, "page %zu of the list", walk->list->pages.count + 1);
}

static int upstream_list_check_whole(const struct upstream_walk *walk, struct err *err)
{
	const enum upstream_from from = walk->call->source->from;
	const int64_t pages = (int64_t)walk->list->pages.count;
	const int64_t count = (int64_t)walk->names.count, total = walk->total;

	if (walk->last > pages) {
		err_set(err, ERR_CORRUPT,
			"the list ends after %" PRId64 " of %" PRId64 " pages", pages,
			walk->last);
	} else if (total < 0 || count == total ||
		   (from == UPSTREAM_GITEA && count < total &&
		    total <= (int64_t)forges[from].page_size * pages)) {
		return 0;
	} else {
		err_set(err, ERR_CORRUPT,
			"the list has %" PRId64 " repositories, and says %" PRId64, count,
			total);
	}
	return err_remedy(err, "nothing is taken for deleted; it is read again");
}

static char *upstream_list_make_url(const struct upstream_source *source)
{
	const char *path = forges[source->from].path;
	bool is_whole_gitlab = text_ends_with(source->url, "/v4/projects");
	AUTO_STR struct str url = STR_INIT;

	str_add(&url, source->url);
	if (source->from == UPSTREAM_GROKMIRROR)
		return str_take(&url);
	while (url.len > 0 && url.data[url.len - 1] == '/')
		str_truncate(&url, url.len - 1);
	if (!text_ends_with(url.data, path))
		str_add(&url, path);
	str_addf(&url, "?%s", forges[source->from].query);
	if (source->from == UPSTREAM_GITLAB && is_whole_gitlab)
		str_add(&url, "&pagination=keyset");
	if (source->from == UPSTREAM_GITLAB && source->max_size > 0)
		str_add(&url, "&statistics=true");
	return str_take(&url);
}

static int upstream_list_walk_pages(struct upstream_walk *walk, struct err *err)
{
	char *url = upstream_list_make_url(walk->call->source);

	while (url) {
		if (upstream_list_add_page(walk, url, err) != 0)
			return -1;
		if (walk->call->is_trial)
			return 0;
		const struct upstream_list *list = walk->list;
		const char *next = list->pages.items[list->pages.count - 1].next;
		if (next && upstream_list_check_host(walk, next, err) != 0)
			return -1;
		url = next ? xstrdup(next) : NULL;
	}
	return upstream_list_check_whole(walk, err);
}

static char *upstream_list_make_bearer(const char *token)
{
	struct str text = STR_INIT;

	str_reserve(&text, strlen("Bearer ") + strlen(token));
	str_add(&text, "Bearer ");
	str_add(&text, token);
	return str_take(&text);
}

static int upstream_list_read_forge(const struct upstream_list_call *call,
				    const struct upstream_list *before,
				    struct upstream_list *list, int64_t *rest_ms,
				    struct err *err)
{
	struct upstream_walk walk = { .call = call,
				      .before = before,
				      .list = list,
				      .host = STR_INIT,
				      .total = -1,
				      .last = -1 };
	const char *why = http_check_url(call->source->url, false, &walk.host);
	int result;

	if (why) {
		str_clear(&walk.host);
		err_set(err, ERR_CONFIG, "mirrors.url cannot be used: %s", why);
		return err_remedy(err, "give the API's URL of an organisation, group or "
				       "user; a token goes into mirrors.tokenFile");
	}
	if (call->token)
		walk.authorization = upstream_list_make_bearer(call->token);
	walk.line = http_line_open();
	result = upstream_list_walk_pages(&walk, err);
	http_line_close(&walk.line);
	text_wipe(walk.authorization);
	str_clear(&walk.host);
	map_clear(&walk.seen);
	map_clear(&walk.names);
	*rest_ms = walk.rest_ms;
	return result;
}

/*
 * On this machine: one page, whose paths are as good as URLs.
 */

static int upstream_list_check_complete(const struct discovery *discovery,
					struct err *err)
{
	for (size_t i = 0; i < discovery->findings.count; i++) {
		const struct discover_finding *finding = &discovery->findings.items[i];
		if (!finding->hides_names)
			continue;
		*err = finding->err;
		return err_prefix(err, "%.200s", finding->path);
	}
	return 0;
}

static bool upstream_list_has_below(const struct upstream_page *page, const char *folder)
{
	for (size_t i = 0; i < page->entries.count; i++)
		if (path_is_within(page->entries.items[i].http, folder))
			return true;
	return false;
}

/* Somebody removed its folder, or moved its repositories to the disk above. */
static bool upstream_list_is_given_up(const struct upstream_page *page,
				      const char *folder)
{
	return (!file_is_there(AT_FDCWD, folder) && dir_is_absent(errno)) ||
	       upstream_list_has_below(page, folder);
}

/* What was on a disk of its own at the last reading, and is not, is away. */
static int upstream_list_check_mounts(const text_list *before, const text_list *mounts,
				      const struct upstream_page *page, struct err *err)
{
	for (size_t i = 0; i < before->count; i++) {
		const char *mount = before->items[i];
		AUTO_FREE char *folder = xasprintf("%s/%s", page->url, mount);
		if (text_list_has(mounts, mount) ||
		    upstream_list_is_given_up(page, folder))
			continue;
		err_set(err, ERR_CONFLICT, "no file system is mounted at %.200s any more",
			mount);
		return err_remedy(err, "mount it; if it was given up on purpose, remove "
				       "that folder");
	}
	return 0;
}

/* One without repositories has none to miss. */
static void upstream_list_note_mounts(const text_list *mounts,
				      const struct upstream_page *page, text_list *noted)
{
	for (size_t i = 0; i < mounts->count; i++) {
		AUTO_FREE char *folder = xasprintf("%s/%s", page->url, mounts->items[i]);
		if (upstream_list_has_below(page, folder))
			vec_add(noted, xstrdup(mounts->items[i]));
	}
}

static int upstream_list_read_directory(const char *path, const text_list *before,
					struct upstream_page *page, text_list *mounts,
					struct err *err)
{
	AUTO_DISCOVERY struct discovery discovery;

	if (discover(path, &discovery, err) != 0 ||
	    upstream_list_check_complete(&discovery, err) != 0)
		return -1;
	for (size_t i = 0; i < discovery.findings.count; i++) {
		const struct discover_finding *finding = &discovery.findings.items[i];
		if (!finding->is_harmless)
			upstream_findings_add(&page->findings, finding->path,
					      &finding->err);
	}
	for (size_t i = 0; i < discovery.found.count; i++) {
		const struct discovered *found = &discovery.found.items[i];
		struct upstream_entry entry = { .name = xstrdup(found->name),
						.http = xasprintf("%s/%s", path,
								  found->path),
						.size = -1 };
		vec_add(&page->entries, entry);
	}
	upstream_list_note_mounts(&discovery.mounts, page, mounts);
	return upstream_list_check_mounts(before, &discovery.mounts, page, err);
}

static int upstream_list_read_manifest(const char *path, struct upstream_page *page,
				       struct err *err)
{
	AUTO_STR struct str body = STR_INIT;

	if (file_read_any(AT_FDCWD, path, PAGE_BYTES_MAX, &body, err) != 0)
		return -1;
	return upstream_list_parse_any(UPSTREAM_GROKMIRROR, &body, page, err);
}

/* An empty one looks like all were deleted. */
static int upstream_list_check_filled(const struct upstream_page *page, struct err *err)
{
	if (page->entries.count > 0)
		return 0;
	err_set(err, ERR_CONFLICT, "there is no repository in %.200s", page->url);
	return err_remedy(err, "see whether its disk is mounted; the mirrors that are "
			       "here stay");
}

static int upstream_list_read_path(const struct upstream_source *source,
				   const struct upstream_list *before,
				   struct upstream_list *list, struct err *err)
{
	struct upstream_page page = { .url = xstrdup(source->url) };
	int result = source->from == UPSTREAM_DIRECTORY
			     ? upstream_list_read_directory(source->url, &before->mounts,
							    &page, &list->mounts, err)
			     : upstream_list_read_manifest(source->url, &page, err);

	if (result == 0)
		result = upstream_list_check_filled(&page, err);
	vec_add(&list->pages, page);
	return result;
}

int upstream_list_read(const struct upstream_list_call *call, struct upstream_list *list,
		       int64_t *rest_ms, struct err *err)
{
	const struct upstream_source *source = call->source;
	struct upstream_list fresh = { 0 };
	int result;

	*rest_ms = 0;
	if (source->from == UPSTREAM_DIRECTORY ||
	    (source->from == UPSTREAM_GROKMIRROR && source->url[0] == '/'))
		result = upstream_list_read_path(source, list, &fresh, err);
	else
		result = upstream_list_read_forge(call, list, &fresh, rest_ms, err);
	if (result == 0)
		result = upstream_list_choose(source, &fresh, err);
	if (result == 0) {
		upstream_list_clear(list);
		*list = fresh;
	} else {
		upstream_list_clear(&fresh);
	}
	return result;
}
