#include "change/notice_parts.h"

char *notice_name_of(struct notice *notice, const char *path_or_name, struct err *err)
{
	return notice_name_below(notice->options.root, path_or_name, err);
}
