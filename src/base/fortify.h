/*
 * Included before all else, by the compiler's command line: checks of lengths by the C
 * library, unless whoever builds has asked for some already. They take optimization.
 */
#if !defined(_FORTIFY_SOURCE) && defined(__OPTIMIZE__)
#define _FORTIFY_SOURCE 3
#endif
