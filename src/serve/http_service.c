#include "serve/http_service.h"

static const char *const keys[] = {
	[HTTP_SERVICE_READ] = "http.uploadpack", [HTTP_SERVICE_PUSH] = "http.receivepack"
};

int http_service_closed(const char *path, enum http_service service, struct err *err)
{
	err_set(err, ERR_AUTH, "%s: %s is false there", path, keys[service]);
	err_because(err, REASON_CLOSED);
	return err_remedy(err, "set %s in the repository's config to true, or unset it",
			  keys[service]);
}

/* Git says 1 where it is not set. */
int http_service_check(const char *path, const struct repo *repo,
		       const struct git_work *work, enum http_service service,
		       struct err *err)
{
	const char *const args[] = { "config", "--type=bool", "--get", keys[service],
				     NULL };
	struct proc_result ended = { .exit_code = -1 };
	AUTO_STR struct str value = STR_INIT;
	const struct git_call call = {
		.work = work,
		.repository = path,
		.repository_fd = repo->fd,
		.args = args,
		.config = GIT_CONFIG_RECEIVE,
		.output = &value,
		.output_limit = 64,
		.ended = &ended,
	};

	if (git_run(&call, err) != 0 && ended.exit_code != 1)
		return err_prefix(err, "%s of %s", keys[service], path);
	return strcmp(value.data, "false\n") == 0
		       ? http_service_closed(path, service, err)
		       : 0;
}
