/*
 * What became of each ref of a push, read from git's report as it passes. Plain data, for
 * one thread at a time.
 *
 * Source: gitprotocol-pack(5), "Report Status".
 */
#ifndef SERVE_RECEIVE_OUTCOME_H
#define SERVE_RECEIVE_OUTCOME_H

#include "base/str.h"

/* How many refs. */
struct receive_outcome {
	bool is_known; /* git has told; else only `asked` is said */
	size_t asked;  /* that the client wanted changed; 0: not known */
	size_t taken, refused;
};

struct receive_outcome_reader {
	struct str packets; /* as git wrote them, not read yet */
	struct str lines;   /* the report in them, not read yet */
	bool is_over;       /* the report was whole, or is none */
	struct receive_outcome outcome;
};
#define RECEIVE_OUTCOME_READER_INIT                                                      \
	{                                                                                \
		.packets = STR_INIT, .lines = STR_INIT                                   \
	}

void receive_outcome_clear(struct receive_outcome_reader *reader);

/* The next bytes, from the report's first on, with side-band or without. */
void receive_outcome_read(struct receive_outcome_reader *reader, const char *data,
			  size_t len);

#endif
