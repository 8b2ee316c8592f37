/*
 * An id's order is that of its whole path, in which a directory's name is followed by
 * "/": "a.b" comes before "a/x", and "a0" after it. So a directory sorts as if its name
 * ended in "/".
 *
 * No directory stays open while those below it are walked, so that depth costs no
 * descriptors; it is opened again by its path from the root, through no link.
 */
#include "blob/walk.h"

#include <dirent.h>
#include <fcntl.h>

#include "base/file.h"

struct walk {
	const struct blob_kind *kind;
	const struct blob_visitor *visitor;
	const struct stop *stop;
	int root;
	struct str path; /* of what is looked at, below the root */
};

/* A directory's names, each "d" or "f" and then the name; what is neither was told. */
struct listing {
	struct str text;
	VEC(const char *) names; /* into text, sorted */
};

static void listing_clear(struct listing *listing)
{
	str_clear(&listing->text);
	vec_clear(&listing->names);
}

static bool blob_walk_is_directory(const char *name)
{
	return name[0] == 'd';
}

static unsigned char byte_at(const char *name, size_t at)
{
	if (name[at])
		return (unsigned char)name[at];
	return blob_walk_is_directory(name) ? '/' : 0;
}

static int blob_walk_compare_names(const void *one, const void *two)
{
	const char *a = *(const char *const *)one, *b = *(const char *const *)two;
	size_t at = 1;

	while (a[at] && a[at] == b[at])
		at++;
	return byte_at(a, at) - byte_at(b, at);
}

static void blob_walk_report(struct walk *walk, const struct err *why, bool hides_names)
{
	const struct blob_finding finding = { .path = walk->path.data,
					      .why = why,
					      .hides_names = hides_names };

	if (walk->visitor->finding)
		walk->visitor->finding(walk->visitor->arg, &finding);
}

/* What errno says of the path: gone is nothing to tell. */
static void report_errno(struct walk *walk, const char *what)
{
	struct err err;

	if (errno == ENOENT || errno == ENOTDIR)
		return;
	err_errno(&err, "%s", what);
	blob_walk_report(walk, &err, true);
}

/* Puts the name behind the path; returns the length to go back to. */
static size_t blob_walk_enter_name(struct walk *walk, const char *name)
{
	size_t len = walk->path.len;

	if (len > 0)
		str_add_char(&walk->path, '/');
	str_add(&walk->path, name);
	return len;
}

static void report_odd(struct walk *walk, mode_t mode)
{
	struct err err;

	err_set(&err, ERR_CORRUPT, "%s",
		S_ISLNK(mode)    ? "a symbolic link: it is not followed"
		: S_ISSOCK(mode) ? "a socket, no file"
		: S_ISFIFO(mode) ? "a pipe, no file"
				 : "a device, no file");
	err_remedy(&err, "put a regular file or a directory there, or take it away");
	blob_walk_report(walk, &err, false);
}

static unsigned char type_of(int dir, const struct dirent *entry)
{
	struct stat st;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type;
	if (fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return DT_UNKNOWN;
	return (unsigned char)IFTODT(st.st_mode);
}

bool blob_walk_leaves_out(const char *directory, const char *name)
{
	return text_starts_with(name, OWN_FOLDER) ||
	       (*directory == '\0' && strcmp(name, BLOB_LOST_AND_FOUND) == 0);
}

static bool is_left_out(const struct walk *walk, const char *name)
{
	return name_is_dots(name) || blob_walk_leaves_out(walk->path.data, name);
}

static void list_entry(struct walk *walk, int dir, const struct dirent *entry,
		       struct listing *listing)
{
	unsigned char type = type_of(dir, entry);

	if (is_left_out(walk, entry->d_name))
		return;
	if (type == DT_DIR || type == DT_REG) {
		str_add_char(&listing->text, type == DT_DIR ? 'd' : 'f');
		str_add_bytes(&listing->text, entry->d_name, strlen(entry->d_name) + 1);
	} else {
		size_t back = blob_walk_enter_name(walk, entry->d_name);
		if (type == DT_UNKNOWN)
			report_errno(walk, "cannot look at it");
		else
			report_odd(walk, DTTOIF(type));
		str_truncate(&walk->path, back);
	}
}

static void sort_names(struct listing *listing)
{
	const char *name = listing->text.data;

	while (name < listing->text.data + listing->text.len) {
		vec_add(&listing->names, name);
		name += strlen(name) + 1;
	}
	vec_sort(&listing->names, blob_walk_compare_names);
}

static int blob_walk_open_directory(const struct walk *walk)
{
	return path_open_beneath(walk->root, walk->path.data, O_RDONLY | O_DIRECTORY);
}

/* -1 with errno: it cannot be listed, or not to its end. */
static int blob_walk_list_directory(struct walk *walk, struct listing *listing)
{
	struct dirent *entry;
	AUTO_CLOSE int fd = blob_walk_open_directory(walk);
	AUTO_CLOSEDIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir)
		return -1;
	fd = -1; /* the list's now */
	while (errno = 0, (entry = readdir(dir)) != NULL)
		list_entry(walk, dirfd(dir), entry, listing);
	if (errno != 0)
		return -1;
	sort_names(listing);
	return 0;
}

static int visit_file(struct walk *walk, int dir, const char *name, struct err *err)
{
	struct blob_fingerprint fingerprint;
	struct err why;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		report_errno(walk, "cannot look at it");
		return 0;
	}
	if (S_ISDIR(st.st_mode))
		return 0; /* it has just become one */
	if (!S_ISREG(st.st_mode)) {
		report_odd(walk, st.st_mode);
		return 0;
	}
	if (blob_id_check(walk->kind, walk->path.data, &why) != 0) {
		blob_walk_report(walk, &why, false);
		return 0;
	}
	blob_fingerprint_of(&st, &fingerprint);
	return walk->visitor->file(walk->visitor->arg, walk->path.data, &fingerprint,
				   err);
}

static int blob_walk_walk_directory(struct walk *walk, struct err *err);

/* Below a name that is no part of an id there is no id. */
static int blob_walk_visit_directory(struct walk *walk, struct err *err)
{
	const char *fault = walk->path.len > 0 ? path_fault(walk->path.data) : NULL;
	struct err why;

	if (!fault)
		return blob_walk_walk_directory(walk, err);
	err_set(&why, ERR_CONFIG, "no blob can be below it: %s", fault);
	err_remedy(&why, "rename it");
	blob_walk_report(walk, &why, false);
	return 0;
}

/* *dir is the directory that the name is in; closed before what is below it is walked. */
static int visit_name(struct walk *walk, const char *name, int *dir, struct err *err)
{
	size_t back = blob_walk_enter_name(walk, name + 1);
	int result;

	if (blob_walk_is_directory(name)) {
		auto_close(dir);
		*dir = -1;
		result = blob_walk_visit_directory(walk, err);
	} else {
		result = visit_file(walk, *dir, name + 1, err);
	}
	str_truncate(&walk->path, back);
	return result;
}

static int blob_walk_visit_all(struct walk *walk, const struct listing *listing,
			       struct err *err)
{
	AUTO_CLOSE int dir = -1;

	for (size_t i = 0; i < listing->names.count; i++) {
		const char *name = listing->names.items[i];
		if (walk->stop && stop_is_requested(walk->stop))
			return err_set(err, ERR_CANCELED, "asked to stop");
		if (i > 0 && strcmp(name, listing->names.items[i - 1]) == 0)
			continue; /* listed twice, as it was moved meanwhile */
		if (dir < 0 && !blob_walk_is_directory(name) &&
		    (dir = blob_walk_open_directory(walk)) < 0) {
			report_errno(walk, "cannot open it");
			return 0;
		}
		if (visit_name(walk, name, &dir, err) != 0)
			return -1;
	}
	return 0;
}

static int blob_walk_walk_directory(struct walk *walk, struct err *err)
{
	struct listing listing = { .text = STR_INIT };
	int result = 0;

	if (walk->visitor->directory)
		walk->visitor->directory(walk->visitor->arg, walk->path.data);
	if (blob_walk_list_directory(walk, &listing) != 0)
		report_errno(walk, "cannot list it");
	else
		result = blob_walk_visit_all(walk, &listing, err);
	listing_clear(&listing);
	return result;
}

/* The directory that the walk begins with: without it there is nothing to tell. */
static int check_start(const struct walk *walk, struct err *err)
{
	AUTO_CLOSE int dir = blob_walk_open_directory(walk);

	if (dir >= 0)
		return 0;
	if (errno == ELOOP || errno == ENOTDIR)
		return err_set(err, ERR_MISSING, "%s is not a directory",
			       walk->path.data);
	return err_errno(err, "cannot open directory %s", walk->path.data);
}

static int blob_walk_run(struct walk *walk, const char *directory, struct err *err)
{
	AUTO_CLOSE int root = blob_root_open(walk->kind, err);
	int result;

	if (root < 0)
		return -1;
	walk->root = root;
	walk->path = (struct str)STR_INIT;
	str_add(&walk->path, directory);
	result = check_start(walk, err);
	if (result == 0)
		result = blob_walk_visit_directory(walk, err);
	str_clear(&walk->path);
	return result;
}

int blob_walk_below(const struct blob_kind *kind, const char *directory,
		    const struct blob_visitor *visitor, const struct stop *stop,
		    struct err *err)
{
	struct walk walk = { .kind = kind, .visitor = visitor, .stop = stop };

	return blob_walk_run(&walk, directory, err);
}

int blob_walk(const struct blob_kind *kind, const struct blob_visitor *visitor,
	      const struct stop *stop, struct err *err)
{
	return blob_walk_below(kind, "", visitor, stop, err);
}
