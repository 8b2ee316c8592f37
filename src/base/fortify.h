/*
 * Included before all else, by the compiler's command line: checks of lengths by the C
 * library, unless the build has requested some already. They need optimization.
 */
#if !defined(_FORTIFY_SOURCE) && defined(__OPTIMIZE__)
#define _FORTIFY_SOURCE 3
#endif
