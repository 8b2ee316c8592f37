#include "cli/cli.h"

const struct command commands[] = {
	{ "replicate",
	  "[--delete] [--force] [-j N] [--json] [--no-progress] [-v] SOURCE DEST",
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
	  "Prints the effective configuration, secrets masked.", cli_config },
	{ "serve", "", "Runs this site's node.", NULL },
	{ "check", "", "Tries what the configuration names.", NULL },
	{ "status", "[--watch] [--json]", "Says how far behind this site is.", NULL },
	{ "repository", "list | show | sync | resync | reverify | remove [NAME...]",
	  "Registry rows of repositories.", NULL },
	{ "blob", "list | show | sync | resync | reverify", "Registry rows of blobs.",
	  NULL },
	{ "changed", "NAME [--ref REF OLD NEW]...", "Tells of a change.", NULL },
	{ "hooks", "install | remove | list", "Puts hooks into repositories.", NULL },
	{ "events", "[--follow] [--after N]", "Prints the event log.", NULL },
	{ "push", "start | list | queue | retry | discard", "Push replication.", NULL },
	{ "mirror", "list | show | sync | remove", "Foreign upstreams.", NULL },
	{ "cache", "clear [NAME]", "The info/refs cache.", NULL },
	{ "state", "NAME", "A repository's state.", NULL },
	{ "promote", "", "Makes this site the primary.", NULL },
	{ "demote", "", "Makes this site a secondary.", NULL },
	{ NULL, NULL, NULL, NULL },
};
