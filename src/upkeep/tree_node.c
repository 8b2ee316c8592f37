/*
 * The record is written whole and flocked under a temporary name, and only then renamed
 * to its own: whoever reads it under that name finds all of it, and the flock. Each node
 * writes its record before it reads the others', so that of two that start at once at
 * least one sees the other; both may refuse, which harms nothing. While it runs a node
 * looks at the others with each stamp, for those that it could not see then, as through
 * the cache of a network file system: such a one is told to the log.
 */
#include "upkeep/tree_node.h"

#include <limits.h>
#include <sys/file.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "change/origin_root.h"

#define NODES OWN_FOLDER "/nodes"
#define RECORD_MOST 16384
#define NAME_BYTES 16
#define FORGET_S 86400 /* records of nodes that are gone stay so long, for people */

struct tree_node {
	struct stop stop;
	pthread_t thread;
	/* Fixed from start to stop. */
	char *root;                    /* owned, as these */
	char *name;                    /* of the record */
	json_t *record;                /* what it says */
	struct lease_manager *manager; /* borrowed; NULL: it holds no lease */
	/* Of the start, then of the thread. */
	int folder, fd;                                  /* -1: not there */
	struct lease *lease;                             /* NULL: not now */
	char differing[sizeof(((struct err *)0)->text)]; /* what the log was told last */
	bool is_failing;
};

/* What makes a data directory another one: on another host, or elsewhere. */
static char *tree_node_name(const struct tree_node_self *self, const char *host)
{
	AUTO_FREE char *identity = identity_of(AT_FDCWD, self->data);
	AUTO_FREE char *text =
		xasprintf("%s\n%s\n%s", host, identity ? identity : "", self->data);
	AUTO_STR struct str name = STR_INIT;

	hash_add_hex(HASH_SHA256, text, strlen(text), NAME_BYTES, &name);
	return str_take(&name);
}

static void tree_node_find_host(char host[HOST_NAME_MAX + 1])
{
	snprintf(host, HOST_NAME_MAX + 1, "localhost");
	gethostname(host, HOST_NAME_MAX);
	host[HOST_NAME_MAX] = '\0';
}

static json_t *tree_node_record(const struct tree_node_self *self, const char *host)
{
	json_t *object = json_object();

	json_put_number(object, "version", 1);
	json_put_text(object, "site", self->site);
	json_put_text(object, "host", host);
	json_put_text(object, "data", self->data);
	json_put_text(object, "boot_id", clock_boot_id());
	json_put_number(object, "pid", getpid());
	json_put_time(object, "started_at", clock_wall_ms());
	json_put(object, "leases", json_deep_copy(self->leases));
	return object;
}

/*
 * The judgement.
 */

static const char *tree_node_text(const json_t *record, const char *key)
{
	const char *text = json_string_value(json_object_get(record, key));

	return text ? text : "";
}

static const char *tree_node_lease_text(const json_t *record, const char *key)
{
	return tree_node_text(json_object_get(record, "leases"), key);
}

/* "the node of /srv/data on host a"; the caller frees. */
static char *tree_node_who(const json_t *record)
{
	return xasprintf("the node of %.200s on %.64s", tree_node_text(record, "data"),
			 tree_node_text(record, "host"));
}

static const struct {
	const char *key, *setting, *remedy;
} tree_node_settings[] = {
	{ "backend", "lease.backend", "give all nodes of a tree the same lease.backend" },
	{ "format", "lease.format", "give all nodes of a tree the same lease.format" },
	{ "compatibility", "lease.compatibility",
	  "give all nodes of a tree the same lease.compatibility" },
	{ "prefix", "lease.prefix",
	  "give all nodes of a tree the same lease.prefix; where it is not set it "
	  "follows "
	  "from site.name" },
	{ "keyFormat", "lease.keyFormat",
	  "give all nodes of a tree the same lease.keyFormat" },
	{ "ttl", "lease.ttl", "give all nodes of a tree the same lease.ttl" },
	{ "key", "the key of one repository's lease",
	  "lease.keyFormat takes in site.name or site.repositories, which are written "
	  "otherwise there: write them in the same way, or take ${id} or ${name}" },
};

static int tree_node_refuse(const json_t *own, const json_t *other, size_t which,
			    struct err *err)
{
	const char *key = tree_node_settings[which].key;
	AUTO_FREE char *who = tree_node_who(own);
	AUTO_FREE char *whom = tree_node_who(other);

	err_set(err, ERR_CONFIG,
		"%s works on the same site.repositories as %s, but %s is \"%.60s\" there "
		"and \"%.60s\" here",
		whom, who, tree_node_settings[which].setting,
		tree_node_lease_text(other, key), tree_node_lease_text(own, key));
	return err_remedy(err, "%s, or stop the other node",
			  tree_node_settings[which].remedy);
}

static bool tree_node_has_backend(const json_t *record, const char *name)
{
	return strcmp(tree_node_lease_text(record, "backend"), name) == 0;
}

static bool tree_node_is_local(const json_t *record)
{
	return tree_node_has_backend(record, "local");
}

static int tree_node_refuse_local(const json_t *own, const json_t *other, struct err *err)
{
	AUTO_FREE char *who = tree_node_who(own);
	AUTO_FREE char *whom = tree_node_who(other);

	err_set(err, ERR_CONFIG,
		"%s works on the same site.repositories as %s, and lease.backend is "
		"\"local\" %s: such leases exclude no other node",
		whom, who,
		!tree_node_is_local(own)    ? "there"
		: tree_node_is_local(other) ? "at both"
					    : "here");
	return err_remedy(err,
			  "give all nodes of a tree the same lease.backend, which is "
			  "redis, postgresql or directory, or stop the other node");
}

int tree_node_judge(const json_t *own, const json_t *other, struct err *err)
{
	err->class = ERR_NONE;
	if (tree_node_is_local(own) || tree_node_is_local(other))
		return tree_node_refuse_local(own, other, err);
	for (size_t i = 0; i < ARRAY_SIZE(tree_node_settings); i++) {
		const char *key = tree_node_settings[i].key;
		if (strcmp(tree_node_lease_text(own, key),
			   tree_node_lease_text(other, key)) != 0)
			return tree_node_refuse(own, other, i, err);
	}
	if (strcmp(tree_node_lease_text(own, "place"),
		   tree_node_lease_text(other, "place")) == 0)
		return 0;
	AUTO_FREE char *whom = tree_node_who(other);
	err_set(err, ERR_CONFLICT,
		"lease.url or lease.path is written otherwise at %s, which works on the "
		"same site.repositories",
		whom);
	err_remedy(err, "see that both mean the same servers, or the same directory");
	return 1;
}

/*
 * Records.
 */

/* 1; 0: there is none by now, or it says nothing. *fd is open. */
static int tree_node_read(int folder, const char *name, int *fd, json_t **record)
{
	AUTO_STR struct str text = STR_INIT;

	*record = NULL;
	*fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (*fd < 0 || file_read(folder, name, RECORD_MOST, &text, ERR_IGNORED) != 0)
		return 0;
	*record = json_parse_object(text.data, text.len, RECORD_MOST, ERR_IGNORED);
	return *record != NULL;
}

/* A shared lock is enough to ask: who asks keeps nobody else from asking. */
static bool tree_node_lives(int fd, const json_t *record, int64_t now_s)
{
	bool is_here = strcmp(tree_node_text(record, "boot_id"), clock_boot_id()) == 0;
	struct stat st;

	if (is_here && flock(fd, LOCK_SH | LOCK_NB) == 0)
		return false;
	if (is_here && errno == EWOULDBLOCK)
		return true;
	return fstat(fd, &st) == 0 && now_s - (int64_t)st.st_mtime <= TREE_NODE_SILENT_S;
}

static bool tree_node_is_name(const char *name)
{
	return strlen(name) == (size_t)2 * NAME_BYTES &&
	       strspn(name, "0123456789abcdef") == (size_t)2 * NAME_BYTES;
}

struct tree_node_look {
	int folder;
	struct lease_manager *manager; /* to find out what a place means; may be NULL */
	const char *own_name;
	const json_t *own;
	int64_t now_s; /* by the clock of the file system */
	bool forgets;
	tree_node_seen say;
	void *arg;
};

static void tree_node_forget(const struct tree_node_look *look, const char *name, int fd)
{
	struct stat st;

	if (look->forgets && fstat(fd, &st) == 0 &&
	    look->now_s - (int64_t)st.st_mtime > FORGET_S)
		unlinkat(look->folder, name, 0);
}

static void tree_node_lease_key(const struct lease_manager *manager, const char *name,
				char key[LEASE_KEY_SIZE])
{
	AUTO_FREE char *text = xasprintf("site:tree:%s", name);

	lease_key_of_site(manager, text, key);
}

/* 1: the neighbour holds its lease where ours are; 0: not; -1: it cannot be asked. */
static int tree_node_is_seen(const struct tree_node_look *look, const char *name)
{
	struct lease_holder holder;
	char key[LEASE_KEY_SIZE];
	struct err err;

	tree_node_lease_key(look->manager, name, key);
	if (lease_inspect(look->manager, key, &holder, &err) == 0)
		return holder.held;
	return err.class == ERR_MISSING ? 0 : -1;
}

/* It may be about to have its lease again, as after a restart of the server. */
static int tree_node_find_place(const struct tree_node_look *look, const char *name,
				const json_t *record, int64_t patience_ms,
				struct err *err)
{
	const int64_t until = clock_boot_ms() + patience_ms;
	int seen;

	while ((seen = tree_node_is_seen(look, name)) == 0 && clock_boot_ms() < until)
		usleep(100000);
	if (seen < 0)
		return 1;
	if (seen > 0) {
		err->class = ERR_NONE;
		return 0;
	}
	AUTO_FREE char *who = tree_node_who(look->own);
	AUTO_FREE char *whom = tree_node_who(record);
	err_set(err, ERR_CONFIG,
		"%s works on the same site.repositories as %s, but its leases are kept "
		"elsewhere: lease.url or lease.path means another place there",
		whom, who);
	return err_remedy(err, "give all nodes of a tree the same lease.url or "
			       "lease.path, which is mounted at each, or stop the other "
			       "node");
}

static int tree_node_look_at(const struct tree_node_look *look, const char *name,
			     struct err *err)
{
	AUTO_CLOSE int fd = -1;
	json_auto_t *record = NULL;
	int64_t patience_ms;
	int verdict;

	if (!tree_node_read(look->folder, name, &fd, &record))
		return 0;
	if (!tree_node_lives(fd, record, look->now_s)) {
		tree_node_forget(look, name, fd);
		return 0;
	}
	verdict = tree_node_judge(look->own, record, err);
	patience_ms = verdict > 0 ? TREE_NODE_PATIENCE_MS : 0;
	/* The same path may be another directory: where it is not mounted. Mostly it is
	 * not; so one that lost its lease has the time of a beat to take it again. */
	if (verdict == 0 && tree_node_has_backend(look->own, "directory"))
		patience_ms = TREE_NODE_BEAT_MS + TREE_NODE_PATIENCE_MS;
	if (patience_ms > 0 && look->manager)
		verdict = tree_node_find_place(look, name, record, patience_ms, err);
	if (verdict >= 0 && look->say) {
		AUTO_FREE char *who = tree_node_who(record);
		look->say(look->arg, who, err);
	}
	return verdict < 0 ? -1 : 0;
}

static int tree_node_look_at_all(const struct tree_node_look *look, struct err *err)
{
	AUTO_CLOSEDIR DIR *dir = dir_list(look->folder, ".");
	struct dirent *entry;

	while (dir && (entry = readdir(dir)) != NULL)
		if (tree_node_is_name(entry->d_name) &&
		    strcmp(entry->d_name, look->own_name) != 0 &&
		    tree_node_look_at(look, entry->d_name, err) != 0)
			return -1;
	return 0;
}

int tree_node_check(const struct tree_node_self *self, tree_node_seen say, void *arg,
		    struct err *err)
{
	char host[HOST_NAME_MAX + 1];
	AUTO_FREE char *path = xasprintf("%s/" NODES, self->root);
	AUTO_CLOSE int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (folder < 0)
		return 0; /* nobody has left a record */
	tree_node_find_host(host);
	AUTO_FREE char *name = tree_node_name(self, host);
	json_auto_t *own = tree_node_record(self, host);
	return tree_node_look_at_all(
		&(struct tree_node_look){ .folder = folder,
					  .manager = self->manager,
					  .own_name = name,
					  .own = own,
					  .now_s = clock_wall_ms() / 1000,
					  .say = say,
					  .arg = arg },
		err);
}

/*
 * A node's own.
 */

/* The tree may have been mounted only now. */
static int tree_node_open_folder(struct tree_node *node, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/" NODES, node->root);

	if (node->folder >= 0)
		close(node->folder);
	node->folder = -1;
	if (dir_make(AT_FDCWD, path, err) != 0)
		return -1;
	node->folder = dir_open(AT_FDCWD, path, err);
	return node->folder < 0 ? -1 : 0;
}

static int tree_node_put(struct tree_node *node, const char *temporary, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_CLOSE int fd =
		openat(node->folder, temporary,
		       O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

	json_render(node->record, &text);
	str_add_char(&text, '\n');
	if (fd < 0)
		return err_errno(err, "cannot make %s/" NODES "/%s", node->root,
				 temporary);
	flock(fd, LOCK_EX | LOCK_NB); /* where there is none, the stamps tell */
	if (file_write_all(fd, text.data, text.len, temporary, err) != 0)
		return -1;
	if (renameat(node->folder, temporary, node->folder, node->name) != 0)
		return err_errno(err, "cannot rename %s/" NODES "/%s", node->root,
				 temporary);
	node->fd = TAKE_FD(fd);
	return 0;
}

static int tree_node_write(struct tree_node *node, struct err *err)
{
	AUTO_FREE char *temporary = xasprintf("%s.tmp", node->name);

	if (node->fd >= 0)
		close(node->fd);
	node->fd = -1;
	if (tree_node_open_folder(node, err) != 0)
		return -1;
	unlinkat(node->folder, temporary, 0); /* of a former life */
	if (tree_node_put(node, temporary, err) == 0)
		return 0;
	unlinkat(node->folder, temporary, 0);
	return -1;
}

/* Under its name, below the root that is mounted now. */
static bool tree_node_stands(const struct tree_node *node)
{
	AUTO_FREE char *path = xasprintf("%s/" NODES "/%s", node->root, node->name);

	return file_is_named(AT_FDCWD, path, node->fd);
}

static int tree_node_beat(struct tree_node *node, struct err *err)
{
	if (!tree_node_stands(node))
		return tree_node_write(node, err);
	if (futimens(node->fd, NULL) != 0)
		return err_errno(err, "cannot stamp %s/" NODES "/%s", node->root,
				 node->name);
	return 0;
}

/* `manager`: NULL where doubts are not worth a wait. */
static int tree_node_look_around(struct tree_node *node, struct lease_manager *manager,
				 tree_node_seen say, struct err *err)
{
	struct stat st;

	if (node->fd < 0 || fstat(node->fd, &st) != 0)
		return 0;
	return tree_node_look_at_all(
		&(struct tree_node_look){ .folder = node->folder,
					  .manager = manager,
					  .own_name = node->name,
					  .own = node->record,
					  .now_s = (int64_t)st.st_mtime,
					  .forgets = true,
					  .say = say },
		err);
}

static void tree_node_note_beat(struct tree_node *node, const struct err *why)
{
	if (why && !node->is_failing)
		log_warn("tree.not_noted", LOG_ERR(why));
	node->is_failing = why != NULL;
}

static void tree_node_look_again(struct tree_node *node)
{
	struct err err = { 0 };

	if (tree_node_look_around(node, NULL, NULL, &err) == 0) {
		node->differing[0] = '\0';
	} else if (strcmp(node->differing, err.text) != 0) {
		snprintf(node->differing, sizeof(node->differing), "%s", err.text);
		log_error("tree.differs", LOG_ERR(&err), LOG_TEXT("remedy", err.remedy));
	}
}

/* A lease that cannot be had now is tried again with the next stamp. */
static void tree_node_hold(struct tree_node *node)
{
	char key[LEASE_KEY_SIZE];

	if (!node->manager || (node->lease && lease_check(node->lease, ERR_IGNORED) == 0))
		return;
	lease_release(TAKE(node->lease));
	tree_node_lease_key(node->manager, node->name, key);
	if (lease_acquire(node->manager,
			  &(struct lease_request){ .key = key,
						   .operation = "tree",
						   .is_kept = true,
						   .stop = &node->stop },
			  &node->lease, ERR_IGNORED) != 0)
		node->lease = NULL;
}

static void *tree_node_run(void *arg)
{
	struct tree_node *node = arg;
	struct err err;

	while (!stop_wait(&node->stop, TREE_NODE_BEAT_MS)) {
		tree_node_note_beat(node, tree_node_beat(node, &err) != 0 ? &err : NULL);
		tree_node_hold(node);
		tree_node_look_again(node);
	}
	return NULL;
}

static void tree_node_log_neighbour(void *arg, const char *who, const struct err *doubt)
{
	(void)arg;
	log_info("tree.neighbour", LOG_TEXT("node", who));
	if (doubt->class != ERR_NONE)
		log_warn("tree.uncertain", LOG_ERR(doubt),
			 LOG_TEXT("remedy", doubt->remedy));
}

static void tree_node_free(struct tree_node *node)
{
	if (tree_node_stands(node))
		unlinkat(node->folder, node->name, 0);
	lease_release(node->lease);
	if (node->fd >= 0)
		close(node->fd);
	if (node->folder >= 0)
		close(node->folder);
	stop_clear(&node->stop);
	json_decref(node->record);
	free(node->name);
	free(node->root);
	free(node);
}

int tree_node_enter(const struct tree_node_self *self, struct tree_node **node,
		    struct err *err)
{
	struct tree_node *entered = xcalloc(1, sizeof(*entered));
	char host[HOST_NAME_MAX + 1];
	struct err why;

	tree_node_find_host(host);
	entered->root = xstrdup(self->root);
	entered->name = tree_node_name(self, host);
	entered->record = tree_node_record(self, host);
	entered->folder = entered->fd = -1;
	entered->manager = self->manager;
	stop_init(&entered->stop);
	tree_node_hold(entered); /* before anybody is told of it */
	if (tree_node_write(entered, &why) != 0) {
		tree_node_note_beat(entered, &why);
		if (tree_node_check(self, tree_node_log_neighbour, NULL, err) != 0) {
			tree_node_free(entered);
			return -1;
		}
	} else if (tree_node_look_around(entered, entered->manager,
					 tree_node_log_neighbour, err) != 0) {
		tree_node_free(entered);
		return -1;
	}
	thread_start(&entered->thread, "tree-node", tree_node_run, entered);
	*node = entered;
	return 0;
}

void tree_node_leave(struct tree_node *node)
{
	if (!node)
		return;
	stop_request(&node->stop);
	thread_join(node->thread);
	tree_node_free(node);
}
