/*
 * One git child walks what is new and tells the blobs that are small enough for a
 * pointer, by bitmaps where there are some; others then read them, so many at a time.
 * Where there is nothing so small, there is no second child.
 */
#include "verify/lfs_search.h"

#include "git/lfs_pointer.h"

enum { GROUP = 4096 };

struct search {
	const struct git_work *work;
	const struct repo *repo;
	struct str group; /* names of blobs to read, a line each */
	size_t grouped;
	lfs_rows *rows;
};

static void take_blob(struct search *search, const char *text, size_t len)
{
	struct lfs_pointer pointer;
	struct lfs_row row;

	if (!lfs_pointer_parse(text, len, &pointer) || pointer.size == 0)
		return; /* git-lfs neither brings nor gets what is empty */
	memcpy(row.oid, pointer.oid, sizeof(row.oid));
	row.size = pointer.size;
	vec_add(search->rows, row);
}

/* "<oid> blob <size>\n<content>\n", or "<oid> missing\n". */
static int take_blobs(struct search *search, const struct str *said, struct err *err)
{
	const char *at = said->data;
	const char *end = at + said->len;

	while (at < end) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at));
		const char *space;
		unsigned long size;
		if (!line_end)
			break;
		space = memrchr(at, ' ', (size_t)(line_end - at));
		if (!space)
			break;
		at = line_end + 1;
		if (space[1] < '0' || space[1] > '9')
			continue; /* missing */
		size = strtoul(space + 1, NULL, 10);
		if (size >= (size_t)(end - at))
			break;
		take_blob(search, at, size);
		at += size + 1;
	}
	if (at < end)
		return err_set(err, ERR_INTERNAL,
			       "git cat-file answered what is not understood");
	return 0;
}

static int read_group(struct search *search, struct err *err)
{
	static const char *const args[] = { "cat-file", "--batch", "--buffer", NULL };
	AUTO_STR struct str said = STR_INIT;

	if (search->grouped == 0)
		return 0;
	if (git_run(&(struct git_call){ .work = search->work,
					.repository = search->repo->path,
					.args = args,
					.input = &search->group,
					.output = &said,
					.output_limit = GROUP * (LFS_POINTER_LIMIT + 128),
					.yields = true },
		    err) != 0)
		return -1;
	str_reset(&search->group);
	search->grouped = 0;
	return take_blobs(search, &said, err);
}

/* Lines of one name each; what is behind the last whole one stays in *rest. */
static int take_names(struct search *search, struct str *rest, struct err *err)
{
	char *at = rest->data;
	char *end;

	while ((end = memchr(at, '\n', rest->len - (size_t)(at - rest->data))) != NULL) {
		str_add_bytes(&search->group, at, (size_t)(end - at) + 1);
		at = end + 1;
		if (++search->grouped == GROUP && read_group(search, err) != 0)
			return -1;
	}
	AUTO_STR struct str left = STR_INIT;
	str_add(&left, at);
	str_reset(rest);
	str_add(rest, left.data);
	return 0;
}

static int lfs_search_take_output(struct search *search, struct git_stream *stream,
				  struct err *err)
{
	AUTO_STR struct str rest = STR_INIT;
	char buffer[16 << 10];
	ssize_t got;

	while ((got = git_stream_read(stream, buffer, sizeof(buffer))) > 0) {
		str_add_bytes(&rest, buffer, (size_t)got);
		if (take_names(search, &rest, err) != 0)
			return -1;
	}
	return got < 0 ? err_set(err, ERR_INTERNAL, "git rev-list broke off") : 0;
}

static void lfs_search_add_lines(const oid_list *list, const char *prefix,
				 struct str *out)
{
	for (size_t i = 0; i < list->count; i++) {
		str_add(out, prefix);
		oid_add_text(&list->items[i], out);
		str_add_char(out, '\n');
	}
}

static int lfs_search_walk_objects(struct search *search, const oid_list *tips,
				   const oid_list *known, struct err *err)
{
	static const char *const args[] = { "rev-list",
					    "--ignore-missing",
					    "--objects",
					    "--no-object-names",
					    "--use-bitmap-index",
					    "--filter=blob:limit=1024",
					    "--filter=object:type=blob",
					    "--filter-provided-objects",
					    "--stdin",
					    NULL };
	const char *strict[ARRAY_SIZE(args) - 1] = { args[0] };
	AUTO_STR struct str input = STR_INIT;
	struct git_stream *stream = NULL;
	struct err ended;

	memcpy(strict + 1, args + 2, sizeof(strict) - sizeof(strict[0]));
	lfs_search_add_lines(known, "^", &input);
	lfs_search_add_lines(tips, "", &input);
	if (git_stream_open(&(struct git_call){ .work = search->work,
						.repository = search->repo->path,
						.args = known->count > 0 ? strict : args,
						.input = &input,
						.yields = true },
			    -1, &stream, err) != 0)
		return -1;
	int result = lfs_search_take_output(search, stream, err);
	if (git_stream_close(stream, &ended) == 0)
		return result;
	if (result == 0 || err->class == ERR_INTERNAL)
		*err = ended;
	return -1;
}

int lfs_search(const struct git_work *work, const struct repo *repo, const oid_list *tips,
	       const oid_list *known, lfs_rows *rows, struct err *err)
{
	struct search search = {
		.work = work, .repo = repo, .group = STR_INIT, .rows = rows
	};
	int result = 0;

	if (tips->count > 0)
		result = lfs_search_walk_objects(&search, tips, known, err);
	if (result == 0)
		result = read_group(&search, err);
	str_clear(&search.group);
	return result;
}

int lfs_search_gone(const struct git_work *work, const struct repo *repo,
		    const oid_list *known, size_t *count, struct err *err)
{
	static const char *const args[] = { "cat-file", "--batch-check=x", "--buffer",
					    NULL };
	AUTO_STR struct str input = STR_INIT;
	AUTO_STR struct str said = STR_INIT;

	*count = 0;
	lfs_search_add_lines(known, "", &input);
	if (git_run(&(struct git_call){ .work = work,
					.repository = repo->path,
					.args = args,
					.input = &input,
					.output = &said,
					.output_limit = input.len + 16 * known->count,
					.yields = true },
		    err) != 0)
		return -1;
	for (const char *at = said.data; (at = strstr(at, " missing\n")) != NULL; at++)
		++*count;
	return 0;
}

int lfs_search_lost(const struct git_work *work, const struct repo *repo,
		    const oid_list *tips, const oid_list *known, struct err *err)
{
	static const char *const args[] = { "rev-list", "--max-count=1", "--stdin",
					    NULL };
	AUTO_STR struct str input = STR_INIT;
	AUTO_STR struct str said = STR_INIT;

	if (known->count == 0)
		return 0;
	lfs_search_add_lines(tips, "^", &input);
	lfs_search_add_lines(known, "", &input);
	if (git_run(&(struct git_call){ .work = work,
					.repository = repo->path,
					.args = args,
					.input = &input,
					.output = &said,
					.output_limit = 128,
					.yields = true },
		    err) != 0)
		return -1;
	return said.len > 0;
}
