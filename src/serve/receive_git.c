#include "serve/receive_git.h"

#include <fcntl.h>

#include "base/clock.h"
#include "serve/http_service.h"
#include "serve/ls_refs.h"
#include "serve/receive_places.h"

struct git_work receive_git_work(const struct receive_pack_request *request)
{
	return (struct git_work){
		.stop = request->stop,
		.guard_fd = -1,
		.until = request->timeout_ms > 0 ? clock_boot_ms() + request->timeout_ms
						 : 0,
	};
}

/* Git then runs in this very directory. */
static int receive_git_open_repository(const struct receive_pack_request *request,
				       struct repo *repo, struct err *err)
{
	int result = request->dir > 0 ? repo_open(request->dir, ".", repo, err)
				      : repo_open(AT_FDCWD, request->path, repo, err);

	if (result != 0)
		return -1;
	return repo_check_files(repo, err);
}

/* Git would take the push. But what is cut short is not replicated, so that the change
 * could not be recorded, and the client would be told of a failure. */
static int check_whole(const char *path, const struct repo *repo, struct err *err)
{
	if (!repo->is_shallow && !repo->is_partial)
		return 0;
	err_set(err, ERR_AUTH, "%s is %s: it takes no pushes here", path,
		repo->is_shallow ? "shallow" : "a partial clone");
	err_because(err, REASON_CLOSED);
	return err_remedy(err, repo->is_shallow
				       ? "complete it with git fetch --unshallow"
				       : "complete it with git fetch --refetch "
					 "--no-filter, and unset its promisor remote");
}

int receive_git_open(const struct receive_pack_request *request,
		     const struct git_work *work, struct repo *repo, struct err *err)
{
	if (receive_git_open_repository(request, repo, err) != 0 ||
	    check_whole(request->path, repo, err) != 0 ||
	    receive_places_check(repo->fd, err) != 0)
		return -1;
	return http_service_check(request->path, repo, work, HTTP_SERVICE_PUSH, err);
}

/* What git calls an address has no blanks: a token is called "token NAME", and NAME is
 * what tells it from others. */
static char *mailbox_of(const char *user, const char *client)
{
	const char *blank = strrchr(user, ' ');

	return xasprintf("%s@http.%s", blank && blank[1] ? blank + 1 : user, client);
}

/* As git http-backend does. A keyring that this node was told of is the one by which
 * signatures of pushes are judged. */
static void fill_variables(const struct receive_pack_request *request, char **items)
{
	const char *user = request->user, *client = request->client;
	const char *keyring = getenv("GNUPGHOME");
	size_t count = 0;

	if (user)
		items[count++] = xasprintf("REMOTE_USER=%s", user);
	if (client)
		items[count++] = xasprintf("REMOTE_ADDR=%s", client);
	user = user && *user ? user : "anonymous";
	client = client && *client ? client : "(none)";
	items[count++] = xasprintf("GIT_COMMITTER_NAME=%s", user);
	AUTO_FREE char *mailbox = mailbox_of(user, client);
	items[count++] = xasprintf("GIT_COMMITTER_EMAIL=%s", mailbox);
	if (keyring)
		items[count++] = xasprintf("GNUPGHOME=%s", keyring);
	items[count] = NULL;
}

/* There is no version 2 of pushes; git ignores the wish, and so do we. */
static const char *receive_git_protocol_of(const char *header)
{
	return git_protocol_version(header) == 1 ? "version=1" : NULL;
}

void receive_call_init(struct receive_call *call,
		       const struct receive_pack_request *request,
		       const struct repo *repo, const struct git_work *work,
		       const char *const *args)
{
	fill_variables(request, call->variables);
	call->call = (struct git_call){
		.work = work,
		.repository = request->path,
		.repository_fd = repo->fd,
		.args = args,
		.config = GIT_CONFIG_RECEIVE,
		.protocol = receive_git_protocol_of(request->protocol),
		.variables = (const char *const *)call->variables,
	};
}

void receive_call_clear(struct receive_call *call)
{
	for (char **item = call->variables; *item; item++)
		free(*item);
}
