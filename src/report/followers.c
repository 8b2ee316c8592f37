/*
 * A node that was started again has another name than before, and the name before never
 * comes back. So a name that does come back after another was heard is of a node that
 * runs beside it: as of a machine that was cloned with its configuration. Its database
 * may be a clone, too, which is why the name is drawn at each start and kept nowhere.
 */
#include "report/followers.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "report/report_metrics.h"
#include "wire/wire_report.h"

enum { NODES_KEPT = 4, NODE_SIZE = 33, WRITE_EACH_MS = 5000 };

#define TWICE_MS ((int64_t)10 * 60 * 1000)

struct seen_node {
	char name[NODE_SIZE];
	int64_t at; /* boot ms */
};

struct expected {
	char *site;                         /* owned */
	int64_t at, told_at;                /* boot ms; 0: never */
	struct seen_node nodes[NODES_KEPT]; /* the newest first */
	int64_t twice_until;                /* boot ms */
	text_list leaves_out;
};

struct followers {
	pthread_mutex_t mutex;
	VEC(struct expected) sites; /* guarded by mutex */
};

static void copy_kinds(const text_list *from, text_list *to)
{
	for (size_t i = 0; i < from->count; i++)
		vec_add(to, xstrdup(from->items[i]));
}

struct followers *followers_new(void)
{
	struct followers *followers = xcalloc(1, sizeof(*followers));

	mutex_init(&followers->mutex);
	return followers;
}

static void expected_clear(struct expected *one)
{
	free(one->site);
	text_list_clear(&one->leaves_out);
}

static void clear_sites(struct followers *followers)
{
	vec_clear_each(&followers->sites, expected_clear);
}

void followers_free(struct followers *followers)
{
	if (!followers)
		return;
	clear_sites(followers);
	pthread_mutex_destroy(&followers->mutex);
	free(followers);
}

static struct expected *followers_find_locked(struct followers *followers,
					      const char *site)
{
	for (size_t i = 0; i < followers->sites.count; i++)
		if (strcmp(followers->sites.items[i].site, site) == 0)
			return &followers->sites.items[i];
	return NULL;
}

struct names {
	const char *const *items;
	size_t count;
};

static bool followers_is_named(const struct names *names, const char *name)
{
	for (size_t i = 0; i < names->count; i++)
		if (strcmp(names->items[i], name) == 0)
			return true;
	return false;
}

static void followers_replace_sites(struct followers *followers, const char *const *sites,
				    size_t count)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&followers->mutex);
	struct followers wanted = { 0 };

	for (size_t i = 0; i < count; i++) {
		struct expected *known = followers_find_locked(followers, sites[i]);
		struct expected one = known ? *known : (struct expected){ 0 };
		one.site = xstrdup(sites[i]);
		if (known)
			known->leaves_out = (text_list){ 0 };
		vec_add(&wanted.sites, one);
	}
	for (size_t i = 0; i < followers->sites.count; i++)
		if (!followers_is_named(&(struct names){ sites, count },
					followers->sites.items[i].site))
			report_metrics_forget(followers->sites.items[i].site);
	clear_sites(followers);
	followers->sites.items = wanted.sites.items;
	followers->sites.count = wanted.sites.count;
	followers->sites.capacity = wanted.sites.capacity;
}

void followers_leave_out(struct followers *followers, const char *site,
			 const text_list *kinds)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&followers->mutex);
	struct expected *one = followers_find_locked(followers, site);

	if (!one)
		return;
	text_list_clear(&one->leaves_out);
	copy_kinds(kinds, &one->leaves_out);
}

static int followers_forget_site(struct store_tx *tx, const char *site, struct err *err)
{
	return query_write(tx, err, "DELETE FROM secondary WHERE site = ?1",
			   QUERY_TEXT(site));
}

/* The first that is not expected, or NULL. */
static int followers_find_stranger(struct store_tx *tx, const struct names *expected,
				   char **site, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	*site = NULL;
	if (query_open(tx, "SELECT site FROM secondary ORDER BY site", &query, err) != 0)
		return -1;
	while (!*site && (found = query_step(query, err)) > 0)
		if (!followers_is_named(expected, query_text(query, 0)))
			*site = xstrdup(query_text(query, 0));
	return *site || found == 0 ? 0 : -1;
}

static int forget_strangers(struct store_tx *tx, void *arg, struct err *err)
{
	for (;;) {
		AUTO_FREE char *site = NULL;
		if (followers_find_stranger(tx, arg, &site, err) != 0)
			return -1;
		if (!site)
			return 0;
		if (followers_forget_site(tx, site, err) != 0)
			return -1;
	}
}

int followers_expect(struct followers *followers, struct store *store,
		     const char *const *sites, size_t count, struct err *err)
{
	struct names names = { sites, count };

	followers_replace_sites(followers, sites, count);
	return store_write(store, forget_strangers, &names, err);
}

/* Whether this node was heard before another that was heard last. */
static bool note_node(struct expected *site, const char *name, int64_t now)
{
	struct seen_node *nodes = site->nodes;
	size_t at = 0;

	while (at < NODES_KEPT - 1 && strcmp(nodes[at].name, name) != 0)
		at++;
	bool comes_back = at > 0 && strcmp(nodes[at].name, name) == 0;
	for (; at > 0; at--)
		nodes[at] = nodes[at - 1];
	nodes[0].at = now;
	snprintf(nodes[0].name, sizeof(nodes[0].name), "%s", name);
	return comes_back;
}

/* Whether that is news. */
static bool seen_locked(struct expected *site, const char *name)
{
	int64_t now = clock_boot_ms();
	bool was_twice = now < site->twice_until;

	site->at = now;
	if (!name || !note_node(site, name, now))
		return false;
	site->twice_until = now + TWICE_MS;
	return !was_twice;
}

void followers_seen(struct followers *followers, const char *site, const char *report)
{
	AUTO_WIRE_REPORT struct wire_report said = { 0 };
	bool is_news = false;

	if (report && wire_report_parse(report, &said, ERR_IGNORED) != 0)
		wire_report_clear(&said);
	lock(&followers->mutex);
	struct expected *one = followers_find_locked(followers, site);
	if (one)
		is_news = seen_locked(one, said.node);
	unlock(&followers->mutex);
	if (is_news)
		log_warn(
			"secondary.twice", LOG_TEXT("peer", site),
			LOG_TEXT("remedy",
				 "two nodes use this site.name: stop one of them, or "
				 "give it its own name, secret and [secondary] section"));
}

void followers_told(struct followers *followers, const char *site)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&followers->mutex);
	struct expected *one = followers_find_locked(followers, site);

	if (one)
		one->told_at = clock_boot_ms();
}

struct observing {
	const char *site;
	uint64_t cursor;
	const char *report;
	bool is_known; /* written less than WRITE_EACH_MS ago, and says the same */
};

static int followers_look_up(struct store_tx *tx, void *arg, struct err *err)
{
	struct observing *observing = arg;
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_ask(tx, &query, err,
		      "SELECT cursor_id, report, seen_at FROM secondary WHERE site = ?1",
		      QUERY_TEXT(observing->site)) != 0)
		return -1;
	found = query_step(query, err);
	observing->is_known = false;
	if (found <= 0)
		return found;
	const char *report = query_text(query, 1);
	bool is_same = (uint64_t)query_int(query, 0) == observing->cursor &&
		       strcmp(report ? report : "", observing->report) == 0;
	observing->is_known =
		is_same && clock_wall_ms() - query_int(query, 2) < WRITE_EACH_MS;
	return 0;
}

int followers_record(struct store *store, const char *site, uint64_t cursor,
		     const char *report, struct err *err)
{
	struct observing observing = { .site = site, .cursor = cursor, .report = report };
	AUTO_WIRE_REPORT struct wire_report said = { 0 };

	if (wire_report_parse(report, &said, err) != 0)
		return err_prefix(err, WIRE_REPORT);
	if (store_read(store, followers_look_up, &observing, err) != 0)
		return -1;
	if (observing.is_known)
		return 0;
	return store_run(store, err,
			 "INSERT INTO secondary (site, cursor_id, report, seen_at)"
			 " VALUES (?1, ?2, ?3, ?4) ON CONFLICT (site) DO UPDATE SET"
			 " cursor_id = ?2, report = ?3, seen_at = ?4",
			 QUERY_TEXT(site), QUERY_INT((int64_t)cursor), QUERY_TEXT(report),
			 QUERY_INT(clock_wall_ms()));
}

static int64_t followers_compute_age(int64_t at, int64_t now)
{
	return at > 0 ? now - at : -1;
}

void followers_look(struct followers *followers, follower_list *list)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&followers->mutex);
	int64_t now = clock_boot_ms();

	for (size_t i = 0; i < followers->sites.count; i++) {
		const struct expected *one = &followers->sites.items[i];
		struct follower now_is = { .site = xstrdup(one->site),
					   .age_ms = followers_compute_age(one->at, now),
					   .told_age_ms = followers_compute_age(
						   one->told_at, now),
					   .is_twice = now < one->twice_until };
		copy_kinds(&one->leaves_out, &now_is.leaves_out);
		vec_add(list, now_is);
	}
}

void follower_list_copy(const follower_list *from, follower_list *to)
{
	for (size_t i = 0; i < from->count; i++) {
		struct follower one = from->items[i];
		one.site = xstrdup(one.site);
		one.leaves_out = (text_list){ 0 };
		copy_kinds(&from->items[i].leaves_out, &one.leaves_out);
		vec_add(to, one);
	}
}

static void follower_clear(struct follower *one)
{
	free(one->site);
	text_list_clear(&one->leaves_out);
}

void follower_list_clear(follower_list *list)
{
	vec_clear_each(list, follower_clear);
}
