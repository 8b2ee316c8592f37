#include "push/task.h"

#include "base/hash.h"
#include "push/destination.h"
#include "push/java_order.h"

void ref_names_clear(ref_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->items[i]);
	vec_clear(names);
}

bool ref_names_have(const ref_names *names, const char *name)
{
	for (size_t i = 0; i < names->count; i++)
		if (strcmp(names->items[i], name) == 0)
			return true;
	return false;
}

void task_clear(struct task *task)
{
	free(task->project);
	free(task->uri);
	free(task->remote);
	ref_names_clear(&task->refs);
	*task = (struct task){ 0 };
}

bool task_is_all(const struct task *task)
{
	return ref_names_have(&task->refs, TASK_ALL_REFS);
}

void task_order(struct task *task)
{
	java_order(&task->refs);
}

static void end_in_hex(struct hash *hash, char *key)
{
	unsigned char digest[HASH_MAX_SIZE];
	AUTO_STR struct str hex = STR_INIT;

	hash_end(hash, digest);
	str_add_hex(&hex, digest, hash_size(hash->kind));
	memcpy(key, hex.data, hex.len + 1);
}

static void task_hash_text(struct hash *hash, const char *text)
{
	hash_add(hash, text, strlen(text));
}

void task_key(const struct task *task, char key[TASK_KEY_SIZE])
{
	AUTO_HASH struct hash hash;

	hash_init(&hash, HASH_SHA1);
	task_hash_text(&hash, task->project);
	task_hash_text(&hash, "\n[");
	for (size_t i = 0; i < task->refs.count; i++) {
		task_hash_text(&hash, i > 0 ? ", " : "");
		task_hash_text(&hash, task->refs.items[i]);
	}
	task_hash_text(&hash, "]\n");
	task_hash_text(&hash, task->uri);
	task_hash_text(&hash, "\n");
	task_hash_text(&hash, task->remote);
	end_in_hex(&hash, key);
}

void uri_key_of(const char *uri, char key[URI_KEY_SIZE])
{
	AUTO_HASH struct hash hash;

	hash_init(&hash, HASH_SHA1);
	task_hash_text(&hash, uri);
	end_in_hex(&hash, key);
}
