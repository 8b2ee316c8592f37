#include "cli/cli.h"

#include "base/file.h"
#include "base/json.h"
#include "cli/site.h"
#include "git/checksum.h"
#include "git/objects.h"
#include "replicable/name.h"

struct checksum_call {
	const char *directory, *name;
	const char *form; /* another program's; NULL: our own */
	bool is_json;
};

#define AT(kind, member) CLI_AT(kind, struct checksum_call, member)

static const struct cli_option rows[] = {
	{ "gitaly", 0, NULL, "print Gitaly's checksum", AT(CHOICE, form),
	  .words = (const char *const[]){ "gitaly", NULL } },
	{ "grokmirror", 0, NULL, "print grokmirror's fingerprint", AT(CHOICE, form),
	  .words = (const char *const[]){ "grokmirror", NULL } },
	{ "directory", 0, "DEST",
	  "a tree that replicate made, or any other directory of bare\n"
	  "repositories, in place of the configured site's",
	  AT(TEXT, directory) },
	CLI_JSON(struct checksum_call),
	{ 0 },
};

const struct cli_options checksum_options = {
	.rows = rows, .least = 1, .most = 1, .takes = "one NAME", .column = 20
};

static int cli_checksum_open_repository(const char *root, const char *name,
					struct repo *repo, struct err *err)
{
	AUTO_FREE char *clean = name_of_path(name);
	AUTO_FREE char *usual = NULL;
	AUTO_FREE char *other = NULL;

	if (name_check(clean, err) != 0)
		return -1;
	usual = xasprintf("%s/%s.git", root, clean);
	other = xasprintf("%s/%s", root, clean);
	if (repo_open(AT_FDCWD, usual, repo, err) == 0)
		return 0;
	if (err->class != ERR_MISSING)
		return -1;
	if (repo_open(AT_FDCWD, other, repo, err) == 0)
		return 0;
	if (err->class == ERR_MISSING)
		err_set(err, ERR_MISSING, "no repository %s below %s", clean, root);
	return -1;
}

static void cli_checksum_render_text(const struct ref_snapshot *snapshot,
				     const char *form, char text[CHECKSUM_TEXT_SIZE])
{
	struct checksum sum;

	if (!form) {
		checksum_of(snapshot, &sum);
		checksum_format(&sum, text);
	} else if (strcmp(form, "gitaly") == 0) {
		checksum_gitaly(snapshot, text);
	} else {
		checksum_grokmirror(snapshot, text);
	}
}

static void cli_checksum_print_result(const struct checksum_call *call,
				      const struct ref_snapshot *snapshot)
{
	char text[CHECKSUM_TEXT_SIZE];
	json_auto_t *object = json_object();

	cli_checksum_render_text(snapshot, call->form, text);
	if (!call->is_json) {
		puts(text);
		return;
	}
	json_put_text(object, "name", call->name);
	json_put_text(object, "checksum", text);
	json_put_number(object, "refs", (int64_t)snapshot->refs.count);
	json_put_bool(object, "empty", snapshot->refs.count == 0);
	json_write(stdout, object);
}

/* A repository whose refs name what is not there has no checksum: it is damaged. */
static int cli_checksum_compute(const struct checksum_call *call, const char *root,
				struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;
	const struct git_work work = { .guard_fd = -1 };
	char scratch[] = "/tmp/refrelay.XXXXXX";
	int result = -1;

	if (cli_checksum_open_repository(root, call->name, &repo, err) != 0 ||
	    ref_snapshot_read(repo.fd, repo.oid_len, &snapshot, err) != 0)
		return -1;
	if (!mkdtemp(scratch))
		return err_errno(err, "cannot make a directory in /tmp");
	if (git_setup(scratch, err) == 0 &&
	    objects_check_tips(&work, &repo, &snapshot, err) == 0)
		result = 0;
	tree_remove(AT_FDCWD, scratch, ERR_IGNORED);
	if (result == 0)
		cli_checksum_print_result(call, &snapshot);
	return result;
}

int cli_checksum(struct cli *cli, char **argv)
{
	struct checksum_call call = { 0 };
	struct cli_operands operands;
	struct site site = { 0 };
	struct err err;
	int status = cli_read_options(cli->command, argv, &call, &operands);

	if (status >= 0)
		return status;
	call.name = operands.items[0];
	if ((!call.directory && site_read(cli, NULL, &site, &err) != 0) ||
	    cli_checksum_compute(&call,
				 call.directory ? call.directory : site.repositories,
				 &err) != 0)
		status = cli_fail(&err);
	else
		status = EXIT_DONE;
	site_clear(&site);
	return status;
}
