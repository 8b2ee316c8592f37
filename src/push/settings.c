#include "push/settings.h"

#include "push/pattern.h"
#include "push/settings_parts.h"
#include "push/spec.h"

struct push_settings *push_settings_ref(struct push_settings *settings)
{
	__atomic_add_fetch(&settings->references, 1, __ATOMIC_RELAXED);
	return settings;
}

void push_remote_clear(struct push_remote *remote)
{
	free(remote->name);
	push_urls_clear(remote->urls.items, remote->urls.count);
	vec_clear(&remote->urls);
	push_urls_clear(remote->admin_urls.items, remote->admin_urls.count);
	vec_clear(&remote->admin_urls);
	for (size_t i = 0; i < remote->specs.count; i++)
		push_spec_clear(&remote->specs.items[i]);
	vec_clear(&remote->specs);
	name_patterns_clear(&remote->projects);
	name_patterns_clear(&remote->excluded_projects);
	name_patterns_clear(&remote->excluded_refs);
	free(remote->receive_pack);
	free(remote->upload_pack);
	free(remote->git_path);
	free(remote->ssh_key);
	free(remote->ssh_known_hosts);
}

void push_settings_unref(struct push_settings *settings)
{
	if (!settings ||
	    __atomic_sub_fetch(&settings->references, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	for (size_t i = 0; i < settings->remotes.count; i++)
		push_remote_clear(&settings->remotes.items[i]);
	vec_clear(&settings->remotes);
	for (size_t i = 0; i < settings->notes.count; i++)
		free(settings->notes.items[i]);
	vec_clear(&settings->notes);
	free(settings->directory);
	free(settings->ssh_config);
	free(settings->webhook);
	str_clear(&settings->webhook_secret);
	free(settings);
}

const struct push_remote *push_remote_find(const struct push_settings *settings,
					   const char *name)
{
	for (size_t i = 0; i < settings->remotes.count; i++)
		if (strcmp(settings->remotes.items[i].name, name) == 0)
			return &settings->remotes.items[i];
	return NULL;
}

bool push_remote_takes(const struct push_remote *remote, const char *project)
{
	if (name_patterns_leave_out(&remote->excluded_projects, project))
		return false;
	return remote->projects.count == 0 ||
	       name_patterns_take(&remote->projects, project);
}

static bool is_note_db_meta(const char *ref)
{
	if (text_starts_with(ref, "refs/changes/"))
		return text_ends_with(ref, "/meta") ||
		       text_ends_with(ref, "/robot-comments");
	return text_starts_with(ref, "refs/draft-comments/") ||
	       text_starts_with(ref, "refs/starred-changes/");
}

static bool leaves_out(const struct push_remote *remote, const char *ref)
{
	return text_starts_with(ref, "refs/cache-automerge/") ||
	       text_starts_with(ref, "refs/refrelay/") ||
	       (!remote->replicates_permissions &&
		strcmp(ref, "refs/meta/config") == 0) ||
	       (!remote->replicates_note_db_meta && is_note_db_meta(ref)) ||
	       name_patterns_leave_out(&remote->excluded_refs, ref);
}

bool push_remote_maps(const struct push_remote *remote, const char *ref, char **dst,
		      bool *force)
{
	if (leaves_out(remote, ref))
		return false;
	for (size_t i = 0; i < remote->specs.count; i++) {
		if (!push_spec_maps(&remote->specs.items[i], ref, dst))
			continue;
		*force = remote->specs.items[i].force;
		return true;
	}
	return false;
}
