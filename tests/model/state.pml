/*
 * The repository's state and the cache, as a model for SPIN: writers, which may die at
 * any step, readers, which fill the cache and are answered by it, and the recovery that
 * readers do, in which they may die, too. SPIN tries every order of their steps.
 *
 * What must hold: no read gives refs that are older than those which stood when it began.
 *
 * Each statement below is one step that others see at once:
 *	make a pending file     state_begin()               src/git/state.c
 *	change refs             git, or src/git/publish.c
 *	new key, remove file    state_end(), in this order  src/git/state.c
 *	remove file only        state_abandon(): nothing was changed
 *	recovery                state_look(), state_recover(): new key, remove file
 *	list pending, read key  look_take()                 src/serve/look.c
 *	read refs               fill()                      src/serve/fill.c
 *	list and read again     look_is_same(); then the generation is kept under the key,
 *	                        in memory or on disk        src/serve/refs_cache.c
 *
 * To be answered is only: is one change, any one, seen by all who begin to read after it?
 * So refs are but those before that change or those after it; what else the writers do is
 * no step here, and which of them makes the change SPIN tries. A writer that dies halfway
 * is one that dies after the change.
 *
 * The model leaves out what only helps: the fingerprint, the watch, the flock that keeps
 * two from recovering at the same time. What holds without them holds with them. It also
 * takes for granted that only the dead are taken for dead.
 *
 * With one of these defined it is another protocol, which is wrong; run.sh demands that
 * SPIN finds the stale read in each:
 *	SWAP_WRITER      a writer removes its file, then makes the key
 *	SWAP_RECOVERY    recovery removes the file, then makes the key
 *	NO_RECOVERY_KEY  recovery only removes the file
 *	LATE_PENDING     a writer makes its file when it has begun to change refs
 *	NO_BYPASS        readers use the cache while a write is pending
 *	KEY_BEFORE_LIST  readers read the key, then list pending
 *	KEY_AFTER_REFS   readers read refs, then the key under which they keep them
 */
#define WRITERS 2
#define READERS 2
#ifndef READS
#define READS 1 /* of each reader */
#endif
#define KEYS (READERS + 2)
#define NO_KEY KEYS

bit refs;              /* 1: the change was made */
byte key;              /* refrelay/state/key */
bool pending[WRITERS]; /* refrelay/state/pending/<writer> */
bool dead[WRITERS];
byte kept[KEYS];       /* the cache: by key, the refs as they were read, plus 1; or 0 */
byte held[READERS];    /* the key that a reader has read */

#define IS_KNOWN(k) (k == key || k == held[0] || k == held[1])

/* Keys are random: none is ever made twice, and what was kept under one that nobody
 * knows any more is never found again. So its number may serve for another. */
inline forget()
{
	for (unknown : 0 .. KEYS - 1) {
		if
		:: !IS_KNOWN(unknown) -> kept[unknown] = 0
		:: else
		fi
	}
	unknown = 0
}

inline new_key()
{
	d_step {
		do
		:: IS_KNOWN(unknown) -> unknown++
		:: else -> break
		od;
		key = unknown;
		kept[key] = 0;
		forget()
	}
}

#define OR_DIE(step)                                                                     \
	if                                                                               \
	:: step                                                                          \
	:: goto died                                                                     \
	fi

proctype writer(byte me)
{
	byte unknown;

#ifdef LATE_PENDING
	refs = 1;
	OR_DIE(pending[me] = true);
#else
	pending[me] = true;
	if
	:: refs = 1
	:: true /* some other change */
	:: goto abandon
	:: goto died
	fi;
#endif
#ifdef SWAP_WRITER
abandon:
	OR_DIE(pending[me] = false);
	OR_DIE(new_key());
#else
	OR_DIE(new_key());
abandon:
	OR_DIE(pending[me] = false);
#endif
died:
	dead[me] = true /* or at its end: no file of its own tells of it */
}

/* A reader that meets a dead writer's file cleans up after it, or cannot tell that it is
 * dead (another host). */
inline list_pending()
{
	do
	:: who < WRITERS && pending[who] && dead[who] ->
		recover();
		who++
	:: atomic { who < WRITERS && pending[who] -> is_pending = true; who++ }
	:: atomic { who < WRITERS && !pending[who] -> who++ }
	:: who == WRITERS ->
		break
	od
}

inline recover()
{
#ifdef SWAP_RECOVERY
	pending[who] = false;
	OR_DIE(new_key())
#else
#ifndef NO_RECOVERY_KEY
	new_key();
#endif
	OR_DIE(pending[who] = false)
#endif
}

inline read()
{
	began = refs;
#ifdef KEY_BEFORE_LIST
	held[me] = key;
	list_pending();
#elif defined(KEY_AFTER_REFS)
	list_pending();
	got = refs;
	held[me] = key;
#else
	list_pending();
	held[me] = key;
#endif
#ifdef NO_BYPASS
	is_pending = false;
#endif
	if
	:: atomic { is_pending -> got = refs } /* bypass: git answers, nothing is kept */
	:: atomic { !is_pending && kept[held[me]] -> got = kept[held[me]] - 1 } /* hit */
	:: !is_pending && !kept[held[me]] ->
#ifndef KEY_AFTER_REFS
		got = refs;
#endif
		keep()
	fi;
	d_step {
		assert(got >= began); /* or it is stale */
		began = 0;
		got = 0;
		who = 0;
		is_pending = false;
		held[me] = NO_KEY;
		forget()
	}
}

/* Two looks between which nothing changed, and refs read between them. */
inline keep()
{
	who = 0;
	list_pending();
	if
	:: !is_pending && key == held[me] ->
		kept[held[me]] = got + 1
	:: else
	fi
}

proctype reader(byte me, reads)
{
	byte who, unknown;
	bit began, got;
	bool is_pending;

	do
	:: atomic { reads > 0 -> reads-- };
		read()
	:: atomic { reads == 0 -> break }
	od;
died:
	held[me] = NO_KEY
}

init
{
	byte i;

	atomic {
		held[0] = NO_KEY;
		held[1] = NO_KEY;
		for (i : 0 .. WRITERS - 1) {
			run writer(i)
		}
		for (i : 0 .. READERS - 1) {
			run reader(i, READS)
		}
	}
	/* When all have ended: a fresh one, which meets what they left. */
	_nr_pr == 1;
	run reader(0, 1)
}
