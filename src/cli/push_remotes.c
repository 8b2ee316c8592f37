/*
 * The remotes that a command line names.
 */
#include "cli/push.h"

bool push_call_has_remote(const struct push_call *call, const char *remote)
{
	for (size_t i = 0; i < call->remotes.count; i++)
		if (strcmp(call->remotes.items[i], remote) == 0)
			return true;
	return call->remotes.count == 0;
}

/* What is left of a remote that was taken out of the configuration can still be named. */
static bool has_something(const struct queue_view *view, const char *remote)
{
	for (size_t i = 0; i < view->uris.count; i++)
		if (strcmp(view->uris.items[i].remote, remote) == 0)
			return true;
	for (size_t i = 0; i < view->letters.count; i++)
		if (strcmp(view->letters.items[i].task.remote, remote) == 0)
			return true;
	return false;
}

bool push_call_knows_remotes(const struct push_call *call, const struct queue_view *view)
{
	bool result = true;

	for (size_t i = 0; i < call->remotes.count; i++) {
		AUTO_STR struct str name = STR_INIT;
		if (push_remote_find(call->push.settings, call->remotes.items[i]) ||
		    (view && has_something(view, call->remotes.items[i])))
			continue;
		str_add_printable(&name, call->remotes.items[i]);
		fprintf(stderr, "refrelay: there is no remote \"%s\"\n", name.data);
		result = false;
	}
	if (!result)
		fputs("  what to do: see refrelay push list\n", stderr);
	return result;
}
