/*
 * Leases under faults: on each backend, processes on two data directories take leases and
 * change what those guard, while they are killed and stopped, and their servers are
 * restarted, frozen, cut off, and lose data.
 *
 * What a lease guards here is as a repository (lease_guarded_test.h): the fence alone
 * stops those that are late.
 *
 * Where a backend promises that no two hold a lease at once, whatever the fence does,
 * that is judged, too: by when holders found their leases valid.
 *
 * REFRELAY_LEASE_GRANTS is how many grants each backend has to give: a few hundred,
 * unless it is set. REFRELAY_LEASE_SEED repeats the order of faults, if not their
 * moments.
 */
#include "lease_guarded_test.h"
#include "lease_kinds_test.h"

#define FAULT_TTL 1000
#define KEYS 4
#define PROCESSES 4
#define THREADS 4
#define GRANTS_LEAST 200
#define ROUND_MS 4000 /* at least, so that all of a round's faults have their time */
#define LONG_ROUND_MS 30000 /* at most: what is witnessed is judged once a round */

static int events_fd;

/* ------------------------------------------------------------------ contenders */

/* A line to what all of them have in common, by one write. */
static void __attribute__((format(printf, 1, 2))) event(const char *format, ...)
{
	char line[600];
	va_list arguments;

	va_start(arguments, format);
	int len = vsnprintf(line, sizeof(line) - 1, format, arguments);
	va_end(arguments);
	if (len > (int)sizeof(line) - 2)
		len = (int)sizeof(line) - 2;
	line[len] = '\n';
	if (write(events_fd, line, (size_t)len + 1) != len + 1)
		abort();
}

struct worker {
	struct lease_manager *manager;
	int64_t until;
	unsigned seed;
	int home; /* the key that this process mostly takes, so that its threads wait */
	pthread_t thread;
};

/* True: it did what it wanted; else the fence, or the lock that it is under, was in the
 * way. */
static bool work_below_fence(struct worker *worker, int dir, uint64_t fence,
			     struct err *error)
{
	if (fence_raise(dir, fence, error) != 0)
		return false;
	uint64_t last = guarded_last(dir);
	usleep((useconds_t)(rand_r(&worker->seed) % 2000));
	return guarded_publish(dir, last + 1, fence, error) == 0;
}

static void work_under_lease(struct worker *worker, int key, int dir, struct lease *lease)
{
	uint64_t fence = lease_fence(lease);
	int64_t from = clock_boot_ms();
	struct err error;
	bool was_ours = lease_check(lease, &error) == 0; /* or we slept since */

	event("granted %d", (int)lease_predecessor(lease));
	bool is_done = work_below_fence(worker, dir, fence, &error);
	bool is_overtaken = !is_done && error.class == ERR_LOST;
	if (!is_done && !is_overtaken && error.class != ERR_CONFLICT)
		event("strange %s %s", err_class_name(error.class), error.text);
	int64_t to = clock_boot_ms();
	bool is_ours = lease_check(lease, &error) == 0;
	if (was_ours)
		event("held %d %" PRIu64 " %" PRId64 " %" PRId64, key, fence, from,
		      is_ours ? to : from);
	if (!is_ours)
		event("lost");
	if (was_ours && is_ours && is_overtaken)
		event("denied %d %" PRIu64, key, fence);
	if (!is_done)
		event("refused");
}

static void note_failure(const struct err *error)
{
	if (error->class == ERR_LOCK_TIMEOUT || error->class == ERR_BUSY)
		event("timeout");
	else if (error->reason == REASON_LOCK_UNAVAILABLE || error->class == ERR_TIMEOUT)
		event("away");
	else
		event("strange %s %s", err_class_name(error->class), error->text);
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct lease *lease;
	struct err error;
	char text[160];

	while (clock_boot_ms() < worker->until) {
		int key = rand_r(&worker->seed) % 8 ? worker->home
						    : rand_r(&worker->seed) % KEYS;
		AUTO_CLOSE int dir = guarded_open(key);
		struct lease_request request = { .key = text, .operation = "sync" };
		snprintf(text, sizeof(text), "%s:repository:%d", root, key);
		request.wait_ms = rand_r(&worker->seed) % 4 ? 1500 : 0;
		if (fence_read(dir, &request.fence_floor, &error) != 0)
			event("strange %s %s", err_class_name(error.class), error.text);
		if (lease_acquire(worker->manager, &request, &lease, &error) != 0) {
			note_failure(&error);
			usleep(2000);
			continue;
		}
		work_under_lease(worker, key, dir, lease);
		lease_release(lease);
	}
	return NULL;
}

static void events_open(void)
{
	AUTO_FREE char *path = xasprintf("%s/events", root);

	events_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (events_fd < 0)
		abort();
}

/* argv: mode, kind, root, data directory, ttl, until when, seed, urls. */
static int worker_main(char *argv[])
{
	struct worker workers[THREADS];

	log_set_level(LOG_LEVEL_NONE);
	kind = &kinds[atoi(argv[2])];
	snprintf(root, sizeof(root), "%s", argv[3]);
	events_open();
	struct lease_manager *manager = open_kind(argv[4], argv + 8, atoll(argv[5]));
	if (!manager)
		return 1;
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .manager = manager,
					      .until = atoll(argv[6]),
					      .seed = (unsigned)(atoi(argv[7]) + i),
					      .home = atoi(argv[7]) % KEYS };
		thread_start(&workers[i].thread, "worker", work, &workers[i]);
	}
	for (int i = 0; i < THREADS; i++)
		thread_join(workers[i].thread);
	lease_manager_close(manager);
	store_close(store);
	return 0;
}

/* ------------------------------------------------------------------ faults */

struct round {
	int64_t until;
	unsigned seed;
	struct process processes[PROCESSES];
	int stopped; /* which of them; -1: none */
	int64_t resume_at;
	struct process proxies[SERVERS];
	char urls[SERVERS][192];
	const char *through[SERVERS]; /* for every other process */
	int64_t restart_at;           /* not before */
};

static int round_random(struct round *round, int below)
{
	return rand_r(&round->seed) % below;
}

static void start_process(struct round *round, int i)
{
	static const char *const data[] = { "one", "two" };
	char until[24], seed[24];

	snprintf(until, sizeof(until), "%" PRId64, round->until);
	snprintf(seed, sizeof(seed), "%d", round_random(round, 1000000));
	run_by(&round->processes[i], "work", data[i % 2], FAULT_TTL, until, seed,
	       i / 2 ? round->through : NULL);
}

static void kill_one(struct round *round)
{
	int i = round_random(round, PROCESSES);

	if (i == round->stopped)
		return;
	kill(round->processes[i].pid, SIGKILL);
	finish(&round->processes[i]);
	start_process(round, i);
}

static void resume(struct round *round)
{
	if (round->stopped >= 0)
		kill(round->processes[round->stopped].pid, SIGCONT);
	round->stopped = -1;
}

/* Past its leases, or not quite. */
static void stop_one(struct round *round)
{
	if (round->stopped >= 0)
		return;
	round->stopped = round_random(round, PROCESSES);
	round->resume_at =
		clock_boot_ms() + FAULT_TTL / 2 + round_random(round, 3 * FAULT_TTL / 2);
	kill(round->processes[round->stopped].pid, SIGSTOP);
}

/* One server alone keeps its data; of several, one forgets. */
static const char *server_arguments(void)
{
	return kind->servers == 1 ? "--appendonly yes" : "--appendonly no";
}

static void restart_server(struct round *round)
{
	int64_t now = clock_boot_ms();

	if (now < round->restart_at)
		return;
	if (kind->is_postgresql) {
		round->restart_at = now + 2000;
		pg_stop();
		pg_start();
		return;
	}
	struct redis_server *server = &servers[round_random(round, (int)kind->servers)];
	round->restart_at = now + (kind->servers == 1 ? 1000 : 3 * FAULT_TTL);
	redis_kill(server);
	redis_run(server, server_arguments());
}

static void freeze_server(struct round *round)
{
	useconds_t us = (useconds_t)(50000 + round_random(round, 700000));

	if (kind->is_postgresql) {
		pg_signal(SIGSTOP);
		usleep(us);
		pg_signal(SIGCONT);
	} else {
		pid_t pid = servers[round_random(round, (int)kind->servers)].pid;
		kill(pid, SIGSTOP);
		usleep(us);
		kill(pid, SIGCONT);
	}
}

static int delete_rows(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_QUERY struct query *query = NULL;

	(void)arg;
	if (query_open(tx, "DELETE FROM lease", &query, error) != 0)
		return -1;
	return query_run(query, NULL, error);
}

/* Of the shared directory: something of a key at random, and all below it. */
static void lose_directory(struct round *round)
{
	AUTO_FREE char *path = xasprintf("%s/shared", root);
	AUTO_CLOSEDIR DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.' && round_random(round, KEYS) == 0)
			tree_remove(dirfd(dir), entry->d_name, ERR_IGNORED);
}

static void lose_data(struct round *round)
{
	if (kind->is_local) {
		resume(round); /* it may have the database locked */
		assert_ok(store_write(store, delete_rows, NULL, &err));
	} else if (kind->servers == 0) {
		lose_directory(round);
	} else if (kind->is_postgresql) {
		pg_sql("TRUNCATE refrelay.lease");
	} else {
		for (size_t i = 0; i < kind->servers; i++)
			redis_cli(&servers[i], "FLUSHALL");
	}
}

/* All leases lapse, as if the server's clock was set forward, or last longer. */
static void shift_clock(struct round *round)
{
	char key[160];

	if (kind->is_postgresql) {
		pg_sql(round_random(round, 3) ? "UPDATE refrelay.lease SET expires_at ="
						" expires_at - interval '10 s'"
					      : "UPDATE refrelay.lease SET expires_at ="
						" expires_at + interval '1 s'");
		return;
	}
	snprintf(key, sizeof(key), "%s:repository:%d", root, round_random(round, KEYS));
	for (size_t i = 0; i < kind->servers; i++)
		redis_cli(&servers[i], "PEXPIRE", key, "1");
}

struct fault {
	void (*happen)(struct round *round);
	bool is_of_servers;
	bool loses; /* two may hold a lease then, and the fence alone counts */
};

static const struct fault faults[] = {
	{ kill_one, false, false },      { stop_one, false, false },
	{ restart_server, true, false }, { freeze_server, true, false },
	{ lose_data, false, true },      { shift_clock, true, true },
};

static void fault_step(struct round *round, bool loses)
{
	const struct fault *fault = &faults[round_random(round, ARRAY_SIZE(faults))];

	if (clock_boot_ms() >= round->resume_at)
		resume(round);
	if ((loses || !fault->loses) && (kind->servers > 0 || !fault->is_of_servers))
		fault->happen(round);
	usleep((useconds_t)(10000 + round_random(round, 150000)));
}

/* ------------------------------------------------------------------ what came of it */

struct held_seen {
	int key;
	uint64_t fence;
	int64_t from, to;
};

typedef VEC(struct held_seen) held_list;

struct figures {
	size_t grants, takeovers, lost, refused, timeouts, away, overlaps, strange;
	size_t torn; /* directories of leases were removed under whoever looked at them */
	size_t published, passed;
	size_t denied; /* the fence refused who had its lease all the time */
};

static int compare_held(const void *a, const void *b)
{
	const struct held_seen *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->fence < y->fence ? -1 : x->fence > y->fence;
}

/* And those that were handed on within a process, by their fences. */
static size_t count_overlaps(held_list *held, size_t *passed)
{
	size_t count = 0;

	vec_sort(held, compare_held);
	for (size_t i = 1; i < held->count; i++) {
		const struct held_seen *before = &held->items[i - 1];
		const struct held_seen *one = &held->items[i];
		if (one->key == before->key && one->from < before->to) {
			count++;
			print_message("# %s: %" PRIu64 " held it from %" PRId64
				      " to %" PRId64 ", %" PRIu64 " from %" PRId64
				      " to %" PRId64 "\n",
				      kind->name, before->fence, before->from, before->to,
				      one->fence, one->from, one->to);
		}
		*passed += one->key == before->key && one->fence == before->fence + 1;
	}
	return count;
}

/* Who looks at a directory that is just being removed finds it broken; of nothing else
 * may it complain. */
static bool is_of_removal(const char *line)
{
	return (text_starts_with(line, "strange disk cannot ") &&
		strstr(line, " the lease ")) ||
	       (text_starts_with(line, "strange corrupt lease ") &&
		strstr(line, " has no owner"));
}

static void count_event(const char *line, bool is_removed, struct figures *figures,
			held_list *held)
{
	struct held_seen one;
	int predecessor;

	if (sscanf(line, "granted %d", &predecessor) == 1) {
		figures->grants++;
		figures->takeovers += predecessor == LEASE_AFTER_DEATH ||
				      predecessor == LEASE_AFTER_LAPSE;
	} else if (sscanf(line, "held %d %" SCNu64 " %" SCNd64 " %" SCNd64, &one.key,
			  &one.fence, &one.from, &one.to) == 4) {
		vec_add(held, one);
	} else if (is_removed && is_of_removal(line)) {
		figures->torn++;
	} else if (text_starts_with(line, "strange")) {
		if (figures->strange++ < 10)
			print_message("# %s: %s", kind->name, line);
	}
	figures->denied += text_starts_with(line, "denied");
	figures->lost += text_starts_with(line, "lost");
	figures->refused += text_starts_with(line, "refused");
	figures->timeouts += text_starts_with(line, "timeout");
	figures->away += text_starts_with(line, "away");
}

static size_t take_events(bool is_removed, struct figures *figures)
{
	AUTO_FREE char *path = xasprintf("%s/events", root);
	AUTO_FCLOSE FILE *file = fopen(path, "re");
	held_list held = { 0 };
	char line[700];

	while (file && fgets(line, sizeof(line), file))
		count_event(line, is_removed, figures, &held);
	unlink(path);
	size_t overlaps = count_overlaps(&held, &figures->passed);
	figures->overlaps += overlaps;
	vec_clear(&held);
	return overlaps;
}

/* ------------------------------------------------------------------ rounds */

static void start_proxies(struct round *round, bool cuts)
{
	for (size_t i = 0; i < kind->servers && cuts; i++) {
		proxy_start(i, "0.3", round->urls[i], &round->proxies[i]);
		round->through[i] = round->urls[i];
	}
}

static void end_proxies(struct round *round)
{
	for (size_t i = 0; i < kind->servers; i++) {
		AUTO_FREE char *path = kind->is_postgresql
					       ? xasprintf("%s/.s.PGSQL.5432", root)
					       : xasprintf("%s/proxy%zu", root, i);
		if (round->through[i])
			proxy_end(&round->proxies[i]);
		unlink(path);
	}
}

static void run_round(int64_t ms, bool loses, unsigned seed, struct figures *figures)
{
	struct round round = { .stopped = -1, .seed = seed };
	size_t denied_before = figures->denied;

	round.until = clock_boot_ms() + ms;
	start_proxies(&round, !loses);
	for (int i = 0; i < PROCESSES; i++)
		start_process(&round, i);
	while (clock_boot_ms() < round.until)
		fault_step(&round, loses);
	resume(&round);
	for (int i = 0; i < PROCESSES; i++)
		assert_int_equal(finish(&round.processes[i]), 0);
	end_proxies(&round);
	size_t overlaps =
		take_events(loses && kind->servers == 0 && !kind->is_local, figures);
	if (overlaps > 0 && !loses)
		fail_msg("%s: %zu times two held a lease at once", kind->name, overlaps);
	if (figures->denied > denied_before && !loses)
		fail_msg("%s: the fence refused %zu that kept their lease", kind->name,
			 figures->denied - denied_before);
	assert_int_equal(figures->strange, 0);
}

static size_t wanted_grants(void)
{
	const char *text = getenv("REFRELAY_LEASE_GRANTS");

	return text ? strtoull(text, NULL, 10) : GRANTS_LEAST;
}

static unsigned first_seed(void)
{
	const char *text = getenv("REFRELAY_LEASE_SEED");

	return text ? (unsigned)strtoul(text, NULL, 10) : (unsigned)clock_wall_ns();
}

/* And on a line for tests/chaos/leases.sh. */
static void report(const struct figures *figures, unsigned seed, int64_t took_ms)
{
	print_message("# figures %s %zu %zu %zu %zu %zu %zu %zu %zu %zu %" PRId64 "\n",
		      kind->name, figures->grants, figures->published, figures->passed,
		      figures->takeovers, figures->lost, figures->refused,
		      figures->overlaps, figures->timeouts, figures->away,
		      took_ms / 1000);
	print_message(
		"# %s: %zu grants, %zu published, %zu handed on, %zu takeovers, %zu "
		"lost, %zu refused by the fence, %zu held by two at once, 0 of them "
		"not stopped; %zu timeouts, %zu times unavailable, %zu times a directory "
		"was removed under them; seed %u\n",
		kind->name, figures->grants, figures->published, figures->passed,
		figures->takeovers, figures->lost, figures->refused, figures->overlaps,
		figures->timeouts, figures->away, figures->torn, seed);
}

TEST(no_two_change_what_a_lease_guards_whatever_fails)
{
	unsigned seed = first_seed();
	struct figures figures = { 0 };
	size_t wanted = wanted_grants();
	int64_t ms = wanted > 10000 ? LONG_ROUND_MS : ROUND_MS;
	int64_t began = clock_boot_ms();

	for (unsigned i = 0; i < 2 || figures.grants < wanted || figures.takeovers == 0;
	     i++) {
		run_round(ms, i % 2 == 1, seed + i, &figures);
		figures.published = guarded_check(KEYS, kind->name);
	}
	report(&figures, seed, clock_boot_ms() - began);
	/* What stops those that are late lets nearly all others through. */
	assert_true(figures.published > figures.grants / 2);
}

/* A server that is alone keeps its data from now on. */
static void set_server_up(void)
{
	if (kind->servers != 1 || kind->is_postgresql)
		return;
	redis_kill(&servers[0]);
	redis_run(&servers[0], server_arguments());
	wait_until(redis_is_up(&servers[0]));
}

/* Of several servers, those that began lately do not vote. */
static void wait_for_votes(void)
{
	int64_t latest = 0;

	for (size_t i = 0; i < kind->servers && kind->servers > 1; i++)
		if (servers[i].started_at > latest)
			latest = servers[i].started_at;
	wait_until(latest == 0 || clock_boot_ms() - latest > FAULT_TTL + 3000);
}

static int setup(void **state)
{
	kind = *state;
	log_set_level(LOG_LEVEL_NONE);
	if (test_make_root(state) != 0)
		return -1;
	AUTO_FREE char *database = xasprintf("sqlite:%s/db", root);
	if (kind->is_local && store_open(database, &store, &err) != 0)
		return -1;
	set_server_up();
	wait_for_votes();
	return 0;
}

static int teardown(void **state)
{
	store_close(TAKE(store));
	return test_remove_root(state);
}

int main(int argc, char *argv[])
{
	struct CMUnitTest tests[ARRAY_SIZE(kinds)];
	size_t count = 0;

	if (argc > 7)
		return worker_main(argv);
	wanted_kind = argv[1];
	if (argc > 2 && strtoul(argv[2], NULL, 10) != ARRAY_SIZE(kinds))
		fail_msg("not every kind is a part in tests/unit/meson.build");
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (!is_wanted(&kinds[i]))
			continue;
		tests[count++] = (struct CMUnitTest){
			.name = kinds[i].name,
			.test_func = no_two_change_what_a_lease_guards_whatever_fails,
			.setup_func = setup,
			.teardown_func = teardown,
			.initial_state = (void *)(uintptr_t)&kinds[i],
		};
	}
	if (count == 0)
		fail_msg("there is no kind %s", wanted_kind);
	return _cmocka_run_group_tests("faults", tests, count, start_servers,
				       end_servers);
}
