/*
 * How `git receive-pack` is started: in the repository that was found, in the name of who
 * pushes, and only where the repository takes pushes. For receive_pack.c and
 * receive_advertise.c. Any thread.
 */
#ifndef SERVE_RECEIVE_GIT_H
#define SERVE_RECEIVE_GIT_H

#include "git/git_child.h"
#include "git/repo.h"
#include "serve/receive_pack.h"

/* Until when, and by whom it is stopped. */
struct git_work receive_git_work(const struct receive_pack_request *request);

/* Finds the repository in which git is to run; the caller closes it in either case.
 * ERR_MISSING: there is none; ERR_AUTH: it takes no pushes (http.receivepack is false,
 * or its history is not whole); ERR_CONFIG: git would write outside of it, or be lost in
 * it. */
int receive_git_open(const struct receive_pack_request *request,
		     const struct git_work *work, struct repo *repo, struct err *err);

/* The call for git with these arguments, which are borrowed as all else is. The caller
 * clears what is made for it. */
#define RECEIVE_VARIABLES 7
struct receive_call {
	struct git_call call;
	char *variables[RECEIVE_VARIABLES]; /* owned */
};
void receive_call_init(struct receive_call *call,
		       const struct receive_pack_request *request,
		       const struct repo *repo, const struct git_work *work,
		       const char *const *args);
void receive_call_clear(struct receive_call *call);

#endif
