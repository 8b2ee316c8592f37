#include "serve/capabilities.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/map.h"
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

#define KEPT_MAX 256
#define CONFIG_MAX ((size_t)1 << 20)
#define KEY_SIZE 65

struct entry {
	struct str text;
	uint64_t used_at; /* in times anything was asked for */
};

struct capabilities {
	pthread_mutex_t mutex;
	struct map entries; /* guarded by mutex; struct entry, owned */
	uint64_t now;       /* guarded by mutex */
};

struct capabilities *capabilities_new(void)
{
	struct capabilities *capabilities = xcalloc(1, sizeof(*capabilities));

	mutex_init(&capabilities->mutex);
	return capabilities;
}

static void capabilities_free_entry(struct entry *entry)
{
	if (!entry)
		return;
	str_clear(&entry->text);
	free(entry);
}

void capabilities_free(struct capabilities *capabilities)
{
	const struct map_entry *entry;
	size_t at = 0;

	if (!capabilities)
		return;
	while ((entry = map_next(&capabilities->entries, &at)) != NULL)
		capabilities_free_entry(entry->value);
	map_clear(&capabilities->entries);
	pthread_mutex_destroy(&capabilities->mutex);
	free(capabilities);
}

static void hash_file(const struct stat *st, unsigned char digest[32])
{
	const int64_t parts[] = {
		(int64_t)st->st_ino, (int64_t)st->st_size,        st->st_ctim.tv_sec,
		st->st_ctim.tv_nsec, (int64_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
	};
	AUTO_HASH struct hash hash;

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, parts, sizeof(parts));
	hash_end(&hash, digest);
}

/* A second file of configuration, or one that no memory should be wasted on, is left to
 * git each time. */
void config_look(int dir, struct config_look *look)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_HASH struct hash hash = { 0 };
	struct stat st = { 0 };
	struct err err;

	*look = (struct config_look){ 0 };
	if (fstatat(dir, "config", &st, AT_SYMLINK_NOFOLLOW) != 0 && errno != ENOENT)
		return;
	if (faccessat(dir, "config.worktree", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	    errno != ENOENT)
		return;
	if (file_read(dir, "config", CONFIG_MAX, &text, &err) != 0 &&
	    err.class != ERR_MISSING)
		return;
	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, text.data, text.len);
	hash_end(&hash, look->content);
	hash_file(&st, look->file);
	look->is_known = true;
}

bool config_stood_still(const struct config_look *before, const struct config_look *after)
{
	return before->is_known && after->is_known &&
	       memcmp(before->content, after->content, sizeof(before->content)) == 0 &&
	       memcmp(before->file, after->file, sizeof(before->file)) == 0;
}

static void make_key(const struct config_look *look, const char *git, char key[KEY_SIZE])
{
	AUTO_STR struct str text = STR_INIT;
	unsigned char digest[HASH_MAX_SIZE];
	AUTO_HASH struct hash hash;

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, look->content, sizeof(look->content));
	hash_add(&hash, git, strlen(git));
	hash_end(&hash, digest);
	str_add_hex(&text, digest, 32);
	snprintf(key, KEY_SIZE, "%s", text.data);
}

bool capabilities_find(struct capabilities *capabilities, const struct config_look *look,
		       const char *git, struct str *text)
{
	AUTO_UNLOCK pthread_mutex_t *held = NULL;
	char key[KEY_SIZE];

	if (!look->is_known)
		return false;
	make_key(look, git, key);
	held = lock(&capabilities->mutex);
	struct entry *entry = map_get(&capabilities->entries, key);
	if (!entry)
		return false;
	entry->used_at = ++capabilities->now;
	str_add_bytes(text, entry->text.data, entry->text.len);
	return true;
}

static void drop_oldest_locked(struct capabilities *capabilities)
{
	const struct map_entry *entry, *oldest = NULL;
	size_t at = 0;

	while ((entry = map_next(&capabilities->entries, &at)) != NULL)
		if (!oldest || ((struct entry *)entry->value)->used_at <
				       ((struct entry *)oldest->value)->used_at)
			oldest = entry;
	if (oldest)
		capabilities_free_entry(map_remove(&capabilities->entries, oldest->key));
}

void capabilities_keep(struct capabilities *capabilities, const struct config_look *look,
		       const char *git, const struct str *text)
{
	AUTO_UNLOCK pthread_mutex_t *held = NULL;
	struct entry *entry;
	char key[KEY_SIZE];

	if (!look->is_known)
		return;
	make_key(look, git, key);
	entry = xcalloc(1, sizeof(*entry));
	entry->text = (struct str)STR_INIT;
	str_add_bytes(&entry->text, text->data, text->len);
	held = lock(&capabilities->mutex);
	entry->used_at = ++capabilities->now;
	if (capabilities->entries.count >= KEPT_MAX)
		drop_oldest_locked(capabilities);
	capabilities_free_entry(map_put(&capabilities->entries, key, entry));
}
