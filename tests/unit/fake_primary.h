/*
 * A primary inside the test: the functions of pull/primary.h over a directory of real
 * repositories, an event log in memory, and faults at will. Defining them all here keeps
 * the linker from taking the real ones.
 */
#ifndef UNIT_FAKE_PRIMARY_H
#define UNIT_FAKE_PRIMARY_H

#include "git_test.h"

#include "base/thread.h"
#include "git/checksum.h"
#include "pull/primary.h"

#define PATIENCE_MS 20000

/* Waits until an expression holds. */
#define eventually(expression)                                                           \
	do {                                                                             \
		int64_t until_ = clock_boot_ms() + PATIENCE_MS;                          \
		while (!(expression) && clock_boot_ms() < until_)                        \
			usleep(2000);                                                    \
		if (!(expression))                                                       \
			fail_msg("never: %s", #expression);                              \
	} while (0)

struct place {
	char *name; /* owned */
	char timeline[TIMELINE_SIZE];
	uint64_t generation;
};

struct primary {
	pthread_mutex_t mutex;
	char timeline[TIMELINE_SIZE];
	uint64_t first; /* the oldest event that is kept */
	event_list events;
	VEC(struct place) places;
	atomic_bool is_down, refs_hang, is_part;
	atomic_bool is_unscanned;  /* it has not looked at its blobs */
	atomic_bool is_new;        /* ... nor at its repositories */
	atomic_bool hides_events;  /* only questions for these fail */
	atomic_size_t events_most; /* in one answer; 0: as many as are asked for */
	atomic_size_t most;        /* repositories on a page of its inventory; 0: all */
	atomic_bool is_blind;      /* its inventory is empty, under the same tag */
	const char *address;       /* a link to its directory, if not that itself */
	const char *_Atomic fault; /* what is said when it is down */
	atomic_int pages, unchanged, asked_again, hanging, refused;
	atomic_int wait_s;  /* of the last question for events */
	atomic_int valid_s; /* of the last token for git */
	int second_ms;      /* how long one of those takes here */
	/* Called when a page has been read, before it is answered. */
	void (*between)(void);
	/* Of kinds other than repositories; NULL: it has none, or does not know yet. */
	int (*inventory)(const struct kind *kind, const struct page_question *question,
			 struct inventory_page *page, struct err *error);
};

struct primary_line {
	struct primary *primary;
	const struct stop *stop;
};

static struct primary fake;

static void draw(char text[TIMELINE_SIZE])
{
	static uint64_t last = 0x1234567890abcdef;

	last = last * 6364136223846793005u + 1442695040888963407u;
	snprintf(text, TIMELINE_SIZE, "%016" PRIx64, last);
}

static struct place *find_place(const char *name)
{
	for (size_t i = 0; i < fake.places.count; i++)
		if (strcmp(fake.places.items[i].name, name) == 0)
			return &fake.places.items[i];
	return NULL;
}

static int by_place(const void *a, const void *b)
{
	return strcmp(((const struct place *)a)->name, ((const struct place *)b)->name);
}

/* The refs on its disk now, and their checksum. */
static int look(const char *name, struct ref_snapshot *refs, char sum[CHECKSUM_TEXT_SIZE],
		struct err *error)
{
	AUTO_FREE char *path = xasprintf("%s/primary/%s.git", root, name);
	AUTO_REPO struct repo repo = REPO_INIT;
	struct checksum checksum;

	if (repo_open(AT_FDCWD, path, &repo, error) != 0 ||
	    ref_snapshot_read(repo.fd, repo.oid_len, refs, error) != 0)
		return -1;
	checksum_of(refs, &checksum);
	checksum_format(&checksum, sum);
	return 0;
}

static char *sum_of(const char *name)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	char sum[CHECKSUM_TEXT_SIZE];

	return look(name, &refs, sum, ERR_IGNORED) == 0 ? xstrdup(sum) : NULL;
}

static void log_event(const char *kind, const char *name, enum event_what what)
{
	struct place *place = find_place(name);
	struct event event = { .id = fake.events.count + 1,
			       .at = clock_wall_ms(),
			       .kind = xstrdup(kind),
			       .name = xstrdup(name),
			       .what = what };

	draw(event.mark);
	if (place) {
		memcpy(event.timeline, place->timeline, sizeof(event.timeline));
		event.generation = place->generation;
		event.checksum = what == EVENT_DELETED ? NULL : sum_of(name);
	}
	vec_add(&fake.events, event);
}

/* A repository appears, with or without an event; a change; it goes. */
enum reporting { REPORTED, UNTOLD };

static inline void appear(const char *name, enum reporting reporting)
{
	struct place place = { .name = xstrdup(name), .generation = 1 };

	must("mkdir -p $(dirname primary/%s) && "
	     "git clone -q --bare --no-hardlinks %s primary/%s.git",
	     name, store_path, name);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fake.mutex);
	draw(place.timeline);
	vec_add(&fake.places, place);
	vec_sort(&fake.places, by_place);
	if (reporting == REPORTED)
		log_event("repository", name, EVENT_CREATED);
}

static inline void change(const char *name, const char *ref, enum reporting reporting)
{
	must("git -C primary/%s.git update-ref %s v1^{}", name, ref);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fake.mutex);
	struct place *place = find_place(name);
	if (!place)
		fail();
	else
		place->generation++;
	if (reporting == REPORTED)
		log_event("repository", name, EVENT_UPDATED);
}

static inline void vanish(const char *name, enum reporting reporting)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fake.mutex);
	struct place *place = find_place(name);

	if (!place)
		abort();
	if (reporting == REPORTED)
		log_event("repository", name, EVENT_DELETED);
	must("rm -rf primary/%s.git", name);
	free(place->name);
	*place = fake.places.items[--fake.places.count];
	vec_sort(&fake.places, by_place);
}

/* 0: it has no such repository. */
static inline uint64_t generation_of(const char *name)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fake.mutex);
	const struct place *place = find_place(name);

	return place ? place->generation : 0;
}

static uint64_t last_event(void)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fake.mutex);

	return fake.events.count;
}

static void fake_init(void)
{
	fake = (struct primary){ .first = 1,
				 .second_ms = 1000,
				 .address = "primary",
				 .fault = "connection refused" };
	mutex_init(&fake.mutex);
	draw(fake.timeline);
	must("mkdir primary copies");
}

static void fake_clear(void)
{
	for (size_t i = 0; i < fake.places.count; i++)
		free(fake.places.items[i].name);
	vec_clear(&fake.places);
	event_list_clear(&fake.events);
	pthread_mutex_destroy(&fake.mutex);
}

void primary_health(struct primary *primary, struct primary_health *health)
{
	*health = (struct primary_health){ .heard_at = clock_wall_ms(),
					   .is_failing = primary->is_down };
}

int64_t primary_wait_ms(struct primary *primary)
{
	(void)primary;
	return 0;
}

int64_t primary_now_ms(struct primary *primary)
{
	(void)primary;
	return clock_wall_ms();
}

int primary_line_open(struct primary *primary, const struct stop *stop,
		      struct primary_line **line, struct err *error)
{
	(void)error;
	*line = xmalloc(sizeof(**line));
	**line = (struct primary_line){ primary, stop };
	return 0;
}

void primary_line_close(struct primary_line *line)
{
	free(line);
}

void primary_line_limit(struct primary_line *line, int64_t most_ms)
{
	(void)line;
	(void)most_ms;
}

static int check_up(const struct primary_line *line, struct err *error)
{
	if (stop_is_requested(line->stop))
		return err_set(error, ERR_CANCELED, "asked to stop");
	if (!line->primary->is_down)
		return 0;
	line->primary->refused++;
	return err_set(error, ERR_NETWORK, "%s", line->primary->fault);
}

static void set_ends(struct event_ends *ends)
{
	size_t count = fake.events.count;

	*ends = (struct event_ends){ .first = fake.first, .last = count };
	memcpy(ends->timeline, fake.timeline, sizeof(ends->timeline));
	if (count > 0)
		memcpy(ends->mark, fake.events.items[count - 1].mark, sizeof(ends->mark));
}

static enum event_read how_to_read(const struct wire_events_question *question)
{
	if (!question->has_cursor)
		return EVENTS_READ;
	if (question->after > fake.events.count ||
	    (question->after > 0 &&
	     strcmp(question->mark, fake.events.items[question->after - 1].mark) != 0))
		return EVENTS_OTHER_TIMELINE;
	return question->after + 1 < fake.first ? EVENTS_GONE : EVENTS_READ;
}

static void copy_event(const struct event *from, event_list *to)
{
	struct event event = *from;

	event.kind = xstrdup(from->kind);
	event.name = xstrdup(from->name);
	event.checksum = from->checksum ? xstrdup(from->checksum) : NULL;
	vec_add(to, event);
}

static bool read_events(const struct wire_events_question *question,
			struct primary_events *answer)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fake.mutex);
	uint64_t next = question->has_cursor ? question->after : fake.first - 1;
	size_t most = fake.events_most ? fake.events_most : question->limit;

	answer->how = how_to_read(question);
	answer->time_ms = clock_wall_ms();
	set_ends(&answer->ends);
	for (; answer->how == EVENTS_READ && next < fake.events.count &&
	       answer->events.count < most;
	     next++)
		copy_event(&fake.events.items[next], &answer->events);
	return answer->events.count > 0 || answer->how != EVENTS_READ;
}

int primary_events(struct primary_line *line, const struct wire_events_question *question,
		   struct primary_events *answer, struct err *error)
{
	int64_t until = clock_boot_ms() + question->wait_s * fake.second_ms;

	*answer = (struct primary_events){ 0 };
	line->primary->wait_s = (int)question->wait_s;
	for (;;) {
		if (check_up(line, error) != 0)
			return -1;
		if (line->primary->hides_events)
			return err_set(error, ERR_NETWORK, "%s", line->primary->fault);
		if (read_events(question, answer) || clock_boot_ms() >= until)
			return 0;
		stop_wait(line->stop, 2);
	}
}

int primary_last_event(struct primary_line *line, struct event_ends *ends,
		       struct err *error)
{
	if (check_up(line, error) != 0)
		return -1;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fake.mutex);
	set_ends(ends);
	return 0;
}

static void read_page(const char *after, size_t limit, struct inventory_page *page)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fake.mutex);

	struct event_ends ends;

	set_ends(&ends);
	memcpy(page->timeline, ends.timeline, sizeof(page->timeline));
	memcpy(page->last_mark, ends.mark, sizeof(page->last_mark));
	page->last_event = ends.last;
	page->is_part = fake.is_part;
	for (size_t i = 0; !fake.is_blind && i < fake.places.count && !page->next; i++) {
		const struct place *place = &fake.places.items[i];
		struct inventory_item item = { .generation = place->generation,
					       .changed_at = clock_wall_ms() };
		if (after && strcmp(place->name, after) <= 0)
			continue;
		if (page->items.count == limit) {
			page->next = xstrdup(page->items.items[limit - 1].name);
			continue;
		}
		item.name = xstrdup(place->name);
		item.checksum = sum_of(place->name);
		item.is_unreadable = !item.checksum;
		memcpy(item.timeline, place->timeline, sizeof(item.timeline));
		vec_add(&page->items, item);
	}
}

/* It has no blobs, or does not know yet. */
int primary_inventory(struct primary_line *line, const struct kind *kind,
		      const struct page_question *question, struct inventory_page *page,
		      struct err *error)
{
	const char *etag = question->etag;
	char now[sizeof(page->etag)];

	if (check_up(line, error) != 0)
		return -1;
	if (!kind_is_repository(kind->type) && fake.inventory)
		return fake.inventory(kind, question, page, error);
	if (!kind_is_repository(kind->type))
		return line->primary->is_unscanned ? INVENTORY_NOT_SCANNED
						   : INVENTORY_NO_KIND;
	snprintf(now, sizeof(now), "\"%s-%" PRIu64 "%s\"", fake.timeline, last_event(),
		 fake.is_part ? "-part" : "");
	if (fake.is_new) {
		fake.refused++;
		return INVENTORY_NOT_SCANNED;
	}
	if (etag && strcmp(etag, now) == 0) {
		fake.unchanged++;
		return 0;
	}
	fake.pages++;
	*page = (struct inventory_page){ 0 };
	memcpy(page->etag, now, sizeof(now));
	read_page(question->after, fake.most ? fake.most : question->limit, page);
	if (fake.between)
		fake.between();
	return 1;
}

int primary_refs(struct primary_line *line, const char *name, struct wire_refs *refs,
		 struct err *error)
{
	fake.hanging++;
	while (fake.refs_hang && !stop_is_requested(line->stop))
		stop_wait(line->stop, 2);
	fake.hanging--;
	if (check_up(line, error) != 0)
		return -1;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&fake.mutex);
	const struct place *place = find_place(name);
	*refs = (struct wire_refs){ .oid_len = 20 };
	if (!place)
		return err_set(error, ERR_MISSING, "no such repository");
	if (look(name, &refs->refs, refs->checksum, error) != 0)
		return -1;
	memcpy(refs->timeline, place->timeline, sizeof(refs->timeline));
	memcpy(refs->log, fake.timeline, sizeof(refs->log));
	refs->generation = place->generation;
	return 0;
}

int primary_blob_read(struct primary_line *line, const struct blob_part *part,
		      const struct blob_part_sink *sink, struct err *error)
{
	(void)line;
	(void)part;
	(void)sink;
	return err_set(error, ERR_MISSING, "no such blob");
}

int primary_blob_read_many(struct primary_line *line, const struct blob_many *many,
			   const struct wire_frame_sink *sink, struct err *error)
{
	(void)line;
	(void)many;
	(void)sink;
	return err_set(error, ERR_MISSING, "no such blob");
}

bool primary_line_was_answered(const struct primary_line *line)
{
	return !line->primary->is_down;
}

int primary_packs(struct primary_line *line, const char *name, wire_packs *packs,
		  struct err *error)
{
	(void)line;
	(void)name;
	(void)packs;
	return err_set(error, ERR_CONFIG, "fetch it by git");
}

int primary_pack_read(struct primary_line *line, const struct pack_part *part,
		      const struct pack_part_sink *sink, struct err *error)
{
	(void)line;
	(void)part;
	(void)sink;
	return err_set(error, ERR_MISSING, "no such pack");
}

int primary_reverify(struct primary_line *line, const char *type, const char *name,
		     struct err *error)
{
	(void)name;
	if (!kind_is_repository(type))
		return err_set(error, ERR_MISSING, "no such blob");
	fake.asked_again++;
	return check_up(line, error);
}

int primary_git(struct primary *primary, const char *name, int64_t valid_s, char **url,
		char **header, struct err *error)
{
	(void)error;
	primary->valid_s = (int)valid_s;
	*url = primary_url(primary, name);
	*header = NULL;
	return 0;
}

char *primary_url(const struct primary *primary, const char *name)
{
	return xasprintf("%s/%s/%s.git", root, primary->address, name);
}

#endif
