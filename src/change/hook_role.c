#include "change/hook_role.h"

#include "base/file.h"
#include "base/hook_wire.h"
#include "base/log.h"

/* "URL\nROOT\n", without credentials and slashes at the end. */
static void hook_role_render(const char *url, const char *root, struct str *text)
{
	AUTO_FREE char *resolved = path_resolve(root);

	log_redact(url, text);
	while (text->len > 0 && text->data[text->len - 1] == '/')
		str_truncate(text, text->len - 1);
	str_addf(text, "\n%s\n", resolved ? resolved : root);
}

int hook_role_set(const char *data, const char *primary_url, const char *root,
		  struct err *err)
{
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, data, err);
	AUTO_STR struct str text = STR_INIT;

	if (dir < 0)
		return -1;
	if (primary_url) {
		hook_role_render(primary_url, root, &text);
		return file_replace(dir, HOOK_PRIMARY, text.data, text.len, FILE_SYNC,
				    err);
	}
	if (unlinkat(dir, HOOK_PRIMARY, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s/" HOOK_PRIMARY, data);
	return 0;
}
