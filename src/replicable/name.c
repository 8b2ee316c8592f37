#include "replicable/name.h"

#include "base/hash.h"
#include "base/str.h"

static int name_refuse(const char *why, struct err *err)
{
	err_set(err, ERR_CONFIG, "not a repository's name: %s", why);
	return err_remedy(err, "rename it");
}

static bool has_git_part(const char *name)
{
	for (const char *part = name; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (strcspn(part, "/") == 4 && memcmp(part, ".git", 4) == 0)
			return true;
	}
	return false;
}

static bool name_is_own(const char *name)
{
	size_t len = strlen(OWN_FOLDER);

	return strncmp(name, OWN_FOLDER, len) == 0 &&
	       (name[len] == '\0' || name[len] == '/');
}

int name_judge(const char *name, struct err *err)
{
	const char *fault = path_fault(name);

	if (fault)
		return name_refuse(fault, err);
	if (name_is_own(name)) {
		name_refuse(OWN_FOLDER " is refrelay's own folder", err);
		return err_remedy(err, "what it holds is not served: to have a copy from "
				       "the trash, move it to a place outside first");
	}
	return has_git_part(name) ? name_refuse("a part of it is \".git\"", err) : 0;
}

int name_check(const char *name, struct err *err)
{
	return name_judge(name, err) == 0 ? 0 : err_prefix(err, "%s", name);
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

int64_t replicable_counted_size(uint64_t size)
{
	const int64_t most = INT64_C(1) << 50;

	return size < (uint64_t)most ? (int64_t)size : most;
}
