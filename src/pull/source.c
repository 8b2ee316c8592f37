#include "pull/source.h"

#include "base/file.h"
#include "git/refs.h"
#include "pull/lines.h"

struct source_directory {
	const char *root;
	const struct discovery *discovery;
};

struct source_primary;

static char *source_directory_url(const struct source_directory *source, const char *name,
				  struct err *err)
{
	const struct discovered *one = discovery_find(source->discovery, name);

	if (one)
		return xasprintf("%s/%s", source->root, one->path);
	err_set(err, ERR_MISSING, "the source has no repository %s", name);
	return NULL;
}

static int source_directory_look(const struct source_directory *source, const char *name,
				 struct fingerprint *fingerprint, struct err *err)
{
	const struct discovered *one = discovery_find(source->discovery, name);
	AUTO_FREE char *path = source_directory_url(source, name, err);
	AUTO_CLOSE int fd = path ? dir_open(AT_FDCWD, path, err) : -1;

	if (fd < 0)
		return -1;
	if (one->is_damaged)
		return err_set(err, ERR_CORRUPT, "it is no whole bare repository");
	return fingerprint_take(fd, FINGERPRINT_REFS, fingerprint, err);
}

static int source_directory_read(const struct source_directory *source, const char *name,
				 struct source_view *view, struct err *err)
{
	AUTO_FREE char *path = source_directory_url(source, name, err);
	struct ref_reading reading;

	if (!path || ref_reading_take(AT_FDCWD, path, &reading, err) != 0)
		return -1;
	*view = (struct source_view){
		.refs = reading.refs,
		.oid_len = reading.oid_len,
		.fingerprint = reading.fingerprint,
		.url = TAKE(path),
		.is_local = true,
		.has_packs = !reading.has_alternates,
		.description = reading.description,
		.settings = reading.settings,
	};
	return 0;
}

/*
 * A primary as a source. Each read takes a line that rests, or opens one.
 */

struct source_primary {
	struct primary *primary;
	int64_t valid_ms;
	struct lines lines;
};

static struct source_primary *source_primary_new(struct primary *primary,
						 int64_t valid_ms,
						 const struct stop *stop)
{
	struct source_primary *source = xcalloc(1, sizeof(*source));

	source->primary = primary;
	source->valid_ms = valid_ms;
	lines_init(&source->lines, primary, stop);
	return source;
}

static void source_primary_free(struct source_primary *source)
{
	if (!source)
		return;
	lines_clear(&source->lines);
	free(source);
}

static char *source_primary_url(const struct source_primary *source, const char *name)
{
	return primary_url(source->primary, name);
}

static void source_primary_fill_view(struct wire_refs *refs, struct source_view *view)
{
	view->refs = refs->refs;
	view->oid_len = refs->oid_len;
	view->description = refs->description;
	view->settings = refs->settings;
	memcpy(view->timeline, refs->timeline, sizeof(view->timeline));
	view->generation = refs->generation;
	view->changed_at = refs->changed_at;
	view->pushed_settled = refs->pushed_settled;
	view->pushed_announced = refs->pushed_announced;
}

static int source_primary_read(struct source_primary *source, const char *name,
			       struct source_view *view, struct err *err)
{
	struct primary_line *line;
	struct wire_refs refs;
	int result;

	if (lines_take(&source->lines, source->valid_ms, &line, err) != 0)
		return -1; /* a job has no longer */
	result = primary_refs(line, name, &refs, err);
	lines_rest(&source->lines, line);
	if (result != 0)
		return -1;
	source_primary_fill_view(&refs, view);
	if (primary_git(source->primary, name, source->valid_ms / 1000, &view->url,
			&view->header, err) == 0)
		return 0;
	source_view_clear(view);
	return -1;
}

struct source {
	struct source_directory directory;
	struct source_primary *primary; /* owned; NULL: a directory */
};

/* How long a request for a pack may rest without a byte. Before the primary sends the
 * first one it may have to look through a large repository; from then on it says each
 * second that it lives. What is slow, but moves, is bounded by sync.timeout alone. */
#define STALL_MS (10 * 60 * 1000)

struct git_remote source_remote(const struct source_view *view)
{
	return (struct git_remote){ .url = view->url,
				    .header = view->header,
				    .stall_ms = STALL_MS };
}

struct source *source_new_directory(const char *root, const struct discovery *discovery)
{
	struct source *source = xcalloc(1, sizeof(*source));

	source->directory = (struct source_directory){ root, discovery };
	return source;
}

struct source *source_new_primary(struct primary *primary, int64_t valid_ms,
				  const struct stop *stop)
{
	struct source *source = xcalloc(1, sizeof(*source));

	source->primary = source_primary_new(primary, valid_ms, stop);
	return source;
}

void source_free(struct source *source)
{
	if (!source)
		return;
	source_primary_free(source->primary);
	free(source);
}

char *source_url(const struct source *source, const char *name, struct err *err)
{
	return source->primary ? source_primary_url(source->primary, name)
			       : source_directory_url(&source->directory, name, err);
}

int source_look(const struct source *source, const char *name,
		struct fingerprint *fingerprint, struct err *err)
{
	if (source->primary)
		return err_set(err, ERR_CONFLICT, "a primary tells no fingerprints");
	return source_directory_look(&source->directory, name, fingerprint, err);
}

int source_read(const struct source *source, const char *name, struct source_view *view,
		struct err *err)
{
	*view = (struct source_view){ 0 };
	return source->primary
		       ? source_primary_read(source->primary, name, view, err)
		       : source_directory_read(&source->directory, name, view, err);
}

/* The header holds a token. */
static void wipe(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void source_view_clear(struct source_view *view)
{
	ref_snapshot_clear(&view->refs);
	free(view->url);
	wipe(view->header);
	free(view->description);
	free(view->settings);
	*view = (struct source_view){ 0 };
}
