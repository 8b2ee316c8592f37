#include "git/cuts.h"

#include "base/failpoint.h"
#include "base/file.h"

#define LIMIT ((size_t)1 << 30)
#define MARK_LIMIT 64
#define SETTLED "settled\n"
#define CHANGING "changing\n"

bool cuts_are_ours(int dir)
{
	struct stat st;

	return fstatat(dir, CUTS_MARK, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode);
}

static int cuts_fail_damaged(size_t line, struct err *err)
{
	err_set(err, ERR_CORRUPT, CUTS_FILE " is damaged at line %zu", line);
	return err_remedy(err, "it is rewritten automatically; if this recurs, find out "
			       "what else writes to the repository");
}

int cuts_parse(const char *text, size_t oid_len, oid_list *cuts, struct err *err)
{
	const size_t digits = 2 * oid_len;
	struct oid oid;

	for (size_t line = 1; *text; line++) {
		if (strnlen(text, digits) < digits || !oid_parse(text, oid_len, &oid) ||
		    text[digits] != '\n')
			return cuts_fail_damaged(line, err);
		vec_add(cuts, oid);
		text += digits + 1;
	}
	oid_list_tidy(cuts);
	return 0;
}

void cuts_format(const oid_list *cuts, struct str *out)
{
	for (size_t i = 0; i < cuts->count; i++) {
		oid_add_text(&cuts->items[i], out);
		str_add_char(out, '\n');
	}
}

static int cuts_read_mark(int dir, bool *is_changing, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	if (file_read(dir, CUTS_MARK, MARK_LIMIT, &text, err) != 0)
		return -1;
	*is_changing = strcmp(text.data, SETTLED) != 0;
	return 0;
}

int cuts_read(int dir, size_t oid_len, oid_list *cuts, bool *is_changing, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	*is_changing = false;
	if (!cuts_are_ours(dir))
		return 0;
	if (cuts_read_mark(dir, is_changing, err) != 0 ||
	    file_read(dir, CUTS_FILE, LIMIT, &text, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	return cuts_parse(text.data, oid_len, cuts, err);
}

bool cuts_equal(const oid_list *a, const oid_list *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!oid_equal(&a->items[i], &b->items[i]))
			return false;
	return true;
}

void cuts_unite(const oid_list *a, const oid_list *b, oid_list *all)
{
	for (size_t i = 0; i < a->count; i++)
		vec_add(all, a->items[i]);
	for (size_t i = 0; i < b->count; i++)
		vec_add(all, b->items[i]);
	oid_list_tidy(all);
}

static int cuts_mark(int dir, const char *text, struct err *err)
{
	return dir_make_parents(dir, CUTS_MARK, err) != 0
		       ? -1
		       : file_replace(dir, CUTS_MARK, text, strlen(text), FILE_SYNC, err);
}

static int cuts_unlink(int dir, const char *path, const char *folder, struct err *err)
{
	if (unlinkat(dir, path, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s", path);
	return dir_sync(dir, folder, err);
}

/* An empty file would say to some that the repository is shallow, and to others not. */
static int cuts_write(int dir, const oid_list *cuts, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	if (cuts->count == 0)
		return cuts_unlink(dir, CUTS_FILE, ".", err);
	cuts_format(cuts, &text);
	return file_replace(dir, CUTS_FILE, text.data, text.len, FILE_SYNC, err);
}

int cuts_begin(int dir, const oid_list *from, const oid_list *to, struct err *err)
{
	oid_list all = { 0 };
	int result;

	if (cuts_mark(dir, CHANGING, err) != 0)
		return -1;
	failpoint("cuts.marked");
	cuts_unite(from, to, &all);
	result = cuts_write(dir, &all, err);
	vec_clear(&all);
	failpoint("cuts.united");
	return result;
}

int cuts_end(int dir, const oid_list *to, struct err *err)
{
	if (cuts_write(dir, to, err) != 0)
		return -1;
	failpoint("cuts.written");
	return to->count > 0 ? cuts_mark(dir, SETTLED, err)
			     : cuts_unlink(dir, CUTS_MARK, "refrelay", err);
}
