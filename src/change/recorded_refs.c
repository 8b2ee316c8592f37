/*
 *	<checksum of the refs> <SHA-256 of the lines below, in hex> <their bytes>
 *	ref: refs/heads/main HEAD
 *	<oid> refs/heads/main
 *	ref: refs/heads/main refs/heads/default
 *
 * A change is appended, until there are many, with a mark at its end, whose SHA-256 is of
 * the checksum before and the changed lines:
 *
 *	<oid> refs/heads/main
 *	- refs/heads/gone
 *	= <checksum of the refs then> <SHA-256> <bytes of these lines>
 *
 * Not synced: after a crash of the machine the file may be old or torn, which the digests
 * tell.
 */
#include "change/recorded_refs.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/temporary.h"

#define LIMIT ((size_t)4 << 30)

#define MARK "= "
#define GONE "- "
#define MARK_MOST 192        /* bytes of a line that is one */
#define ALL_BYTES UINT64_MAX /* an earlier version's mark has none */

/* Bytes of changes before all refs are written again, or a quarter of all. */
#define APPEND_ROOM ((uint64_t)12 << 10)

static char *recorded_refs_make_path(const char *data, uint64_t id)
{
	return xasprintf("%s/refs/%" PRIu64, data, id);
}

/* "<checksum> <digest> <bytes>": of bytes that follow, or come before. */
struct recorded_mark {
	const char *checksum, *digest;
	uint64_t bytes;
};

static void recorded_refs_add_mark(struct str *out, const char *before, const char *after,
				   const char *lines, size_t len)
{
	AUTO_HASH struct hash hash;
	unsigned char digest[HASH_MAX_SIZE];

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, before, strlen(before));
	hash_add(&hash, lines, len);
	hash_end(&hash, digest);
	str_addf(out, "%s ", after);
	str_add_hex(out, digest, sizeof(digest));
	str_addf(out, " %zu\n", len);
}

/* Cuts up the line. */
static bool recorded_refs_read_mark(char *line, struct recorded_mark *mark)
{
	char *digest = strchr(line, ' ');
	char *bytes = digest ? strchr(digest + 1, ' ') : NULL;

	if (!digest)
		return false;
	*digest = '\0';
	*mark = (struct recorded_mark){ line, digest + 1, ALL_BYTES };
	if (!bytes)
		return true;
	*bytes = '\0';
	return text_to_uint64(bytes + 1, &mark->bytes);
}

static bool recorded_refs_is_marked(const struct recorded_mark *mark, const char *before,
				    const char *lines)
{
	AUTO_STR struct str right = STR_INIT;
	AUTO_STR struct str is = STR_INIT;

	recorded_refs_add_mark(&right, before, mark->checksum, lines, mark->bytes);
	str_addf(&is, "%s %s %" PRIu64 "\n", mark->checksum, mark->digest, mark->bytes);
	return strcmp(right.data, is.data) == 0;
}

static void recorded_refs_add_line(struct str *out, const char *name, const char *target,
				   const struct oid *oid)
{
	if (target) {
		str_add(out, "ref: ");
		str_add(out, target);
	} else {
		oid_add_text(oid, out);
	}
	str_add_char(out, ' ');
	str_add(out, name);
	str_add_char(out, '\n');
}

void recorded_refs_add_lines(const struct ref_snapshot *snapshot, struct str *lines)
{
	recorded_refs_add_line(lines, "HEAD", snapshot->head_target, &snapshot->head_oid);
	for (size_t i = 0; i < snapshot->refs.count; i++) {
		const struct ref *ref = &snapshot->refs.items[i];
		recorded_refs_add_line(lines, ref->name, ref->target, &ref->oid);
	}
}

int recorded_refs_write(const char *data, uint64_t id, const char *checksum,
			const struct ref_snapshot *snapshot, struct err *err)
{
	AUTO_FREE char *path = recorded_refs_make_path(data, id);
	AUTO_STR struct str lines = STR_INIT;
	AUTO_STR struct str text = STR_INIT;

	recorded_refs_add_lines(snapshot, &lines);
	str_reserve(&text, lines.len + MARK_MOST);
	recorded_refs_add_mark(&text, "", checksum, lines.data, lines.len);
	str_add_bytes(&text, lines.data, lines.len);
	if (dir_make_parents(AT_FDCWD, path, err) != 0)
		return -1;
	return file_replace_private(AT_FDCWD, path, text.data, text.len, FILE_NO_SYNC,
				    err);
}

void recorded_refs_sweep(const char *data)
{
	AUTO_FREE char *folder = xasprintf("%s/refs", data);

	temporary_remove_all(folder);
}

void recorded_refs_remove(const char *data, uint64_t id)
{
	AUTO_FREE char *path = recorded_refs_make_path(data, id);

	unlink(path);
}

/* Up to MARK_MOST bytes; false: there are none. */
static bool recorded_refs_read_some(int fd, char text[MARK_MOST + 1], off_t at)
{
	ssize_t len = pread(fd, text, MARK_MOST, at);

	text[len > 0 ? len : 0] = '\0';
	return len > 0;
}

static uint64_t recorded_refs_room(uint64_t bytes)
{
	return bytes / 4 > APPEND_ROOM ? bytes / 4 : APPEND_ROOM;
}

/* Whether the file ends with the refs of that checksum, as far as its marks say, and has
 * room for `more` bytes of changes. */
static bool recorded_refs_may_append(int fd, const char *checksum, size_t more)
{
	char first[MARK_MOST + 1], last[MARK_MOST + 1];
	struct recorded_mark whole, mark;
	struct stat st;
	char *end, *line;

	if (fstat(fd, &st) != 0 || !recorded_refs_read_some(fd, first, 0) ||
	    (end = strchr(first, '\n')) == NULL)
		return false;
	*end = '\0';
	uint64_t size = (uint64_t)st.st_size, head = (uint64_t)(end + 1 - first);
	if (!recorded_refs_read_mark(first, &whole) || size < head + whole.bytes ||
	    size + more > head + whole.bytes + recorded_refs_room(whole.bytes))
		return false;
	if (size == head + whole.bytes)
		return strcmp(whole.checksum, checksum) == 0;
	if (!recorded_refs_read_some(fd, last, st.st_size - MARK_MOST) ||
	    last[MARK_MOST - 1] != '\n')
		return false;
	last[MARK_MOST - 1] = '\0';
	line = strrchr(last, '\n');
	return line && text_starts_with(line + 1, MARK) &&
	       recorded_refs_read_mark(line + 1 + strlen(MARK), &mark) &&
	       strcmp(mark.checksum, checksum) == 0;
}

static void recorded_refs_add_changes(const struct ref_diff *diff,
				      const struct ref_snapshot *after, struct str *lines)
{
	if (diff->head_changed)
		recorded_refs_add_line(lines, "HEAD", after->head_target,
				       &after->head_oid);
	for (size_t i = 0; i < diff->changes.count; i++) {
		const struct ref_change *change = &diff->changes.items[i];
		if (change->after)
			recorded_refs_add_line(lines, change->name, change->after->target,
					       &change->after->oid);
		else
			str_addf(lines, GONE "%s\n", change->name);
	}
}

bool recorded_refs_append(const char *data, uint64_t id,
			  const struct recorded_change *change)
{
	AUTO_FREE char *path = recorded_refs_make_path(data, id);
	AUTO_CLOSE int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	AUTO_STR struct str text = STR_INIT;

	if (fd < 0)
		return false;
	recorded_refs_add_changes(change->diff, change->after, &text);
	size_t len = text.len;
	str_add(&text, MARK);
	AUTO_STR struct str mark = STR_INIT;
	recorded_refs_add_mark(&mark, change->before_sum, change->after_sum, text.data,
			       len);
	str_add(&text, mark.data);
	return recorded_refs_may_append(fd, change->before_sum, text.len) &&
	       file_write_all(fd, text.data, text.len, path, ERR_IGNORED) == 0;
}

/* Names hold no spaces. */
static bool recorded_refs_parse_line(char *line, size_t oid_len, struct ref *ref)
{
	char *space = line + 2 * oid_len;

	*ref = (struct ref){ 0 };
	if (text_starts_with(line, GONE)) {
		ref->name = line + strlen(GONE);
		return true;
	}
	if (text_starts_with(line, "ref: ")) {
		space = strrchr(line, ' ');
		*space = '\0';
		ref->name = space + 1;
		ref->target = line + 5;
		return space > line + 5;
	}
	ref->name = space + 1;
	return strnlen(line, 2 * oid_len) == 2 * oid_len && *space == ' ' &&
	       oid_parse(line, oid_len, &ref->oid);
}

static void recorded_refs_set_head(struct ref_snapshot *snapshot, const struct ref *ref)
{
	free(snapshot->head_target);
	snapshot->head_target = ref->target ? xstrdup(ref->target) : NULL;
	snapshot->head_oid = ref->oid;
}

/* Up to `end`, before which a line ends. */
static bool recorded_refs_parse_lines(char *lines, const char *end, size_t oid_len,
				      struct ref_snapshot *snapshot)
{
	struct ref ref;
	char *stop;

	for (char *line = lines; line < end; line = stop + 1) {
		stop = memchr(line, '\n', (size_t)(end - line));
		if (!stop)
			return false;
		*stop = '\0';
		if (!recorded_refs_parse_line(line, oid_len, &ref))
			return false;
		if (strcmp(ref.name, "HEAD") == 0)
			recorded_refs_set_head(snapshot, &ref);
		else
			vec_add(&snapshot->refs, ref);
	}
	return true;
}

bool recorded_refs_parse(char *lines, size_t oid_len, struct ref_snapshot *snapshot)
{
	const char *end = strrchr(lines, '\n');

	return recorded_refs_parse_lines(lines, end ? end + 1 : lines, oid_len, snapshot);
}

/* A changed ref with the place that its line has among all: the last one counts. */
static int recorded_refs_order(const void *a, const void *b)
{
	const struct ref *left = a, *right = b;
	int order = strcmp(left->name, right->name);

	return order != 0 ? order : left->name < right->name ? -1 : 1;
}

static bool recorded_refs_is_gone(const struct ref *ref)
{
	return !ref->target && ref->oid.len == 0;
}

/* The refs from `whole` on are changes; all of them become one list. */
static void recorded_refs_settle(struct ref_snapshot *snapshot, size_t whole)
{
	struct ref *refs = snapshot->refs.items;
	size_t count = snapshot->refs.count, i = 0, j = whole;
	struct ref_snapshot all = REF_SNAPSHOT_INIT;

	if (whole == count)
		return;
	qsort(refs + whole, count - whole, sizeof(*refs), recorded_refs_order);
	vec_reserve(&all.refs, count);
	while (i < whole || j < count) {
		int order = i == whole   ? 1
			    : j == count ? -1
					 : strcmp(refs[i].name, refs[j].name);
		const struct ref *ref = order < 0 ? &refs[i] : &refs[j];
		bool is_last = order < 0 || j + 1 == count ||
			       strcmp(refs[j].name, refs[j + 1].name) != 0;
		if (is_last && !recorded_refs_is_gone(ref))
			vec_add(&all.refs, *ref);
		i += order < 0 || (order == 0 && is_last);
		j += order >= 0;
	}
	vec_clear(&snapshot->refs);
	snapshot->refs.items = all.refs.items;
	snapshot->refs.count = all.refs.count;
	snapshot->refs.capacity = all.refs.capacity;
}

/* Where the next mark begins, or NULL. */
static char *recorded_refs_find_mark(char *text)
{
	while (*text && !text_starts_with(text, MARK)) {
		char *stop = strchr(text, '\n');
		if (!stop)
			return NULL;
		text = stop + 1;
	}
	return *text ? text : NULL;
}

/* What was appended, as far as it is whole: the checksum that it ends with, or NULL. */
static const char *recorded_refs_follow(char *text, const char *checksum, size_t oid_len,
					struct ref_snapshot *snapshot)
{
	struct recorded_mark mark;
	char *line, *stop;

	while ((line = recorded_refs_find_mark(text)) != NULL &&
	       (stop = strchr(line, '\n')) != NULL) {
		*stop = '\0';
		if (!recorded_refs_read_mark(line + strlen(MARK), &mark) ||
		    mark.bytes != (uint64_t)(line - text) ||
		    !recorded_refs_is_marked(&mark, checksum, text))
			break;
		if (!recorded_refs_parse_lines(text, line, oid_len, snapshot))
			return NULL;
		checksum = mark.checksum;
		text = stop + 1;
	}
	return checksum;
}

/* The text is a file's, with a NUL behind it. */
static bool recorded_refs_parse_file(struct str *text, const char *checksum,
				     size_t oid_len, struct ref_snapshot *snapshot)
{
	struct recorded_mark mark;
	char *lines = strchr(text->data, '\n');
	const char *last;

	if (!lines)
		return false;
	*lines++ = '\0';
	size_t below = text->len - (size_t)(lines - text->data);
	if (!recorded_refs_read_mark(text->data, &mark))
		return false;
	if (mark.bytes == ALL_BYTES)
		mark.bytes = below;
	if (mark.bytes > below || !recorded_refs_is_marked(&mark, "", lines) ||
	    !recorded_refs_parse_lines(lines, lines + mark.bytes, oid_len, snapshot))
		return false;
	size_t whole = snapshot->refs.count;
	last = recorded_refs_follow(lines + mark.bytes, mark.checksum, oid_len, snapshot);
	if (!last || strcmp(last, checksum) != 0)
		return false;
	recorded_refs_settle(snapshot, whole);
	return true;
}

bool recorded_refs_read(const char *data, uint64_t id, const char *checksum,
			size_t oid_len, struct ref_snapshot *snapshot)
{
	AUTO_FREE char *path = recorded_refs_make_path(data, id);
	AUTO_STR struct str text = STR_INIT;

	*snapshot = (struct ref_snapshot)REF_SNAPSHOT_INIT;
	if (file_read(AT_FDCWD, path, LIMIT, &text, ERR_IGNORED) != 0)
		return false;
	bool is_whole = recorded_refs_parse_file(&text, checksum, oid_len, snapshot);
	vec_add(&snapshot->texts, str_take(&text));
	if (!is_whole)
		ref_snapshot_clear(snapshot);
	return is_whole;
}
