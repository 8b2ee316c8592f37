/*
 * A log is logs/<ref>, a line an entry:
 *
 *	<old> <new> <who> <seconds> <zone> TAB <message>
 *
 * Ours begin their message with "refrelay: ". A ref that moves without being rewritten is
 * not logged, so there are two entries for each that was: the first ends in the old
 * value, which git then lists.
 *
 * Lines are only ever added at the end, as git does it. Half a line, which a crash may
 * have left, is ended first: git skips it then. A log is written anew when lines go;
 * whoever has <log>.lock keeps us from that, as `git reflog expire` does.
 */
#include "git/reflog.h"

#include "base/file.h"
#include "base/log.h"
#include "git/repo.h"

#define LOGS "logs/"
#define HEAD_LOG "HEAD"
#define BRANCHES "refs/heads"
#define WHO "refrelay <refrelay@localhost>"
#define MARK "refrelay: "
#define LOG_MOST ((size_t)16 << 20)   /* no entry of ours makes one longer */
#define TIDY_MOST ((size_t)256 << 20) /* of one that is read to be tidied */
#define KEEP_S ((int64_t)REFLOG_DAYS * 24 * 3600)
#define REPEAT_S 3600 /* the same entry is not written again */

struct reflog_entry {
	struct oid before, after;
	int64_t at;
	bool is_ours;
};

/* `end`: of the line. */
static bool reflog_parse(const char *line, const char *end, size_t oid_len,
			 struct reflog_entry *entry)
{
	const size_t hex = 2 * oid_len, len = (size_t)(end - line);
	const char *tab = memchr(line, '\t', len), *number;

	*entry = (struct reflog_entry){ 0 };
	if (len <= 2 * hex + 2 || !oid_parse(line, oid_len, &entry->before) ||
	    line[hex] != ' ' || !oid_parse(line + hex + 1, oid_len, &entry->after) ||
	    line[2 * hex + 1] != ' ' || !tab)
		return false;
	number = memrchr(line, '>', (size_t)(tab - line));
	if (!number)
		return false;
	entry->at = strtoll(number + 1, NULL, 10);
	entry->is_ours = (size_t)(end - tab) > strlen(MARK) &&
			 memcmp(tab + 1, MARK, strlen(MARK)) == 0;
	return true;
}

static void reflog_add_line(struct str *text, const struct oid *before,
			    const struct oid *after, int64_t now)
{
	oid_add_text(before, text);
	str_add_char(text, ' ');
	oid_add_text(after, text);
	str_addf(text, " " WHO " %" PRId64 " +0000\t" MARK, now);
}

/* Opens a folder in `dir`, which is made if it is not there; never by a link. */
static int reflog_enter(int dir, const char *name, struct err *err)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dir, name, flags);

	if (fd < 0 && errno == ENOENT &&
	    (mkdirat(dir, name, 0777) == 0 || errno == EEXIST)) {
		if (dir_sync(dir, ".", err) != 0)
			return -1;
		fd = openat(dir, name, flags);
	}
	return fd >= 0 ? fd
		       : err_errno(err, "cannot open the directory %s of reflogs", name);
}

/* The folder of that log; *name is the log's own. */
static int reflog_open_folder(int dir, const char *path, const char **name,
			      struct err *err)
{
	int fd = reflog_enter(dir, ".", err);
	const char *slash;

	while (fd >= 0 && (slash = strchr(path, '/')) != NULL) {
		AUTO_CLOSE int above = fd;
		AUTO_FREE char *part = xstrndup(path, (size_t)(slash - path));
		fd = reflog_enter(above, part, err);
		path = slash + 1;
	}
	*name = path;
	return fd;
}

/* Whoever rewrites branches on and on would fill the disk with it. */
static int reflog_check_room(const char *name, off_t size, const struct str *text,
			     struct err *err)
{
	if ((uint64_t)size + text->len < LOG_MOST)
		return 0;
	err_set(err, ERR_CONFIG, "the reflog %s would be longer than %zu MiB", name,
		LOG_MOST >> 20);
	return err_remedy(err,
			  "see whether the upstream is to rewrite so much; git reflog "
			  "expire --expire=now --all in the mirror's directory makes "
			  "room, and gives up what was kept before");
}

static int reflog_append_in(int folder, const char *name, const struct str *text,
			    struct err *err)
{
	struct stat st;
	char last = '\n';
	AUTO_CLOSE int fd = openat(
		folder, name,
		O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_errno(err, "cannot open the reflog %s", name);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_CONFIG, "the reflog %s is not a regular file",
			       name);
	if (reflog_check_room(name, st.st_size, text, err) != 0)
		return -1;
	if (st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) != 1)
		return err_errno(err, "cannot read the reflog %s", name);
	if ((last != '\n' && file_write_all(fd, "\n", 1, name, err) != 0) ||
	    file_write_all(fd, text->data, text->len, name, err) != 0)
		return -1;
	if (fsync(fd) != 0)
		return err_errno(err, "cannot sync the reflog %s", name);
	return dir_sync(folder, ".", err);
}

static int reflog_append(int dir, const char *ref, const struct str *text,
			 struct err *err)
{
	AUTO_FREE char *path = xasprintf(LOGS "%s", ref);
	const char *name;
	AUTO_CLOSE int folder = reflog_open_folder(dir, path, &name, err);

	return folder < 0 ? -1 : reflog_append_in(folder, name, text, err);
}

static bool reflog_find_last(int dir, const char *ref, size_t oid_len,
			     struct reflog_entry *last)
{
	AUTO_FREE char *path = xasprintf(LOGS "%s", ref);
	AUTO_STR struct str text = STR_INIT;
	const char *line;

	if (file_read(dir, path, LOG_MOST, &text, ERR_IGNORED) != 0 || text.len < 2 ||
	    text.data[text.len - 1] != '\n')
		return false;
	line = memrchr(text.data, '\n', text.len - 1);
	return reflog_parse(line ? line + 1 : text.data, text.data + text.len - 1,
			    oid_len, last);
}

static void reflog_add_old(struct str *text, const struct oid *from,
			   const struct reflog_move *move, int64_t now)
{
	char after[OID_MAX_TEXT];

	reflog_add_line(text, from, &move->before, now);
	str_addf(text, "%s before it moved to %s\n", move->ref,
		 oid_text(&move->after, after));
}

int reflog_keep(int dir, const struct reflog_move *move, int64_t now, struct err *err)
{
	struct reflog_entry last = { .after = { .len = move->before.len } };
	AUTO_STR struct str text = STR_INIT;
	bool has_last = reflog_find_last(dir, move->ref, move->before.len, &last);

	if (has_last && last.is_ours && oid_equal(&last.before, &move->before) &&
	    oid_equal(&last.after, &move->after) && last.at <= now &&
	    now - last.at < REPEAT_S)
		return 0;
	if (!has_last)
		last.after = (struct oid){ .len = move->before.len };
	if (!oid_equal(&last.after, &move->before))
		reflog_add_old(&text, &last.after, move, now);
	reflog_add_line(&text, &move->before, &move->after, now);
	str_addf(&text, "the upstream rewrote %s\n", move->ref);
	if (reflog_append(dir, move->ref, &text, err) == 0)
		return 0;
	return err->class == ERR_DISK ? -1 : reflog_append(dir, HEAD_LOG, &text, err);
}

int reflog_keep_many(int dir, const reflog_moves *moves, int64_t now, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	for (size_t i = 0; i < moves->count; i++) {
		const struct oid none = { .len = moves->items[i].before.len };
		reflog_add_old(&text, &none, &moves->items[i], now);
	}
	return text.len > 0 ? reflog_append(dir, HEAD_LOG, &text, err) : 0;
}

struct reflog_tidy {
	int dir;
	const struct ref_snapshot *refs; /* NULL: not told */
	int64_t now;
	enum reflog_tidying tidying;
	size_t *found;
};

/* What of a log stays there, and what goes to the log of HEAD. */
struct reflog_parts {
	struct str stays, moves;
	bool is_other;
};

static void reflog_split(const struct reflog_tidy *tidy, const struct str *text,
			 bool is_orphan, struct reflog_parts *parts)
{
	const char *line = text->data, *end = text->data + text->len, *stop;

	for (; line < end; line = stop) {
		struct reflog_entry entry;
		const char *tail = memchr(line, '\n', (size_t)(end - line));
		stop = tail ? tail + 1 : end;
		bool is_ours = tail &&
			       (reflog_parse(line, tail, 20, &entry) ||
				reflog_parse(line, tail, 32, &entry)) &&
			       entry.is_ours;
		parts->is_other |=
			is_ours && (is_orphan || entry.at < tidy->now - KEEP_S);
		if (!is_ours || (!is_orphan && entry.at >= tidy->now - KEEP_S))
			str_add_bytes(&parts->stays, line, (size_t)(stop - line));
		else if (entry.at >= tidy->now - KEEP_S)
			str_add_bytes(&parts->moves, line, (size_t)(stop - line));
	}
}

/* With the folders above it that nothing is left in. */
static int reflog_remove(const struct reflog_tidy *tidy, const char *path,
			 struct err *err)
{
	if (unlinkat(tidy->dir, path, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s", path);
	dir_remove_above(tidy->dir, path, NULL);
	return 0;
}

static int reflog_replace(const struct reflog_tidy *tidy, const char *path,
			  const struct reflog_parts *parts, struct err *err)
{
	AUTO_FREE char *lock = xasprintf("%s.lock", path);

	if (faccessat(tidy->dir, lock, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (parts->moves.len > 0 &&
	    reflog_append(tidy->dir, HEAD_LOG, &parts->moves, err) != 0)
		return -1;
	if (parts->stays.len == 0)
		return reflog_remove(tidy, path, err);
	return file_replace(tidy->dir, path, parts->stays.data, parts->stays.len,
			    FILE_SYNC, err);
}

static int reflog_tidy_one(const struct reflog_tidy *tidy, const char *ref,
			   struct err *err)
{
	AUTO_FREE char *path = xasprintf(LOGS "%s", ref);
	AUTO_STR struct str text = STR_INIT;
	struct reflog_parts parts = { .stays = STR_INIT, .moves = STR_INIT };
	bool is_orphan = tidy->refs && strcmp(ref, HEAD_LOG) != 0 &&
			 !ref_snapshot_find(tidy->refs, ref);
	struct err why;
	int done = 0;

	if (file_read(tidy->dir, path, TIDY_MOST, &text, &why) != 0) {
		if (why.class != ERR_MISSING)
			log_warn("reflog.not_tidied", LOG_TEXT("ref", ref),
				 LOG_ERR(&why));
		return 0;
	}
	reflog_split(tidy, &text, is_orphan, &parts);
	*tidy->found += parts.is_other;
	if (parts.is_other && tidy->tidying == REFLOG_REMOVE)
		done = reflog_replace(tidy, path, &parts, err);
	str_clear(&parts.stays);
	str_clear(&parts.moves);
	return done;
}

/* Appends the names of refs below this one that have a log. */
static void reflog_list(int above, const char *name, const char *ref, unsigned depth,
			text_list *refs)
{
	struct dirent *entry;
	AUTO_CLOSE int fd = path_open_beneath(above, name, O_PATH | O_DIRECTORY);
	AUTO_CLOSEDIR DIR *list = fd >= 0 ? dir_list(fd, ".") : NULL;

	if (!list)
		return; /* there is none, or it is nothing of ours */
	while ((entry = readdir(list)) != NULL) {
		struct stat st;
		if (entry->d_name[0] == '.' ||
		    fstatat(dirfd(list), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		AUTO_FREE char *below = xasprintf("%s/%s", ref, entry->d_name);
		if (S_ISREG(st.st_mode) && !text_ends_with(below, ".lock"))
			vec_add(refs, xstrdup(below));
		else if (S_ISDIR(st.st_mode) && depth > 0)
			reflog_list(dirfd(list), entry->d_name, below, depth - 1, refs);
	}
}

int reflog_tidy(int dir, const struct ref_snapshot *refs, int64_t now,
		enum reflog_tidying tidying, size_t *found, struct err *err)
{
	const struct reflog_tidy tidy = {
		.dir = dir, .refs = refs, .now = now, .tidying = tidying, .found = found
	};
	AUTO_TEXT_LIST text_list logs = { 0 };

	if (faccessat(dir, "logs", F_OK, AT_SYMLINK_NOFOLLOW) != 0)
		return 0;
	reflog_list(dir, LOGS BRANCHES, BRANCHES, REFS_DEPTH, &logs);
	vec_add(&logs, xstrdup(HEAD_LOG));
	for (size_t i = 0; i < logs.count; i++)
		if (reflog_tidy_one(&tidy, logs.items[i], err) != 0 &&
		    err->class != ERR_CONFIG)
			return -1;
	return 0;
}
