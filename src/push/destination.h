/*
 * The place to which one URL of one remote pushes one repository.
 */
#ifndef PUSH_DESTINATION_H
#define PUSH_DESTINATION_H

#include "base/base.h"
#include "net/uri_text.h"
#include "push/settings.h"

#define URI_KEY_SIZE 41

struct destination {
	const struct push_remote *remote; /* borrowed, from settings that outlive it */
	const struct push_url *url;       /* likewise */
	char *project;                    /* owned, as all of these */
	char *uri;                  /* as written in task files: user kept, no password */
	char uri_key[URI_KEY_SIZE]; /* SHA-1 of uri, in hex */
	char *git_url; /* passed to git: credentials removed from HTTP ones */
	char *path;    /* at the host, or here; decoded */
	char *host;    /* "host", for ssh "user@host"; no brackets; NULL: local */
	char *breaker; /* "kind://host:port": destinations that fail together; "":
			  local */
	uint16_t port; /* 0: the kind's default */
	enum url_kind kind;
};

typedef VEC(struct destination) destination_list;
#define AUTO_DESTINATION __attribute__((cleanup(destination_clear)))
#define AUTO_DESTINATIONS __attribute__((cleanup(destination_list_clear)))

/* Made from the remote's url number `which`. ERR_CONFIG: it is not a valid
 * destination. */
int destination_make(const struct push_remote *remote, size_t which, const char *project,
		     struct destination *destination, struct err *err);

/* The usable adminUrls of a destination; without any, the destination itself. */
int destination_admin(const struct destination *destination, destination_list *admins,
		      struct err *err);

/* All destinations of a repository, whatever its refs; URLs in which its name cannot be
 * used are left out and logged. */
void destinations_of(const struct push_settings *settings, const char *project,
		     destination_list *list);

/* The destination of a task; if its remote is gone, has another URL or does not take the
 * repository, that of a remote with the same URL for it. ERR_MISSING: not found. */
int destination_find(const struct push_settings *settings, const char *remote,
		     const char *project, const char *uri,
		     struct destination *destination, struct err *err);

/* Whether a URI is a destination of the repository by any remote. */
bool destinations_have(const struct push_settings *settings, const char *project,
		       const char *uri);

/* The name shared by destinations that can hang together: the host, or for paths the
 * remote's URL. Borrowed. */
const char *destination_share(const struct destination *destination);

void destination_clear(struct destination *destination);
void destination_list_clear(destination_list *list);

void uri_key_of(const char *uri, char key[URI_KEY_SIZE]);

/* `start --url`: a part of the template or of the URI; "" and "*" match all. */
bool destination_matches_url(const struct destination *destination, const char *part);

/*
 * Detects pushes that would cause another push. Any thread.
 */

/* ERR_CONFIG: the destination lies below `root` and is itself pushed by a remote. */
int destination_check_loop(const struct push_settings *settings, const char *root,
			   const struct destination *destination, struct err *err);

/*
 * The text for ${name} in a URL.
 */

/* Appends the project's name in remoteNameStyle. Appends nothing if the style leaves
 * nothing of it (".git" by basenameOnly). */
void name_add_styled(struct str *out, const char *project, enum name_style style);

#endif
