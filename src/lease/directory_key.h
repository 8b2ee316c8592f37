/*
 * One key's directory (directory.h has its form): its entries and their meaning.
 * Functions without a `struct err *` return -1 with errno set.
 */
#ifndef LEASE_DIRECTORY_KEY_H
#define LEASE_DIRECTORY_KEY_H

#include "base/vec.h"
#include "lease/directory.h"

#define KEY_NAME_SIZE 41 /* the directory's: a sha1 in hexadecimal */
#define ENTRY_NAME_SIZE 48
#define NS_PER_MS INT64_C(1000000)

/* Then the server's ns, hexadecimal, "-", and something random. */
#define KEY_TICKET ".new-w"
#define KEY_OFFER "offer"

/* How long a process may take to accept a lease passed to it. Longer than the poll
 * interval of waiters without notifications. */
#define KEY_OFFER_MS 2000

enum key_life {
	LIFE_ALIVE,
	LIFE_ORPHANS, /* it is gone, its children still run */
	LIFE_NONE,
	LIFE_UNKNOWN,
};

struct key_entry {
	char name[ENTRY_NAME_SIZE];
	uint64_t number; /* of a generation; 0: a future one */
};

typedef VEC(struct key_entry) key_entries;

/* The latest generation, and what it means for a contender. */
struct key_view {
	uint64_t number; /* 0: there is none */
	int64_t at_ns;   /* the server's time, read before anything else */
	struct owner owner;
	int64_t silent_ms;
	bool is_overtaken; /* while we looked: held by a newer process */
	bool is_free;      /* may be granted */
	bool is_released;
	bool orphans;      /* its holder is gone, but the children still run */
	bool is_unclaimed; /* it was passed on, but not accepted in time */
	bool has_tickets;
	enum lease_predecessor predecessor; /* if it is free */
};

void key_name(const char *key, char name[KEY_NAME_SIZE]);

/* Whether a stamp is of a time that the file server's clock has been set back from. */
bool key_is_ahead(int64_t stamp_ns, int64_t at_ns);

/* Stamps a directory with the file server's time, and returns that time. */
int key_touch(int fd, int64_t *stamp_ns);

/* Marks a generation as released. */
int key_stamp_released(int generation_fd);

/* Opening makes an NFS client ask for fresh attributes; stat() alone does not. */
int key_open_generation(int key_fd, uint64_t number);

/* All generations, and future ones; *latest is 0 if there is none. */
int key_list(int key_fd, key_entries *entries, uint64_t *latest);

/* The same, without the list. */
int key_find_latest(int key_fd, uint64_t *latest, bool *has_tickets);

/* Reads the view. hint_fd (an inotify, or -1) becomes readable once it is worth looking
 * again, as far as this kernel knows. ERR_CORRUPT: the latest generation has lost its
 * owner. */
int key_look(int key_fd, const char *key, int hint_fd, struct key_view *view,
	     struct err *err);

/* 1: a later generation than that of generation_fd exists; 0: it is the latest. */
int key_is_overtaken(int key_fd, uint64_t number, int generation_fd);

/* Removes a generation, or a future one. */
int key_remove_entry(int key_fd, const char *name);

/* ENOENT: it is no longer there; it may have a number by now. */
int key_remove_ticket(int key_fd, const char *name);
bool key_is_ticket(const char *name);

/* Releases a lease that was not accepted. Also 0 if another process was quicker. */
int key_take_back(int key_fd, uint64_t number);

/* Whether that owner's process lives, as far as this kernel's locks show. */
enum key_life key_probe_life(int generation_fd, const struct owner *owner);

/* hint_fd becomes readable when its guard is no longer held; when it is renamed. */
void key_watch_end(int hint_fd, int fd);
void key_watch_move(int hint_fd, int fd);

/* Removes generations below the number, and leftovers of dead contenders. */
void key_sweep(int key_fd, key_entries *entries, uint64_t below, int64_t at_ns);

/* "cannot <what> the lease <key>: ...", never of a class that says anything about its
 * holder. Returns -1. */
int key_error(const char *what, const char *key, struct err *err);

#endif
