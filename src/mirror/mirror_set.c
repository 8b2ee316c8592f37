/*
 * An array in byte order, which is replaced as a whole. What was in it stays until the
 * end: jobs and polls have pointers to it. That is little, since a mirror is replaced
 * only when its list names another URL, has lost it, or has it again; of a list that does
 * so again and again no more is taken when there are too many.
 */
#include "mirror/mirror_set.h"

#include "base/thread.h"

/* So many former ones, and more for each present one, which may all move. */
#define FORMER_LEAST 10000
#define FORMER_EACH 20

struct mirror_set {
	pthread_mutex_t mutex;
	mirror_pointers items;  /* guarded by the mutex, as all of these */
	mirror_pointers former; /* not in it any more */
};

struct mirror_set *mirror_set_new(void)
{
	struct mirror_set *set = xcalloc(1, sizeof(*set));

	mutex_init(&set->mutex);
	return set;
}

void mirror_free(struct mirror *mirror)
{
	free(mirror->name);
	free(mirror->written);
	free(mirror->url);
	free(mirror->webhook_secret_file);
	free(mirror->then);
	free(mirror->then_secret_file);
	free(mirror->then_ca_file);
	free(mirror->ca_file);
	text_list_clear(&mirror->refs);
	text_list_clear(&mirror->exclude_refs);
	uri_text_clear(&mirror->uri);
	free(mirror);
}

static void mirror_set_free_told(mirror_pointers *mirrors)
{
	for (size_t i = 0; i < mirrors->count; i++)
		if (mirrors->items[i]->list)
			mirror_free(mirrors->items[i]);
	vec_clear(mirrors);
}

void mirror_set_free(struct mirror_set *set)
{
	if (!set)
		return;
	mirror_set_free_told(&set->items);
	mirror_set_free_told(&set->former);
	pthread_mutex_destroy(&set->mutex);
	free(set);
}

/* Where the first is that is not below the name. */
static size_t mirror_set_place(const mirror_pointers *mirrors, const char *name)
{
	size_t low = 0, high = mirrors->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strcmp(mirrors->items[middle]->name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct mirror *mirror_set_at_place(const mirror_pointers *mirrors, size_t at,
					  const char *name)
{
	return at < mirrors->count && strcmp(mirrors->items[at]->name, name) == 0
		       ? mirrors->items[at]
		       : NULL;
}

static struct mirror *mirror_set_search(const mirror_pointers *mirrors, const char *name)
{
	return mirror_set_at_place(mirrors, mirror_set_place(mirrors, name), name);
}

void mirror_set_replace(struct mirror_set *set, mirror_pointers *mirrors)
{
	mirror_pointers before;

	lock(&set->mutex);
	before = set->items;
	set->items = *mirrors;
	for (size_t i = 0; i < before.count; i++)
		if (mirror_set_search(&set->items, before.items[i]->name) !=
		    before.items[i])
			vec_add(&set->former, before.items[i]);
	unlock(&set->mutex);
	vec_clear(&before);
	*mirrors = (mirror_pointers){ 0 };
}

const struct mirror *mirror_set_find(struct mirror_set *set, const char *name)
{
	if (!set)
		return NULL;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&set->mutex);

	return mirror_set_search(&set->items, name);
}

struct mirror *mirror_set_find_same(struct mirror_set *set,
				    const struct mirror_list *list, const char *name,
				    const char *url)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&set->mutex);
	struct mirror *found = mirror_set_search(&set->items, name);

	return found && found->list == list && (!url || strcmp(found->url, url) == 0)
		       ? found
		       : NULL;
}

bool mirror_set_is_full(struct mirror_set *set, size_t told)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&set->mutex);
	size_t present = told > set->items.count ? told : set->items.count;

	return set->former.count >= FORMER_LEAST + FORMER_EACH * present;
}

size_t mirror_set_count(struct mirror_set *set)
{
	if (!set)
		return 0;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&set->mutex);

	return set->items.count;
}

const struct mirror *mirror_set_after(struct mirror_set *set, const char *name)
{
	if (!set)
		return NULL;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&set->mutex);
	size_t at = name ? mirror_set_place(&set->items, name) : 0;

	if (name && mirror_set_at_place(&set->items, at, name))
		at++;
	return at < set->items.count ? set->items.items[at] : NULL;
}
