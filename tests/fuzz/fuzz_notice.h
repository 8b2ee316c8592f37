/*
 * What hooks tell, without the comparisons that follow: a notice that takes names below
 * /root/ and finds each changed, gone or failing, as the name's end says.
 */
#ifndef FUZZ_NOTICE_H
#define FUZZ_NOTICE_H

#include <assert.h>

#include "base/file.h"
#include "base/hook_wire.h"
#include "base/log.h"
#include "change/notice.h"

struct notice {
	int unused;
};

static struct notice notice;
static char directory[] = "/tmp/refrelay-fuzz.XXXXXX";

char *notice_name_of(struct notice *of, const char *path, struct err *err)
{
	assert(of == &notice);
	if (text_starts_with(path, "/root/"))
		return xstrdup(path + strlen("/root/"));
	err_set(err, ERR_CONFIG, "%s is not below /root", path);
	return NULL;
}

int notice_compare(struct notice *of, const char *name, struct noticed *noticed,
		   struct err *err)
{
	assert(of == &notice);
	noticed->event.id = 1;
	noticed->is_changed = true;
	if (text_ends_with(name, "gone")) {
		err_set(err, ERR_MISSING, "%s is gone", name);
		noticed->why = *err;
		return -1;
	}
	if (text_ends_with(name, "later"))
		return err_set(err, ERR_DISK, "%s cannot be recorded", name);
	return 0;
}

int notice_compare_hint(struct notice *of, const char *name, struct noticed *noticed,
			struct err *err)
{
	return notice_compare(of, name, noticed, err);
}

void noticed_clear(struct noticed *noticed)
{
	(void)noticed;
}

static inline void remove_directory(void)
{
	tree_remove(AT_FDCWD, directory, ERR_IGNORED);
}

static inline void make_directory(void)
{
	log_set_level(LOG_LEVEL_NONE);
	if (!mkdtemp(directory) || atexit(remove_directory) != 0)
		abort();
}

#endif
