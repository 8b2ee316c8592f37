#include "replicable/name.h"

#include "base/hash.h"
#include "base/str.h"

#define NAME_LIMIT 1024
#define PART_LIMIT 250 /* ".git" and a lock's ".lock" must fit into 255 */

static int refuse(const char *name, const char *why, struct err *err)
{
	err_set(err, ERR_CONFIG, "%s: not a repository's name: %s", name, why);
	return err_remedy(err, "rename it");
}

static int check_part(const char *name, const char *part, size_t len, struct err *err)
{
	if (len == 0)
		return refuse(name, "a part of it is empty", err);
	if ((len == 1 && part[0] == '.') ||
	    (len == 2 && part[0] == '.' && part[1] == '.'))
		return refuse(name, "a part of it is \".\" or \"..\"", err);
	if (len == 4 && memcmp(part, ".git", 4) == 0)
		return refuse(name, "a part of it is \".git\"", err);
	if (len > PART_LIMIT)
		return refuse(name, "a part of it has more than 250 bytes", err);
	return 0;
}

static bool has_control(const char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name < 0x20 || *name == 0x7f)
			return true;
	return false;
}

static bool is_own(const char *name)
{
	size_t len = strlen(OWN_FOLDER);

	return strncmp(name, OWN_FOLDER, len) == 0 &&
	       (name[len] == '\0' || name[len] == '/');
}

int name_check(const char *name, struct err *err)
{
	if (!text_is_utf8(name, strlen(name)))
		return refuse(name, "it is not UTF-8", err);
	if (has_control(name))
		return refuse(name, "it has control characters", err);
	if (strlen(name) > NAME_LIMIT)
		return refuse(name, "it has more than 1024 bytes", err);
	if (is_own(name)) {
		refuse(name, OWN_FOLDER " is refrelay's own folder", err);
		return err_remedy(err, "what it holds is not served: to have a copy from "
				       "the trash, move it to a place outside first");
	}
	for (const char *part = name;;) {
		size_t len = strcspn(part, "/");
		if (check_part(name, part, len, err) != 0)
			return -1;
		if (part[len] == '\0')
			return 0;
		part += len + 1;
	}
}

char *name_of_path(const char *path)
{
	size_t len = strlen(path);

	if (len > 4 && text_ends_with(path, ".git") && path[len - 5] != '/')
		len -= 4;
	return xstrndup(path, len);
}

char *name_to_path(const char *name)
{
	return xasprintf("%s.git", name);
}

uint64_t replicable_id(const char *kind, const char *name)
{
	unsigned char digest[32];
	uint64_t id = 0;
	AUTO_HASH struct hash hash;

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, kind, strlen(kind));
	hash_add(&hash, ":", 1);
	hash_add(&hash, name, strlen(name));
	hash_end(&hash, digest);
	for (size_t i = 0; i < 8; i++)
		id = id << 8 | digest[i];
	id >>= 2;
	return id ? id : 1;
}
