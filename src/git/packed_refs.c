#include "git/packed_refs.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "git/fingerprint.h"

#define LIMIT ((size_t)4 << 30) /* far above any repository known */

/* What is smaller is read as fast as it is looked for: some thousand refs. */
#define KEPT_LEAST (256 << 10)
/* Bytes of files that are kept, all together: half a million refs. They take two and a
 * half times as much memory. */
#define KEPT_MOST (32 << 20)
#define PLACES 16
#define KEPT_MS ((int64_t)10 * 60 * 1000)

struct packed_refs {
	struct ref_snapshot refs;
	uint64_t serial;
	size_t oid_len;
	struct stat st;
	ino_t directory; /* in which it stands, on the same file system */
	int64_t kept_at; /* clock_boot_ms(); 0: it is not */
	unsigned users;  /* guarded by `mutex`, as what follows */
	uint64_t used;   /* the count of uses when it was used last */
	bool has_sum;
	struct checksum sum;
};

static atomic_uint_fast64_t serials;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct packed_refs *kept[PLACES]; /* guarded by `mutex` */
static uint64_t uses;                    /* likewise */

static void packed_refs_free(struct packed_refs *packed)
{
	ref_snapshot_clear(&packed->refs);
	free(packed);
}

/* `mutex` is held. */
static void packed_refs_leave_locked(struct packed_refs *packed)
{
	if (--packed->users == 0)
		packed_refs_free(packed);
}

void packed_refs_leave(struct packed_refs *packed)
{
	if (!packed)
		return;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&mutex);
	packed_refs_leave_locked(packed);
}

uint64_t packed_refs_serial(const struct packed_refs *packed)
{
	return packed->serial;
}

const struct ref_snapshot *packed_refs_of(const struct packed_refs *packed)
{
	return &packed->refs;
}

/* `mutex` is held. */
static void packed_refs_forget_old(void)
{
	int64_t now = clock_boot_ms();

	for (size_t i = 0; i < PLACES; i++)
		if (kept[i] && now - kept[i]->kept_at >= KEPT_MS)
			packed_refs_leave_locked(TAKE(kept[i]));
}

static bool packed_refs_has_sum(const struct packed_refs *packed, struct checksum *sum)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&mutex);

	*sum = packed->sum;
	return packed->has_sum;
}

bool packed_refs_sum(struct packed_refs *packed, struct checksum *sum)
{
	if (packed->kept_at == 0)
		return false;
	if (packed_refs_has_sum(packed, sum))
		return true;
	checksum_of_refs(&packed->refs, sum);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&mutex);
	packed->sum = *sum;
	packed->has_sum = true;
	return true;
}

static struct packed_refs *packed_refs_find(const struct stat *st, size_t oid_len)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&mutex);

	packed_refs_forget_old();
	for (size_t i = 0; i < PLACES; i++) {
		struct packed_refs *packed = kept[i];
		if (!packed || packed->oid_len != oid_len ||
		    !file_is_same(&packed->st, st))
			continue;
		packed->used = ++uses;
		packed->users++;
		return packed;
	}
	return NULL;
}

/* A place for one more. The former file of this repository goes, then those that were
 * used longest ago. `mutex` is held. */
static size_t packed_refs_make_place(const struct packed_refs *one)
{
	for (;;) {
		off_t bytes = one->st.st_size;
		size_t oldest = PLACES, free_place = PLACES;
		for (size_t i = 0; i < PLACES; i++) {
			if (kept[i] && kept[i]->st.st_dev == one->st.st_dev &&
			    kept[i]->directory == one->directory)
				packed_refs_leave_locked(TAKE(kept[i]));
			if (!kept[i]) {
				free_place = i;
				continue;
			}
			bytes += kept[i]->st.st_size;
			if (oldest == PLACES || kept[i]->used < kept[oldest]->used)
				oldest = i;
		}
		if (free_place < PLACES && (bytes <= KEPT_MOST || oldest == PLACES))
			return free_place;
		packed_refs_leave_locked(TAKE(kept[oldest]));
	}
}

static void packed_refs_keep(struct packed_refs *packed)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&mutex);
	size_t place = packed_refs_make_place(packed);

	packed->kept_at = clock_boot_ms();
	packed->used = ++uses;
	packed->users++;
	kept[place] = packed;
}

static int packed_refs_read_file(int dir, size_t oid_len, struct packed_refs **packed,
				 struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	if (file_read(dir, "packed-refs", LIMIT, &text, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	size_t len = text.len;
	*packed = xcalloc(1, sizeof(**packed));
	(*packed)->serial = atomic_fetch_add(&serials, 1) + 1;
	(*packed)->oid_len = oid_len;
	(*packed)->users = 1;
	if (ref_parse_packed(&(*packed)->refs, str_take(&text), len, oid_len, err) == 0)
		return 0;
	packed_refs_free(TAKE(*packed));
	return -1;
}

int packed_refs_read(int dir, size_t oid_len, struct packed_refs **packed,
		     struct err *err)
{
	struct stat before, after, directory;

	*packed = NULL;
	if (fstatat(dir, "packed-refs", &before, AT_SYMLINK_NOFOLLOW) != 0 ||
	    !S_ISREG(before.st_mode) || before.st_size < KEPT_LEAST ||
	    before.st_size > KEPT_MOST)
		return packed_refs_read_file(dir, oid_len, packed, err);
	*packed = packed_refs_find(&before, oid_len);
	if (*packed)
		return 0;
	bool is_settled = fingerprint_is_old(dir, &before);
	if (packed_refs_read_file(dir, oid_len, packed, err) != 0)
		return -1;
	if (*packed && is_settled && fstat(dir, &directory) == 0 &&
	    fstatat(dir, "packed-refs", &after, AT_SYMLINK_NOFOLLOW) == 0 &&
	    file_is_same(&before, &after)) {
		(*packed)->st = before;
		(*packed)->directory = directory.st_ino;
		packed_refs_keep(*packed);
	}
	return 0;
}
