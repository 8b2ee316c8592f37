#include "lease/directory_key.h"

#include <sys/file.h>
#include <sys/inotify.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"

#define NEW_PREFIX ".new-"
#define OWNER_TO_BE "owner.new"

/* How long a contender may take to finish a generation that others then remove. */
#define UNFINISHED_NS (60000 * NS_PER_MS)

/* The server's clock may tick so seldom; stamps of whole seconds say that it does. */
#define TICK_NS (10 * NS_PER_MS)
#define SLOW_TICK_NS (1000 * NS_PER_MS)

void key_name(const char *key, char name[KEY_NAME_SIZE])
{
	AUTO_STR struct str hex = STR_INIT;

	hash_add_hex(HASH_SHA1, key, strlen(key), hash_size(HASH_SHA1), &hex);
	memcpy(name, hex.data, KEY_NAME_SIZE);
}

int key_error(const char *what, const char *key, struct err *err)
{
	err_errno(err, "cannot %s the lease %.200s", what, key);
	if (err->class != ERR_MISSING && err->class != ERR_CONFLICT)
		return -1;
	err->class = ERR_DISK;
	return err_remedy(err, "the directory of leases was moved, removed or unmounted: "
			       "bring it back and restart refrelay");
}

static int64_t mtime_ns(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000 * NS_PER_MS + st->st_mtim.tv_nsec;
}

bool key_is_ahead(int64_t stamp_ns, int64_t at_ns)
{
	return stamp_ns - at_ns > 2 * SLOW_TICK_NS;
}

int key_touch(int fd, int64_t *stamp_ns)
{
	struct stat st;

	if (futimens(fd, NULL) != 0 || fstat(fd, &st) != 0)
		return -1;
	*stamp_ns = mtime_ns(&st);
	return 0;
}

int key_stamp_released(int generation_fd)
{
	static const struct timespec in_1970[2];

	return futimens(generation_fd, in_1970);
}

static int owner_write_as(const char *name, int generation_fd, const struct owner *owner)
{
	char rest[OWNER_TEXT_SIZE], text[OWNER_TEXT_SIZE];

	owner_format(owner, rest);
	snprintf(text, sizeof(text), "fence=%" PRIu64 " %s", owner->holder.fence, rest);
	return symlinkat(text, generation_fd, name);
}

int owner_write(int generation_fd, const struct owner *owner)
{
	return owner_write_as("owner", generation_fd, owner);
}

/* What one that was killed has left there is in the way once. */
int owner_replace(int generation_fd, const struct owner *owner)
{
	if (owner_write_as(OWNER_TO_BE, generation_fd, owner) != 0 &&
	    (errno != EEXIST || unlinkat(generation_fd, OWNER_TO_BE, 0) != 0 ||
	     owner_write_as(OWNER_TO_BE, generation_fd, owner) != 0))
		return -1;
	return renameat(generation_fd, OWNER_TO_BE, generation_fd, "owner");
}

int owner_read(int generation_fd, struct owner *owner)
{
	char text[OWNER_TEXT_SIZE];
	ssize_t len = readlinkat(generation_fd, "owner", text, sizeof(text) - 1);

	*owner = (struct owner){ 0 };
	if (len < 0)
		return -1;
	text[len] = '\0';
	if (owner_parse(text, owner))
		return 0;
	errno = EBADMSG;
	return -1;
}

static void number_name(uint64_t number, char name[ENTRY_NAME_SIZE])
{
	snprintf(name, ENTRY_NAME_SIZE, "%" PRIu64, number);
}

int key_open_generation(int key_fd, uint64_t number)
{
	char name[ENTRY_NAME_SIZE];

	number_name(number, name);
	return openat(key_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* One call of getdents() gives all of so small a directory, as it is at one moment. */
int key_list(int key_fd, key_entries *entries, uint64_t *latest)
{
	AUTO_CLOSEDIR DIR *dir = dir_list(key_fd, ".");
	struct dirent *found;

	*latest = 0;
	while (dir && (errno = 0, found = readdir(dir)) != NULL) {
		struct key_entry entry = { .number = 0 };
		if (!text_to_uint64(found->d_name, &entry.number) &&
		    !text_starts_with(found->d_name, NEW_PREFIX))
			continue;
		snprintf(entry.name, sizeof(entry.name), "%.47s", found->d_name);
		vec_add(entries, entry);
		if (entry.number > *latest)
			*latest = entry.number;
	}
	return dir && errno == 0 ? 0 : -1;
}

/* What only a ticket has, or one that was killed left, is rarely there. */
int key_remove_entry(int key_fd, const char *name)
{
	AUTO_CLOSE int fd =
		openat(key_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0) {
		unlinkat(fd, "owner", 0);
		unlinkat(fd, "guard", 0);
	}
	if (unlinkat(key_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (fd < 0)
		return -1;
	unlinkat(fd, KEY_OFFER, 0);
	unlinkat(fd, OWNER_TO_BE, 0);
	return unlinkat(key_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -1;
}

/* Under another name first: whoever renames it to a number comes too late, or we do. */
int key_remove_ticket(int key_fd, const char *name)
{
	char away[ENTRY_NAME_SIZE], id[33];

	random_hex(id, 16);
	snprintf(away, sizeof(away), NEW_PREFIX "%s", id);
	if (renameat(key_fd, name, key_fd, away) != 0)
		return -1;
	key_remove_entry(key_fd, away);
	return 0;
}

bool key_is_ticket(const char *name)
{
	return text_starts_with(name, KEY_TICKET);
}

/* A ticket tells since when it has waited: a young one is not even looked at. */
static bool is_left_behind(int key_fd, const char *name, int64_t at_ns)
{
	struct stat st;

	if (key_is_ticket(name) &&
	    at_ns - (int64_t)strtoull(name + strlen(KEY_TICKET), NULL, 16) <
		    UNFINISHED_NS)
		return false;
	return fstatat(key_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       at_ns - mtime_ns(&st) >= UNFINISHED_NS;
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t x = ((const struct key_entry *)a)->number;
	uint64_t y = ((const struct key_entry *)b)->number;

	return x < y ? -1 : x > y;
}

/* From the lowest, and none above one that resists (an NFS client keeps what somebody has
 * open): so a number that is there and not the latest is always followed by the next. */
void key_sweep(int key_fd, key_entries *entries, uint64_t below, int64_t at_ns)
{
	bool resists = false;

	vec_sort(entries, compare_numbers);
	for (size_t i = 0; i < entries->count && !resists; i++) {
		const struct key_entry *entry = &entries->items[i];
		bool is_ticket = key_is_ticket(entry->name);
		if (entry->number == 0 && is_left_behind(key_fd, entry->name, at_ns))
			is_ticket ? key_remove_ticket(key_fd, entry->name)
				  : key_remove_entry(key_fd, entry->name);
		else if (entry->number != 0 && entry->number < below)
			resists = key_remove_entry(key_fd, entry->name) != 0;
	}
}

/* Numbers are made one by one: the next one is there, or ours is gone, and maybe made
 * again by a contender that has not noticed yet that it is late. */
int key_is_overtaken(int key_fd, uint64_t number, int generation_fd)
{
	char name[ENTRY_NAME_SIZE];
	struct stat named, ours;

	number_name(number + 1, name);
	if (fstatat(key_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	number_name(number, name);
	if (errno != ENOENT || fstat(generation_fd, &ours) != 0 ||
	    fstatat(key_fd, name, &named, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT || errno == ESTALE ? 1 : -1;
	return named.st_ino != ours.st_ino || named.st_dev != ours.st_dev;
}

/* Whether somebody has it locked; LIFE_UNKNOWN: locks do not work there. */
static enum key_life probe_lock(int fd)
{
	if (flock(fd, LOCK_SH | LOCK_NB) == 0)
		return LIFE_NONE;
	return errno == EWOULDBLOCK ? LIFE_ALIVE : LIFE_UNKNOWN;
}

/* The owner was written after the locks were taken: who can read it and lock them knows.
 * Without a guard nothing is known of children. */
enum key_life key_probe_life(int generation_fd, const struct owner *owner)
{
	AUTO_CLOSE int guard = -1;

	if (strcmp(owner->holder.boot_id, clock_boot_id()) != 0)
		return LIFE_UNKNOWN;
	guard = openat(generation_fd, "guard", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	enum key_life children = guard < 0 ? LIFE_UNKNOWN : probe_lock(guard);
	if (children != LIFE_ALIVE)
		return children;
	return probe_lock(generation_fd) == LIFE_NONE ? LIFE_ORPHANS : LIFE_ALIVE;
}

static void directory_key_set_verdict(struct key_view *view, bool is_free,
				      enum lease_predecessor predecessor,
				      const char *proof)
{
	view->is_free = is_free;
	view->predecessor = predecessor;
	view->owner.holder.is_dead = predecessor == LEASE_AFTER_DEATH;
	snprintf(view->owner.holder.proof, sizeof(view->owner.holder.proof), "%s", proof);
}

static void say_released(struct key_view *view)
{
	view->is_released = true;
	view->owner.holder.held = false;
	view->owner.holder.ttl_left_ms = 0;
	directory_key_set_verdict(
		view, true, view->owner.forced ? LEASE_AFTER_FORCE : LEASE_AFTER_RELEASE,
		"released");
}

/* It was passed to one that has not taken it up: the grant before it was released. */
static bool is_unclaimed(int generation_fd)
{
	return faccessat(generation_fd, KEY_OFFER, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int judge_by_life(int generation_fd, bool lapsed, struct key_view *view)
{
	struct stat st;

	switch (key_probe_life(generation_fd, &view->owner)) {
	case LIFE_NONE: /* a release ends with the locks, too */
		directory_key_set_verdict(view, true, LEASE_AFTER_DEATH,
					  "dead: process is gone");
		if (fstat(generation_fd, &st) != 0)
			return -1;
		if (mtime_ns(&st) == 0 || is_unclaimed(generation_fd))
			say_released(view);
		break;
	case LIFE_ORPHANS:
		view->orphans = true;
		directory_key_set_verdict(view, lapsed, LEASE_AFTER_DEATH,
					  "dead: process is gone");
		break;
	case LIFE_ALIVE:
		directory_key_set_verdict(view, lapsed, LEASE_AFTER_LAPSE,
					  lapsed ? "lapsed: alive but silent" : "alive");
		break;
	case LIFE_UNKNOWN:
		directory_key_set_verdict(view, lapsed, LEASE_AFTER_LAPSE, "unknown");
		break;
	}
	return 0;
}

/* Stamps are rounded down to a tick, so that the true silence may be that much less. A
 * heartbeat that is ahead was made before the server's clock was set back: it is made
 * anew, so that a dead holder's lease ends a ttl after somebody has looked. */
static int directory_key_check_heartbeat(int generation_fd, struct key_view *view)
{
	struct lease_holder *holder = &view->owner.holder;
	struct stat st;

	if (fstat(generation_fd, &st) != 0)
		return -1;
	int64_t beat = mtime_ns(&st);
	if (key_is_ahead(beat, view->at_ns) && key_touch(generation_fd, &beat) != 0)
		return -1;
	int64_t silent = view->at_ns - beat;
	bool whole = st.st_mtim.tv_nsec == 0 && view->at_ns % (1000 * NS_PER_MS) == 0;
	int64_t left = view->owner.ttl_ms * NS_PER_MS + (whole ? SLOW_TICK_NS : TICK_NS) -
		       silent;
	view->silent_ms = silent > 0 ? silent / NS_PER_MS : 0;
	if (beat == 0) {
		say_released(view);
		return 0;
	}
	holder->held = left > 0;
	holder->ttl_left_ms = left / NS_PER_MS;
	view->is_unclaimed =
		silent >= KEY_OFFER_MS * NS_PER_MS && is_unclaimed(generation_fd);
	return judge_by_life(generation_fd, left <= 0, view);
}

/* No watches left, or no /proc: those who wait ask again by themselves. */
static void key_watch(int hint_fd, int fd, const char *name, uint32_t what)
{
	char path[64];

	if (hint_fd < 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d%s", fd, name);
	inotify_add_watch(hint_fd, path, what | IN_ONESHOT);
}

void key_watch_end(int hint_fd, int fd)
{
	key_watch(hint_fd, fd, "/guard", IN_CLOSE_WRITE | IN_ATTRIB);
}

void key_watch_move(int hint_fd, int fd)
{
	key_watch(hint_fd, fd, "", IN_MOVE_SELF);
}

int key_take_back(int key_fd, uint64_t number)
{
	AUTO_CLOSE int fd = key_open_generation(key_fd, number);

	if (fd < 0 || unlinkat(fd, KEY_OFFER, 0) != 0)
		return errno == ENOENT ? 0 : -1;
	return key_stamp_released(fd);
}

int key_find_latest(int key_fd, uint64_t *latest, bool *has_tickets)
{
	key_entries entries = { 0 };
	int result = key_list(key_fd, &entries, latest);

	*has_tickets = false;
	for (size_t i = 0; i < entries.count; i++)
		*has_tickets |= key_is_ticket(entries.items[i].name);
	vec_clear(&entries);
	return result;
}

/* One without an owner is being removed: it was overtaken since it was listed, or is even
 * of a contender that made an old number again. */
static int look_at_latest(int key_fd, int hint_fd, struct key_view *view)
{
	uint64_t latest;
	bool ignored;
	AUTO_CLOSE int fd = key_open_generation(key_fd, view->number);

	if (fd < 0 && errno == ENOENT) {
		view->is_overtaken = true;
		return 0;
	}
	if (fd < 0)
		return -1;
	key_watch(hint_fd, fd, "", IN_ATTRIB | IN_DELETE);
	key_watch(hint_fd, fd, "/guard", IN_CLOSE_WRITE);
	if (owner_read(fd, &view->owner) == 0)
		return directory_key_check_heartbeat(fd, view);
	if (errno != ENOENT)
		return -1;
	if (key_find_latest(key_fd, &latest, &ignored) != 0)
		return -1;
	view->is_overtaken = latest != view->number;
	errno = EBADMSG;
	return view->is_overtaken ? 0 : -1;
}

/* The clock is read first: see directory.c. */
int key_look(int key_fd, const char *key, int hint_fd, struct key_view *view,
	     struct err *err)
{
	*view = (struct key_view){ .is_free = true };
	int result = key_touch(key_fd, &view->at_ns);
	if (result == 0)
		result = key_find_latest(key_fd, &view->number, &view->has_tickets);
	if (result == 0 && view->number != 0) {
		view->is_free = false;
		result = look_at_latest(key_fd, hint_fd, view);
	}
	snprintf(view->owner.holder.key, sizeof(view->owner.holder.key), "%s", key);
	if (result == 0)
		return 0;
	if (errno != EBADMSG)
		return key_error("look at", key, err);
	err_set(err, ERR_CORRUPT, "lease %.200s: its generation %" PRIu64 " has no owner",
		key, view->number);
	return err_remedy(err, "somebody wrote there: stop all who use these leases, "
			       "remove the key's directory, start them again");
}
