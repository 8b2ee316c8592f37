#include "replicable/take_away.h"

#include <fcntl.h>

#include "git/fence.h"
#include "replicable/name.h"

/* The job of such a lease is the repository's name. */
static int take_away_raise_fence(const struct take_away *what,
				 const struct lease_holder *holder, struct err *err)
{
	char key[LEASE_KEY_SIZE];
	AUTO_FREE char *below = name_to_path(holder->job);
	AUTO_FREE char *path = xasprintf("%s/%s", what->repositories, below);
	AUTO_CLOSE int copy = -1;

	lease_key_for(KIND_REPOSITORY, replicable_id(KIND_REPOSITORY, holder->job), key);
	if (strcmp(key, what->key) != 0)
		return 0;
	copy = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return copy < 0 ? 0 : fence_raise(copy, what->fence + 1, err);
}

int lease_take_away(struct lease_manager *leases, const struct take_away *what,
		    struct err *err)
{
	struct lease_holder holder;

	if (lease_inspect(leases, what->key, &holder, err) != 0 ||
	    lease_force_release(leases, what->key, what->fence, what->actor, what->reason,
				err) != 0)
		return -1;
	if (take_away_raise_fence(what, &holder, err) != 0)
		return err_prefix(err, "the lease is released, but its holder may "
				       "publish once more");
	return 0;
}
