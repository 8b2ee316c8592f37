/*
 * A child process whose output is read while it runs: for answers that are streamed to a
 * client. Same supervisor, same guarantees as proc_run (base/proc.h). One thread at a
 * time a stream.
 */
#ifndef BASE_PROC_STREAM_H
#define BASE_PROC_STREAM_H

#include "base/proc.h"

struct proc_stream;

/* Starts it. `request` and everything it points to is borrowed until close; its output is
 * not used. `input_fd` becomes the child's stdin, read from its present offset (borrowed
 * for the call); -1: the request's input, which is borrowed for the call only;
 * PROC_STREAM_FED: it is fed by offers. `grace_ms` 0: 200, of one that is fed 2 s. */
#define PROC_STREAM_FED (-2)
int proc_stream_open(const struct proc_request *request, int input_fd,
		     struct proc_stream **stream, struct err *err);

/* Offers the next bytes for its stdin: all earlier ones must have been taken. Borrowed
 * until they are taken, which happens here and while it is read. A child that has stopped
 * reading takes all at once. */
void proc_stream_offer(struct proc_stream *stream, const void *data, size_t len);

/* How many of them are not taken yet. */
size_t proc_stream_offered(const struct proc_stream *stream);

/* Ends its stdin after the bytes taken so far. */
void proc_stream_end_input(struct proc_stream *stream);

/* As proc_stream_read, but PROC_STREAM_NOTHING when clock_boot_ms() reaches `until` (0:
 * no limit), or when all bytes offered before the call have been taken. */
#define PROC_STREAM_NOTHING (-2)
ssize_t proc_stream_read_until(struct proc_stream *stream, void *buffer, size_t size,
			       int64_t until);

/* The next bytes of its stdout, at least one; waits for them. 0: all was read and it
 * ended by itself; -1: it is or must be killed (timeout, deadline, stop). In both cases
 * proc_stream_close then reports how it ended. */
ssize_t proc_stream_read(struct proc_stream *stream, void *buffer, size_t size);

/* Ends it, by force if it has not ended yet, reaps all descendants and frees. Result and
 * errors as proc_run; ERR_CANCELED if it was ended by force. NULL is allowed: 0. */
int proc_stream_close(struct proc_stream *stream, struct proc_result *result,
		      struct err *err);

#endif
