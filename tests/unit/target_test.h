/*
 * What the tests of push targets share: one remote, whose destination is made by hand.
 */
#ifndef UNIT_TARGET_TEST_H
#define UNIT_TARGET_TEST_H

#include "git_test.h"

#include "push/target.h"

static struct push_settings settings __attribute__((unused));
static struct push_remote remote __attribute__((unused));
static struct destination destination __attribute__((unused));
static const struct git_work no_limits = { .guard_fd = -1 };
static struct target_call call __attribute__((unused));

/* In place of those of push/destination.c: adminUrls are
 * paths here. */
static inline char *expand(const char *template, const char *project)
{
	const char *at = strstr(template, "${name}");

	return xasprintf("%.*s%s%s", (int)(at - template), template, project,
			 at + strlen("${name}"));
}

int destination_admin(const struct destination *of, destination_list *admins,
		      struct err *why)
{
	size_t count = of->remote->admin_urls.count;

	(void)why;
	for (size_t i = 0; i < (count > 0 ? count : 1); i++) {
		struct destination one = *of;
		one.project = xstrdup(of->project);
		one.host = of->host ? xstrdup(of->host) : NULL;
		if (count > 0) {
			one.kind = URL_LOCAL;
			one.url = &of->remote->admin_urls.items[i];
			one.path = expand(one.url->template, of->project);
			one.uri = xstrdup(one.path);
		} else {
			one.path = xstrdup(of->path);
			one.uri = xstrdup(of->uri);
		}
		vec_add(admins, one);
	}
	return 0;
}

void destination_list_clear(destination_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->items[i].project);
		free(list->items[i].host);
		free(list->items[i].path);
		free(list->items[i].uri);
	}
	vec_clear(list);
}

/* One URL or adminUrl of the remote; its text is kept. */
static inline void add_url(bool is_admin, const char *template)
{
	struct push_url url = { .template = xstrdup(template) };

	if (is_admin)
		vec_add(&remote.admin_urls, url);
	else
		vec_add(&remote.urls, url);
}

static inline void set_path(const char *path)
{
	free(destination.path);
	destination.path = xstrdup(path);
}

/* The destination of the remote's one URL. */
static inline void set_destination(enum url_kind kind, const char *project,
				   const char *uri, const char *path)
{
	free(destination.project);
	free(destination.uri);
	destination.kind = kind;
	destination.remote = &remote;
	destination.url = remote.urls.items;
	destination.project = xstrdup(project);
	destination.uri = xstrdup(uri);
	snprintf(destination.uri_key, sizeof(destination.uri_key), "%s",
		 "0123456789012345678901234567890123456789");
	set_path(path);
}

static inline void clear_urls(void)
{
	for (size_t i = 0; i < remote.urls.count; i++)
		free(remote.urls.items[i].template);
	for (size_t i = 0; i < remote.admin_urls.count; i++)
		free(remote.admin_urls.items[i].template);
	vec_clear(&remote.urls);
	vec_clear(&remote.admin_urls);
}

static inline int target_setup(void **state)
{
	static char name[] = "mirror", git_path[] = "git";

	if (test_make_root(state) != 0)
		return -1;
	log_set_level(LOG_LEVEL_NONE);
	settings = (struct push_settings){ .ssh_connect_ms = 5000 };
	remote = (struct push_remote){ .name = name, .git_path = git_path };
	destination = (struct destination){ 0 };
	call = (struct target_call){ .settings = &settings,
				     .destination = &destination,
				     .directory = root,
				     .work = &no_limits };
	return git_setup(root, &err);
}

static inline int target_teardown(void **state)
{
	clear_urls();
	free(destination.project);
	free(destination.uri);
	free(destination.path);
	free(destination.host);
	return test_remove_root(state);
}

/* Starts a program that says by the pipe root/port which port it has. */
static inline uint16_t port_of_server(void)
{
	AUTO_FREE char *port = output_of("cat port");

	return (uint16_t)atoi(port);
}

#endif
