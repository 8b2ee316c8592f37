/*
 * Protocol 0 tells every ref that a client may see, and git's own word decides which
 * these are. What it does not tell is which of them are symbolic: that is read from the
 * files. Both are of the same moment if the repository stood still, which is for the
 * caller to ask.
 *
 * Capabilities depend on git's version, which protocol 0 tells, and on the configuration.
 * They are remembered only if nobody wrote that while git read it: else the memory would
 * outlive the moment, and so would the mistake.
 */
#include "serve/fill.h"

#include <fcntl.h>

#include "base/clock.h"
#include "git/pkt_line.h"
#include "git/refs.h"
#include "git/repo.h"
#include "serve/capabilities.h"
#include "serve/shelf.h"
#include "serve/upload_pack.h"

enum {
	CHUNK = 64 << 10,
	CAPABILITIES_MAX = 64 << 10,
	SYMBOLIC_READS = 5, /* git's SYMREF_MAXDEPTH */
	AGENT_MAX = 256,
};

/* What runs of git for one fill have in common. */
struct filling {
	const struct fill_request *request;
	int64_t until; /* 0: none */
};

static int64_t fill_time_left(const struct filling *filling)
{
	int64_t left = filling->until - clock_boot_ms();

	return filling->until == 0 ? 0 : left > 0 ? left : 1;
}

static ssize_t read_some(struct upload_pack *pack, struct str *out, struct err *err)
{
	str_reserve(out, CHUNK);
	ssize_t got = upload_pack_read(pack, out->data + out->len, CHUNK, err);
	if (got > 0)
		out->len += (size_t)got;
	out->data[out->len] = '\0';
	return got;
}

/* All that git says to the end. grow may be NULL. */
static int fill_ask_git(const struct filling *filling, const char *protocol,
			void (*grow)(void *arg, const char *bytes, size_t len),
			struct str *out, struct err *err)
{
	const struct upload_pack_request request = {
		.path = filling->request->look->path,
		.dir = filling->request->dir,
		.step = UPLOAD_PACK_REFS,
		.protocol = protocol,
		.body_fd = -1,
		.timeout_ms = fill_time_left(filling),
		.stop = filling->request->stop,
	};
	struct upload_pack *pack;
	ssize_t got;

	if (upload_pack_open(&request, &pack, err) != 0)
		return -1;
	while ((got = read_some(pack, out, err)) > 0)
		if (grow)
			grow(filling->request->arg, out->data + out->len - got,
			     (size_t)got);
	upload_pack_close(pack);
	return got == 0 ? 0 : -1;
}

/* What git calls itself in the first line of protocol 0; "": it does not. */
static void find_agent(const struct str *refs, char agent[AGENT_MAX])
{
	struct pkt_reader reader = { refs->data, refs->len };
	const char *line, *at;
	size_t len;

	agent[0] = '\0';
	if (pkt_next(&reader, &line, &len) != PKT_LINE)
		return;
	at = memmem(line, len, " agent=", 7);
	if (!at)
		return;
	len -= (size_t)(at + 7 - line);
	at += 7;
	const char *end = memchr(at, ' ', len);
	len = end ? (size_t)(end - at) : len;
	if (len < AGENT_MAX)
		snprintf(agent, AGENT_MAX, "%.*s", (int)len, at);
}

static int learn_capabilities(const struct filling *filling, int dir,
			      struct generation_parts *parts, struct err *err)
{
	struct capabilities *known = filling->request->capabilities;
	struct config_look before, after;
	char agent[AGENT_MAX];

	find_agent(&parts->refs, agent);
	config_look(dir, &before);
	if (*agent && capabilities_find(known, &before, agent, &parts->capabilities))
		return 0;
	if (fill_ask_git(filling, "version=2", NULL, &parts->capabilities, err) != 0)
		return -1;
	config_look(dir, &after);
	if (*agent && parts->capabilities.len <= CAPABILITIES_MAX &&
	    config_stood_still(&before, &after))
		capabilities_keep(known, &before, agent, &parts->capabilities);
	return 0;
}

/* The name that git gives as the target, which is the last in a chain and need not
 * exist; NULL: the chain is too long for it. */
static const char *last_target(const struct ref_snapshot *refs, const char *target)
{
	for (int left = SYMBOLIC_READS - 1; left > 0; left--) {
		const struct ref *ref = ref_snapshot_find(refs, target);
		if (!ref || !ref->target)
			return target;
		target = ref->target;
	}
	return NULL;
}

static void add_symbolic(const struct ref_snapshot *refs, const char *name,
			 const char *target, struct str *out)
{
	const char *last = target ? last_target(refs, target) : NULL;

	if (last)
		str_addf(out, "%s %s\n", name, last);
}

static int learn_symbolic(const struct repo *repo, struct str *symbolic, struct err *err)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;

	if (ref_snapshot_read_symbolic(repo->fd, repo->oid_len, &refs, err) != 0)
		return -1;
	if (!repo->hides_head)
		add_symbolic(&refs, "HEAD", refs.head_target, symbolic);
	for (size_t i = 0; i < refs.refs.count; i++)
		add_symbolic(&refs, refs.refs.items[i].name, refs.refs.items[i].target,
			     symbolic);
	return 0;
}

/* It grew by doubling, and is to be kept for long. */
static void fill_trim_text(struct str *str)
{
	if (str->capacity <= str->len + 1)
		return;
	str->capacity = str->len + 1;
	str->data = xrealloc(str->data, str->capacity);
}

static int learn(const struct filling *filling, struct generation_parts *parts,
		 struct err *err)
{
	const struct fill_request *request = filling->request;
	AUTO_REPO struct repo repo = REPO_INIT;

	if (repo_open(request->dir, ".", &repo, err) != 0 ||
	    fill_ask_git(filling, NULL, request->grow, &parts->refs, err) != 0 ||
	    learn_symbolic(&repo, &parts->symbolic, err) != 0 ||
	    learn_capabilities(filling, repo.fd, parts, err) != 0)
		return -1;
	fill_trim_text(&parts->refs);
	return 0;
}

int fill_generation(const struct fill_request *request, struct generation **generation,
		    struct err *err)
{
	const struct filling filling = {
		.request = request,
		.until = request->timeout_ms > 0 ? clock_boot_ms() + request->timeout_ms
						 : 0,
	};
	struct generation_parts parts = GENERATION_PARTS_INIT;

	shelf_name(request->look, parts.name);
	if (learn(&filling, &parts, err) == 0)
		return generation_new(&parts, generation, err);
	generation_parts_clear(&parts);
	return -1;
}
