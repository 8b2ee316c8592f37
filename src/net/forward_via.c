/*
 * The header Via: who has passed a request on (RFC 9110, 7.6.3). Each who does appends
 * "1.1 NAME", and may add a comment in brackets, within which commas mean nothing.
 */
#include "net/forward.h"
#include "net/forward_private.h"

#define NAME_PREFIX "refrelay-"

char *forward_via(const char *via, const char *site)
{
	return xasprintf("%s%s1.1 " NAME_PREFIX "%s", via ? via : "", via ? ", " : "",
			 site);
}

/* The end of a list's element that begins here: a comma, or the end. */
static const char *element_end(const char *text)
{
	int depth = 0;

	for (; *text && (depth > 0 || *text != ','); text++) {
		if (*text == '\\' && depth > 0 && text[1])
			text++;
		else if (*text == '(')
			depth++;
		else if (*text == ')' && depth > 0)
			depth--;
	}
	return text;
}

/* "1.1 refrelay-paris (a comment)": whether its second word is the name. */
static bool names_site(const char *element, const char *end, const char *site)
{
	static const char blank[] = " \t";
	size_t prefix = strlen(NAME_PREFIX), len = strlen(site);

	element += strspn(element, blank);
	element += strcspn(element, " \t,");
	element += strspn(element, blank);
	return element < end && (size_t)(end - element) >= prefix + len &&
	       strncasecmp(element, NAME_PREFIX, prefix) == 0 &&
	       strncasecmp(element + prefix, site, len) == 0 &&
	       strchr(" \t,(", element[prefix + len]) != NULL;
}

bool forward_is_loop(const char *via, const char *site)
{
	while (via && *via) {
		const char *end = element_end(via);
		if (names_site(via, end, site))
			return true;
		via = *end ? end + 1 : end;
	}
	return false;
}
