#include "cli/cli.h"

#include <getopt.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/site.h"
#include "git/checksum.h"
#include "git/objects.h"
#include "replicable/name.h"

static const char options_text[] =
	"  --gitaly          print Gitaly's checksum\n"
	"  --grokmirror      print grokmirror's fingerprint\n"
	"  --directory DEST  a tree that replicate made, or any other directory of bare\n"
	"                    repositories, in place of the configured site's\n"
	"  --json            print one JSON object\n";

enum form { FORM_OWN, FORM_GITALY, FORM_GROKMIRROR };

struct checksum_call {
	const char *directory, *name;
	enum form form;
	bool is_json;
};

static const struct option long_options[] = {
	{ "gitaly", no_argument, NULL, 'g' },
	{ "grokmirror", no_argument, NULL, 'k' },
	{ "directory", required_argument, NULL, 'd' },
	{ "json", no_argument, NULL, 'J' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
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
		err_set(err, ERR_MISSING, "there is no repository %s below %s", clean,
			root);
	return -1;
}

static void cli_checksum_render_text(const struct ref_snapshot *snapshot, enum form form,
				     char text[CHECKSUM_TEXT_SIZE])
{
	struct checksum sum;

	switch (form) {
	case FORM_GITALY:
		checksum_gitaly(snapshot, text);
		break;
	case FORM_GROKMIRROR:
		checksum_grokmirror(snapshot, text);
		break;
	case FORM_OWN:
		checksum_of(snapshot, &sum);
		checksum_format(&sum, text);
		break;
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

/* -1: go on. */
static int cli_checksum_read_options(int argc, char **argv, struct checksum_call *call)
{
	int option;

	while ((option = cli_getopt(argc, argv, "", long_options)) != -1) {
		switch (option) {
		case 'g':
			call->form = FORM_GITALY;
			break;
		case 'k':
			call->form = FORM_GROKMIRROR;
			break;
		case 'd':
			call->directory = optarg;
			break;
		case 'J':
			call->is_json = true;
			break;
		case 'h':
			cli_help("checksum", options_text);
			return EXIT_DONE;
		default:
			return cli_usage("checksum", "wrong option %s", argv[optind - 1]);
		}
	}
	if (argc - optind != 1)
		return cli_usage("checksum", "it takes one NAME");
	call->name = argv[optind];
	return -1;
}

int cli_checksum(struct cli *cli, int argc, char **argv)
{
	struct checksum_call call = { 0 };
	struct site site = { 0 };
	struct err err;
	int status = cli_checksum_read_options(argc, argv, &call);

	if (status >= 0)
		return status;
	if (!call.directory && site_read(cli, NULL, &site, &err) != 0)
		return cli_fail(&err);
	if (cli_checksum_compute(&call,
				 call.directory ? call.directory : site.repositories,
				 &err) != 0)
		status = cli_fail(&err);
	else
		status = EXIT_DONE;
	site_clear(&site);
	return status;
}
