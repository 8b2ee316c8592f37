#include "base/temporary.h"

#include "base/file.h"

bool temporary_is_name(const char *name)
{
	const char *mark = strstr(name, ".tmp-");

	return mark && strlen(mark) == 5 + 16 &&
	       strspn(mark + 5, "0123456789abcdef") == 16;
}

void temporary_remove_all(const char *directory)
{
	AUTO_CLOSEDIR DIR *list = dir_list(AT_FDCWD, directory);
	struct dirent *entry;

	while (list && (entry = readdir(list)) != NULL)
		if (temporary_is_name(entry->d_name))
			unlinkat(dirfd(list), entry->d_name, 0);
}
