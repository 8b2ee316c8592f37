/*
 * The one thread that writes. Callers queue a request and sleep; the thread runs all
 * that is queued in one transaction, commits once and wakes them. Internal to store/.
 */
#ifndef STORE_STORE_WRITER_H
#define STORE_STORE_WRITER_H

#include "store/store_driver.h"

struct store_writer;

/* `conn` is the thread's alone until stop; the caller closes it then. */
struct store_writer *store_writer_start(struct store_conn *conn);

/* Runs what is queued, ends the thread and frees the writer. */
void store_writer_stop(struct store_writer *writer);

/* As store_write(). Safe from any thread, except inside a work. */
MUST_CHECK int store_writer_run(struct store_writer *writer, store_work work, void *arg,
				struct err *err);

uint64_t store_writer_commits(struct store_writer *writer);

#endif
