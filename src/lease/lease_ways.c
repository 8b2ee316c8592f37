/*
 * What keys are called, and what is said of holders.
 */
#include "base/file.h"
#include "base/hash.h"
#include "lease/lease_json.h"
#include "lease/manager.h"

void lease_ways_clear(struct lease_ways *ways)
{
	free(ways->prefix);
	free(ways->run_prefix);
	free(ways->key_format);
	free(ways->site);
	free(ways->repositories);
	*ways = (struct lease_ways){ 0 };
}

void lease_manager_set_ways(struct lease_manager *manager, struct lease_ways *ways)
{
	lock(&manager->mutex);
	lease_ways_clear(&manager->ways);
	manager->ways = *ways;
	*ways = (struct lease_ways){ 0 };
	pthread_cond_signal(
		&manager->keeper_wake); /* it may have a server to look after */
	unlock(&manager->mutex);
}

int64_t lease_manager_wait_ms(const struct lease_manager *manager)
{
	return manager->ways.wait_ms;
}

void lease_job_new(char id[LEASE_JOB_SIZE])
{
	random_hex(id, (LEASE_JOB_SIZE - 1) / 2);
}

const char *lease_job_split(const char *job, char id[LEASE_JOB_SIZE])
{
	size_t len = strspn(job, "0123456789abcdef");

	id[0] = '\0';
	if (len != LEASE_JOB_SIZE - 1 || (job[len] != ' ' && job[len] != '\0'))
		return job;
	snprintf(id, LEASE_JOB_SIZE, "%.*s", (int)len, job);
	return job[len] ? job + len + 1 : job + len;
}

static void add_sha256(struct str *out, const char *text)
{
	str_add(out, "sha256:");
	hash_add_hex(HASH_SHA256, text, strlen(text), hash_size(HASH_SHA256), out);
}

/* The name, or what stands for one that is too long for a key. */
static void add_name(struct str *out, const char *name)
{
	if (strlen(name) < LEASE_KEY_SIZE / 4)
		str_add(out, name);
	else
		add_sha256(out, name);
}

/* Appends the value of the variable whose name begins at `text`: all begin differently.
 */
static void add_variable(const struct lease_ways *ways, const char *text,
			 const char *kind, uint64_t id, const char *name, struct str *out)
{
	AUTO_FREE char *path = NULL;

	switch (*text) {
	case 's':
		str_add(out, ways->site);
		break;
	case 'k':
		str_add(out, kind);
		break;
	case 'i':
		str_addf(out, "%" PRIu64, id);
		break;
	case 'n':
		add_name(out, name);
		break;
	default:
		path = xasprintf("%s/%s.git", ways->repositories, name);
		add_name(out, path);
		break;
	}
}

static bool has_variable(const char *format, const char *variable)
{
	return strstr(format, variable) != NULL;
}

bool lease_key_for(const struct lease_manager *manager, const char *kind, uint64_t id,
		   const char *name, char key[LEASE_KEY_SIZE])
{
	const struct lease_ways *ways = &manager->ways;
	const char *format = ways->key_format;
	AUTO_STR struct str text = STR_INIT;

	/* Names of blobs may be those of repositories. */
	if (format && strcmp(kind, "repository") != 0 && !has_variable(format, "${id}"))
		format = NULL;
	if (!format) {
		snprintf(key, LEASE_KEY_SIZE, "%sgeo_sync_ssf_service:%s:%" PRIu64,
			 ways->prefix ? ways->prefix : "", kind, id);
		return true;
	}
	if (!name && (has_variable(format, "${name}") || has_variable(format, "${path}")))
		return false;
	for (const char *at = format; *at; at++) {
		const char *end = strncmp(at, "${", 2) == 0 ? strchr(at, '}') : NULL;
		if (!end) {
			str_add_char(&text, *at);
			continue;
		}
		add_variable(ways, at + 2, kind, id, name, &text);
		at = end;
	}
	snprintf(key, LEASE_KEY_SIZE, "%s", text.data);
	return true;
}

void lease_key_of_site(const struct lease_manager *manager, const char *text,
		       char key[LEASE_KEY_SIZE])
{
	snprintf(key, LEASE_KEY_SIZE, "%s%s",
		 manager->ways.prefix ? manager->ways.prefix : "", text);
}

int lease_key_of_person(const struct lease_manager *manager, const char *text,
			char key[LEASE_KEY_SIZE], struct err *err)
{
	const char *prefix = manager->ways.run_prefix ? manager->ways.run_prefix : "";
	size_t len = strlen(prefix) + strlen(text);

	if (!text[0] || len >= LEASE_KEY_SIZE)
		return err_set(err, ERR_CONFIG,
			       "a lease's name has 1 to %zu bytes, not %zu",
			       LEASE_KEY_SIZE - 1 - strlen(prefix), strlen(text));
	snprintf(key, LEASE_KEY_SIZE, "%s%s", prefix, text);
	return 0;
}

json_t *lease_holder_json(const struct lease_holder *holder)
{
	json_t *object = json_object();
	char id[LEASE_JOB_SIZE];
	const char *name = lease_job_split(holder->job, id);

	json_put_text(object, "key", holder->key);
	json_put_number(object, "fence", (int64_t)holder->fence);
	json_put_bool(object, "held", holder->held);
	json_put_text(object, "proof", holder->proof);
	json_put_text(object, "node", holder->node);
	json_put_text(object, "boot_id", holder->boot_id);
	json_put_number(object, "pid", holder->pid);
	json_put_text(object, "job", id);
	json_put_text(object, "name", name);
	json_put_text(object, "operation", holder->operation);
	json_put_time(object, "acquired_at", holder->acquired_at);
	json_put_seconds(object, "ttl_left", holder->held ? holder->ttl_left_ms : 0);
	return object;
}
