#include "change/pushed.h"

#include "base/log.h"
#include "change/notice_parts.h"
#include "store/site_value.h"

#define COUNTER "repository.pushed_deletions"

struct adding {
	const char *name;
	int64_t by;
};

static int pushed_add_work(struct store_tx *tx, void *arg, struct err *err)
{
	const struct adding *adding = arg;

	return counter_add(tx, COUNTER, adding->name, adding->by, err);
}

static int pushed_add_count(struct notice *notice, const char *name, int64_t by,
			    struct err *err)
{
	struct adding adding = { name, by };

	return store_write(notice->options.store, pushed_add_work, &adding, err);
}

/* Of pushes that are not over. */
static void count_running(struct notice *notice, const char *name, int64_t by)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&notice->mutex);
	int64_t *count = map_get(&notice->deleting, name);

	if (!count) {
		count = xcalloc(1, sizeof(*count));
		map_put(&notice->deleting, name, count);
	}
	*count += by;
	if (*count == 0)
		free(map_remove(&notice->deleting, name));
}

int pushed_begin(struct notice *notice, const char *name, size_t deletions,
		 struct err *err)
{
	count_running(notice, name, (int64_t)deletions);
	if (pushed_add_count(notice, name, (int64_t)deletions, err) == 0)
		return 0;
	count_running(notice, name, -(int64_t)deletions);
	return -1;
}

void pushed_end(struct notice *notice, const char *name, size_t deletions, size_t refused)
{
	struct err err;

	if (refused > 0 && pushed_add_count(notice, name, -(int64_t)refused, &err) != 0)
		log_warn("change.deletions_miscounted", LOG_ERR(&err),
			 LOG_TEXT("repo", name));
	count_running(notice, name, -(int64_t)deletions);
}

struct reading {
	const char *name;
	int64_t announced;
};

static int pushed_read_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct reading *reading = arg;

	return counter_get(tx, COUNTER, reading->name, &reading->announced, err);
}

/* The durable number first: of a push that begins meanwhile too little counts as settled,
 * which only lets the deletion limit be late. */
int pushed_read(struct notice *notice, const char *name, struct pushed *pushed,
		struct err *err)
{
	struct reading reading = { .name = name };
	int64_t running;
	const int64_t *count;

	if (store_read(notice->options.store, pushed_read_work, &reading, err) != 0)
		return -1;
	lock(&notice->mutex);
	count = map_get(&notice->deleting, name);
	running = count ? *count : 0;
	unlock(&notice->mutex);
	pushed->announced = (uint64_t)reading.announced;
	pushed->settled =
		reading.announced > running ? (uint64_t)(reading.announced - running) : 0;
	return 0;
}

int pushed_forget(struct store_tx *tx, const char *name, struct err *err)
{
	return counter_remove(tx, COUNTER, name, err);
}
