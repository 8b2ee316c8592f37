/*
 * Contenders for one lease, for bench/lib/rows_leases.py.
 *
 * usage: lease_storm BACKEND FOLDER DATA storm|single THREADS SECONDS HOLD_US [URL...]
 *
 * storm: each thread takes the lease again and again; afterwards a line a grant: thread,
 * microseconds of waiting, of the grant and of its end, by one clock of the machine.
 * single: microseconds of each acquire and release of one thread, a line each.
 * BACKEND is local, directory, redis, postgresql, redlock (in the format of other
 * programs), or flock and ping to compare with.
 */
#include <signal.h>
#include <sys/file.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "lease/directory.h"
#include "lease/lease.h"
#include "lease/postgresql.h"
#include "lease/redis_client.h"
#include "store/store.h"

struct grant {
	int64_t waited, from, to;
};

struct contender {
	pthread_t thread;
	VEC(struct grant) grants;
};

static struct lease_manager *manager;
static struct store *store;
static const char *backend, *lock_path;
static struct redis_address address;
static int64_t until_us, hold_us;

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void fail(const struct err *err)
{
	fprintf(stderr, "lease_storm: %s\n", err->text);
	exit(1);
}

static void open_backend(const char *folder, const char *data, const char *const *urls,
			 size_t count)
{
	AUTO_FREE char *own = xasprintf("%s/%s", folder, data);
	AUTO_FREE char *shared = xasprintf("%s/shared", folder);
	AUTO_FREE char *database = xasprintf("sqlite:%s/db", folder);
	struct lease_options options = {
		.directory = shared, .urls = urls, .url_count = count, .prefix = "bench:"
	};
	struct err err;
	int result = 0;

	if (strcmp(backend, "local") == 0) {
		result = store_open(database, &store, &err);
		if (result == 0)
			result =
				lease_manager_open_local(store, &options, &manager, &err);
	} else if (strcmp(backend, "directory") == 0) {
		result = lease_manager_open_directory(&options, &manager, &err);
	} else if (strcmp(backend, "redis") == 0) {
		options.directory = own;
		result = lease_manager_open_redis(&options, &manager, &err);
	} else if (strcmp(backend, "postgresql") == 0) {
		options.directory = own;
		result = lease_manager_open_postgresql(&options, &manager, &err);
	} else if (strcmp(backend, "redlock") == 0) {
		options.redlock_format = true;
		options.prefix = NULL;
		result = lease_manager_open_redis(&options, &manager, &err);
	} else if (strcmp(backend, "ping") == 0) {
		result = redis_address_parse(urls[0], &address, &err);
	}
	if (result != 0)
		fail(&err);
}

static struct lease *take(int *fd)
{
	const struct lease_request request = { .key = "storm",
					       .operation = "bench",
					       .wait_ms = 60000 };
	struct lease *lease = NULL;
	struct err err;

	if (!manager) {
		*fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (*fd < 0 || flock(*fd, LOCK_EX) != 0)
			abort();
	} else if (lease_acquire(manager, &request, &lease, &err) != 0) {
		fail(&err);
	}
	return lease;
}

static void give_up(struct lease *lease, int fd)
{
	if (manager)
		lease_release(lease);
	else
		close(fd);
}

static void *contend(void *arg)
{
	struct contender *contender = arg;
	int fd = -1;

	while (now_us() < until_us) {
		struct grant grant = { .waited = now_us() };
		struct lease *lease = take(&fd);
		grant.from = now_us();
		grant.waited = grant.from - grant.waited;
		usleep((useconds_t)hold_us);
		grant.to = now_us();
		give_up(lease, fd);
		vec_add(&contender->grants, grant);
	}
	return NULL;
}

static void storm(int count)
{
	struct contender *contenders = xcalloc((size_t)count, sizeof(*contenders));

	for (int i = 0; i < count; i++)
		thread_start(&contenders[i].thread, "contender", contend, &contenders[i]);
	for (int i = 0; i < count; i++)
		thread_join(contenders[i].thread);
	for (int i = 0; i < count; i++) {
		for (size_t j = 0; j < contenders[i].grants.count; j++) {
			const struct grant *grant = &contenders[i].grants.items[j];
			printf("%d %" PRId64 " %" PRId64 " %" PRId64 "\n", i,
			       grant->waited, grant->from, grant->to);
		}
		vec_clear(&contenders[i].grants);
	}
	free(contenders);
}

static void ping(struct redis_connection *connection)
{
	struct redis_request request;

	redis_request_init(&request, connection);
	redis_request_add(&request, 1, (const char *[]){ "PING" });
	redis_exchange(&request, 1, 1, clock_boot_ms() + 1000, 0);
	if (request.progress != REDIS_ANSWERED)
		fail(&request.err);
	redis_request_clear(&request);
}

static void single(void)
{
	static const struct redis_access access;
	struct redis_connection *connection = redis_connection_new(&address, &access);
	int fd = -1;

	while (now_us() < until_us) {
		int64_t before = now_us();
		if (address.text) {
			ping(connection);
		} else {
			struct lease *lease = take(&fd);
			give_up(lease, fd);
		}
		printf("%" PRId64 "\n", now_us() - before);
	}
	redis_connection_free(connection);
}

int main(int argc, char *argv[])
{
	if (argc < 8)
		return 2;
	log_set_level(LOG_LEVEL_NONE);
	backend = argv[1];
	AUTO_FREE char *lock = xasprintf("%s/lock", argv[2]);
	lock_path = lock;
	hold_us = atoll(argv[7]);
	open_backend(argv[2], argv[3], (const char *const *)(argv + 8), (size_t)argc - 8);
	until_us = now_us() + (int64_t)(strtod(argv[6], NULL) * 1e6);
	if (strcmp(argv[4], "storm") == 0)
		storm(atoi(argv[5]));
	else
		single();
	lease_manager_close(manager);
	store_close(store);
	redis_address_clear(&address);
	return 0;
}
