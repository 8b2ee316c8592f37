/*
 * The [site] section, and the alternative that commands offer: --directory DEST, a tree
 * made by `replicate`.
 */
#ifndef CLI_SITE_H
#define CLI_SITE_H

#include "base/base.h"
#include "cli/cli.h"
#include "lease/lease_settings.h"
#include "report/report.h"
#include "store/store.h"

struct site {
	char *repositories; /* absolute path of the tree; owned */
	char *data;         /* owned */
	char *name;         /* site.name, or the host's; owned */
	char *node;         /* the same of site.node; owned; NULL: there is no site */
	enum site_role role;
	/* Of a secondary; owned, may be NULL. */
	char *primary_url, *primary_secret, *primary_ca_file;
	bool has_core_dumps; /* of the node and its children */
	struct lease_settings lease;
};

/* [site] and [primary]: tables of struct site. */
enum { SITE_SETTINGS = 2 };
extern const struct setting_table site_settings[SITE_SETTINGS];

/* From the configuration, or from `directory` if that is not NULL. */
int site_read(const struct cli *cli, const char *directory, struct site *site,
	      struct err *err);

/* The same from a configuration already read. */
int site_from_conf(const struct conf *conf, struct site *site, struct err *err);
void site_clear(struct site *site);

/* ERR_CONFIG: one of site.repositories and site.data is inside the other. */
int site_check_apart(const struct site *site, struct err *err);

/* Whether several nodes may work on its tree: their leases then exclude each other. */
bool site_shares_tree(const struct site *site);

/* Has the node of site.data, if one runs, look at once. 0: none runs. Nodes on other
 * hosts look at their next interval. */
int site_wake(const char *data);
/* With its answer, cut to size (hook_socket.h). */
int site_wake_to_hear(const char *data, char *answer, size_t size);

/* For commands that print what the node has recorded: notes that none runs here, so that
 * it may be old. */
void site_note_if_alone(const struct site *site);

/* Whether there are sections for the other role, which are not obeyed. *err names the
 * first, and the remedy. They may be meant for a change of role, so this is not an
 * error. */
bool site_has_unused(const struct conf *conf, enum site_role role, struct err *err);

/*
 * The directory of a site, or of a tree of copies, for refrelay's own data: database,
 * leases, the configuration of git children.
 */

struct site_data {
	char *directory; /* owned */
	struct store *store;
	struct lease_manager *leases;
};

/* The only place where databases are opened for writing: that of a data directory, or
 * with NULL one in memory. Claims of rows name the directory as their node. */
int site_store_open(const char *directory, bool may_migrate, struct store **store,
		    struct err *err);

/* Opens it, and makes missing parts. Any number of processes may have it open. Its
 * database is brought up to date, unless a node runs: one of an older version would go on
 * with a database that it does not know. ERR_CONFIG then. */
int site_data_open(const struct site *site, struct site_data *data, struct err *err);

/* The same for that node, which has the data lock. */
int site_data_open_locked(const struct site *site, struct site_data *data,
			  struct err *err);

/* As site_data_open() for a tree of copies, or for callers that take no leases: with the
 * leases of this machine. */
int site_data_open_directory(const char *directory, struct site_data *data,
			     struct err *err);

/* For reading only: makes nothing and writes nothing, so that it works on a disk that is
 * full or read-only. Without a database it reads as empty. The leases are those of this
 * machine, unless site_data_read_leases() has found those of the site. */
int site_data_open_to_read(const char *directory, struct site_data *data,
			   struct err *err);

int site_data_read_leases(const struct site *site, struct site_data *data,
			  struct err *err);

/* A node's directory: made private first, and locked by the caller. */
int site_data_make(const char *directory, struct err *err);

/* Of a node's, also if it is missing; one thread at a time. ERR_CONFIG: this is root, and
 * it belongs to another user, who could not open files that root makes there. */
int site_data_check_owner(const char *directory, struct err *err);

/* The same for who takes leases: where they are files of a shared directory, that one
 * must not belong to another user either. */
int site_leases_check_owner(const struct site *site, struct err *err);

/* Likewise. ERR_CONFIG: others than its owner may enter it. */
int site_data_check(const char *directory, struct err *err);
void site_data_close(struct site_data *data);

#endif
