#include "push/destination.h"

#include "base/log.h"

/* A name that one remote has no place for must not keep it from the others: `check`
 * finds it. */
static void add_of_remote(const struct push_remote *remote, const char *project,
			  destination_list *list)
{
	for (size_t i = 0; i < remote->urls.count; i++) {
		struct destination one;
		struct err why;
		if (destination_make(remote, i, project, &one, &why) == 0)
			vec_add(list, one);
		else
			log_warn("push.no_destination", LOG_TEXT("repo", project),
				 LOG_TEXT("remote", remote->name), LOG_ERR(&why));
	}
}

int destinations_of(const struct push_settings *settings, const char *project,
		    destination_list *list, struct err *err)
{
	(void)err;
	for (size_t i = 0; i < settings->remotes.count; i++) {
		const struct push_remote *remote = &settings->remotes.items[i];
		if (push_remote_takes(remote, project))
			add_of_remote(remote, project, list);
	}
	return 0;
}

int destination_find(const struct push_settings *settings, const char *remote,
		     const char *project, const char *uri,
		     struct destination *destination, struct err *err)
{
	const struct push_remote *found = push_remote_find(settings, remote);

	if (!found)
		return err_set(err, ERR_MISSING, "there is no remote %s any more",
			       remote);
	if (!push_remote_takes(found, project))
		return err_set(err, ERR_MISSING, "remote %s does not take %s", remote,
			       project);
	for (size_t i = 0; i < found->urls.count; i++) {
		if (destination_make(found, i, project, destination, err) != 0)
			continue;
		if (strcmp(destination->uri, uri) == 0)
			return 0;
		destination_clear(destination);
	}
	return err_set(err, ERR_MISSING, "remote %s has no URL any more that leads to %s",
		       remote, uri);
}

static bool destination_list_has_uri(const struct push_remote *remote,
				     const char *project, const char *uri)
{
	for (size_t i = 0; i < remote->urls.count; i++) {
		struct destination one;
		if (destination_make(remote, i, project, &one, ERR_IGNORED) != 0)
			continue;
		bool is_it = strcmp(one.uri, uri) == 0;
		destination_clear(&one);
		if (is_it)
			return true;
	}
	return false;
}

bool destinations_have(const struct push_settings *settings, const char *project,
		       const char *uri)
{
	for (size_t i = 0; i < settings->remotes.count; i++)
		if (push_remote_takes(&settings->remotes.items[i], project) &&
		    destination_list_has_uri(&settings->remotes.items[i], project, uri))
			return true;
	return false;
}

void destination_list_clear(destination_list *list)
{
	int saved = errno;

	for (size_t i = 0; i < list->count; i++)
		destination_clear(&list->items[i]);
	vec_clear(list);
	errno = saved;
}

bool destination_matches_url(const struct destination *destination, const char *part)
{
	return !part[0] || strcmp(part, "*") == 0 ||
	       strstr(destination->url->template, part) || strstr(destination->uri, part);
}
