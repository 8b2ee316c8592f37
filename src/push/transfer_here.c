/*
 * A destination on this machine, served without git: what is small (push/small_push.h) is
 * done in this process, its objects written and its refs changed, if the repository is
 * plain.
 *
 * Plain is what no setting of the repository has a say in: its config has no keys but
 * those of a list, no hook would run, no reflog is kept, and all of its objects are its
 * own. Nobody repacks it for us, so objects are left loose, as git leaves them.
 *
 * Why nothing newer is undone: the destination's refs were read before ours, and each
 * must still have that value when it is locked.
 */
#include "push/transfer_run.h"

#include "base/conf.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "git/foreign_refs.h"
#include "push/here_objects.h"
#include "push/small_push.h"

#define CONFIG_LIMIT (1 << 20) /* bytes */

struct transfer_here {
	struct repo repo; /* the destination */
	struct foreign_refs refs;
	char owner[16 + URI_KEY_SIZE];
};

/* Without a key: all of the section. */
static const struct {
	const char *section, *key;
} harmless[] = {
	{ "core", "repositoryformatversion" },
	{ "core", "filemode" },
	{ "core", "fsync" }, /* all is flushed here anyway */
	{ "core", "fsyncMethod" },
	{ "core", "bare" },
	{ "core", "ignorecase" },
	{ "core", "symlinks" },
	{ "core", "precomposeunicode" },
	{ "branch", NULL },
	{ "gc", NULL },
	{ "gitweb", NULL },
	{ "http", NULL },
	{ "maintenance", NULL },
	{ "remote", NULL },
	{ "repack", NULL },
	{ "uploadpack", NULL },
	{ "user", NULL },
};

static const char *const hooks[] = {
	"pre-receive",  "update",      "post-receive",          "post-update",
	"proc-receive", "pre-auto-gc", "reference-transaction", "push-to-checkout",
};

/* Each is git's to judge. */
static const char *const oddities[] = { ".git", "logs", "worktrees", "modules" };

static bool is_harmless(const struct conf_entry *entry)
{
	for (size_t i = 0; i < ARRAY_SIZE(harmless); i++)
		if (strcasecmp(entry->section, harmless[i].section) == 0 &&
		    (!harmless[i].key || strcasecmp(entry->key, harmless[i].key) == 0))
			return true;
	return false;
}

/* As in a repository that push/target_local.c made. */
static bool turns_reflogs_off(const struct conf_entry *entry)
{
	bool keeps = true;

	return strcasecmp(entry->section, "core") == 0 &&
	       strcasecmp(entry->key, "logAllRefUpdates") == 0 &&
	       conf_read_bool(entry, &keeps, ERR_IGNORED) == 0 && !keeps;
}

static bool has_plain_config(int dir)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_CONF struct conf *conf = NULL;
	bool is_bare = false;

	if (file_read(dir, "config", CONFIG_LIMIT, &text, ERR_IGNORED) != 0 ||
	    conf_load_text("config", text.data, text.len, &conf, ERR_IGNORED) != 0 ||
	    conf_read_bool(conf_get(conf, "core", NULL, "bare"), &is_bare, ERR_IGNORED) !=
		    0)
		return false;
	for (size_t i = 0; i < conf_entries(conf)->count; i++)
		if (!is_harmless(conf_entries(conf)->items[i]) &&
		    !turns_reflogs_off(conf_entries(conf)->items[i]))
			return false;
	return is_bare;
}

static bool is_there(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

static bool has_hook(int dir)
{
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(hooks); i++) {
		snprintf(path, sizeof(path), "hooks/%s", hooks[i]);
		if (faccessat(dir, path, X_OK, AT_EACCESS) == 0)
			return true;
	}
	return false;
}

static bool is_plain(const struct repo *repo)
{
	for (size_t i = 0; i < ARRAY_SIZE(oddities); i++)
		if (is_there(repo->fd, oddities[i]))
			return false;
	return repo->oid_len == 20 && !repo->is_partial && !repo->has_work_tree &&
	       !repo->has_includes && has_plain_config(repo->fd) &&
	       repo_check_diversions(repo->fd, ERR_IGNORED) == 0 && !has_hook(repo->fd);
}

static bool has_symbolic(const struct ref_snapshot *refs)
{
	for (size_t i = 0; i < refs->refs.count; i++)
		if (refs->refs.items[i].target)
			return true;
	return false;
}

/* *repo and *refs are filled as far as it came. */
static bool look(struct transfer *transfer, struct transfer_here *here)
{
	const char *path = transfer->request->destination->path;
	struct ref_snapshot *seen = &transfer->seen;

	return repo_open(AT_FDCWD, path, &here->repo, ERR_IGNORED) == 0 &&
	       is_plain(&here->repo) &&
	       foreign_refs_read(here->repo.fd, here->owner, seen, &here->refs,
				 ERR_IGNORED) == 0 &&
	       !has_symbolic(seen);
}

/* What a killed push left would hinder git as well. */
static void recover(const struct transfer_here *here, const char *path)
{
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, path, ERR_IGNORED);

	if (dir >= 0)
		foreign_refs_recover(dir, here->owner);
}

struct transfer_here *transfer_here_open(struct transfer *transfer)
{
	const struct destination *to = transfer->request->destination;
	struct transfer_here *here;

	if (to->kind != URL_LOCAL)
		return NULL;
	here = xcalloc(1, sizeof(*here));
	here->repo = (struct repo)REPO_INIT;
	snprintf(here->owner, sizeof(here->owner), "refrelay-push-%s", to->uri_key);
	recover(here, to->path);
	transfer->is_seen = look(transfer, here);
	if (transfer->is_seen)
		return here;
	ref_snapshot_clear(&transfer->seen);
	transfer_here_close(here);
	return NULL;
}

void transfer_here_close(struct transfer_here *here)
{
	if (!here)
		return;
	repo_close(&here->repo);
	free(here);
}

static int write_refs(struct small_push *push, const struct foreign_refs *refs,
		      struct err *err)
{
	size_t written = 0;

	for (size_t i = 0; i < push->items.count; i++) {
		struct push_item *item = push->items.items[i];
		if (transfer_check_limits(push->transfer, err) != 0)
			return -1;
		if (!foreign_refs_write(refs, item->result.dst, &item->value.oid))
			continue;
		push->items.items[written++] = item;
	}
	for (size_t i = 0; i < written; i++) {
		const char *dst = push->items.items[i]->result.dst;
		if (foreign_refs_sync(refs, dst, err) != 0)
			return -1;
	}
	for (size_t i = 0; i < written; i++)
		item_settle(push->items.items[i], REF_OK, NULL);
	push->transfer->result->pushes += written > 0;
	return 0;
}

/* Nothing is settled before all is durable: else git finds it up to date. */
static int bring(struct small_push *push, const struct transfer_here *here,
		 struct err *err)
{
	if (!small_push_find_added(push) ||
	    transfer_check_limits(push->transfer, ERR_IGNORED) != 0)
		return 0;
	if (here_objects_place(push->store, &push->added, here->repo.fd,
			       &push->transfer->result->sent_bytes, ERR_IGNORED) != 0)
		return 0;
	failpoint("transfer_here.brought");
	return write_refs(push, &here->refs, err);
}

int transfer_here_push(struct transfer *transfer, struct transfer_here *here,
		       struct err *err)
{
	struct small_push push = { .transfer = transfer,
				   .theirs = &transfer->seen,
				   .most_refs = SMALL_PUSH_REFS };
	int result = 0;

	if (small_push_open(&push))
		small_push_choose(&push);
	if (push.items.count > 0)
		result = bring(&push, here, err);
	small_push_close(&push);
	return result;
}
