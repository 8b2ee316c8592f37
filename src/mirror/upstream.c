#include "mirror/upstream.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "git/git_child.h"
#include "git/ref_advert.h"
#include "git/ssh_command.h"

#define SECRET_MOST 4096
#define ADVERT_MOST ((size_t)256 << 20)
#define SHA1_SIZE 20
#define CONNECT_MS 10000
#define SILENCE_MS 30000
#define REST_LEAST_MS 5000
#define TAG_MOST 256 /* of an ETag */
#define HEADERS 6    /* of a request, and their end */
/* What GitHub wants before a token, and what others do not look at. */
#define TOKEN_USER "x-access-token"

bool upstream_refuses(const struct err *err)
{
	return err->class == ERR_AUTH || err->class == ERR_MISSING;
}

void upstream_timeline(const struct mirror *mirror, char timeline[UPSTREAM_TIMELINE_SIZE])
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_STR struct str hex = STR_INIT;

	str_add(&text, mirror->url);
	if (mirror->depth > 0)
		str_addf(&text, "\ndepth %" PRIu64, mirror->depth);
	hash_add_hex(HASH_SHA256, text.data, text.len, (UPSTREAM_TIMELINE_SIZE - 1) / 2,
		     &hex);
	memcpy(timeline, hex.data, UPSTREAM_TIMELINE_SIZE);
}

void upstream_tag_clear(struct upstream_tag *tag)
{
	free(tag->etag);
	free(tag->modified);
	*tag = (struct upstream_tag){ 0 };
}

void upstream_view_clear(struct upstream_view *view)
{
	ref_snapshot_clear(&view->refs);
	upstream_tag_clear(&view->tag);
	free(view->url);
	text_wipe(view->header);
	free(view->ssh_command);
	*view = (struct upstream_view){ 0 };
}

static int upstream_refuse_secret(const char *path, const char *why, struct err *err)
{
	err_set(err, ERR_CONFIG, "the credential in %s %s", path, why);
	return err_remedy(err, "put the token or password there, alone on one line, in a "
			       "file that only refrelay's user can read");
}

int upstream_read_secret(const char *path, struct str *secret, struct err *err)
{
	struct stat st;

	if (file_read_any(AT_FDCWD, path, SECRET_MOST, secret, err) != 0) {
		if (err->class == ERR_CORRUPT)
			return upstream_refuse_secret(path, "is too long", err);
		/* No upstream has said that it has no such repository. */
		return err->class == ERR_MISSING
			       ? upstream_refuse_secret(path, "is not there", err)
			       : err_prefix(err, "the credential");
	}
	if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IROTH))
		return upstream_refuse_secret(path, "can be read by everybody", err);
	while (secret->len > 0 && strchr(" \t\r\n", secret->data[secret->len - 1]))
		str_truncate(secret, secret->len - 1);
	if (secret->len == 0)
		return upstream_refuse_secret(path, "is empty", err);
	for (size_t i = 0; i < secret->len; i++)
		if ((unsigned char)secret->data[i] <= ' ' || secret->data[i] == 0x7f)
			return upstream_refuse_secret(path,
						      "has spaces or control "
						      "characters in it",
						      err);
	return 0;
}

int upstream_make_header(const struct watcher *watcher, char **header, struct err *err)
{
	struct str secret = STR_INIT;
	int result;

	*header = NULL;
	if (!watcher || (!watcher->token_file && !watcher->password_file))
		return 0;
	result = upstream_read_secret(watcher->token_file ? watcher->token_file
							  : watcher->password_file,
				      &secret, err);
	if (result == 0)
		*header = http_make_basic_header(watcher->user_name ? watcher->user_name
								    : TOKEN_USER,
						 secret.data);
	str_wipe(&secret);
	return result;
}

/* What git is to be given, in *view. */
static int upstream_prepare(const struct upstream_call *call, struct upstream_view *view,
			    struct err *err)
{
	const struct mirror *mirror = call->mirror;
	const struct watcher *watcher = call->watcher;

	*view = (struct upstream_view){
		.watcher = watcher,
		.oid_len = SHA1_SIZE,
		.is_local = mirror->uri.kind == URL_LOCAL,
		.url = xstrdup(mirror->uri.kind == URL_LOCAL ? mirror->uri.path
							     : mirror->url),
		.tag.watcher = watcher,
	};
	credential_take_stamp(mirror, watcher, view->tag.stamp);
	if (mirror->uri.kind == URL_SSH)
		view->ssh_command = ssh_command_make(&(struct ssh_options){
			.key = watcher ? watcher->ssh_key_file : NULL,
			.known_hosts = watcher ? watcher->known_hosts_file : NULL,
			.connect_ms = CONNECT_MS });
	return mirror->uri.kind == URL_HTTP
		       ? upstream_make_header(watcher, &view->header, err)
		       : 0;
}

/*
 * Over HTTP: the advertisement of protocol 0, which has all refs in one answer.
 */

static int upstream_say_limited(struct err *err)
{
	err_because(err, REASON_RATE_LIMITED);
	return err_remedy(err,
			  "it is asked again when it allows it; a watcher with a "
			  "credential, or a longer mirror.interval, asks less often");
}

/* One that always says a second is not asked each second. */
bool upstream_is_limited(const struct http_call *call, int64_t *retry_after_ms,
			 struct err *err)
{
	const int64_t rest_ms = http_get_rest_ms(call);

	if (call->status != 429 && (call->status != 403 || rest_ms <= 0))
		return false;
	*retry_after_ms = int64_max(rest_ms, REST_LEAST_MS);
	err_set(err, ERR_NETWORK, "%s limits how often it is asked (HTTP %ld)",
		call->peer, call->status);
	upstream_say_limited(err);
	return true;
}

/* Only one that is meant for good is an answer about the repository: the others may be a
 * page of maintenance, or of a login, and pass. */
static int upstream_fail_redirected(const struct http_call *call, struct err *err)
{
	const bool is_for_good = call->status == 301 || call->status == 308;

	err_set(err, is_for_good ? ERR_CONFIG : ERR_NETWORK,
		"%s redirects elsewhere (HTTP %ld)", call->peer, call->status);
	err_because(err, REASON_MOVED);
	return err_remedy(
		err, is_for_good ? "set mirror.url to where the repository is now; a "
				   "redirect is not followed"
				 : "see what it shows there; if the repository is "
				   "elsewhere now, set mirror.url; a redirect is not "
				   "followed");
}

/* What says nothing about the repository passes: a proxy may have answered. */
static int upstream_fail_other(const struct http_call *call, struct err *err)
{
	const bool is_final = http_classify_status((int)call->status) == ERR_CONFIG;

	err_set(err, is_final ? ERR_CONFIG : ERR_NETWORK, "%s answered HTTP %ld",
		call->peer, call->status);
	return err_remedy(err, is_final ? "see whether mirror.url is right"
					: "see whether its server is well");
}

static int upstream_fail_status(const struct http_call *call, struct upstream_view *view,
				struct err *err)
{
	const char *whom = view->watcher ? view->watcher->name : NULL;
	const long status = call->status;

	if (upstream_is_limited(call, &view->retry_after_ms, err))
		return -1;
	if (status >= 300 && status < 400)
		return upstream_fail_redirected(call, err);
	if (status == 401 || status == 403) {
		err_set(err, ERR_AUTH, "%s refuses %s%s (HTTP %ld)", call->peer,
			whom ? "the credential of watcher "
			     : "readers without a credential",
			whom ? whom : "", status);
		err_because(err, REASON_REFUSED);
		return err_remedy(
			err,
			whom ? "put a credential that may read it into the "
			       "watcher's file"
			     : "give the mirror a [watcher] with a credential; one of a "
			       "list, in mirrors.watcher");
	}
	if (status == 404 || status == 410) {
		err_set(err, ERR_MISSING, "%s has no such repository%s%s (HTTP %ld)",
			call->peer, whom ? " for watcher " : "", whom ? whom : "",
			status);
		err_because(err, REASON_HIDDEN);
		return err_remedy(err, "see whether it was renamed or deleted, or may "
				       "not be read with this credential");
	}
	return upstream_fail_other(call, err);
}

static int upstream_run_http(struct http_call *call, struct err *err)
{
	int result = http_complete(call, err);

	if (result != 0 && err->class == ERR_TIMEOUT)
		err_because(err, REASON_TOO_SLOW);
	return result;
}

static void upstream_take_tag(const struct http_call *call, struct upstream_tag *tag)
{
	const char *etag = http_find_header(call, "ETag", 0);
	const char *modified = http_find_modified(call);

	tag->etag = etag && strlen(etag) <= TAG_MOST ? xstrdup(etag) : NULL;
	tag->modified = modified ? xstrdup(modified) : NULL;
}

/* 1: it speaks another protocol, which git may know. */
static int upstream_read_answer(const struct http_call *call, const struct str *body,
				struct upstream_view *view, struct err *err)
{
	const char *type = http_find_header(call, "Content-Type", 0);

	if (call->status != 200)
		return upstream_fail_status(call, view, err);
	if (!type ||
	    !text_starts_with(type, "application/x-git-upload-pack-advertisement"))
		return 1;
	upstream_take_tag(call, &view->tag);
	if (ref_advert_read(body->data, body->len, &view->refs, &view->oid_len, err) == 0)
		return 0;
	err_prefix(err, "%s", call->peer);
	return err_remedy(err,
			  "check what answers at mirror.url: it should be a Git server");
}

/* What asks whether the answer is still the known one; NULL: nothing is known that this
 * credential was told. */
static const struct upstream_tag *upstream_find_known(const struct upstream_call *call,
						      const struct upstream_view *view)
{
	const struct upstream_tag *known = call->known;

	return known && known->watcher == view->tag.watcher &&
			       strcmp(known->stamp, view->tag.stamp) == 0 &&
			       (known->etag || known->modified)
		       ? known
		       : NULL;
}

/* Ends them. */
static void upstream_fill_headers(const struct upstream_view *view,
				  const struct upstream_tag *known,
				  struct http_header headers[HEADERS])
{
	size_t count = http_fill_git_headers(view->header, NULL, headers);

	if (known && known->etag)
		headers[count++] = (struct http_header){ "If-None-Match", known->etag };
	if (known && known->modified)
		headers[count++] =
			(struct http_header){ "If-Modified-Since", known->modified };
	headers[count] = (struct http_header){ 0 };
}

char *upstream_service_url(const char *url, const char *after)
{
	const size_t len = strlen(url);

	return xasprintf("%.*s%s", (int)(len > 0 && url[len - 1] == '/' ? len - 1 : len),
			 url, after);
}

static int upstream_read_http(const struct upstream_call *call,
			      struct upstream_view *view, struct err *err)
{
	static const char after[] = "/info/refs?service=git-upload-pack";
	struct http_line own = { 0 };
	AUTO_STR struct str body = STR_INIT, host = STR_INIT;
	AUTO_FREE char *url = upstream_service_url(view->url, after);
	const struct upstream_tag *known = upstream_find_known(call, view);
	struct http_header headers[HEADERS];
	int result;

	upstream_fill_headers(view, known, headers);
	if (!call->line)
		own = http_line_open();
	http_check_url(url, true, &host);
	struct http_call http = {
		.line = call->line ? *call->line : own,
		.request = { .method = "GET",
			     .url = url,
			     .headers = headers,
			     .ca_file = call->mirror->ca_file,
			     .connect_ms = CONNECT_MS,
			     .silence_ms = SILENCE_MS,
			     .until = clock_boot_ms() + call->timeout_ms,
			     .stop = call->stop },
		.peer = host.len > 0 ? host.data : "the upstream",
		.remedy = "see whether the upstream can be reached from here",
		.take = http_take_limited,
		.taker = &(struct http_limit){ &body, ADVERT_MOST, ERR_CORRUPT,
					       "the upstream's list of refs does not "
					       "end" },
	};
	result = upstream_run_http(&http, err);
	view->is_as_known = result == 0 && known && http.status == 304;
	if (result == 0 && !view->is_as_known)
		result = upstream_read_answer(&http, &body, view, err);
	http_end(&http);
	if (call->line)
		*call->line = http.line;
	else
		http_line_close(&http.line);
	return result;
}

/*
 * Other ways: git asks.
 */

/* As upstream_fail_status() says it of HTTP. */
static int upstream_fail_git(struct err *err)
{
	if (err->class == ERR_AUTH)
		err_because(err, REASON_REFUSED);
	else if (err->class == ERR_MISSING)
		err_because(err, REASON_HIDDEN);
	else if (err->class == ERR_TIMEOUT)
		err_because(err, REASON_TOO_SLOW);
	return err_prefix(err, "the upstream");
}

static int upstream_ask_git(const struct upstream_call *call, struct upstream_view *view,
			    struct err *err)
{
	const char *const args[] = { "ls-remote", "--symref", "--", view->url, NULL };
	const struct git_remote remote = { .url = view->url,
					   .header = view->header,
					   .ssh_command = view->ssh_command,
					   .ca_file = call->mirror->ca_file };
	const struct git_work work = { .stop = call->stop,
				       .guard_fd = -1,
				       .until = clock_boot_ms() + call->timeout_ms };
	AUTO_STR struct str output = STR_INIT;

	if (git_run(&(struct git_call){ .work = &work,
					.repository = "/",
					.args = args,
					.output = &output,
					.output_limit = ADVERT_MOST,
					.silence_ms = SILENCE_MS,
					.remote = &remote },
		    err) != 0)
		return upstream_fail_git(err);
	return ref_advert_read_listing(output.data, output.len, &view->refs,
				       &view->oid_len, err);
}

/* 1: it is no bare repository; git may find one there all the same. */
static int upstream_read_path(struct upstream_view *view, struct err *err)
{
	struct ref_reading reading;

	if (ref_reading_take(AT_FDCWD, view->url, &reading, err) != 0)
		return err->class == ERR_CONFLICT ? -1 : 1;
	view->refs = reading.refs;
	reading.refs = (struct ref_snapshot)REF_SNAPSHOT_INIT;
	view->oid_len = reading.oid_len;
	ref_reading_clear(&reading);
	return 0;
}

/* The snapshot keeps the texts of those that go. */
static void upstream_leave_out(const struct mirror *mirror, struct ref_snapshot *refs)
{
	size_t kept = 0;

	for (size_t i = 0; i < refs->refs.count; i++)
		if (mirror_has_ref(mirror, refs->refs.items[i].name))
			refs->refs.items[kept++] = refs->refs.items[i];
	refs->refs.count = kept;
}

static int upstream_read_as(const struct upstream_call *call, struct upstream_view *view,
			    struct err *err)
{
	int result;

	if (upstream_prepare(call, view, err) != 0) {
		view->is_unusable = true;
		return -1;
	}
	result = call->mirror->uri.kind == URL_HTTP ? upstream_read_http(call, view, err)
		 : call->mirror->uri.kind == URL_LOCAL ? upstream_read_path(view, err)
						       : 1;
	if (result > 0)
		result = upstream_ask_git(call, view, err);
	if (result == 0)
		upstream_leave_out(call->mirror, &view->refs);
	return result;
}

/* What the host has told another mirror of its. A person's word asks it even so, and
 * finds out that it takes requests again. */
static bool upstream_is_at_rest(const struct upstream_call *call,
				struct upstream_view *view, struct err *err)
{
	const int64_t rest_ms =
		call->marks && !call->is_asked
			? credential_rest_ms(call->marks, call->mirror, call->watcher)
			: 0;

	if (rest_ms == 0)
		return false;
	view->watcher = call->watcher;
	view->retry_after_ms = rest_ms;
	view->is_at_rest = true;
	err_set(err, ERR_NETWORK, "%s limits how often it is asked",
		call->mirror->uri.host);
	upstream_say_limited(err);
	return true;
}

/* What a person's question is told counts instead of all that was told before. */
static void upstream_note_rest(const struct upstream_call *call,
			       const struct upstream_view *view, int result)
{
	if (!call->marks || (result != 0 && view->retry_after_ms <= 0))
		return;
	if (call->is_asked)
		credential_rest(call->marks, call->mirror, call->watcher, 0);
	if (view->retry_after_ms > 0)
		credential_rest(call->marks, call->mirror, call->watcher,
				view->retry_after_ms);
}

/* With the credential of call->watcher, unless it is known to be refused. */
static int upstream_try(const struct upstream_call *call, struct upstream_view *view,
			struct err *err)
{
	int result;

	upstream_view_clear(view);
	if (call->watcher && call->marks && !call->is_asked &&
	    credential_is_refused(call->marks, call->mirror, call->watcher, err)) {
		view->watcher = call->watcher;
		view->is_unusable = err->class == ERR_CONFIG;
		return -1;
	}
	if (upstream_is_at_rest(call, view, err))
		return -1;
	result = upstream_read_as(call, view, err);
	upstream_note_rest(call, view, result);
	if (call->watcher && call->marks &&
	    (result == 0 || err->class == ERR_AUTH ||
	     (view->is_unusable && err->class == ERR_CONFIG)))
		credential_mark(call->marks, call->mirror, call->watcher, view->tag.stamp,
				result == 0 ? NULL : err);
	return result;
}

/* A watcher who was told that there is no such repository. */
struct upstream_absence {
	const struct watcher *watcher;
	bool is_marked; /* not now: it was known, and not asked again */
	char stamp[CREDENTIAL_STAMP_SIZE];
	struct err why;
};

struct upstream_round {
	struct upstream_call as;
	VEC(struct upstream_absence) absences;
	struct err last; /* of the last watcher */
};

static bool upstream_goes_on(const struct upstream_round *round,
			     const struct upstream_view *view)
{
	return view->is_unusable || upstream_refuses(&round->last);
}

static int upstream_try_next(struct upstream_round *round, struct upstream_view *view,
			     struct err *err)
{
	const struct upstream_call *as = &round->as;
	struct upstream_absence absence = { .watcher = as->watcher };

	absence.is_marked =
		as->watcher && as->marks && !as->is_asked &&
		credential_is_refused(as->marks, as->mirror, as->watcher, ERR_IGNORED);
	int result = upstream_try(as, view, &round->last);
	if (result != 0 && round->last.class == ERR_MISSING && as->watcher) {
		absence.why = round->last;
		memcpy(absence.stamp, view->tag.stamp, sizeof(absence.stamp));
		vec_add(&round->absences, absence);
	}
	if (result != 0 && (err->class == ERR_NONE || round->last.class != ERR_MISSING))
		*err = round->last;
	return result;
}

/* Each of the mirror's watchers until one is shown the refs. */
static int upstream_try_all(struct upstream_round *round, struct upstream_view *view,
			    struct err *err)
{
	const struct upstream_call *as = &round->as;
	size_t at = 0;
	int result;

	round->as.watcher = mirrors_next_watcher(as->mirrors, as->mirror, &at);
	result = upstream_try_next(round, view, err);
	while (result != 0 && upstream_goes_on(round, view) &&
	       (round->as.watcher = mirrors_next_watcher(as->mirrors, as->mirror, &at)))
		result = upstream_try_next(round, view, err);
	return result;
}

/* Who was passed over for what it was told at another time is asked: it may be told
 * something else by now, and only a word of today says that the repository is gone. */
static int upstream_ask_passed_over(struct upstream_round *round,
				    struct upstream_view *view, struct err *err)
{
	size_t count = round->absences.count;
	int result = -1;

	round->as.is_asked = true;
	for (size_t i = 0; result != 0 && i < count && upstream_goes_on(round, view);
	     i++) {
		if (!round->absences.items[i].is_marked)
			continue;
		round->as.watcher = round->absences.items[i].watcher;
		result = upstream_try_next(round, view, err);
	}
	return result;
}

static void upstream_mark_absences(const struct upstream_round *round)
{
	for (size_t i = 0; round->as.marks && i < round->absences.count; i++) {
		const struct upstream_absence *absence = &round->absences.items[i];
		if (!absence->is_marked)
			credential_mark(round->as.marks, round->as.mirror,
					absence->watcher, absence->stamp, &absence->why);
	}
}

int upstream_read(const struct upstream_call *call, struct upstream_view *view,
		  struct err *err)
{
	struct upstream_round round = { .as = *call };
	int result;

	*view = (struct upstream_view){ 0 };
	*err = (struct err){ 0 };
	if (call->watcher) {
		round.as.is_asked = true;
		return upstream_try(&round.as, view, err);
	}
	result = upstream_try_all(&round, view, err);
	if (result != 0)
		result = upstream_ask_passed_over(&round, view, err);
	if (result == 0)
		upstream_mark_absences(&round);
	else if (err->class == ERR_MISSING)
		err_because(err, REASON_GONE);
	vec_clear(&round.absences);
	return result;
}
