/*
 * Included first, by the compiler's command line: requests the C library's checks of
 * lengths, unless the build already has. They need optimization.
 */
#if !defined(_FORTIFY_SOURCE) && defined(__OPTIMIZE__)
#define _FORTIFY_SOURCE 3
#endif
