#include "cli/cli.h"
#include "cli/copies.h"
#include "replicable/name.h"
#include "upkeep/removal.h"

#define LEASE_WAIT 60000

static const char options_text[] =
	"  list           rows, all or those of --state, --failed\n"
	"  show NAME      one row, with all that is known\n"
	"  sync           copy now, do not wait for the next try\n"
	"  resync         copy now, and trust no record: compare and verify everything\n"
	"  reverify       read the copy again and compare it with the primary\n"
	"  remove         the copy goes to the trash, the row goes; if the primary "
	"still\n"
	"                 has the repository, it is copied anew\n"
	"\n"
	"Which repositories: NAME..., or\n"
	"  --state S      pending, started, synced, failed, missing_on_primary, or held, "
	"gone\n"
	"  --failed       the same as --state failed\n"
	"  --all          all\n"
	"\n"
	"  --force        sync, resync: do what is held, once (deletes refs, drops "
	"commits)\n"
	"  --wait         sync, resync, reverify: return when it is done; status 1 if "
	"it\n"
	"                 failed\n"
	"  --dry-run      only say what would be done\n"
	"  --json         print one JSON object\n";

static int cli_repository_discard_copy(struct copies_call *call,
				       const struct registry_row *row,
				       const struct stop *stop, struct err *err)
{
	return removal_run(&(struct removal_request){ .store = call->data.store,
						      .leases = call->data.leases,
						      .root = call->site.repositories,
						      .kind = KIND_REPOSITORY,
						      .name = row->name,
						      .wait_ms = LEASE_WAIT,
						      .stop = stop,
						      .is_ordered = true },
			   err);
}

int cli_repository(struct cli *cli, int argc, char **argv)
{
	static const struct copies_command command = {
		.name = "repository",
		.one = "repository",
		.all = "repositories",
		.word = "NAME",
		.options = options_text,
		.name_of = name_of_path,
		.discard = cli_repository_discard_copy
	};

	return copies_run(cli, &command, argc, argv);
}
