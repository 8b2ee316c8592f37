#include "push/store_file.h"
#include "push/task_parts.h"

enum { DIGEST_MAX = 256 };

static void task_seen_make_name(const char *project, char name[URI_KEY_SIZE])
{
	uri_key_of(project, name); /* the SHA-1 of a text, that is */
}

bool task_store_was_seen(struct task_store *store, const char *project,
			 const char *digest)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_CLOSE int dir = store_dir(store, SEEN, ERR_IGNORED);
	char name[URI_KEY_SIZE];

	task_seen_make_name(project, name);
	return dir >= 0 && file_read(dir, name, DIGEST_MAX, &text, ERR_IGNORED) == 0 &&
	       strcmp(text.data, digest) == 0;
}

void task_store_note_seen(struct task_store *store, const char *project,
			  const char *digest)
{
	AUTO_STR struct str text = STR_INIT;
	char name[URI_KEY_SIZE];
	struct new_file file = { SEEN, name, &text, 0, FILE_NO_SYNC };

	task_seen_make_name(project, name);
	str_add(&text, digest);
	(void)store_put(store, &file, ERR_IGNORED);
}
