#include "lease/postgresql_library.h"

#include <dlfcn.h>
#include <pthread.h>

#include "base/thread.h"

struct postgresql_library pq;

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static bool is_loaded; /* guarded by loading */

/* What dlerror() said, or NULL. */
static const char *load_functions(void)
{
	void *library = dlopen(POSTGRESQL_LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return dlerror();
#define LOAD_FUNCTION(name)                                                              \
	*(void **)&pq.name = dlsym(library, "PQ" #name);                                 \
	if (!pq.name)                                                                    \
		return dlerror();
	POSTGRESQL_FUNCTIONS(LOAD_FUNCTION)
	return NULL;
}

int postgresql_library_load(struct err *err)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&loading);
	const char *trouble = is_loaded ? NULL : load_functions();

	is_loaded = !trouble;
	if (is_loaded)
		return 0;
	err_set(err, ERR_CONFIG, "leases: PostgreSQL's library cannot be loaded: %.300s",
		trouble);
	return err_remedy(err, "install the Debian package libpq5, or choose another "
			       "lease.backend");
}
