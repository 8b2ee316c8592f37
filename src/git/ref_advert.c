#include "git/ref_advert.h"

#include "git/pkt_line.h"

#define UPLOAD "# service=git-upload-pack"
#define RECEIVE "# service=git-receive-pack"
#define PEELED "^{}"

struct advert {
	struct ref_snapshot *refs;
	size_t oid_len; /* 0: not known yet */
	struct oid head;
	bool has_head;
	char *head_target;  /* owned */
	char *capabilities; /* likewise */
};

static int advert_fail(struct err *err, const char *what)
{
	err_set(err, ERR_CORRUPT, "the list of refs cannot be read: %s", what);
	return err_remedy(err, "see whether the URL is that of a Git repository");
}

/* Both hashes, told apart by where the digits end. */
static int advert_read_oid(struct advert *advert, const char *line, size_t len, char end,
			   struct oid *oid, struct err *err)
{
	const char *at = memchr(line, end, len);
	size_t digits = at ? (size_t)(at - line) : 0;

	if ((digits != 40 && digits != 64) || !oid_parse(line, digits / 2, oid))
		return advert_fail(err, "a line without an object's name");
	if (advert->oid_len != 0 && advert->oid_len != digits / 2)
		return advert_fail(err, "objects of two hashes");
	advert->oid_len = digits / 2;
	return 0;
}

/* The last ref's, which is told right before. */
static int advert_add_peeled(struct advert *advert, const char *name, size_t len,
			     const struct oid *oid, struct err *err)
{
	struct ref *last =
		advert->refs->refs.count > 0
			? &advert->refs->refs.items[advert->refs->refs.count - 1]
			: NULL;

	if (len == 4 && memcmp(name, "HEAD", 4) == 0)
		return 0;
	if (!last || strlen(last->name) != len || memcmp(last->name, name, len) != 0)
		return advert_fail(err, "the object behind a tag comes without the tag");
	last->peeled = *oid;
	last->peel = REF_PEEL_TAG;
	return 0;
}

static int advert_add(struct advert *advert, const char *name, size_t len,
		      const struct oid *oid, struct err *err)
{
	const size_t mark = sizeof(PEELED) - 1;
	struct ref ref = { .oid = *oid, .peel = REF_PEEL_SELF };

	if (len > mark && memcmp(name + len - mark, PEELED, mark) == 0)
		return advert_add_peeled(advert, name, len - mark, oid, err);
	if (len == 4 && memcmp(name, "HEAD", 4) == 0) {
		advert->head = *oid;
		advert->has_head = true;
		return 0;
	}
	if (memchr(name, '\0', len))
		return advert_fail(err, "a ref's name has a NUL byte");
	ref.name = ref_snapshot_keep(advert->refs, name, len);
	if (!ref_name_is_valid(ref.name))
		return advert_fail(err, "a name that git does not take for a ref");
	vec_add(&advert->refs->refs, ref);
	return 0;
}

/* "symref=HEAD:refs/heads/main" is among them. */
static void advert_read_capabilities(struct advert *advert, const char *text, size_t len)
{
	static const char word[] = "symref=HEAD:";
	const char *end = text + len;

	advert->capabilities = xasprintf(" %.*s ", (int)len, text);
	while (text < end) {
		const char *space = memchr(text, ' ', (size_t)(end - text));
		size_t count = (size_t)((space ? space : end) - text);
		if (count > sizeof(word) - 1 &&
		    memcmp(text, word, sizeof(word) - 1) == 0 && !advert->head_target)
			advert->head_target =
				xasprintf("%.*s", (int)(count - (sizeof(word) - 1)),
					  text + sizeof(word) - 1);
		text += count + 1;
	}
}

static int advert_read_line(struct advert *advert, const char *line, size_t len,
			    bool is_first, struct err *err)
{
	struct oid oid;
	const char *nul;

	if (len > 0 && line[len - 1] == '\n')
		len--;
	if (advert_read_oid(advert, line, len, ' ', &oid, err) != 0)
		return -1;
	line += 2 * advert->oid_len + 1;
	len -= 2 * advert->oid_len + 1;
	nul = is_first ? memchr(line, '\0', len) : NULL;
	if (nul) {
		advert_read_capabilities(advert, nul + 1, len - (size_t)(nul + 1 - line));
		len = (size_t)(nul - line);
	}
	if (oid_is_null(&oid) && len == 15 && memcmp(line, "capabilities^{}", len) == 0)
		return 0; /* a repository without refs */
	if (len == 5 && memcmp(line, ".have", 5) == 0)
		return 0; /* what a repository that it borrows from has */
	return advert_add(advert, line, len, &oid, err);
}

/* Servers tell refs in order; whoever does not has them sorted here. */
static int advert_sort(struct advert *advert, struct err *err)
{
	struct ref_snapshot *refs = advert->refs;

	vec_sort(&refs->refs, ref_compare_names);
	for (size_t i = 1; i < refs->refs.count; i++)
		if (strcmp(refs->refs.items[i - 1].name, refs->refs.items[i].name) == 0)
			return advert_fail(err, "a ref comes twice");
	return 0;
}

static const char *advert_guess_branch(const struct ref_snapshot *refs)
{
	static const char *const usual[] = { "refs/heads/main", "refs/heads/master" };

	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		if (ref_snapshot_find(refs, usual[i]))
			return usual[i];
	for (size_t i = 0; i < refs->refs.count; i++)
		if (text_starts_with(refs->refs.items[i].name, "refs/heads/"))
			return refs->refs.items[i].name;
	return usual[0];
}

static int advert_set_head(struct advert *advert, struct err *err)
{
	if (advert->head_target && !ref_name_is_valid(advert->head_target))
		return advert_fail(err, "HEAD names no ref");
	if (advert->head_target)
		advert->refs->head_target = TAKE(advert->head_target);
	else if (advert->has_head)
		advert->refs->head_oid = advert->head;
	else
		advert->refs->head_target = xstrdup(advert_guess_branch(advert->refs));
	return 0;
}

/* What was read of it, put in order; or nothing. */
static int advert_end(struct advert *advert, int result, size_t *oid_len, struct err *err)
{
	if (result == 0)
		result = advert_sort(advert, err);
	if (result == 0)
		result = advert_set_head(advert, err);
	if (result == 0 && advert->oid_len != 0)
		*oid_len = advert->oid_len;
	if (result != 0)
		ref_snapshot_clear(advert->refs);
	oid_list_tidy(&advert->refs->cuts);
	free(advert->head_target);
	free(advert->capabilities);
	return result;
}

/* "shallow <oid>", behind the refs. 0: it is none. */
static int advert_take_cut(struct advert *advert, const char *line, size_t len,
			   struct err *err)
{
	static const char word[] = "shallow ";
	const size_t mark = sizeof(word) - 1, digits = 2 * advert->oid_len;
	struct oid oid;

	if (len < mark || memcmp(line, word, mark) != 0)
		return 0;
	len -= line[len - 1] == '\n';
	if (len != mark + digits || !oid_parse(line + mark, advert->oid_len, &oid))
		return advert_fail(err, "a line of no cut");
	vec_add(&advert->refs->cuts, oid);
	return 1;
}

/* The lines up to the flush packet that ends them. */
static int advert_read_lines(struct advert *advert, struct pkt_reader *reader,
			     struct err *err)
{
	const char *line;
	size_t len;

	for (bool is_first = true;; is_first = false) {
		enum pkt pkt = pkt_next(reader, &line, &len);
		if (pkt == PKT_FLUSH)
			return 0;
		if (pkt != PKT_LINE)
			return advert_fail(err, "it was cut short, or is none");
		if (is_first && len >= 7 && memcmp(line, "version", 7) == 0)
			return advert_fail(err, "it is of another protocol version");
		int taken = is_first ? 0 : advert_take_cut(advert, line, len, err);
		if (taken < 0 || (taken == 0 && advert_read_line(advert, line, len,
								 is_first, err) != 0))
			return -1;
	}
}

static int advert_read_service(struct pkt_reader *reader, const char *service,
			       struct err *err)
{
	const char *line;
	size_t len;

	if (pkt_next(reader, &line, &len) != PKT_LINE || len < strlen(service) ||
	    memcmp(line, service, strlen(service)) != 0 ||
	    pkt_next(reader, &line, &len) != PKT_FLUSH)
		return advert_fail(err, "the server does not speak Git's smart HTTP");
	return 0;
}

int ref_advert_read(const char *bytes, size_t len, struct ref_snapshot *refs,
		    size_t *oid_len, struct err *err)
{
	struct pkt_reader reader = { bytes, len };
	struct advert advert = { .refs = refs };
	int result = advert_read_service(&reader, UPLOAD, err);

	*refs = (struct ref_snapshot)REF_SNAPSHOT_INIT;
	*oid_len = 20;
	if (result == 0)
		result = advert_read_lines(&advert, &reader, err);
	return advert_end(&advert, result, oid_len, err);
}

int push_advert_read(const char *bytes, size_t len, struct push_advert *push,
		     struct err *err)
{
	struct pkt_reader reader = { bytes, len };
	struct advert advert = { .refs = &push->refs };
	int result = advert_read_service(&reader, RECEIVE, err);

	*push = (struct push_advert){ .oid_len = 20 };
	if (result == 0)
		result = advert_read_lines(&advert, &reader, err);
	if (result == 0)
		push->capabilities = TAKE(advert.capabilities);
	return advert_end(&advert, result, &push->oid_len, err);
}

/* Each stands between two spaces. */
bool push_advert_has(const struct push_advert *push, const char *capability)
{
	AUTO_FREE char *word = xasprintf(" %s", capability);
	const char *at = push->capabilities ? push->capabilities : "";

	while ((at = strstr(at, word)) != NULL) {
		at += strlen(word);
		if (*at == ' ' || *at == '=')
			return true;
	}
	return false;
}

void push_advert_clear(struct push_advert *push)
{
	ref_snapshot_clear(&push->refs);
	free(push->capabilities);
	*push = (struct push_advert){ 0 };
}

/* "ref: refs/heads/main\tHEAD"; of other symbolic refs the value is a line of its own. */
static bool advert_take_symref(struct advert *advert, const char *line, size_t len)
{
	const char *tab = memchr(line, '\t', len);

	if (len < 5 || memcmp(line, "ref: ", 5) != 0)
		return false;
	if (tab && tab > line + 5 && len - (size_t)(tab + 1 - line) == 4 &&
	    memcmp(tab + 1, "HEAD", 4) == 0 && !advert->head_target)
		advert->head_target = xasprintf("%.*s", (int)(tab - line - 5), line + 5);
	return true;
}

static int advert_take_listed(struct advert *advert, const char *line, size_t len,
			      struct err *err)
{
	struct oid oid;

	if (advert_take_symref(advert, line, len))
		return 0;
	if (advert_read_oid(advert, line, len, '\t', &oid, err) != 0)
		return -1;
	return advert_add(advert, line + 2 * advert->oid_len + 1,
			  len - 2 * advert->oid_len - 1, &oid, err);
}

int ref_advert_read_listing(const char *text, size_t len, struct ref_snapshot *refs,
			    size_t *oid_len, struct err *err)
{
	struct advert advert = { .refs = refs };
	const char *end = text + len;
	int result = 0;

	*refs = (struct ref_snapshot)REF_SNAPSHOT_INIT;
	while (text < end && result == 0) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t count = (size_t)((stop ? stop : end) - text);
		result = advert_take_listed(&advert, text, count, err);
		text += count + 1;
	}
	return advert_end(&advert, result, oid_len, err);
}
