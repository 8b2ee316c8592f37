#include "base/file.h"
#include "change/identity.h"
#include "change/known_root.h"
#include "change/notice_parts.h"

#define ROOT_KEY "origin.root"

static int notice_root_open_directory(const char *root, struct err *err)
{
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	err_errno(err, "site.repositories (%s) cannot be read", root);
	err->class = ERR_DISK;
	return err_remedy(err, "is its file system mounted? Nothing is taken for deleted "
			       "meanwhile");
}

int notice_open_root(const struct notice *notice, struct err *err)
{
	const struct notice_options *options = &notice->options;

	if (options->check_copies &&
	    options->check_copies(options->store, options->root, err) != 0)
		return -1;
	return notice_root_open_directory(options->root, err);
}

/* `may_be_new`: no repository was ever seen, and none need be there. */
static int notice_root_check_identity(struct store *store, const char *path, int root,
				      bool may_be_new, struct err *err)
{
	AUTO_FREE char *identity = identity_of(root, "");
	struct known_root known = { .key = ROOT_KEY, .identity = identity };

	if (!identity)
		return err_errno(err, "cannot look at site.repositories");
	if (known_root_ask(store, &known, err) != 0)
		return -1;
	if (known.is_same || (may_be_new && !known.is_known))
		return 0;
	err_set(err, ERR_DISK,
		"site.repositories (%s) is not the directory that it was, so what is "
		"not there is not taken for deleted",
		path);
	return err_remedy(err, "is its file system mounted? If it was moved on purpose: "
			       "the next scan that finds a repository there accepts it");
}

int notice_check_root(struct notice *notice, int root, struct err *err)
{
	return notice_root_check_identity(notice->options.store, notice->options.root,
					  root, false, err);
}

int notice_judge_root(struct store *store, const char *path, struct err *err)
{
	AUTO_CLOSE int root = notice_root_open_directory(path, err);
	int is_empty = root < 0 ? -1 : discover_is_empty(path, err);

	return is_empty > 0 ? notice_root_check_identity(store, path, root, true, err)
			    : is_empty;
}

int notice_accept_root(struct notice *notice, int root, struct err *err)
{
	AUTO_FREE char *identity = identity_of(root, "");
	struct known_root known = { .key = ROOT_KEY, .identity = identity };

	if (!identity)
		return err_errno(err, "cannot look at site.repositories");
	return known_root_accept(notice->options.store, &known, err);
}

int notice_accept_root_in(struct store_tx *tx, const char *identity, struct err *err)
{
	const struct known_root known = { .key = ROOT_KEY, .identity = identity };

	return known_root_accept_first(tx, &known, err);
}
