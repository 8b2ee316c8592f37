/*
 * Witnesses of grants: a file to which all processes of a test append when they had a
 * lease, and what must be true of its lines. After lease_guarded_test.h and
 * lease_kinds_test.h.
 */
#ifndef UNIT_LEASE_WITNESS_TEST_H
#define UNIT_LEASE_WITNESS_TEST_H

static int witness_fd;

struct grant_seen {
	int pid, thread;
	uint64_t fence;
	int64_t from, to; /* of the last successful look, by clock_boot_ms() */
	int is_kept;      /* it had the lease to the end */
	int is_published; /* the fence let it change what the lease guards */
};

typedef VEC(struct grant_seen) grants_seen;

static inline void witness_open(void)
{
	AUTO_FREE char *path = xasprintf("%s/witness", root);

	witness_fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (witness_fd < 0)
		abort();
}

/* One write, once the work under the lease is over. */
static inline void witness(const struct grant_seen *one)
{
	char line[128];
	int len = snprintf(line, sizeof(line),
			   "%d %d %" PRIu64 " %" PRId64 " %" PRId64 " %d %d\n",
			   (int)getpid(), one->thread, one->fence, one->from, one->to,
			   one->is_kept, one->is_published);

	if (write(witness_fd, line, (size_t)len) != len)
		abort();
}

static inline int compare_fences(const void *a, const void *b)
{
	uint64_t x = ((const struct grant_seen *)a)->fence;
	uint64_t y = ((const struct grant_seen *)b)->fence;

	return x < y ? -1 : x > y;
}

static inline void witness_read(grants_seen *seen)
{
	AUTO_FREE char *path = xasprintf("%s/witness", root);
	AUTO_FCLOSE FILE *file = fopen(path, "re");
	struct grant_seen one;

	while (fscanf(file, "%d %d %" SCNu64 " %" SCNd64 " %" SCNd64 " %d %d", &one.pid,
		      &one.thread, &one.fence, &one.from, &one.to, &one.is_kept,
		      &one.is_published) == 7)
		vec_add(seen, one);
	vec_sort(seen, compare_fences);
}

/* No two have a fence in common, whoever has the higher one began when the one before had
 * ended, and who had its lease to the end could publish. Returns how many there are. */
static inline size_t witness_check(void)
{
	grants_seen seen = { 0 };

	witness_read(&seen);
	for (size_t i = 0; i < seen.count; i++) {
		const struct grant_seen *one = &seen.items[i];
		if (one->is_kept && !one->is_published)
			fail_msg("the fence refused a holder of %" PRIu64, one->fence);
		if (i == 0)
			continue;
		const struct grant_seen *before = one - 1;
		assert_true(one->fence > before->fence);
		if (one->from < before->to)
			fail_msg("fence %" PRIu64 " began %" PRId64 " ms before %" PRIu64
				 " ended",
				 one->fence, before->to - one->from, before->fence);
	}
	size_t count = seen.count;
	vec_clear(&seen);
	guarded_check(1, kind->name);
	return count;
}

/* The longest time for which nobody is known to have had it, between two grants. */
static inline int64_t witness_longest_gap(void)
{
	grants_seen seen = { 0 };
	int64_t longest = 0;

	witness_read(&seen);
	for (size_t i = 1; i < seen.count; i++)
		if (seen.items[i].from - seen.items[i - 1].to > longest)
			longest = seen.items[i].from - seen.items[i - 1].to;
	vec_clear(&seen);
	return longest;
}

/* ------------------------------------------------------------------ fairness */

struct share {
	int pid, thread;
	int64_t first, last;
	int count;
};

typedef VEC(struct share) shares;

static inline struct share *share_of(shares *all, const struct grant_seen *one)
{
	struct share new = { .pid = one->pid, .thread = one->thread, .first = one->from };

	for (size_t i = 0; i < all->count; i++)
		if (all->items[i].pid == one->pid && all->items[i].thread == one->thread)
			return &all->items[i];
	vec_add(all, new);
	return &all->items[all->count - 1];
}

/* Of the time in which all contended: processes start one after the other. The benchmark
 * has the figure of a quiet machine. */
static inline bool witness_is_fair(void)
{
	grants_seen seen = { 0 };
	shares all = { 0 };
	int64_t from = 0, to = INT64_MAX;
	int least = INT32_MAX, most = 0;

	witness_read(&seen);
	for (size_t i = 0; i < seen.count; i++)
		share_of(&all, &seen.items[i])->last = seen.items[i].to;
	for (size_t i = 0; i < all.count; i++) {
		from = all.items[i].first > from ? all.items[i].first : from;
		to = all.items[i].last < to ? all.items[i].last : to;
	}
	for (size_t i = 0; i < seen.count; i++)
		if (seen.items[i].from >= from && seen.items[i].from < to)
			share_of(&all, &seen.items[i])->count++;
	for (size_t i = 0; i < all.count; i++) {
		least = all.items[i].count < least ? all.items[i].count : least;
		most = all.items[i].count > most ? all.items[i].count : most;
	}
	print_message("# %s: %zu contenders had it %d to %d times in %" PRId64 " ms\n",
		      kind->name, all.count, least, most, to - from);
	assert_int_equal(all.count, 16);
	vec_clear(&seen);
	vec_clear(&all);
	return most - least <= 2 + most / 4;
}

#endif
