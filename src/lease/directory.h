/*
 * Leases in a directory that several hosts share: any file system that makes rename
 * atomic and stamps times with one clock, a local one or NFS (without `nocto`). No other
 * service runs.
 *
 *	path/<sha1 of key>/key		the key, as the text of a symbolic link
 *	path/<sha1 of key>/41/		superseded; the next holder removes it
 *	path/<sha1 of key>/42/		the latest generation; its mtime is its holder's
 *					last heartbeat, 1970: it was released
 *	path/<sha1 of key>/42/owner	its fence and holder: the text of a symbolic link
 *	path/<sha1 of key>/42/guard	flock'ed by the holder and its children
 *	path/<sha1 of key>/.new-<id>/	a generation to be, made by a contender
 *	path/<sha1 of key>/.new-w<...>/	the same, of one that waits: directory_line.h
 *
 * Renaming a finished directory to the next number is the compare-and-swap. The latest
 * number is never removed, so no number is held twice. Fences grow with the numbers, and
 * are ahead of them: above the request's floor, and above its host's clock in
 * microseconds, so that they grow even after the directory was lost. Only the file
 * server's clock decides which process holds a lease, never a host's. The death of a
 * holder of the same boot of the same kernel shows at once: its guard can be locked.
 * Elsewhere its lease lapses one ttl, the holder's, after its last heartbeat.
 *
 * A release renames the generation of the first waiter to the next number. A waiter on
 * the same kernel is notified by that; one on another host polls twice a second.
 *
 * It needs a file server whose clock does not jump. A jump forward by a ttl lets others
 * take over before their predecessor notices its loss, at its next heartbeat; a jump back
 * makes the leases of dead hosts last that much longer. Nothing is synced to disk: after
 * a crash of the server the latest generation may be lost, and its number held again,
 * with a higher fence.
 */
#ifndef LEASE_DIRECTORY_H
#define LEASE_DIRECTORY_H

#include "lease/lease.h"
#include "lease/owner.h"

/* options->directory is the path; it is made if missing. ERR_CONFIG: an operation that
 * leases need does not work there; ERR_DISK: it is full, read-only or broken. */
int lease_manager_open_directory(const struct lease_options *options,
				 struct lease_manager **manager, struct err *err);

/*
 * The holder of a generation: the text (lease/owner.h) of a dangling symbolic link, which
 * is written atomically in one call.
 */

/* Makes `owner` in the directory; -1 with errno set. */
int owner_write(int generation_fd, const struct owner *owner);

/* Replaces the existing one, in one step. */
int owner_replace(int generation_fd, const struct owner *owner);

/* -1 with errno set; EBADMSG: it does not have this form. */
int owner_read(int generation_fd, struct owner *owner);

#endif
