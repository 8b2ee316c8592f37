/* What a repository shows to who is about to push: refs and capabilities. */
#include "base/clock.h"
#include "serve/receive_git.h"

enum {
	ADVERTISE_MAX = 64 << 20,
	ADVERTISE_MS = 10 * 60 * 1000,
};

static const char service[] = "001f# service=git-receive-pack\n0000";

static int receive_advertise_run_git(const struct receive_pack_request *request,
				     const struct repo *repo, const struct git_work *work,
				     struct str *out, struct err *err)
{
	const char *const args[] = { "receive-pack", "--http-backend-info-refs", ".",
				     NULL };
	struct receive_call call;
	int result;

	receive_call_init(&call, request, repo, work, args);
	call.call.output = out;
	call.call.output_limit = ADVERTISE_MAX;
	result = git_run(&call.call, err);
	receive_call_clear(&call);
	return result;
}

int receive_pack_advertise(const struct receive_pack_request *request, struct str *out,
			   struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	struct git_work work = receive_git_work(request);
	size_t before = out->len;

	if (work.until == 0)
		work.until = clock_boot_ms() + ADVERTISE_MS;
	if (receive_git_open(request, &work, &repo, err) != 0)
		return -1;
	str_add(out, service);
	if (receive_advertise_run_git(request, &repo, &work, out, err) == 0)
		return 0;
	str_truncate(out, before);
	return -1;
}
