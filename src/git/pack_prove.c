/*
 * What counts is between a header of 12 bytes and the digest at the end: entries, one
 * behind the other, of which the index knows where each begins. So each must end where
 * the next one begins, and nothing else is there. An entry is an object, or a delta to
 * another one of the pack (git/pack_delta.c). Those are walked from each whole
 * object down to the deltas on it, so that each is inflated once; what is held at a time
 * are the objects between one and the whole one above it, and of a chain only the last.
 */
#include "git/pack_prove.h"

#include <endian.h>
#include <zlib.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/thread.h"
#include "base/vec.h"
#include "git/oid.h"
#include "git/pack_delta.h"
#include "git/pack_index.h"
#include "git/packs.h"

#define FOLDER "objects/pack"
#define HEADER 12
#define NONE UINT32_MAX

/* Of one object, or its entry; and of all that one thread holds. */
#define LARGE ((uint64_t)64 << 20)
#define HELD_MOST ((uint64_t)192 << 20)
#define OBJECTS_MOST 50000000
/* Whole objects that a thread takes at once; and when a second one is worth it. */
#define TURN 64
#define THREADS_FROM 2000
#define THREADS_MOST 4

struct pack_entry {
	uint64_t offset;
	uint32_t place;          /* in the index */
	uint32_t child, sibling; /* deltas on it; and the next on the same */
	unsigned char kind;
};

struct pack_proof {
	const struct git_work *work;
	const char *name;
	struct pack_index index;
	int fd;
	uint64_t end; /* of the entries */
	struct pack_entry *entries;
	uint32_t count;
	atomic_uint_fast64_t next, proved;
	pthread_mutex_t mutex;
	atomic_bool is_over;
	int result;     /* guarded by mutex */
	struct err err; /* guarded by mutex */
};

/* An object whose deltas are not all done. */
struct held {
	uint32_t next; /* of them */
	unsigned char *data;
	size_t len;
};

/* One thread's. */
struct pack_prover {
	struct pack_proof *proof;
	z_stream inflater;
	struct hash hash;
	unsigned char *raw;
	size_t raw_size;
	VEC(struct held) stack;
	uint64_t held, proved;
	struct err err;
};

static int pack_proof_fail(const struct pack_proof *proof, const struct pack_entry *entry,
			   const char *what, struct err *err)
{
	struct oid oid = { .len = (unsigned char)proof->index.oid_len };
	char text[OID_MAX_TEXT];

	memcpy(oid.bytes, pack_index_oid(&proof->index, entry->place), oid.len);
	err_set(err, ERR_CORRUPT, FOLDER "/%s.pack: the object %s %s", proof->name,
		oid_text(&oid, text), what);
	return err_remedy(err,
			  "run git fsck in that repository and restore what it names");
}

static int pack_proof_fail_index(const struct pack_proof *proof, struct err *err)
{
	return err_set(err, ERR_CORRUPT, FOLDER "/%s.idx is not the index of that pack",
		       proof->name);
}

static uint64_t pack_proof_end_of(const struct pack_proof *proof, uint32_t at)
{
	return at + 1 < proof->count ? proof->entries[at + 1].offset : proof->end;
}

/* Names in order, each once, and as many as the table in front says. */
static bool pack_proof_has_order(const struct pack_index *index)
{
	uint32_t below = 0;

	for (unsigned byte = 0; byte < 256; byte++) {
		uint32_t until = pack_index_number(index->data + 8 + (size_t)byte * 4);
		if (until < below || until > index->count)
			return false;
		for (; below < until; below++)
			if (pack_index_oid(index, below)[0] != byte ||
			    (below > 0 &&
			     memcmp(pack_index_oid(index, below - 1),
				    pack_index_oid(index, below), index->oid_len) >= 0))
				return false;
	}
	return below == index->count;
}

static int pack_entry_compare(const void *a, const void *b)
{
	const struct pack_entry *one = a, *other = b;

	return one->offset < other->offset ? -1 : one->offset > other->offset;
}

static struct pack_entry *pack_proof_find(const struct pack_proof *proof, uint64_t offset)
{
	const struct pack_entry asked = { .offset = offset };

	return bsearch(&asked, proof->entries, proof->count, sizeof(asked),
		       pack_entry_compare);
}

/* Where each begins; from the first byte behind the header on, each at a place of its
 * own. */
static int pack_proof_read_offsets(struct pack_proof *proof, struct err *err)
{
	for (uint32_t i = 0; i < proof->count; i++) {
		struct pack_entry *entry = &proof->entries[i];
		*entry =
			(struct pack_entry){ .place = i, .child = NONE, .sibling = NONE };
		if (!pack_index_offset(&proof->index, i, &entry->offset))
			return pack_proof_fail_index(proof, err);
	}
	if (proof->count > 0)
		qsort(proof->entries, proof->count, sizeof(*proof->entries),
		      pack_entry_compare);
	if (proof->count > 0 ? proof->entries[0].offset != HEADER : proof->end != HEADER)
		return pack_proof_fail_index(proof, err);
	for (uint32_t i = 0; i < proof->count; i++)
		if (proof->entries[i].offset >= pack_proof_end_of(proof, i))
			return pack_proof_fail_index(proof, err);
	return 0;
}

/* Its base is told of it. 1: it is too large for this. */
static int pack_proof_link(struct pack_proof *proof, uint32_t at, struct err *err)
{
	struct pack_entry *entry = &proof->entries[at], *base = NULL;
	uint64_t len = pack_proof_end_of(proof, at) - entry->offset;
	unsigned char bytes[64];
	struct pack_head head;
	size_t place;

	ssize_t got = pread(proof->fd, bytes, len < sizeof(bytes) ? len : sizeof(bytes),
			    (off_t)entry->offset);
	if (got < 0)
		return err_errno(err, "cannot read " FOLDER "/%s.pack", proof->name);
	if (!pack_head_read(bytes, (size_t)got, entry->offset, proof->index.oid_len,
			    &head))
		return pack_proof_fail(proof, entry, "is of no known kind", err);
	if (len > LARGE || head.size > LARGE)
		return 1;
	entry->kind = (unsigned char)head.kind;
	if (head.kind < PACK_OFS_DELTA)
		return 0;
	if (head.kind == PACK_OFS_DELTA)
		base = pack_proof_find(proof, head.base);
	else if (pack_index_find(&proof->index, head.oid, &place) &&
		 pack_index_offset(&proof->index, place, &head.base))
		base = pack_proof_find(proof, head.base);
	if (!base)
		return pack_proof_fail(proof, entry, "is a delta to nothing", err);
	entry->sibling = base->child;
	base->child = at;
	return 0;
}

static int pack_proof_plan(struct pack_proof *proof, struct err *err)
{
	int result = pack_proof_read_offsets(proof, err);

	for (uint32_t i = 0; result == 0 && i < proof->count; i++)
		result = pack_proof_link(proof, i, err);
	return result;
}

/* All of the entry, with what the index says that its bytes sum up to. */
static int pack_prover_read(struct pack_prover *prover, uint32_t at,
			    struct pack_head *head, size_t *len, struct err *err)
{
	const struct pack_proof *proof = prover->proof;
	const struct pack_entry *entry = &proof->entries[at];
	size_t got = 0;

	*len = (size_t)(pack_proof_end_of(proof, at) - entry->offset);
	if (*len > prover->raw_size) {
		free(prover->raw);
		prover->raw_size = *len * 2;
		prover->raw = xmalloc(prover->raw_size);
	}
	while (got < *len) {
		ssize_t more = pread(proof->fd, prover->raw + got, *len - got,
				     (off_t)(entry->offset + got));
		if (more < 0 && errno == EINTR)
			continue;
		if (more <= 0)
			return pack_proof_fail(proof, entry, "cannot be read", err);
		got += (size_t)more;
	}
	if (crc32(0, prover->raw, (unsigned)*len) !=
	    pack_index_crc(&proof->index, entry->place))
		return pack_proof_fail(proof, entry, "is not as the index says", err);
	if (!pack_head_read(prover->raw, *len, entry->offset, proof->index.oid_len, head))
		return pack_proof_fail(proof, entry, "is of no known kind", err);
	return 0;
}

/* The stream ends with the entry, and gives as much as it says. */
static int pack_prover_inflate(struct pack_prover *prover, uint32_t at, struct held *out,
			       struct err *err)
{
	z_stream *inflater = &prover->inflater;
	const struct pack_entry *entry = &prover->proof->entries[at];
	struct pack_head head;
	size_t len;

	if (pack_prover_read(prover, at, &head, &len, err) != 0)
		return -1;
	*out = (struct held){ .next = entry->child,
			      .len = (size_t)head.size,
			      .data = xmalloc((size_t)head.size + 1) };
	inflateReset(inflater);
	inflater->next_in = prover->raw + head.len;
	inflater->avail_in = (unsigned)(len - head.len);
	inflater->next_out = out->data;
	inflater->avail_out = (unsigned)head.size + 1;
	if (inflate(inflater, Z_FINISH) == Z_STREAM_END && inflater->avail_in == 0 &&
	    inflater->avail_out == 1)
		return 0;
	free(out->data);
	return pack_proof_fail(prover->proof, entry, "cannot be inflated", err);
}

static int pack_prover_check(struct pack_prover *prover, uint32_t at, unsigned kind,
			     const struct held *object, struct err *err)
{
	static const char *const kinds[] = { "", "commit", "tree", "blob", "tag" };
	const struct pack_proof *proof = prover->proof;
	const struct pack_entry *entry = &proof->entries[at];
	unsigned char digest[HASH_MAX_SIZE];
	char head[40];
	int len = snprintf(head, sizeof(head), "%s %zu", kinds[kind], object->len);

	hash_add(&prover->hash, head, (size_t)len + 1);
	hash_add(&prover->hash, object->data, object->len);
	hash_end(&prover->hash, digest);
	prover->proved++;
	if (memcmp(digest, pack_index_oid(&proof->index, entry->place),
		   proof->index.oid_len) != 0)
		return pack_proof_fail(proof, entry, "is another than its name says",
				       err);
	return prover->proved % 1024 == 0 ? git_work_check(proof->work, err) : 0;
}

/* 1: it is too large for this. */
static int pack_prover_make(struct pack_prover *prover, uint32_t at,
			    const struct held *base, struct held *made, struct err *err)
{
	const struct pack_entry *entry = &prover->proof->entries[at];
	struct held delta;
	int result;

	if (pack_prover_inflate(prover, at, &delta, err) != 0)
		return -1;
	*made = (struct held){ .next = entry->child };
	result = pack_delta_make((struct pack_bytes){ base->data, base->len },
				 (struct pack_bytes){ delta.data, delta.len }, LARGE,
				 &made->data, &made->len);
	free(delta.data);
	if (result < 0)
		return pack_proof_fail(prover->proof, entry, "is no delta", err);
	return result == 0;
}

static void pack_prover_pop(struct pack_prover *prover)
{
	const struct held *top = &prover->stack.items[--prover->stack.count];

	prover->held -= top->len;
	free(top->data);
}

/* What has no deltas is not needed any more. 1: more would be held than may be. */
static int pack_prover_keep(struct pack_prover *prover, struct held *object)
{
	if (object->next == NONE) {
		free(object->data);
		return 0;
	}
	vec_add(&prover->stack, *object);
	prover->held += object->len;
	return prover->held > HELD_MOST;
}

/* The next delta of the last object that is held; with its last one goes that. */
static int pack_prover_descend(struct pack_prover *prover, unsigned kind, struct err *err)
{
	struct held *top = &prover->stack.items[prover->stack.count - 1];
	uint32_t at = top->next;
	struct held made;
	int result;

	result = pack_prover_make(prover, at, top, &made, err);
	if (result != 0)
		return result;
	top->next = prover->proof->entries[at].sibling;
	if (top->next == NONE)
		pack_prover_pop(prover);
	result = pack_prover_check(prover, at, kind, &made, err);
	if (result == 0)
		return pack_prover_keep(prover, &made);
	free(made.data);
	return result;
}

/* A whole object, and all that is made of it. */
static int pack_prover_family(struct pack_prover *prover, uint32_t at, struct err *err)
{
	unsigned kind = prover->proof->entries[at].kind;
	struct held whole;
	int result = pack_prover_inflate(prover, at, &whole, err);

	if (result != 0)
		return result;
	result = pack_prover_check(prover, at, kind, &whole, err);
	if (result != 0) {
		free(whole.data);
		return result;
	}
	result = pack_prover_keep(prover, &whole);
	while (result == 0 && prover->stack.count > 0 && !prover->proof->is_over)
		result = pack_prover_descend(prover, kind, err);
	return result;
}

static int pack_prover_turn(struct pack_prover *prover, uint64_t from, struct err *err)
{
	const struct pack_proof *proof = prover->proof;
	int result = 0;

	for (uint64_t at = from; result == 0 && at < from + TURN && at < proof->count;
	     at++)
		if (proof->entries[at].kind < PACK_OFS_DELTA)
			result = pack_prover_family(prover, (uint32_t)at, err);
	return result;
}

/* The first failure counts, and what is too large for this less than that. */
static void pack_prover_end(struct pack_prover *prover, int result)
{
	struct pack_proof *proof = prover->proof;

	while (prover->stack.count > 0)
		pack_prover_pop(prover);
	vec_clear(&prover->stack);
	inflateEnd(&prover->inflater);
	hash_clear(&prover->hash);
	free(prover->raw);
	atomic_fetch_add(&proof->proved, prover->proved);
	if (result == 0)
		return;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&proof->mutex);
	proof->is_over = true;
	if (proof->result < 0 || (proof->result > 0 && result > 0))
		return;
	proof->result = result;
	proof->err = prover->err;
}

static void *pack_prover_run(void *arg)
{
	struct pack_prover prover = { .proof = arg };
	struct pack_proof *proof = arg;
	uint64_t from;
	int result = 0;

	/* It takes long, and small changes and readers wait for the processors. */
	thread_lower_priority();
	if (inflateInit(&prover.inflater) != Z_OK)
		abort(); /* no memory */
	hash_init(&prover.hash, proof->index.oid_len == 32 ? HASH_SHA256 : HASH_SHA1);
	while (result == 0 && !proof->is_over &&
	       (from = atomic_fetch_add(&proof->next, TURN)) < proof->count)
		result = pack_prover_turn(&prover, from, &prover.err);
	pack_prover_end(&prover, result);
	return NULL;
}

static long pack_proof_count_threads(const struct pack_proof *proof)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (proof->count < THREADS_FROM || cores < 2)
		return 1;
	return cores < THREADS_MOST ? cores : THREADS_MOST;
}

/* In threads of its own, as their priority is not raised again. Deltas in a circle hang
 * on no whole object, and so are not met. */
static int pack_proof_run(struct pack_proof *proof, struct err *err)
{
	pthread_t threads[THREADS_MOST];
	long count = pack_proof_count_threads(proof);

	mutex_init(&proof->mutex);
	for (long i = 0; i < count; i++)
		thread_start(&threads[i], "pack-prove", pack_prover_run, proof);
	for (long i = 0; i < count; i++)
		thread_join(threads[i]);
	pthread_mutex_destroy(&proof->mutex);
	if (proof->result < 0)
		*err = proof->err;
	if (proof->result != 0 || proof->proved == proof->count)
		return proof->result;
	return err_set(err, ERR_CORRUPT, FOLDER "/%s.pack has deltas in a circle",
		       proof->name);
}

/* That it begins as a pack of so many objects. */
static int pack_proof_open(struct pack_proof *proof, int folder, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s.pack", proof->name);
	unsigned char head[HEADER];
	struct stat st;

	proof->fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
	if (proof->fd < 0 || fstat(proof->fd, &st) != 0)
		return err_errno(err, "cannot open " FOLDER "/%s", path);
	proof->end = (uint64_t)st.st_size - proof->index.oid_len;
	if (pread(proof->fd, head, HEADER, 0) != HEADER || memcmp(head, "PACK", 4) != 0 ||
	    pack_index_number(head + 4) != 2 ||
	    pack_index_number(head + 8) != proof->index.count ||
	    !pack_proof_has_order(&proof->index))
		return pack_proof_fail_index(proof, err);
	return proof->index.count > OBJECTS_MOST;
}

int pack_prove(const struct git_work *work, const struct repo *repo, const char *pack,
	       struct err *err)
{
	struct pack_proof proof = { .work = work, .name = pack, .fd = -1 };
	AUTO_FREE char *index = xasprintf("%s.idx", pack);
	AUTO_CLOSE int folder = dir_open(repo->fd, FOLDER, err);
	int result;

	if (folder < 0)
		return -1;
	if (pack_index_open(folder, index, repo->oid_len, &proof.index, err) != 0)
		return -1;
	proof.count = (uint32_t)proof.index.count;
	result = pack_proof_open(&proof, folder, err);
	if (result == 0) {
		proof.entries = xcalloc(proof.count + 1, sizeof(*proof.entries));
		result = pack_proof_plan(&proof, err);
	}
	if (result == 0)
		result = pack_proof_run(&proof, err);
	free(proof.entries);
	if (proof.fd >= 0)
		close(proof.fd);
	pack_index_close(&proof.index);
	return result;
}
