/*
 * What an answer of status 400 or more means for the caller.
 */
#include "base/json.h"
#include "net/site_client.h"

#define PROBLEM_MAX (64u << 10)
#define SKEW_TOLD_MS 5000

static enum err_class class_of_status(int status)
{
	switch (status) {
	case 401:
	case 403:
		return ERR_AUTH;
	case 404:
		return ERR_MISSING;
	case 409:
		return ERR_CONFLICT;
	case 408:
	case 504:
		return ERR_TIMEOUT;
	case 429:
		return ERR_NETWORK;
	default:
		return status >= 400 && status < 500 ? ERR_CONFIG : ERR_NETWORK;
	}
}

static const char *member(const json_t *problem, const char *key)
{
	const char *text = json_string_value(json_object_get(problem, key));

	return text && text[0] ? text : NULL;
}

/* No refrelay answers so: a server in front, or another service. */
static int strange_answer(const struct site_answer *answer, struct err *err)
{
	enum err_class class = class_of_status(answer->status);

	/* Its 404 says nothing about our repositories. */
	if (class == ERR_MISSING || class == ERR_CONFLICT)
		class = ERR_NETWORK;
	err_set(err, class,
		"the answer, of status %d, is not one that refrelay gives: a server in "
		"front of that site gave it, or the URL is not a site's",
		answer->status);
	return err_remedy(err, "look into that server's log, and compare the URL with "
			       "http.url of the other site");
}

static int skewed(const struct site_answer *answer, const char *message, struct err *err)
{
	double skew_s = (double)answer->skew_ms / 1000;

	err_set(err, ERR_AUTH, "%s (measured here, its clock is %.1f s %s this one)",
		message, skew_s < 0 ? -skew_s : skew_s,
		skew_s < 0 ? "behind" : "ahead of");
	return err_remedy(err, "let both machines follow a time server (NTP)");
}

int site_answer_error(const struct site_answer *answer, struct err *err)
{
	json_auto_t *problem = json_parse_object(answer->body.data, answer->body.len,
						 PROBLEM_MAX, ERR_IGNORED);
	const char *message = member(problem, "message");
	const char *remedy = member(problem, "remedy");

	if (!message || !answer->code[0])
		return strange_answer(answer, err);
	if (strcmp(answer->code, "CLOCK_SKEW") == 0 &&
	    (answer->skew_ms > SKEW_TOLD_MS || answer->skew_ms < -SKEW_TOLD_MS))
		return skewed(answer, message, err);
	err_set(err, class_of_status(answer->status), "%s", message);
	if (remedy)
		err_remedy(err, "%s", remedy);
	return -1;
}

static bool site_error_is_unreserved_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
}

void url_add_encoded(struct str *url, const char *text)
{
	for (; *text; text++) {
		if (site_error_is_unreserved_byte(*text))
			str_add_char(url, *text);
		else
			str_addf(url, "%%%02X", (unsigned char)*text);
	}
}

void url_add_path(struct str *url, const char *name)
{
	AUTO_FREE char *copy = xstrdup(name);
	char *rest = copy, *part;

	while ((part = strsep(&rest, "/")) != NULL) {
		str_add_char(url, '/');
		url_add_encoded(url, part);
	}
}
