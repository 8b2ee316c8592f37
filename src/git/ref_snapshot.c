/*
 * Order matters: git packs a ref by writing packed-refs first and removing the loose
 * file after. Reading loose files first and packed-refs last therefore never misses
 * one; a ref seen in both places has its loose value.
 */
#include "git/refs.h"

#include <assert.h>

#include "base/file.h"
#include "git/cuts.h"
#include "git/packed_refs.h"
#include "git/read_settings.h"
#include "git/repo.h"

/*
 * The rules of git-check-ref-format(1) for a full name.
 */

/* One part of the name: not empty, no leading dot, no ".lock" at the end. */
static bool part_is_valid(const char *part, size_t len)
{
	static const char lock[] = ".lock";
	size_t tail = sizeof(lock) - 1;

	if (len == 0 || part[0] == '.')
		return false;
	return len < tail || memcmp(part + len - tail, lock, tail) != 0;
}

static bool byte_is_valid(const char *at)
{
	unsigned char c = (unsigned char)*at;

	if (c < 0x20 || c == 0x7f || strchr(" ~^:?*[\\", c))
		return false;
	if (c == '.' && at[1] == '.')
		return false;
	return c != '@' || at[1] != '{';
}

/* Most are, and nothing is forbidden of them. */
static bool byte_is_plain(unsigned char c)
{
	return (unsigned char)((c | 0x20) - 'a') < 26 || (unsigned char)(c - '0') < 10 ||
	       c == '-' || c == '_';
}

bool ref_name_is_below(const char *name, const char *above)
{
	return text_starts_with(name, above) && name[strlen(above)] == '/';
}

bool ref_name_is_valid(const char *name)
{
	const char *part = name + 5;

	if (!text_starts_with(name, "refs/"))
		return false;
	for (const char *at = part; *at; at++) {
		if (byte_is_plain((unsigned char)*at))
			continue;
		if (!byte_is_valid(at))
			return false;
		if (*at == '/') {
			if (!part_is_valid(part, (size_t)(at - part)))
				return false;
			part = at + 1;
		}
	}
	size_t len = strlen(part);
	return part_is_valid(part, len) && part[len - 1] != '.';
}

/*
 * packed-refs:
 *	# pack-refs with: peeled fully-peeled sorted
 *	<oid> SP <name> LF
 *	^<oid> LF			what the tag above finally names
 *
 * Without "fully-peeled" a missing ^ line says nothing; without "sorted" neither does
 * the order.
 */

struct reader {
	struct ref_snapshot *snapshot;
	size_t oid_len;
	bool fully_peeled;
	size_t line; /* counts from 1 */
};

static int ref_packed_fail_damaged(const struct reader *reader, struct err *err)
{
	err_set(err, ERR_CORRUPT, "packed-refs is damaged at line %zu", reader->line);
	return err_remedy(err, "restore packed-refs from a backup, or mend that line by "
			       "hand while nobody writes the repository");
}

static int ref_packed_read_peeled(struct reader *reader, const char *text, size_t len,
				  struct err *err)
{
	struct ref_snapshot *snapshot = reader->snapshot;

	if (snapshot->refs.count == 0 || len != 1 + 2 * reader->oid_len)
		return ref_packed_fail_damaged(reader, err);
	struct ref *ref = &snapshot->refs.items[snapshot->refs.count - 1];
	if (!oid_parse(text + 1, reader->oid_len, &ref->peeled))
		return ref_packed_fail_damaged(reader, err);
	ref->peel = REF_PEEL_TAG;
	return 0;
}

/* A line's LF was replaced by a NUL, so the name ends where it should. */
static int ref_packed_read_ref(struct reader *reader, const char *text, size_t len,
			       struct err *err)
{
	size_t digits = 2 * reader->oid_len;
	struct ref ref = { .peel = reader->fully_peeled ? REF_PEEL_SELF
							: REF_PEEL_UNKNOWN };

	if (len < digits + 2 || text[digits] != ' ' || strlen(text) != len ||
	    !oid_parse(text, reader->oid_len, &ref.oid) || oid_is_null(&ref.oid))
		return ref_packed_fail_damaged(reader, err);
	ref.name = text + digits + 1;
	vec_add(&reader->snapshot->refs, ref);
	return 0;
}

static int ref_packed_read_line(struct reader *reader, const char *text, size_t len,
				struct err *err)
{
	if (text[0] == '#') {
		if (strstr(text, " fully-peeled"))
			reader->fully_peeled = true;
		return 0;
	}
	if (text[0] == '^')
		return ref_packed_read_peeled(reader, text, len, err);
	return ref_packed_read_ref(reader, text, len, err);
}

/* Names of two readings are often the same text (git/packed_refs.h). */
int ref_compare_names(const void *a, const void *b)
{
	const char *left = ((const struct ref *)a)->name;
	const char *right = ((const struct ref *)b)->name;

	return left == right ? 0 : strcmp(left, right);
}

/* Sorts if need be, drops names that git would not take, refuses doubles. */
static int ref_packed_tidy(struct reader *reader, struct err *err)
{
	struct ref_snapshot *snapshot = reader->snapshot;
	size_t kept = 0;

	for (size_t i = 1; i < snapshot->refs.count; i++) {
		if (strcmp(snapshot->refs.items[i - 1].name,
			   snapshot->refs.items[i].name) > 0) {
			vec_sort(&snapshot->refs, ref_compare_names);
			break;
		}
	}
	for (size_t i = 0; i < snapshot->refs.count; i++) {
		struct ref *ref = &snapshot->refs.items[i];
		if (!ref_name_is_valid(ref->name))
			continue;
		if (kept > 0 &&
		    strcmp(snapshot->refs.items[kept - 1].name, ref->name) == 0)
			return err_set(err, ERR_CORRUPT, "packed-refs names %s twice",
				       ref->name);
		snapshot->refs.items[kept++] = *ref;
	}
	snapshot->refs.count = kept;
	return 0;
}

int ref_parse_packed(struct ref_snapshot *snapshot, char *text, size_t len,
		     size_t oid_len, struct err *err)
{
	struct reader reader = { .snapshot = snapshot, .oid_len = oid_len };
	char *end = text + len;

	vec_add(&snapshot->texts, text);
	while (text < end) {
		char *stop = memchr(text, '\n', (size_t)(end - text));
		reader.line++;
		if (!stop)
			return ref_packed_fail_damaged(&reader, err); /* cut short */
		*stop = '\0';
		if (ref_packed_read_line(&reader, text, (size_t)(stop - text), err) != 0)
			return -1;
		text = stop + 1;
	}
	return ref_packed_tidy(&reader, err);
}

static bool is_fully_peeled(const struct ref_snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->refs.count; i++) {
		const struct ref *ref = &snapshot->refs.items[i];
		if (!ref->target && ref->peel == REF_PEEL_UNKNOWN)
			return false;
	}
	return true;
}

void ref_write_packed(const struct ref_snapshot *snapshot, struct str *out)
{
	str_reserve(out, 64 + 80 * snapshot->refs.count);
	str_add(out, is_fully_peeled(snapshot)
			     ? "# pack-refs with: peeled fully-peeled sorted \n"
			     : "# pack-refs with: sorted \n");
	for (size_t i = 0; i < snapshot->refs.count; i++) {
		const struct ref *ref = &snapshot->refs.items[i];
		if (ref->target)
			continue;
		oid_add_text(&ref->oid, out);
		str_add_char(out, ' ');
		str_add(out, ref->name);
		str_add_char(out, '\n');
		if (ref->peel == REF_PEEL_TAG) {
			str_add_char(out, '^');
			oid_add_text(&ref->peeled, out);
			str_add_char(out, '\n');
		}
	}
}

static void ref_diff_add_change(struct ref_diff *diff, const struct ref *before,
				const struct ref *after)
{
	struct ref_change change = {
		.name = before ? before->name : after->name,
		.before = before,
		.after = after,
	};

	if (ref_same_value(before, after))
		return;
	diff->deletions += after == NULL;
	if ((before && before->target) || (after && after->target))
		diff->symbolic_changed = true;
	vec_add(&diff->changes, change);
}

void ref_diff_compute(const struct ref_snapshot *before, const struct ref_snapshot *after,
		      struct ref_diff *diff)
{
	size_t i = 0, j = 0;

	*diff = (struct ref_diff){ .head_changed = !ref_same_head(before, after),
				   .cuts_changed =
					   !cuts_equal(&before->cuts, &after->cuts) };
	while (i < before->refs.count || j < after->refs.count) {
		const struct ref *left =
			i < before->refs.count ? &before->refs.items[i] : NULL;
		const struct ref *right =
			j < after->refs.count ? &after->refs.items[j] : NULL;
		int order = !left ? 1 : !right ? -1 : ref_compare_names(left, right);
		if (order <= 0)
			i++;
		if (order >= 0)
			j++;
		ref_diff_add_change(diff, order <= 0 ? left : NULL,
				    order >= 0 ? right : NULL);
	}
}

static size_t ref_next_loose(const struct ref_snapshot *snapshot, size_t at)
{
	while (at < snapshot->refs.count && !snapshot->refs.items[at].is_loose)
		at++;
	return at;
}

void ref_past_take(const struct ref_snapshot *snapshot, struct ref_past *past)
{
	struct ref_snapshot *loose = &past->loose;

	*past = (struct ref_past){
		.packed = snapshot->packed ? packed_refs_serial(snapshot->packed) : 0
	};
	loose->head_target =
		snapshot->head_target ? xstrdup(snapshot->head_target) : NULL;
	loose->head_oid = snapshot->head_oid;
	vec_add_all(&loose->cuts, snapshot->cuts.items, snapshot->cuts.count);
	for (size_t i = ref_next_loose(snapshot, 0); i < snapshot->refs.count;
	     i = ref_next_loose(snapshot, i + 1)) {
		struct ref ref = snapshot->refs.items[i];
		ref.name = ref_snapshot_keep(loose, ref.name, strlen(ref.name));
		if (ref.target)
			ref.target =
				ref_snapshot_keep(loose, ref.target, strlen(ref.target));
		vec_add(&loose->refs, ref);
	}
}

void ref_past_clear(struct ref_past *past)
{
	ref_snapshot_clear(&past->loose);
}

/* One that is loose on one side only has its packed value on the other, if any. */
static void ref_diff_add_loose(struct ref_diff *diff, const struct ref_past *past,
			       const struct ref_snapshot *after)
{
	const struct ref_snapshot *loose = &past->loose;
	size_t i = 0, j = ref_next_loose(after, 0);

	while (i < loose->refs.count || j < after->refs.count) {
		const struct ref *left =
			i < loose->refs.count ? &loose->refs.items[i] : NULL;
		const struct ref *right =
			j < after->refs.count ? &after->refs.items[j] : NULL;
		int order = !left ? 1 : !right ? -1 : ref_compare_names(left, right);
		i += order <= 0;
		if (order >= 0)
			j = ref_next_loose(after, j + 1);
		if (order < 0)
			right = ref_snapshot_value(after, left->name);
		else if (order > 0)
			left = ref_snapshot_find(packed_refs_of(after->packed),
						 right->name);
		ref_diff_add_change(diff, left, right);
	}
}

bool ref_diff_since(const struct ref_past *past, const struct ref_snapshot *after,
		    struct ref_diff *diff)
{
	*diff = (struct ref_diff){ 0 };
	if (!after->packed || packed_refs_serial(after->packed) != past->packed)
		return false;
	diff->head_changed = !ref_same_head(&past->loose, after);
	diff->cuts_changed = !cuts_equal(&past->loose.cuts, &after->cuts);
	ref_diff_add_loose(diff, past, after);
	return true;
}

void ref_diff_clear(struct ref_diff *diff)
{
	vec_clear(&diff->changes);
}

bool ref_diff_is_empty(const struct ref_diff *diff)
{
	return diff->changes.count == 0 && !diff->head_changed && !diff->cuts_changed;
}

#define TRIES 10
#define DESCRIPTION_LIMIT ((size_t)1 << 20)

static int check_not_shallow(const struct repo *repo, struct err *err)
{
	if (repo->is_shallow && !repo->is_cut) {
		err_set(err, ERR_CONFIG,
			"the repository is shallow: its history is cut "
			"short, so it cannot be copied whole");
		return err_remedy(err, "complete it with git fetch --unshallow, or move "
				       "it out of the tree");
	}
	return 0;
}

static int check_not_partial(const struct repo *repo, struct err *err)
{
	if (repo->is_partial) {
		err_set(err, ERR_CONFIG,
			"the repository is a partial clone, which lacks objects by "
			"design, so it cannot be copied completely");
		return err_remedy(
			err, "complete it with git fetch --refetch --no-filter "
			     "and unset its promisor remote, or move it out of the tree");
	}
	return 0;
}

/* What is no plain file of a sane size is no description. */
static int ref_reading_read_description(const struct repo *repo,
					struct ref_reading *reading, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	free(TAKE(reading->description));
	if (file_read(repo->fd, "description", DESCRIPTION_LIMIT, &text, err) != 0)
		return err->class != ERR_DISK && err_is_of_data(err) ? 0 : -1;
	reading->description = str_take(&text);
	return 0;
}

static int ref_reading_read_settings(const struct repo *repo, struct ref_reading *reading,
				     struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	free(TAKE(reading->settings));
	if (read_settings_take(repo, &text, err) != 0)
		return -1;
	reading->settings = str_take(&text);
	return 0;
}

/* ref_snapshot_read() or its short form. */
typedef int ref_read(int dir, size_t oid_len, struct ref_snapshot *snapshot,
		     struct err *err);

/* Whether git could read them as well. What has no oddities need not be walked again. */
static int ref_reading_check(const struct repo *repo, const struct ref_reading *reading,
			     struct err *err)
{
	return reading->fingerprint.has_links || reading->fingerprint.has_others
		       ? repo_check_refs(repo, err)
		       : 0;
}

/* 1: it changed while it was read. */
static int read_once(const struct repo *repo, ref_read *read, bool is_for_git,
		     struct ref_reading *reading, struct err *err)
{
	struct fingerprint after;
	int result;

	ref_snapshot_clear(&reading->refs);
	if (fingerprint_take(repo->fd, FINGERPRINT_REFS, &reading->fingerprint, err) !=
		    0 ||
	    (is_for_git && ref_reading_check(repo, reading, err) != 0))
		return -1;
	result = read(repo->fd, repo->oid_len, &reading->refs, err);
	if (result == 0)
		result = ref_reading_read_description(repo, reading, err);
	if (result == 0)
		result = ref_reading_read_settings(repo, reading, err);
	struct err ignored;
	if (fingerprint_take(repo->fd, FINGERPRINT_REFS, &after, &ignored) == 0 &&
	    !fingerprint_equal(&reading->fingerprint, &after))
		return 1; /* an error may come of that, too */
	return result == 0 && reading->refs.is_cutting ? 1 : result;
}

static int read_quietly(const struct repo *repo, ref_read *read, bool is_for_git,
			struct ref_reading *reading, struct err *err)
{
	int result = 1;

	for (int tries = 0; tries < TRIES && result > 0; tries++) {
		if (tries > 0)
			usleep(1000U << tries);
		result = read_once(repo, read, is_for_git, reading, err);
	}
	if (result > 0) {
		err_set(err, ERR_CONFLICT, "it changes faster than it can be read");
		return err_remedy(err, "tried again by itself");
	}
	return result;
}

static int read_repo(const struct repo *repo, ref_read *read, bool is_for_git,
		     struct ref_reading *reading, struct err *err)
{
	reading->oid_len = repo->oid_len;
	reading->has_alternates = repo->has_alternates;
	reading->has_includes = repo->has_includes;
	if (read_quietly(repo, read, is_for_git, reading, err) == 0)
		return 0;
	ref_reading_clear(reading);
	return -1;
}

static int ref_reading_take_whole(int dir, const char *path, ref_read *read,
				  struct ref_reading *reading, struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;

	*reading = (struct ref_reading){ 0 };
	if (repo_open(dir, path, &repo, err) != 0 || check_not_shallow(&repo, err) != 0 ||
	    check_not_partial(&repo, err) != 0 ||
	    repo_check_files_beside_refs(&repo, err) != 0)
		return -1;
	return read_repo(&repo, read, true, reading, err);
}

int ref_reading_take(int dir, const char *path, struct ref_reading *reading,
		     struct err *err)
{
	return ref_reading_take_whole(dir, path, ref_snapshot_read, reading, err);
}

int ref_reading_take_short(int dir, const char *path, struct ref_reading *reading,
			   struct err *err)
{
	return ref_reading_take_whole(dir, path, ref_snapshot_read_short, reading, err);
}

int ref_reading_take_refs(int dir, const char *path, struct ref_reading *reading,
			  struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;

	*reading = (struct ref_reading){ 0 };
	if (repo_open(dir, path, &repo, err) != 0 || check_not_partial(&repo, err) != 0)
		return -1;
	return read_repo(&repo, ref_snapshot_read, false, reading, err);
}

void ref_reading_clear(struct ref_reading *reading)
{
	ref_snapshot_clear(&reading->refs);
	free(reading->description);
	free(reading->settings);
	*reading = (struct ref_reading){ 0 };
}

#define LOOSE_LIMIT 4096 /* git's own files have 41 or 65 bytes */
#define DEPTH_LIMIT 128
#define SYMBOLIC_LIMIT 5 /* so many refs git reads to find what one stands for */

struct walk {
	struct ref_snapshot *snapshot; /* gets the loose refs, unsorted */
	size_t oid_len;
	bool skips_garbage;
	struct str name; /* the present path: "refs/heads/" */
	int depth;
};

static int ref_snapshot_walk_directory(struct walk *walk, int fd, struct err *err);

/* No name of a ref has any; and a line of the wire ends with one. */
static bool ref_snapshot_has_control(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return true;
	return false;
}

/* What HEAD or a loose ref says: "ref: <target>" or an object's name. */
static int ref_snapshot_parse_value(const char *name, const char *text, size_t oid_len,
				    struct ref *ref, struct ref_snapshot *snapshot,
				    struct err *err)
{
	size_t digits = 2 * oid_len, len;

	if (text_starts_with(text, "ref:")) {
		text += 4;
		text += strspn(text, " \t");
		len = strlen(text);
		while (len > 0 && strchr(" \t\r\n", text[len - 1]))
			len--;
		if (len > 0 && !ref_snapshot_has_control(text, len)) {
			ref->target = ref_snapshot_keep(snapshot, text, len);
			return 0;
		}
	} else if (strnlen(text, digits) == digits &&
		   oid_parse(text, oid_len, &ref->oid) && !oid_is_null(&ref->oid) &&
		   (text[digits] == '\0' || strchr(" \t\r\n", text[digits]))) {
		return 0;
	}
	err_set(err, ERR_CORRUPT, "%s holds neither an object's name nor a symbolic ref",
		name);
	return err_remedy(err, "set it again with git update-ref or git symbolic-ref, or "
			       "delete the file");
}

/* A symbolic link into refs/ is how very old repositories write a symbolic ref. */
static bool is_link_ref(int dir, const char *entry, struct ref *ref,
			struct ref_snapshot *snapshot)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(dir, entry, target, sizeof(target) - 1);

	if (len <= 0)
		return false;
	target[len] = '\0';
	if (!ref_name_is_valid(target))
		return false;
	ref->target = ref_snapshot_keep(snapshot, target, (size_t)len);
	return true;
}

/* A link whose target is not there, or that leads to itself: git sees no ref in it. */
static bool leads_nowhere(int dir, const char *entry)
{
	struct stat st;

	return fstatat(dir, entry, &st, 0) != 0 && (errno == ENOENT || errno == ELOOP);
}

/* 0: *ref is filled; 1: there is none, or it vanished meanwhile. */
static int read_value(int dir, const char *entry, const char *name, size_t oid_len,
		      struct ref *ref, struct ref_snapshot *snapshot, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	if (is_link_ref(dir, entry, ref, snapshot))
		return 0;
	if (file_read(dir, entry, LOOSE_LIMIT, &text, err) != 0) {
		if (err->class == ERR_MISSING || leads_nowhere(dir, entry))
			return 1;
		return err_prefix(err, "%s", name);
	}
	return ref_snapshot_parse_value(name, text.data, oid_len, ref, snapshot, err);
}

static int add_loose(struct walk *walk, int dir, const char *entry, struct err *err)
{
	struct ref ref = { .is_loose = true };
	int found;

	if (!ref_name_is_valid(walk->name.data))
		return 0;
	found = read_value(dir, entry, walk->name.data, walk->oid_len, &ref,
			   walk->snapshot, err);
	if (found < 0 && err->class == ERR_CORRUPT && walk->skips_garbage)
		return 0;
	if (found != 0)
		return found < 0 ? -1 : 0;
	ref.name = ref_snapshot_keep(walk->snapshot, walk->name.data, walk->name.len);
	vec_add(&walk->snapshot->refs, ref);
	return 0;
}

static int descend(struct walk *walk, int dir, const char *entry, struct err *err)
{
	int fd = openat(dir, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0)
		return err_errno(err, "cannot open directory %s", walk->name.data);
	str_add_char(&walk->name, '/');
	return ref_snapshot_walk_directory(walk, fd, err);
}

static int ref_snapshot_visit_entry(struct walk *walk, DIR *dir,
				    const struct dirent *entry, struct err *err)
{
	size_t len = walk->name.len;
	int result;

	if (entry->d_name[0] == '.' || text_ends_with(entry->d_name, ".lock"))
		return 0;
	str_add(&walk->name, entry->d_name);
	if (dir_entry_is_directory(dirfd(dir), entry))
		result = descend(walk, dirfd(dir), entry->d_name, err);
	else
		result = add_loose(walk, dirfd(dir), entry->d_name, err);
	str_truncate(&walk->name, len);
	return result;
}

/* Takes fd. */
static int ref_snapshot_walk_directory(struct walk *walk, int fd, struct err *err)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *dir = fdopendir(fd);

	if (!dir) {
		err_errno(err, "cannot list %s", walk->name.data);
		close(fd);
		return -1;
	}
	if (++walk->depth > DEPTH_LIMIT)
		return err_set(err, ERR_CORRUPT, "%s: directories nest too deeply",
			       walk->name.data);
	while (errno = 0, (entry = readdir(dir)) != NULL)
		if (ref_snapshot_visit_entry(walk, dir, entry, err) != 0)
			return -1;
	walk->depth--;
	return errno == 0 ? 0 : err_errno(err, "cannot list %s", walk->name.data);
}

/* All but oid_len, skips_garbage and the list to fill is set here. */
static int read_loose(int dir, struct walk *walk, struct err *err)
{
	int fd = dir_open(dir, "refs", err);
	int result = -1;

	walk->name = (struct str)STR_INIT;
	if (fd >= 0) {
		str_add(&walk->name, "refs/");
		result = ref_snapshot_walk_directory(walk, fd, err);
	}
	str_clear(&walk->name);
	return result;
}

int ref_snapshot_read_head(int dir, size_t oid_len, struct ref_snapshot *snapshot,
			   struct err *err)
{
	struct ref head = { 0 };
	int found = read_value(dir, "HEAD", "HEAD", oid_len, &head, snapshot, err);

	if (found > 0) {
		err_set(err, ERR_CORRUPT, "it has no HEAD");
		return err_remedy(err, "write it again: git symbolic-ref HEAD "
				       "refs/heads/main");
	}
	if (found < 0)
		return -1;
	/* Git takes nothing else for a repository; "ref: refs" is what a full disk
	 * left. */
	if (head.target && !ref_name_is_valid(head.target)) {
		err_set(err, ERR_CORRUPT, "HEAD points to %s, which is not a ref",
			head.target);
		return err_remedy(err, "write it again: git symbolic-ref HEAD "
				       "refs/heads/main");
	}
	snapshot->head_target = head.target ? xstrdup(head.target) : NULL;
	snapshot->head_oid = head.oid;
	return 0;
}

/* A loose ref that repeats the packed value also has what is known of its peel. */
static struct ref prefer_loose(const struct ref *loose, const struct ref *packed)
{
	struct ref ref = *loose;

	if (!ref.target && oid_equal(&loose->oid, &packed->oid)) {
		ref.peel = packed->peel;
		ref.peeled = packed->peeled;
	}
	return ref;
}

/* How many of the refs from `at` on come before that name. */
static size_t ref_snapshot_count_before(const struct ref_snapshot *packed, size_t at,
					const struct ref *ref)
{
	size_t low = at, high = packed->refs.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (ref_compare_names(&packed->refs.items[middle], ref) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low - at;
}

static void ref_snapshot_merge(const struct ref_snapshot *loose,
			       const struct ref_snapshot *packed,
			       struct ref_snapshot *all)
{
	size_t at = 0;

	vec_reserve(&all->refs, loose->refs.count + packed->refs.count);
	for (size_t i = 0; i < loose->refs.count; i++) {
		const struct ref *ref = &loose->refs.items[i];
		size_t before = ref_snapshot_count_before(packed, at, ref);
		vec_add_all(&all->refs, packed->refs.items + at, before);
		at += before;
		if (at < packed->refs.count &&
		    ref_compare_names(&packed->refs.items[at], ref) == 0)
			vec_add(&all->refs, prefer_loose(ref, &packed->refs.items[at++]));
		else
			vec_add(&all->refs, *ref);
	}
	vec_add_all(&all->refs, packed->refs.items + at, packed->refs.count - at);
}

void ref_snapshot_complete(struct ref_snapshot *snapshot)
{
	struct ref_snapshot loose = *snapshot;

	if (!snapshot->is_short)
		return;
	snapshot->is_short = false;
	if (!snapshot->packed)
		return;
	snapshot->refs.items = NULL;
	snapshot->refs.count = snapshot->refs.capacity = 0;
	ref_snapshot_merge(&loose, packed_refs_of(snapshot->packed), snapshot);
	vec_clear(&loose.refs);
}

/* `walk` is as read_loose wants it, but for the list. */
static int ref_snapshot_read_parts(int dir, struct walk *walk,
				   struct ref_snapshot *snapshot, struct err *err)
{
	*snapshot = (struct ref_snapshot){ .is_short = true };
	walk->snapshot = snapshot;
	if (ref_snapshot_read_head(dir, walk->oid_len, snapshot, err) != 0 ||
	    read_loose(dir, walk, err) != 0 ||
	    packed_refs_read(dir, walk->oid_len, &snapshot->packed, err) != 0 ||
	    cuts_read(dir, walk->oid_len, &snapshot->cuts, &snapshot->is_cutting, err) !=
		    0) {
		ref_snapshot_clear(snapshot);
		return -1;
	}
	vec_sort(&snapshot->refs, ref_compare_names);
	for (size_t i = 0; i < snapshot->refs.count; i++)
		snapshot->loose_count += !snapshot->refs.items[i].target;
	snapshot->has_packed_only = snapshot->loose_count == 0;
	return 0;
}

int ref_snapshot_read_short(int dir, size_t oid_len, struct ref_snapshot *snapshot,
			    struct err *err)
{
	struct walk walk = { .oid_len = oid_len };

	return ref_snapshot_read_parts(dir, &walk, snapshot, err);
}

int ref_snapshot_read(int dir, size_t oid_len, struct ref_snapshot *snapshot,
		      struct err *err)
{
	int result = ref_snapshot_read_short(dir, oid_len, snapshot, err);

	ref_snapshot_complete(snapshot);
	return result;
}

int ref_snapshot_read_symbolic(int dir, size_t oid_len, struct ref_snapshot *snapshot,
			       struct err *err)
{
	struct walk walk = { .oid_len = oid_len, .skips_garbage = true };
	int result = ref_snapshot_read_parts(dir, &walk, snapshot, err);

	ref_snapshot_complete(snapshot);
	return result;
}

void ref_snapshot_clear(struct ref_snapshot *snapshot)
{
	vec_clear_owned(&snapshot->texts);
	vec_clear(&snapshot->refs);
	vec_clear(&snapshot->cuts);
	free(snapshot->head_target);
	packed_refs_leave(snapshot->packed);
	*snapshot = (struct ref_snapshot)REF_SNAPSHOT_INIT;
}

struct ref *ref_snapshot_find(const struct ref_snapshot *snapshot, const char *name)
{
	struct ref key = { .name = name };

	if (snapshot->refs.count == 0)
		return NULL;
	return bsearch(&key, snapshot->refs.items, snapshot->refs.count, sizeof(key),
		       ref_compare_names);
}

const struct ref *ref_snapshot_value(const struct ref_snapshot *snapshot,
				     const char *name)
{
	const struct ref *ref = ref_snapshot_find(snapshot, name);

	if (ref || !snapshot->is_short || !snapshot->packed)
		return ref;
	return ref_snapshot_find(packed_refs_of(snapshot->packed), name);
}

static const struct ref *ref_snapshot_follow_targets(const struct ref_snapshot *snapshot,
						     const char *name, int reads)
{
	while (reads-- > 0) {
		const struct ref *ref = ref_snapshot_find(snapshot, name);
		if (!ref || !ref->target)
			return ref;
		name = ref->target;
	}
	return NULL;
}

const struct ref *ref_snapshot_resolve(const struct ref_snapshot *snapshot,
				       const char *name)
{
	return ref_snapshot_follow_targets(snapshot, name, SYMBOLIC_LIMIT);
}

bool ref_snapshot_head(const struct ref_snapshot *snapshot, struct oid *oid)
{
	const struct ref *ref;

	if (!snapshot->head_target) {
		*oid = snapshot->head_oid;
		return true;
	}
	ref = ref_snapshot_follow_targets(snapshot, snapshot->head_target,
					  SYMBOLIC_LIMIT - 1);
	if (ref)
		*oid = ref->oid;
	return ref != NULL;
}

const char *ref_snapshot_keep(struct ref_snapshot *snapshot, const char *text, size_t len)
{
	char *copy = xstrndup(text, len);

	vec_add(&snapshot->texts, copy);
	return copy;
}

bool ref_same_head(const struct ref_snapshot *a, const struct ref_snapshot *b)
{
	if (!text_is_same(a->head_target, b->head_target))
		return false;
	return a->head_target || oid_equal(&a->head_oid, &b->head_oid);
}

bool ref_same_value(const struct ref *a, const struct ref *b)
{
	if (!a || !b)
		return a == b;
	if (a->target || b->target)
		return text_is_same(a->target, b->target);
	return oid_equal(&a->oid, &b->oid);
}
