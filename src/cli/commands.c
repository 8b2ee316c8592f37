#include "cli/cli.h"

#define CHANGES_MOST 2 /* of a mistyped word */

const struct command commands[] = {
	{ "replicate",
	  "[--blobs FROM=TO]... [--delete] [--force] [-j N] [--json] [--no-progress] "
	  "[--secret-file F [--site "
	  "NAME]] "
	  "[-v] SOURCE DEST",
	  "Makes the bare repositories below DEST equal to those below SOURCE, and "
	  "proves "
	  "it.",
	  cli_replicate },
	{ "checksum", "[--gitaly | --grokmirror] [--directory DEST] [--json] NAME",
	  "Prints a repository's checksum: of all refs and HEAD.", cli_checksum },
	{ "lease", "list | show KEY | release KEY --fence N --reason TEXT",
	  "Shows who holds which lease since when, on which proof; takes one away.",
	  cli_lease },
	{ "config", "list | get NAME",
	  "Prints what the configuration says, without defaults, secrets masked.",
	  cli_config },
	{ "serve", "[-v]", "Runs this site's node in the foreground.", cli_serve },
	{ "check", "[--json]", "Tries what the configuration names, and says what to do.",
	  cli_check },
	{ "status", "[--watch] [--json]",
	  "Says in one sentence who is how far behind and why, then in numbers.",
	  cli_status },
	{ "repository",
	  "list | show NAME | sync | resync | reverify | remove [NAME... | --all | "
	  "--state S | --failed] [--wait] [--force] [--dry-run] [--json]",
	  "Shows in what state the copies are; has them copied or verified again.",
	  cli_repository },
	{ "blob",
	  "list | show ID | sync | resync | reverify | remove [--type T] [ID... | --all "
	  "| "
	  "--state S | --failed] [--wait] [--dry-run] [--json]",
	  "Shows in what state the copies of blobs are; has them copied or verified "
	  "again.",
	  cli_blob },
	{ "changed",
	  "[--ref REF OLD NEW]... [--stdin] [--json] NAME... | --blob TYPE [--json] "
	  "ID...",
	  "Has repositories of the primary compared with what is recorded of them.",
	  cli_changed },
	{ "hooks", "install | remove | list [--dry-run] [--json] [--all | NAME...]",
	  "Puts the hooks that tell of changes into repositories.", cli_hooks },
	{ "events", "[--after N] [--follow]",
	  "Prints what changed at the primary, a JSON line each.", cli_events },
	{ "push",
	  "start | list | queue | retry | discard [--now] [--wait] [--remote NAME]... "
	  "[--url PART] [--all | PATTERN... | KEY...] [--json]",
	  "Pushes repositories to their destinations; shows and mends the cluster's "
	  "queue.",
	  cli_push },
	{ "mirror", "list | show | sync | remove", "Foreign upstreams.", NULL },
	{ "cache", "clear [--json] [NAME...]",
	  "Clears the cache of refs from which readers are answered.", cli_cache },
	{ "state", "NAME [--json | -- COMMAND [ARGUMENT...]]",
	  "Shows who writes a repository; runs a command that changes it, as a known "
	  "write.",
	  cli_state },
	{ "promote", "", "Makes this site the primary.", NULL },
	{ "demote", "", "Makes this site a secondary.", NULL },
	{ NULL, NULL, NULL, NULL },
};

const char *cli_nearest_command(const char *word)
{
	const char *nearest = NULL;
	size_t fewest = CHANGES_MOST + 1;

	for (const struct command *command = commands; command->name; command++) {
		size_t changes = text_distance(word, command->name);
		if (command->run && changes < fewest &&
		    changes < strlen(command->name) - 1) {
			fewest = changes;
			nearest = command->name;
		}
	}
	return nearest;
}
