#include "lease/directory_line.h"

#include "base/clock.h"
#include "base/file.h"
#include "lease/lease_backend.h"

#define INEXACT_MS 1000 /* so much "since when" may be too early */

int directory_line_stand(int key_fd, const struct owner *owner, struct next *ticket)
{
	char name[ENTRY_NAME_SIZE], id[17];
	int64_t stamp_ns;

	if (next_prepare(ticket, key_fd, owner) != 0 ||
	    symlinkat("-", ticket->fd, KEY_OFFER) != 0 ||
	    key_touch(ticket->fd, &stamp_ns) != 0)
		return -1;
	random_hex(id, 8);
	snprintf(name, sizeof(name), KEY_TICKET "%016" PRIx64 "-%s", (uint64_t)stamp_ns,
		 id);
	if (renameat(key_fd, ticket->name, key_fd, name) != 0 &&
	    !(errno == ENOENT && file_is_named(key_fd, name, ticket->fd)))
		return -1;
	memcpy(ticket->name, name, sizeof(name));
	return 0;
}

static int directory_line_stands(int key_fd, const struct next *ticket)
{
	if (file_is_named(key_fd, ticket->name, ticket->fd))
		return 1;
	return errno == ENOENT || errno == ESTALE ? 0 : -1;
}

/* It is watched before it is looked at: what is passed in between is told. Who is stopped
 * before it touches its ticket may touch a generation, which was taken back from it. */
int directory_line_ask(int key_fd, const struct next *ticket, int hint_fd, int64_t *at_ns)
{
	int stands;

	key_watch_move(hint_fd, ticket->fd);
	stands = directory_line_stands(key_fd, ticket);
	if (stands <= 0)
		return stands;
	if (key_touch(ticket->fd, at_ns) != 0)
		return -1;
	stands = directory_line_stands(key_fd, ticket);
	if (stands == 0 &&
	    faccessat(ticket->fd, KEY_OFFER, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
		key_stamp_released(ticket->fd);
	return stands;
}

enum line_state { LINE_WAITS, LINE_SILENT, LINE_DEAD };

/* One that cannot be read is being made a generation, or removed. */
static enum line_state directory_line_judge(int key_fd, const char *name, int64_t at_ns,
					    int hint_fd, struct owner *owner)
{
	AUTO_CLOSE int fd =
		openat(key_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || owner_read(fd, owner) != 0)
		return LINE_SILENT;
	key_watch_end(hint_fd, fd);
	enum key_life life = key_probe_life(fd, owner);
	if (life == LIFE_NONE || life == LIFE_ORPHANS)
		return LINE_DEAD;
	if (fstat(fd, &st) != 0)
		return LINE_SILENT;
	int64_t asked_ns =
		(int64_t)st.st_mtim.tv_sec * 1000 * NS_PER_MS + st.st_mtim.tv_nsec;
	return at_ns - asked_ns < DIRECTORY_LINE_SILENT_MS * NS_PER_MS &&
			       !key_is_ahead(asked_ns, at_ns)
		       ? LINE_WAITS
		       : LINE_SILENT;
}

ORDER_BY_TEXT(compare_places, struct key_entry, name);

/* The tickets among them, the first one first. */
static void directory_line_pick(const key_entries *entries, key_entries *tickets)
{
	for (size_t i = 0; i < entries->count; i++) {
		if (key_is_ticket(entries->items[i].name))
			vec_add(tickets, entries->items[i]);
	}
	vec_sort(tickets, compare_places);
}

int directory_line_before(int key_fd, const struct next *ticket, int64_t at_ns,
			  int hint_fd, struct owner *before)
{
	key_entries entries = { 0 }, tickets = { 0 };
	uint64_t latest;
	int found = key_list(key_fd, &entries, &latest);

	directory_line_pick(&entries, &tickets);
	size_t at = tickets.count;
	while (ticket && at > 0 && strcmp(tickets.items[at - 1].name, ticket->name) >= 0)
		at--;
	while (found == 0 && at-- > 0) {
		const char *name = tickets.items[at].name;
		enum line_state state =
			directory_line_judge(key_fd, name, at_ns, hint_fd, before);
		found = state == LINE_WAITS;
		if (state == LINE_DEAD)
			key_remove_ticket(key_fd, name);
	}
	vec_clear(&entries);
	vec_clear(&tickets);
	return found;
}

/* Who releases it late may have passed a number that was held, and removed, before. */
static int directory_line_is_latest(int key_fd, const struct next *ticket,
				    struct line_grant *grant)
{
	char name[ENTRY_NAME_SIZE];

	if (key_find_latest(key_fd, &grant->number, &grant->has_others) != 0)
		return -1;
	snprintf(name, sizeof(name), "%" PRIu64, grant->number);
	return grant->number != 0 && file_is_named(key_fd, name, ticket->fd);
}

/* The offer must go within the ttl as well: others may know nothing of offers. */
int directory_line_claim(int key_fd, const struct next *ticket, int64_t ttl_ms,
			 struct line_grant *grant)
{
	struct owner owner;
	struct stat st;

	int is_latest = directory_line_is_latest(key_fd, ticket, grant);
	if (is_latest <= 0 || fstat(ticket->fd, &st) != 0)
		return is_latest <= 0 ? is_latest : -1;
	if (unlinkat(ticket->fd, KEY_OFFER, 0) != 0)
		return errno == ENOENT ? 0 : -1;
	int64_t passed_ns =
		(int64_t)st.st_mtim.tv_sec * 1000 * NS_PER_MS + st.st_mtim.tv_nsec;
	if (owner_read(ticket->fd, &owner) != 0 ||
	    key_touch(ticket->fd, &grant->stamp_ns) != 0)
		return -1;
	grant->fence = owner.holder.fence;
	if (grant->stamp_ns - passed_ns < ttl_ms * NS_PER_MS)
		return 1;
	key_stamp_released(ticket->fd);
	return 0;
}

/* The fence that a ticket has from its beginning mostly does; and "since when" it has
 * from then is right but for as long as it waits. To write both anew takes longest of
 * all: so the fence is no greater than it must be, or those of all who wait already
 * would be below it. */
static int directory_line_describe(int key_fd, const char *name, uint64_t fence,
				   struct owner *owner)
{
	const int64_t waited_ms = clock_wall_ms() - owner->holder.acquired_at;
	AUTO_CLOSE int fd = -1;

	if (owner->holder.fence > fence && waited_ms >= 0 && waited_ms < INEXACT_MS)
		return 0;
	fd = openat(key_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (owner->holder.fence <= fence)
		owner->holder.fence = fence + 1;
	owner->holder.acquired_at = clock_wall_ms();
	return fd < 0 ? -1 : owner_replace(fd, owner);
}

/* 0: it has the lease now; 1: it has left; 2: the number is taken; -1. */
static int directory_line_give(int key_fd, const char *name, uint64_t number,
			       uint64_t fence, struct owner *owner)
{
	char next[ENTRY_NAME_SIZE];

	snprintf(next, sizeof(next), "%" PRIu64, number);
	if (directory_line_describe(key_fd, name, fence, owner) != 0)
		return errno == ENOENT || errno == ESTALE ? 1 : -1;
	if (renameat(key_fd, name, key_fd, next) == 0)
		return 0;
	if (errno == ENOENT || errno == ESTALE)
		return 1;
	return next_came_late(errno) ? 2 : -1;
}

/* 1: somebody has it; 0: nobody waits. */
static int directory_line_pass_to_first(int key_fd, const key_entries *tickets,
					uint64_t number, uint64_t fence, int64_t at_ns)
{
	struct owner owner;
	int given = 1;

	for (size_t i = 0; i < tickets->count && given == 1; i++) {
		const char *name = tickets->items[i].name;
		enum line_state state =
			directory_line_judge(key_fd, name, at_ns, -1, &owner);
		if (state == LINE_DEAD)
			key_remove_ticket(key_fd, name);
		if (state != LINE_WAITS)
			continue;
		given = directory_line_give(key_fd, name, number + 1, fence, &owner);
	}
	return given < 0 ? -1 : given != 1;
}

/* It stays itself, until its locks are gone. */
int directory_line_pass(int key_fd, uint64_t number, uint64_t fence)
{
	key_entries entries = { 0 }, tickets = { 0 };
	uint64_t latest;
	int64_t at_ns;
	int result = key_list(key_fd, &entries, &latest);

	directory_line_pick(&entries, &tickets);
	if (result == 0 && latest != number) {
		result = 1;
	} else if (result == 0 && tickets.count > 0) {
		result = key_touch(key_fd, &at_ns);
		if (result == 0)
			result = directory_line_pass_to_first(key_fd, &tickets, number,
							      fence, at_ns);
		if (result > 0) {
			usleep(LEASE_HEAD_START_US);
			key_sweep(key_fd, &entries, number, at_ns);
		}
	}
	vec_clear(&entries);
	vec_clear(&tickets);
	return result;
}

int directory_line_leave(int key_fd, const struct next *ticket)
{
	return key_remove_ticket(key_fd, ticket->name) == 0 ? 0
	       : errno == ENOENT                            ? 1
							    : -1;
}
