#include "change/blob_notice_parts.h"
#include "change/identity.h"
#include "change/known_root.h"

#define ROOT_KEY "origin.root.%s"

struct judged {
	char key[64];
	char *identity; /* owned */
	struct known_root root;
};

static int blob_root_inspect(struct store *store, const struct blob_kind *kind, int root,
			     struct judged *judged, struct err *err)
{
	judged->identity = identity_of(root, "");
	if (!judged->identity)
		return err_errno(err, "cannot look at %s", kind->path);
	snprintf(judged->key, sizeof(judged->key), ROOT_KEY, kind->type);
	judged->root =
		(struct known_root){ .key = judged->key, .identity = judged->identity };
	return known_root_ask(store, &judged->root, err);
}

static int say_other(const struct blob_kind *kind, struct err *err)
{
	err_set(err, ERR_DISK,
		"the directory of the blobs \"%s\" (%s) is not the one that it was, so "
		"what is not there is not taken for deleted",
		kind->type, kind->path);
	return err_remedy(err, "is its file system mounted? If it was moved on purpose: "
			       "the next scan that finds a file there accepts it");
}

int blob_root_check(struct blob_notice *notice, const struct blob_kind *kind, int root,
		    struct err *err)
{
	struct judged judged = { 0 };
	int result = blob_root_inspect(notice->options.store, kind, root, &judged, err);

	free(judged.identity);
	return result == 0 && !judged.root.is_same ? say_other(kind, err) : result;
}

int blob_root_accept(struct blob_notice *notice, const struct blob_kind *kind, int root,
		     struct err *err)
{
	struct judged judged = { 0 };
	int result = blob_root_inspect(notice->options.store, kind, root, &judged, err);

	if (result == 0 && !judged.root.is_same)
		result = known_root_accept(notice->options.store, &judged.root, err);
	free(judged.identity);
	return result;
}

int blob_root_accept_first(struct store_tx *tx, const struct blob_kind *kind,
			   const char *identity, struct err *err)
{
	char key[64];

	snprintf(key, sizeof(key), ROOT_KEY, kind->type);
	return known_root_accept_first(
		tx, &(struct known_root){ .key = key, .identity = identity }, err);
}

static int found_one(void *arg, const char *id, const struct blob_print *print,
		     struct err *err)
{
	(void)id;
	(void)print;
	*(bool *)arg = true;
	return err_set(err, ERR_CANCELED, "one is enough");
}

int blob_root_has_file(const struct blob_kind *kind, const struct stop *stop,
		       bool *has_file, struct err *err)
{
	const struct blob_visitor visitor = { .file = found_one, .arg = has_file };

	*has_file = false;
	return blob_walk(kind, &visitor, stop, err) == 0 || *has_file ? 0 : -1;
}

int blob_notice_judge_root(struct store *store, const struct blob_kind *kind,
			   struct err *err)
{
	AUTO_CLOSE int root = blob_root_open(kind, err);
	struct judged judged = { 0 };
	bool has_file;

	if (root < 0 || blob_root_has_file(kind, NULL, &has_file, err) != 0)
		return -1;
	int result = has_file ? 0 : blob_root_inspect(store, kind, root, &judged, err);
	free(judged.identity);
	return result == 0 && judged.root.is_known && !judged.root.is_same
		       ? say_other(kind, err)
		       : result;
}
