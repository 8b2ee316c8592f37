#include "blob/file.h"
#include "blob/incoming.h"
#include "cli/cli.h"
#include "cli/copies.h"
#include "job/job.h"

#define LEASE_WAIT 60000

static const char options_text[] =
	"At a primary: list, show, reverify ID...\n"
	"\n"
	"  list           rows, all or those of --state, --failed\n"
	"  show ID        one row, with all that is known\n"
	"  sync           copy now, do not wait for the next try\n"
	"  resync         copy now, and trust no record: compare and verify\n"
	"  reverify       read the file again and compare it with the primary\n"
	"  remove         the copy goes to the trash, the row goes; if the primary "
	"still\n"
	"                 has the blob, it is copied anew\n"
	"\n"
	"Which blobs: ID..., or\n"
	"  --state S      pending, started, synced, failed, missing_on_primary, or held, "
	"gone\n"
	"  --failed       the same as --state failed\n"
	"  --all          all\n"
	"\n"
	"  --type T       of this kind only; needed with ID if there are several\n"
	"  --wait         sync, resync, reverify: return when it is done; status 1 if "
	"it\n"
	"                 failed\n"
	"  --dry-run      only say what would be done\n"
	"  --json         print one JSON object\n";

struct discarding {
	struct copies_call *call;
	const struct registry_row *row;
};

/* A row that is wanted by now stays, as one of which nothing is here. */
static int discard_it(struct job *job, void *arg, struct err *err)
{
	const struct discarding *this = arg;
	const struct registry_row *row = this->row;
	const struct blob_kind *kind = blob_kinds_find(&this->call->types, row->kind);
	AUTO_CLOSE int root = blob_root_open(kind, err);

	(void)job;
	if (root < 0)
		return -1;
	if (blob_discard(root, row->name, err) != 0 && err->class != ERR_MISSING)
		return -1;
	return registry_remove(this->call->data.store, row->id, err);
}

static int cli_blob_discard_copy(struct copies_call *call, const struct registry_row *row,
				 const struct stop *stop, struct err *err)
{
	struct discarding this = { .call = call, .row = row };

	return job_run(&(struct job_request){ .leases = call->data.leases,
					      .kind = row->kind,
					      .name = row->name,
					      .operation = "remove",
					      .wait_ms = LEASE_WAIT,
					      .stop = stop,
					      .run = discard_it,
					      .arg = &this },
		       err);
}

static char *cli_blob_read_id(const char *word)
{
	return xstrdup(word);
}

int cli_blob(struct cli *cli, int argc, char **argv)
{
	static const struct copies_command command = { .name = "blob",
						       .one = "blob",
						       .all = "blobs",
						       .word = "ID",
						       .options = options_text,
						       .has_types = true,
						       .name_of = cli_blob_read_id,
						       .discard = cli_blob_discard_copy };

	return copies_run(cli, &command, argc, argv);
}
