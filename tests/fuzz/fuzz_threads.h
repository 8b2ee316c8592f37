/*
 * libFuzzer looks at the clock by SIGALRM. Threads that the program under test starts
 * must not get it, as they get no signals in the program itself.
 */
#ifndef FUZZ_THREADS_H
#define FUZZ_THREADS_H

#include <signal.h>

/* What `start` starts inherits that all signals are blocked. */
static inline void start_without_signals(void (*start)(void))
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	start();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

#endif
