/*
 * What of a server's settings makes it unfit for leases. `check` tells all of it, and
 * tries the commands. Whoever uses the server looks at each connect, before it sends
 * anything else: a server that is away at the start is looked at when it is back, and one
 * that was put in its place as well.
 */
#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "lease/lease_settings.h"
#include "lease/redis_round.h"

struct redis_check {
	const struct lease_options *options;
	const char *key; /* see lease_redis_check() */
	redis_finding say;
	void *arg;
	bool has_error;
	const char *server;
};

static void redis_check_say(struct redis_check *check, bool is_error, const char *what,
			    const char *remedy)
{
	AUTO_FREE char *text = xasprintf("%s: %s", check->server, what);

	check->has_error |= is_error;
	if (check->say)
		check->say(check->arg, is_error, text, remedy);
}

/* The value of a line "name:value" of INFO; "" if there is none. */
static void redis_check_field(const char *info, const char *name, char value[64])
{
	AUTO_FREE char *start = xasprintf("\n%s:", name);
	const char *at = strstr(info, start);

	value[0] = '\0';
	if (at)
		snprintf(value, 64, "%.*s", (int)strcspn(at + strlen(start), "\r\n"),
			 at + strlen(start));
}

static void redis_check_kind(struct redis_check *check, const char *info)
{
	char value[64];

	redis_check_field(info, "redis_version", value);
	if (strtol(value, NULL, 10) < 5)
		redis_check_say(check, true, "it is older than Redis 5",
				"leases need Redis 5 or newer");
	redis_check_field(info, "role", value);
	if (value[0] && strcmp(value, "master") != 0)
		redis_check_say(check, true, "it is a replica",
				"name the primary in lease.url");
	redis_check_field(info, "cluster_enabled", value);
	if (strcmp(value, "1") == 0)
		redis_check_say(check, true, "it belongs to a cluster",
				"name a server of its own in lease.url");
	redis_check_field(info, "connected_slaves", value);
	if (strtol(value, NULL, 10) > 0)
		redis_check_say(check, false,
				"it has replicas: after a failover, a lease may be held "
				"twice for a while",
				"several servers of their own in lease.url have no "
				"failover");
}

static void redis_check_memory(struct redis_check *check, const char *info)
{
	char value[64], most[64];

	redis_check_field(info, "maxmemory", most);
	redis_check_field(info, "maxmemory_policy", value);
	if (strcmp(most, "0") != 0 && value[0] && strcmp(value, "noeviction") != 0)
		redis_check_say(check, true,
				"it may evict leases when its memory is full",
				"set its maxmemory-policy to noeviction");
	redis_check_field(info, "aof_enabled", value);
	if (strcmp(value, "0") == 0)
		redis_check_say(check, false,
				"it may lose leases when it restarts: appendonly is off",
				"set its appendonly to yes");
}

static void redis_check_info(struct redis_check *check, const redisReply *info)
{
	if (info->type == REDIS_REPLY_STRING) {
		AUTO_FREE char *text = xasprintf("\n%s", info->str);
		redis_check_kind(check, text);
		redis_check_memory(check, text);
	} else {
		redis_check_say(check, false, "its settings could not be looked at",
				"give its user the right to INFO, to have them checked");
	}
}

static void redis_check_answers(struct redis_check *check,
				const struct redis_request *request)
{
	struct err err;

	redis_check_info(check, request->replies.items[0]);
	for (size_t i = 1; i < request->replies.count; i++) {
		if (redis_reply_check(request->replies.items[i], check->server, &err) ==
		    0)
			continue;
		redis_check_say(check, true, err.text, err.remedy);
		return;
	}
}

/* What leases do with each of their keys, of which the first is a sorted set. */
static void redis_check_add_keys(struct redis_request *request, const char *line,
				 const char *const *keys, size_t count)
{
	char number[21];
	const char *words[8] = {
		"EVAL",
		"redis.call('TIME') "
		"redis.call('ZRANGE',KEYS[1],0,0) "
		"redis.call('ZADD',KEYS[1],1,'check') "
		"redis.call('ZREM',KEYS[1],'check') "
		"for i=2,#KEYS do "
		"redis.call('SET',KEYS[i],'check','PX',1000) "
		"redis.call('GET',KEYS[i]) "
		"redis.call('EXISTS',KEYS[i]) "
		"redis.call('PEXPIRE',KEYS[i],1000) "
		"redis.call('PTTL',KEYS[i]) "
		"redis.call('DEL',KEYS[i]) "
		"end",
		number,
		line,
	};

	snprintf(number, sizeof(number), "%zu", count + 1);
	for (size_t i = 0; i < count; i++)
		words[4 + i] = keys[i];
	redis_request_add(request, 4 + (int)count, words);
}

static void redis_check_add_key(struct redis_request *request, const char *key)
{
	AUTO_FREE char *fence = xasprintf("%s#fence", key);
	AUTO_FREE char *line = xasprintf("%s#line", key);
	AUTO_FREE char *wait = xasprintf("%s#wait:check", key);

	redis_check_add_keys(request, line, (const char *[]){ key, fence, wait }, 3);
}

/* With keys of names that no lease has. */
static void redis_check_add(const struct redis_check *check,
			    struct redis_request *request)
{
	const char *prefix = check->options->prefix ? check->options->prefix : "";
	char id[17];

	random_hex(id, 8);
	AUTO_FREE char *key = xasprintf("%s#wait:check-%s", prefix, id);
	AUTO_FREE char *list = xasprintf("%s#wake:check-%s", prefix, id);
	redis_request_add(request, 1, (const char *[]){ "INFO" });
	redis_check_add_keys(request, list, (const char *[]){ key }, 1);
	if (check->key)
		redis_check_add_key(request, check->key);
	redis_request_add(request, 3, (const char *[]){ "RPUSH", list, "check" });
	redis_request_add(request, 3, (const char *[]){ "BLPOP", list, "1" });
}

static void redis_check_server(struct redis_check *check,
			       const struct redis_address *address)
{
	const struct redis_access access = {
		.user = check->options->user,
		.password_file = check->options->password_file,
		.ca_file = check->options->ca_file,
	};
	struct redis_connection *connection = redis_connection_new(address, &access);
	struct redis_request request;

	check->server = address->text;
	redis_request_init(&request, connection);
	redis_check_add(check, &request);
	redis_exchange(&request, 1, 1, clock_boot_ms() + 3000, 0);
	if (request.progress == REDIS_ANSWERED)
		redis_check_answers(check, &request);
	else
		redis_check_say(check, true, request.err.text, request.err.remedy);
	redis_request_clear(&request);
	redis_connection_free(connection);
}

int lease_redis_check(const struct lease_options *options, const char *key,
		      lease_finding say, void *arg)
{
	struct redis_check check = {
		.options = options, .key = key, .say = say, .arg = arg
	};
	struct err err;

	for (size_t i = 0; i < options->url_count; i++) {
		struct redis_address address;
		check.server = "lease.url";
		if (redis_address_parse(options->urls[i], &address, &err) != 0) {
			redis_check_say(&check, true, err.text, err.remedy);
			continue;
		}
		redis_check_server(&check, &address);
		redis_address_clear(&address);
	}
	return check.has_error ? -1 : 0;
}

/* ------------------------------------------------------------------ at each connect */

int redis_judge_info(const char *server, const struct redisReply *info, redis_finding say,
		     void *arg)
{
	struct redis_check check = { .say = say, .arg = arg, .server = server };

	redis_check_info(&check, info);
	return check.has_error ? -1 : 0;
}

struct redis_judgement {
	struct redis_backend *backend;
	struct err *err;
};

/* Each warning once: a process connects to a server several times. */
static bool redis_judge_is_news(struct redis_backend *backend, const char *what)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&backend->server.mutex);

	if (text_list_has(&backend->doubts, what))
		return false;
	vec_add(&backend->doubts, xstrdup(what));
	return true;
}

static void redis_judge_say(void *arg, bool is_error, const char *what,
			    const char *remedy)
{
	const struct redis_judgement *judgement = arg;

	if (is_error) {
		err_set(judgement->err, ERR_CONFIG, "leases: %s", what);
		err_because(judgement->err, REASON_LOCK_UNAVAILABLE);
		err_remedy(judgement->err, "%s", remedy);
	} else if (judgement->backend->logs_doubts &&
		   redis_judge_is_news(judgement->backend, what)) {
		log_warn("lease.server_doubtful", LOG_TEXT("what", what),
			 LOG_TEXT("remedy", remedy));
	}
}

int redis_judge(void *arg, const struct redis_address *server,
		const struct redisReply *info, struct err *err)
{
	struct redis_judgement judgement = { .backend = arg, .err = err };

	return redis_judge_info(server->text, info, redis_judge_say, &judgement);
}
