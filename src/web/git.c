/*
 * Git's smart HTTP protocol, for reading. Status and headers are those of git
 * http-backend where it has good ones; it answers 200 with nothing in it to much that
 * goes wrong, and we never do: upload_pack_open waits for the first bytes.
 *
 * A repository is looked for as replicable/discover.h would find it: no symbolic link
 * and no other repository on the way, so that nothing is served that is not replicated.
 */
#include "base/file.h"
#include "base/log.h"
#include "git/repo.h"
#include "replicable/name.h"
#include "serve/upload_pack.h"
#include "web/answer.h"
#include "web/git_request.h"
#include "web/services.h"
#include "web/web.h"

/* Opens the directory at path below root, a part at a time; -1: there is none. */
static int descend(const char *root, const char *path)
{
	int fd = dir_open(AT_FDCWD, root, ERR_IGNORED);

	while (fd >= 0 && *path) {
		AUTO_CLOSE int parent = fd;
		AUTO_FREE char *part = xstrndup(path, strcspn(path, "/"));
		fd = -1;
		if (repo_look_at(parent) == REPO_NOTHING)
			fd = openat(parent, part,
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		path += strlen(part);
		path += *path == '/';
	}
	return fd;
}

static bool is_repository(const char *root, const char *path)
{
	AUTO_CLOSE int fd = descend(root, path);

	return fd >= 0 && repo_look_at(fd) != REPO_NOTHING;
}

/* The repository's path on disk; the caller frees. NULL with *err: no such name. */
static char *find_repository(const struct web_request *request, struct err *err)
{
	const char *root = request->services->root;
	AUTO_FREE char *name = git_request_repository(request);

	if (name_check(name, err)) {
		err->class = ERR_MISSING; /* a name that no repository can have */
		return NULL;
	}
	AUTO_FREE char *path = name_to_path(name);
	if (is_repository(root, path))
		return xasprintf("%s/%s", root, path);
	if (is_repository(root, name))
		return xasprintf("%s/%s", root, name);
	err_set(err, ERR_MISSING, "there is no repository \"%s\"", name);
	return NULL;
}

/* What is sent. Path and protocol are kept as long as the child may be. */
struct git_stream {
	struct upload_pack *pack;
	char *path, *protocol;
};

static ssize_t read_pack(void *arg, void *buffer, size_t size)
{
	struct git_stream *stream = arg;
	struct err err = { 0 };
	ssize_t count = upload_pack_read(stream->pack, buffer, size, &err);

	if (count < 0)
		log_warn("git.broken", LOG_ERR(&err), LOG_TEXT("path", stream->path));
	return count;
}

static void close_pack(void *arg)
{
	struct git_stream *stream = arg;

	upload_pack_close(stream->pack);
	free(stream->path);
	free(stream->protocol);
	free(stream);
}

static void never_cache(struct web_response *response)
{
	web_add_header(response, "Expires", "Fri, 01 Jan 1980 00:00:00 GMT");
	web_add_header(response, "Pragma", "no-cache");
	web_add_header(response, "Cache-Control", "no-cache, max-age=0, must-revalidate");
}

/* What is set up wrong here is not the client's fault. */
static int failed(struct web_response *response, bool is_request_bad,
		  const struct err *err)
{
	if (err->class != ERR_CONFIG || is_request_bad)
		return -1;
	answer_err(response, 500, err);
	return 0;
}

static int serve(const struct web_request *request, enum upload_pack_step step,
		 struct web_response *response, struct err *err)
{
	const char *protocol = web_header(request, "Git-Protocol");
	char *path = find_repository(request, err);
	bool is_request_bad = false;

	if (!path)
		return -1;
	struct git_stream *stream = xcalloc(1, sizeof(*stream));
	stream->path = path;
	stream->protocol = protocol ? xstrdup(protocol) : NULL;
	struct upload_pack_request wanted = {
		.path = path,
		.step = step,
		.protocol = stream->protocol,
		.body_fd = request->body_fd,
		.timeout_ms = request->services->git_timeout_ms,
		.stop = request->cut,
		.is_bad = &is_request_bad,
	};
	if (upload_pack_open(&wanted, &stream->pack, err)) {
		close_pack(stream);
		return failed(response, is_request_bad, err);
	}
	response->read = read_pack;
	response->close = close_pack;
	response->stream = stream;
	never_cache(response);
	return 0;
}

static int refuse_push(struct web_response *response)
{
	web_answer_problem(response, 403, "PUSH_NOT_SERVED",
			   "this version of refrelay takes no pushes over HTTP",
			   "push to the Git server that owns the repository");
	return 0;
}

static int get_refs(const struct web_request *request, struct web_response *response,
		    struct err *err)
{
	const char *service = git_request_service(request);

	if (strcmp(service, GIT_UPLOAD_PACK) == 0) {
		response->content_type = "application/x-git-upload-pack-advertisement";
		return serve(request, UPLOAD_PACK_ADVERTISE, response, err);
	}
	if (strcmp(service, "git-receive-pack") == 0)
		return refuse_push(response);
	if (*service)
		web_answer_problem(response, 403, "UNKNOWN_SERVICE",
				   "this service of Git is not known here", "");
	else
		web_answer_problem(response, 403, "DUMB_PROTOCOL",
				   "Git's dumb HTTP protocol is not served",
				   "use git 1.6.6 or later, without GIT_SMART_HTTP=0");
	return 0;
}

static int post_upload_pack(const struct web_request *request,
			    struct web_response *response, struct err *err)
{
	const char *type = web_header(request, "Content-Type");

	if (!type || strcmp(type, "application/x-git-upload-pack-request") != 0) {
		web_answer_problem(response, 415, "WRONG_CONTENT_TYPE",
				   "Content-Type must be "
				   "application/x-git-upload-pack-request",
				   "");
		return 0;
	}
	response->content_type = "application/x-git-upload-pack-result";
	return serve(request, UPLOAD_PACK_ANSWER, response, err);
}

static int post_receive_pack(const struct web_request *request,
			     struct web_response *response, struct err *err)
{
	(void)request;
	(void)err;
	return refuse_push(response);
}

const struct web_route web_git_routes[] = {
	{ "GET", "/{path}/info/refs", WEB_GIT_READER, WEB_BODY_NONE, get_refs },
	{ "POST", "/{path}/git-upload-pack", WEB_GIT_READER, WEB_BODY_FILE,
	  post_upload_pack },
	{ "POST", "/{path}/git-receive-pack", WEB_ANYBODY, WEB_BODY_NONE,
	  post_receive_pack },
	{ 0 },
};
