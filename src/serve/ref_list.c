/*
 * The list is an index into the advertisement. A line of protocol 0 is, byte for byte,
 * the line of ls-refs for a ref of which nothing more is to be said; so runs of such refs
 * are copied whole, and only the others are put together: symbolic refs, tags (whose
 * object follows in a line of its own, "<oid> <name>^{}"), and the first line, which also
 * has the capabilities.
 *
 * Git shows the same refs by both ways: neither has symbolic refs that lead nowhere,
 * both have broken refs, as a zero. HEAD stands outside of the order, and only in ls-refs
 * can it be unborn.
 */
#include "serve/ref_list.h"

#include "base/str.h"
#include "git/pkt_line.h"

/*
 * Git 2.39's serve.c and ls-refs.c are the measure: a request that git would refuse, or
 * for which we cannot be sure, is left to git, whose own words the client then gets.
 */

/* From so many lines with a prefix on, git forgets them all and shows every ref. */
enum { TOO_MANY_PREFIXES = 65536 };

struct reading {
	struct pkt_reader reader;
	struct ls_refs *request;
	size_t prefix_lines;
	size_t oid_digits;
	unsigned seen; /* bits: capabilities[] that were there */
};

/* Those with "=" at their end take any value. */
static const char *const capabilities[] = {
	"command=ls-refs", "object-format=sha1", "object-format=sha256",
	"agent=",          "session-id=",
};

enum {
	SEEN_COMMAND = 1 << 0,
	SEEN_SHA1 = 1 << 1,
	SEEN_SHA256 = 1 << 2,
};

static bool ls_refs_is_text(const char *line, size_t len, const char *text)
{
	return len == strlen(text) && memcmp(line, text, len) == 0;
}

static bool ls_refs_begins_with(const char *line, size_t len, const char *text)
{
	return len >= strlen(text) && memcmp(line, text, strlen(text)) == 0;
}

/* The next line without its newline, which may be missing. Git takes lines for C
 * strings, so that a NUL would cut them. */
static enum pkt ls_refs_next_line(struct reading *reading, const char **line, size_t *len)
{
	enum pkt pkt = pkt_next(&reading->reader, line, len);

	if (pkt != PKT_LINE)
		return pkt;
	if (*len > 0 && (*line)[*len - 1] == '\n')
		(*len)--;
	return memchr(*line, '\0', *len) ? PKT_BROKEN : PKT_LINE;
}

static bool ls_refs_read_capability(struct reading *reading, const char *line, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(capabilities); i++) {
		const char *text = capabilities[i];
		if (text_ends_with(text, "=") ? !ls_refs_begins_with(line, len, text)
					      : !ls_refs_is_text(line, len, text))
			continue;
		if (reading->seen & 1u << i)
			return false;
		reading->seen |= 1u << i;
		return true;
	}
	return false;
}

/* What ends them: PKT_FLUSH, PKT_DELIMITER, or PKT_BROKEN. */
static enum pkt ls_refs_read_capabilities(struct reading *reading)
{
	const char *line;
	size_t len;
	enum pkt pkt;

	while ((pkt = ls_refs_next_line(reading, &line, &len)) == PKT_LINE)
		if (!ls_refs_read_capability(reading, line, len))
			return PKT_BROKEN;
	return pkt;
}

/* Without a word of it, the client means SHA-1. */
static bool is_format_right(const struct reading *reading)
{
	if ((reading->seen & SEEN_SHA1) && (reading->seen & SEEN_SHA256))
		return false;
	return reading->oid_digits == (reading->seen & SEEN_SHA256 ? 64 : 40);
}

static void add_prefix(struct reading *reading, const char *text, size_t len)
{
	char *prefix;

	if (++reading->prefix_lines >= TOO_MANY_PREFIXES)
		return;
	prefix = xstrndup(text, len);
	vec_add(&reading->request->prefixes, prefix);
}

static bool read_argument(struct reading *reading, const char *line, size_t len)
{
	static const char ref_prefix[] = "ref-prefix ";
	size_t skipped = sizeof(ref_prefix) - 1;

	if (ls_refs_is_text(line, len, "peel"))
		reading->request->wants_peeled = true;
	else if (ls_refs_is_text(line, len, "symrefs"))
		reading->request->wants_symrefs = true;
	else if (ls_refs_is_text(line, len, "unborn"))
		reading->request->wants_unborn = true;
	else if (ls_refs_begins_with(line, len, ref_prefix))
		add_prefix(reading, line + skipped, len - skipped);
	else
		return false;
	return true;
}

static bool read_arguments(struct reading *reading)
{
	const char *line;
	size_t len;
	enum pkt pkt;

	while ((pkt = ls_refs_next_line(reading, &line, &len)) == PKT_LINE)
		if (!read_argument(reading, line, len))
			return false;
	return pkt == PKT_FLUSH;
}

static bool read_request(struct reading *reading)
{
	enum pkt pkt = ls_refs_read_capabilities(reading);

	if (!(reading->seen & SEEN_COMMAND) || !is_format_right(reading))
		return false;
	if (pkt == PKT_DELIMITER ? !read_arguments(reading) : pkt != PKT_FLUSH)
		return false;
	return reading->reader.left == 0;
}

static void drop_prefixes(struct ls_refs *request)
{
	vec_clear_owned(&request->prefixes);
}

/* In order, what a prefix stands before follows it at once. */
static void reduce_prefixes(struct ls_refs *request)
{
	char **items = request->prefixes.items;
	size_t kept = 0;

	vec_sort(&request->prefixes, text_list_order);
	for (size_t i = 0; i < request->prefixes.count; i++)
		if (kept > 0 && text_starts_with(items[i], items[kept - 1]))
			free(items[i]);
		else
			items[kept++] = items[i];
	request->prefixes.count = kept;
}

bool ls_refs_parse(const char *body, size_t len, size_t oid_digits,
		   struct ls_refs *request)
{
	struct reading reading = {
		.reader = { body, len },
		.request = request,
		.oid_digits = oid_digits,
	};

	*request = (struct ls_refs){ 0 };
	if (!read_request(&reading)) {
		ls_refs_clear(request);
		return false;
	}
	if (reading.prefix_lines >= TOO_MANY_PREFIXES)
		drop_prefixes(request);
	reduce_prefixes(request);
	return true;
}

void ls_refs_clear(struct ls_refs *request)
{
	drop_prefixes(request);
	*request = (struct ls_refs){ 0 };
}

int git_protocol_version(const char *header)
{
	static const char key[] = "version=";
	int version = 0;

	while (header && *header) {
		size_t len = strcspn(header, ":");
		char digit = header[len > 0 ? len - 1 : 0];
		if (len == sizeof(key) && ls_refs_begins_with(header, len, key) &&
		    (digit == '1' || digit == '2') && digit - '0' > version)
			version = digit - '0';
		header += len + (header[len] == ':');
	}
	return version;
}

enum {
	NAME_LIMIT = 16 << 10, /* PATH_MAX is git's; so that no line gets too long */
	SYMBOLIC_READS = 5,    /* so many refs git reads to find what one stands for */
};

struct entry {
	size_t at;         /* of its pkt-line */
	uint32_t symbolic; /* 1 + index in targets; 0: it is none */
	uint16_t name_len;
	bool has_peeled; /* in the next pkt-line */
	bool has_capabilities;
};

struct ref_list {
	const char *bytes; /* borrowed */
	size_t end;        /* of the refs in it; what follows is no ref */
	size_t digits;     /* of an object's name; 0: there is none */
	bool has_head;
	struct entry head;
	const char *unborn;     /* what an unborn HEAD names, or NULL; in targets */
	VEC(struct entry) refs; /* without HEAD */
	VEC(char *) targets;    /* owned */
};

struct name {
	const char *text;
	size_t len;
};

static struct name ref_list_entry_name(const struct ref_list *list,
				       const struct entry *entry)
{
	return (struct name){ list->bytes + entry->at + 4 + list->digits + 1,
			      entry->name_len };
}

static int ref_list_compare_names(struct name a, struct name b)
{
	size_t len = a.len < b.len ? a.len : b.len;
	int order = memcmp(a.text, b.text, len);

	return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static bool is_name(struct name name, const char *text)
{
	return name.len == strlen(text) && memcmp(name.text, text, name.len) == 0;
}

static bool starts_with(struct name name, struct name prefix)
{
	return name.len >= prefix.len && memcmp(name.text, prefix.text, prefix.len) == 0;
}

/* --- parsing --- */

struct parse {
	struct ref_list *list;
	struct pkt_reader reader;
	struct entry *last;   /* the ref that a peeled object would belong to */
	bool is_shallow_part; /* after the refs: where history is cut */
	struct err *err;
};

static int ref_list_refuse(struct parse *parse, const char *why)
{
	err_set(parse->err, ERR_CORRUPT, "git's list of refs is not understood: %s", why);
	return err_remedy(parse->err,
			  "run git upload-pack --http-backend-info-refs in the "
			  "repository and look at what it writes");
}

/* No digit ends the loop early, so that compilers can test many at once. */
static bool has_oid(const char *line, size_t len, size_t digits)
{
	bool is_good = true;

	if (len <= digits || line[digits] != ' ')
		return false;
	for (size_t i = 0; i < digits; i++) {
		unsigned char c = (unsigned char)line[i];
		is_good &= (unsigned char)(c - '0') < 10 || (unsigned char)(c - 'a') < 6;
	}
	return is_good;
}

static bool is_zero(const char *line, size_t digits)
{
	return strspn(line, "0") >= digits;
}

/* "HEAD^{}" after "HEAD". A file of refs/ with such a name is a broken ref to git, which
 * it shows as zero. */
static bool is_peeled(const struct parse *parse, const char *line, struct name name)
{
	struct name last;

	if (!parse->last || parse->last->has_peeled)
		return false;
	last = ref_list_entry_name(parse->list, parse->last);
	return name.len == last.len + 3 && starts_with(name, last) &&
	       memcmp(name.text + last.len, "^{}", 3) == 0 &&
	       !is_zero(line, parse->list->digits);
}

static int ref_list_add_entry(struct parse *parse, struct name name,
			      const struct entry *entry)
{
	struct ref_list *list = parse->list;

	if (!parse->last && is_name(name, "HEAD")) {
		list->head = *entry;
		list->has_head = true;
		parse->last = &list->head;
		return 0;
	}
	if (list->refs.count > 0 &&
	    ref_list_compare_names(
		    ref_list_entry_name(list, &list->refs.items[list->refs.count - 1]),
		    name) >= 0)
		return ref_list_refuse(parse, "they are not in order");
	if (list->refs.count == UINT32_MAX)
		return ref_list_refuse(parse, "there are too many");
	vec_add(&list->refs, *entry);
	parse->last = &list->refs.items[list->refs.count - 1];
	return 0;
}

/* `line` without its newline. */
static int parse_ref(struct parse *parse, const char *line, size_t len,
		     bool has_capabilities)
{
	struct ref_list *list = parse->list;
	struct name name;

	if (!has_oid(line, len, list->digits))
		return ref_list_refuse(parse,
				       "a line does not begin with an object's name");
	name = (struct name){ line + list->digits + 1, len - list->digits - 1 };
	if (name.len == 0 || name.len > NAME_LIMIT || memchr(name.text, '\0', name.len))
		return ref_list_refuse(parse, "a name is empty, too long, or has a NUL");
	if (has_capabilities && is_name(name, "capabilities^{}"))
		return 0; /* how newer versions say that there is none */
	if (is_peeled(parse, line, name)) {
		parse->last->has_peeled = true;
		return 0;
	}
	return ref_list_add_entry(parse, name,
				  &(struct entry){
					  .at = (size_t)(line - 4 - list->bytes),
					  .name_len = (uint16_t)name.len,
					  .has_capabilities = has_capabilities,
				  });
}

static int parse_first(struct parse *parse, const char *line, size_t len)
{
	const char *nul = memchr(line, '\0', len);
	const char *space = memchr(line, ' ', len);

	if (!nul || !space || (space - line != 40 && space - line != 64))
		return ref_list_refuse(parse, "the first line has no capabilities");
	parse->list->digits = (size_t)(space - line);
	return parse_ref(parse, line, (size_t)(nul - line), true);
}

static int ref_list_parse_line(struct parse *parse, const char *line, size_t len)
{
	static const char shallow[] = "shallow ";
	size_t at = (size_t)(line - 4 - parse->list->bytes);

	if (len >= sizeof(shallow) && memcmp(line, shallow, sizeof(shallow) - 1) == 0) {
		parse->is_shallow_part = true;
		return 0;
	}
	if (parse->is_shallow_part)
		return ref_list_refuse(parse, "refs follow after its end");
	if (len == 0 || line[len - 1] != '\n')
		return ref_list_refuse(parse, "a line has no end");
	parse->list->end = at + 4 + len;
	if (at == 0)
		return parse_first(parse, line, len);
	return parse_ref(parse, line, len - 1, false);
}

static int ref_list_parse_lines(struct parse *parse)
{
	const char *line;
	size_t len;
	enum pkt pkt;

	while ((pkt = pkt_next(&parse->reader, &line, &len)) == PKT_LINE)
		if (ref_list_parse_line(parse, line, len) != 0)
			return -1;
	if (pkt != PKT_FLUSH || parse->reader.left > 0)
		return ref_list_refuse(parse, "it does not end where it should");
	return 0;
}

/* The place of the first ref that is not before `name`. */
static size_t lower_bound(const struct ref_list *list, size_t low, struct name name)
{
	size_t high = list->refs.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (ref_list_compare_names(
			    ref_list_entry_name(list, &list->refs.items[middle]), name) <
		    0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct entry *ref_list_find_entry(struct ref_list *list, const char *text)
{
	struct name name = { text, strlen(text) };
	size_t at = lower_bound(list, 0, name);

	if (at == list->refs.count ||
	    ref_list_compare_names(ref_list_entry_name(list, &list->refs.items[at]),
				   name) != 0)
		return NULL;
	return &list->refs.items[at];
}

/* --- symbolic refs --- */

ORDER_BY_TEXT(by_symbolic_name, struct ref_symbolic, name);

static const struct ref_symbolic *find_symbolic(const struct ref_symbolic *symbolic,
						size_t count, const char *name)
{
	struct ref_symbolic key = { .name = name };

	return count == 0 ? NULL
			  : bsearch(&key, symbolic, count, sizeof(key), by_symbolic_name);
}

/* What it finally names, be it there or not; NULL: too far away, or round in circles. */
static const char *ref_list_follow_symbolic(const struct ref_symbolic *symbolic,
					    size_t count, const struct ref_symbolic *from)
{
	for (int reads = 1; reads < SYMBOLIC_READS; reads++) {
		const struct ref_symbolic *next =
			find_symbolic(symbolic, count, from->target);
		if (!next)
			return from->target;
		from = next;
	}
	return NULL;
}

static const char *keep_target(struct ref_list *list, const char *target)
{
	char *copy = xstrdup(target);

	vec_add(&list->targets, copy);
	return copy;
}

/* HEAD is unborn if what it names is not there. A broken ref is: git then says nothing
 * of HEAD. One that holds a zero it takes for unborn. */
static void note_head(struct ref_list *list, const char *target)
{
	if (list->has_head) {
		keep_target(list, target);
		list->head.symbolic = (uint32_t)list->targets.count;
	} else if (!ref_list_find_entry(list, target) && ref_name_is_valid(target)) {
		list->unborn = keep_target(list, target);
	}
}

static void note_symbolic(struct ref_list *list, const char *name, const char *target)
{
	struct entry *entry = ref_list_find_entry(list, name);

	if (!entry)
		return;
	keep_target(list, target);
	entry->symbolic = (uint32_t)list->targets.count;
}

static int note_all_symbolic(struct parse *parse, const struct ref_symbolic *symbolic,
			     size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const char *target =
			ref_list_follow_symbolic(symbolic, count, &symbolic[i]);
		if (!target)
			continue;
		if (strlen(target) > NAME_LIMIT)
			return ref_list_refuse(parse,
					       "a symbolic ref's target is too long");
		if (strcmp(symbolic[i].name, "HEAD") == 0)
			note_head(parse->list, target);
		else
			note_symbolic(parse->list, symbolic[i].name, target);
	}
	return 0;
}

static void drop_zero_head(struct ref_list *list)
{
	if (!list->has_head || !is_zero(list->bytes + list->head.at + 4, list->digits))
		return;
	list->has_head = false;
	if (list->head.symbolic)
		list->unborn = list->targets.items[list->head.symbolic - 1];
}

static void shrink(struct ref_list *list)
{
	if (list->refs.count == 0)
		return;
	list->refs.items =
		xrealloc(list->refs.items, list->refs.count * sizeof(*list->refs.items));
	list->refs.capacity = list->refs.count;
}

struct ref_list *ref_list_parse(const char *bytes, size_t len,
				const struct ref_symbolic *symbolic, size_t count,
				struct err *err)
{
	struct ref_list *list = xcalloc(1, sizeof(*list));
	struct parse parse = { .list = list, .reader = { bytes, len }, .err = err };

	list->bytes = bytes;
	if (ref_list_parse_lines(&parse) != 0 ||
	    note_all_symbolic(&parse, symbolic, count) != 0) {
		ref_list_free(list);
		return NULL;
	}
	drop_zero_head(list);
	shrink(list);
	return list;
}

void ref_list_free(struct ref_list *list)
{
	if (!list)
		return;
	vec_clear_owned(&list->targets);
	vec_clear(&list->refs);
	free(list);
}

size_t ref_list_count(const struct ref_list *list)
{
	return list->refs.count;
}

size_t ref_list_size(const struct ref_list *list)
{
	size_t size = sizeof(*list) + list->refs.capacity * sizeof(*list->refs.items) +
		      list->targets.capacity * sizeof(*list->targets.items);

	for (size_t i = 0; i < list->targets.count; i++)
		size += strlen(list->targets.items[i]) + 1;
	return size;
}

/* --- answering --- */

static bool ref_list_is_plain(const struct entry *entry, const struct ls_refs *request)
{
	return !entry->has_peeled && !entry->has_capabilities &&
	       !(entry->symbolic && request->wants_symrefs);
}

static void add_symref(const char *target, struct str *out)
{
	str_add(out, " symref-target:");
	str_add(out, target);
}

static void ref_list_add_ref(const struct ref_list *list, const struct entry *entry,
			     const struct ls_refs *request, struct str *out)
{
	struct pkt_reader reader = { list->bytes + entry->at, list->end - entry->at };
	const char *line;
	size_t len, begin = pkt_begin(out);

	pkt_next(&reader, &line, &len);
	str_add_bytes(out, line, list->digits + 1 + entry->name_len);
	if (entry->symbolic && request->wants_symrefs)
		add_symref(list->targets.items[entry->symbolic - 1], out);
	if (entry->has_peeled && request->wants_peeled) {
		pkt_next(&reader, &line, &len);
		str_add(out, " peeled:");
		str_add_bytes(out, line, list->digits);
	}
	str_add_char(out, '\n');
	pkt_end(out, begin);
}

static size_t ref_list_offset_of(const struct ref_list *list, size_t i)
{
	return i < list->refs.count ? list->refs.items[i].at : list->end;
}

/* A run of plain refs from `i` on, as far as it begins in the next `most` bytes; what
 * follows it. What protocol 0 says of them is nearly never shorter. */
static size_t add_plain(const struct ref_list *list, const struct ref_cursor *cursor,
			const struct ls_refs *request, size_t most, struct str *out)
{
	size_t i = cursor->at, begin = ref_list_offset_of(list, i);

	while (i < cursor->end && ref_list_is_plain(&list->refs.items[i], request) &&
	       ref_list_offset_of(list, i) - begin < most)
		i++;
	str_add_bytes(out, list->bytes + begin, ref_list_offset_of(list, i) - begin);
	return i;
}

/* Refs of the cursor's range, until there are `most` bytes or a ref more. */
static void add_range(const struct ref_list *list, struct ref_cursor *cursor,
		      const struct ls_refs *request, size_t most, struct str *out)
{
	size_t limit = out->len + most;
	size_t all = ref_list_offset_of(list, cursor->end) -
		     ref_list_offset_of(list, cursor->at);

	str_reserve(out, all < most ? all : most);
	while (cursor->at < cursor->end && out->len < limit) {
		cursor->at = add_plain(list, cursor, request, limit - out->len, out);
		if (cursor->at < cursor->end && out->len < limit)
			ref_list_add_ref(list, &list->refs.items[cursor->at++], request,
					 out);
	}
}

/* The place of the first ref from `low` on that does not start with `prefix`; all before
 * it do. Looks near `low` first, since most prefixes are narrow. */
static size_t prefix_end(const struct ref_list *list, size_t low, struct name prefix)
{
	size_t high = list->refs.count, step = 1;

	while (low + step < high &&
	       starts_with(ref_list_entry_name(list, &list->refs.items[low + step]),
			   prefix)) {
		low += step;
		step *= 2;
	}
	if (low + step < high)
		high = low + step;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (starts_with(ref_list_entry_name(list, &list->refs.items[middle]),
				prefix))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool shows_head(const struct ls_refs *request)
{
	if (request->prefixes.count == 0)
		return true;
	for (size_t i = 0; i < request->prefixes.count; i++)
		if (text_starts_with("HEAD", request->prefixes.items[i]))
			return true;
	return false;
}

static void ref_list_add_head(const struct ref_list *list, const struct ls_refs *request,
			      struct str *out)
{
	size_t begin;

	if (list->has_head) {
		ref_list_add_ref(list, &list->head, request, out);
	} else if (list->unborn && request->wants_unborn && request->wants_symrefs) {
		begin = pkt_begin(out);
		str_add(out, "unborn HEAD");
		add_symref(list->unborn, out);
		str_add_char(out, '\n');
		pkt_end(out, begin);
	}
}

/* HEAD, and all refs if they are all asked for. */
static void begin_answer(const struct ref_list *list, const struct ls_refs *request,
			 struct ref_cursor *cursor, struct str *out)
{
	cursor->is_begun = true;
	if (shows_head(request))
		ref_list_add_head(list, request, out);
	if (request->prefixes.count == 0)
		cursor->end = list->refs.count;
}

static bool next_range(const struct ref_list *list, const struct ls_refs *request,
		       struct ref_cursor *cursor)
{
	if (cursor->prefix == request->prefixes.count)
		return false;
	const char *text = request->prefixes.items[cursor->prefix++];
	struct name prefix = { text, strlen(text) };
	cursor->at = lower_bound(list, cursor->end, prefix);
	cursor->end = prefix_end(list, cursor->at, prefix);
	return true;
}

bool ref_list_part(const struct ref_list *list, const struct ls_refs *request,
		   struct ref_cursor *cursor, size_t most, struct str *out)
{
	size_t limit = out->len + most;

	if (!cursor->is_begun)
		begin_answer(list, request, cursor, out);
	while (out->len < limit) {
		if (cursor->at < cursor->end) {
			add_range(list, cursor, request, limit - out->len, out);
		} else if (!next_range(list, request, cursor)) {
			pkt_add_flush(out);
			return false;
		}
	}
	return true;
}

void ref_list_answer(const struct ref_list *list, const struct ls_refs *request,
		     struct str *out)
{
	struct ref_cursor cursor = { 0 };

	ref_list_part(list, request, &cursor, SIZE_MAX / 2, out);
}
