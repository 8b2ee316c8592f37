#include "pull/source.h"

#include "pull/source_kinds.h"

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

int source_look(const struct source *source, const char *name, struct fingerprint *print,
		struct err *err)
{
	if (source->primary)
		return err_set(err, ERR_CONFLICT, "a primary tells no fingerprints");
	return source_directory_look(&source->directory, name, print, err);
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
