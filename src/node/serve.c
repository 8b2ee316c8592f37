#include <signal.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/metrics.h"
#include "change/event_log.h"
#include "cli/check.h"
#include "cli/cli.h"
#include "cli/site.h"
#include "node/node.h"
#include "node/role.h"
#include "node/settings.h"
#include "pull/followed.h"
#include "pull/pull.h"
#include "replicable/name.h"
#include "replicable/origin_rows.h"
#include "replicable/registry.h"
#include "report/report.h"
#include "store/site_value.h"
#include "upkeep/copies_root.h"
#include "web/transport.h"

#define ROLE_KEY "site.role"

struct role_change {
	const char *role;
	struct str before;
	struct event_ends ends;
};

/* Databases of before this was kept know no role. */
static int read_before(struct store_tx *tx, void *arg, struct err *err)
{
	struct role_change *change = arg;

	str_reset(&change->before);
	if (site_value_get(tx, ROLE_KEY, &change->before, err) < 0)
		return -1;
	return event_log_ends(tx, &change->ends, err);
}

static int forget_deletion(struct store_tx *tx, const struct registry_row *row, void *arg,
			   struct err *err)
{
	(void)arg;
	return registry_remove_in(tx, row->id, err) < 0 ? -1 : 0;
}

/* Another primary deleted them. What they name may have been this site's own since, and
 * changed: the comparison holds the repositories among them, or leaves them alone; blobs
 * stay. */
static int forget_deletions(struct store_tx *tx, struct err *err)
{
	AUTO_KIND_NAMES kind_names kinds = { 0 };

	if (registry_kinds_in(tx, &kinds, err) != 0)
		return -1;
	for (size_t i = 0; i < kinds.count; i++) {
		const struct registry_filter gone = { .kind = kinds.items[i],
						      .state = REGISTRY_ANY,
						      .gone_only = true };
		if (strcmp(gone.kind, KIND_MIRROR) != 0 &&
		    registry_each_in(tx, &gone, forget_deletion, NULL, err) != 0)
			return -1;
	}
	return 0;
}

static int forget_position(struct store_tx *tx, void *arg, struct err *err)
{
	(void)arg;
	if (site_value_remove(tx, PULL_CURSOR, err) != 0 ||
	    site_value_remove(tx, PULL_COMPARED, err) != 0 ||
	    registry_disown_blobs_in(tx, err) != 0 || followed_forget_in(tx, err) != 0 ||
	    forget_deletions(tx, err) != 0)
		return -1;
	return copies_root_doubt(tx, err);
}

/* A site that pushes knows its repositories already. */
static int doubt_originals(struct store_tx *tx, void *arg, struct err *err)
{
	(void)arg;
	return origin_rows_doubt_copies_in(tx, err);
}

static int begin_as_primary(struct store *store, const struct role_change *change,
			    struct err *err)
{
	if (store_write(store, doubt_originals, NULL, err) != 0)
		return -1;
	return event_log_renew(store, change->ends.timeline, err);
}

static int follow_change(struct store *store, const struct role_change *change,
			 enum site_role role, struct err *err)
{
	const char *before = change->before.data;

	if (!before[0] || strcmp(before, site_role_name(role)) == 0)
		return 0;
	/* from a standalone site, too, which does not tell what it was before that */
	if (role == SITE_PRIMARY && change->ends.timeline[0])
		return begin_as_primary(store, change, err);
	if (role == SITE_SECONDARY)
		return store_write(store, forget_position, NULL, err);
	return 0;
}

int role_begin(struct store *store, enum site_role role, struct err *err)
{
	struct role_change change = { .role = site_role_name(role), .before = STR_INIT };
	int result = store_read(store, read_before, &change, err);

	if (result == 0 && strcmp(change.before.data, change.role) != 0) {
		/* What follows may be done twice, but never be left out. */
		result = follow_change(store, &change, role, err);
		if (result == 0)
			result = site_value_write(store, ROLE_KEY, change.role, err);
		if (result == 0 && change.before.len > 0)
			log_info("node.role_changed",
				 LOG_TEXT("before", change.before.data),
				 LOG_TEXT("role", change.role));
	}
	str_clear(&change.before);
	return result;
}

/*
 * What `refrelay check` says of TLS and of who speaks for others.
 */

#define DAY_S 86400
#define SOON_DAYS 14

static void check_certificate(struct checking *checking,
			      const struct tls_identity *identity)
{
	int64_t left = tls_identity_expires(identity) - clock_wall_ms() / 1000;
	struct err err;

	if (left > SOON_DAYS * DAY_S) {
		check_say(checking, CHECK_GOOD, "certificate", "",
			  "expires in %" PRId64 " days", left / DAY_S);
		return;
	}
	if (left <= 0)
		err_set(&err, ERR_CONFIG, "the certificate has expired");
	else
		err_set(&err, ERR_CONFIG, "the certificate expires in %" PRId64 " days",
			left / DAY_S);
	err_remedy(&err,
		   "renew http.tlsCertificate, then run: systemctl reload refrelay");
	check_report(checking, left <= 0 ? CHECK_WRONG : CHECK_NOTE, "certificate", &err);
}

static void check_proxies(struct checking *checking,
			  const struct trusted_proxies *proxies)
{

	for (size_t i = 0; i < proxies->networks.count; i++) {
		unsigned bits = proxies->networks.items[i].bits;
		if (bits != 0 && bits != 96)
			continue;
		check_say(checking, CHECK_NOTE, "proxies",
			  "list the proxies' addresses: anyone else could forge client "
			  "addresses",
			  "http.trustedProxy trusts every address");
	}
}

static void node_check_transport(struct checking *checking)
{
	AUTO_TRANSPORT struct transport transport;
	struct err err;

	if (transport_read(checking->conf, &transport, &err) != 0) {
		check_report(checking, CHECK_WRONG, "configuration", &err);
		return;
	}
	if (transport.identity)
		check_certificate(checking, transport.identity);
	check_proxies(checking, &transport.proxies);
}

/* Blocked in this thread before all others are started, so that this one alone gets
 * them. */
static void block_signals(sigset_t *set)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };

	sigemptyset(set);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		sigaddset(set, numbers[i]);
	pthread_sigmask(SIG_BLOCK, set, NULL);
}

static void count_failed(bool has_failed)
{
	struct metric *gauge = metric_gauge("refrelay_configuration_failed",
					    "1: the last reload failed, and the previous "
					    "configuration stays in force, or only the "
					    "previous certificate.");

	metric_set(metric_at(gauge), has_failed);
}

static void reload(const struct cli *cli, struct node *node)
{
	AUTO_CONF struct conf *conf = NULL;
	struct err err;
	int result = -1;

	notify_reloading();
	if (cli_load_config(cli, &conf, &err) == 0)
		result = node_reload(node, conf, &err);
	if (result < 0)
		log_error("node.reload_failed", LOG_ERR(&err),
			  LOG_TEXT("remedy", err.remedy));
	count_failed(result != 0);
	notify("READY=1");
}

static void node_serve_wait_for_end(const struct cli *cli, struct node *node,
				    const sigset_t *set)
{
	int number = 0;

	while (sigwait(set, &number) != 0 || number == SIGHUP)
		if (number == SIGHUP)
			reload(cli, node);
	log_info("node.stopping", LOG_TEXT("signal", strsignal(number)));
	notify("STOPPING=1");
}

/* Whoever asks twice wants it now: a crash is what all of it is made for. What asks for
 * the settings to be read again, as a rotation of logs may just then, does not. */
static void end_at_once_next_time(const sigset_t *set)
{
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	pthread_sigmask(SIG_UNBLOCK, set, NULL);
}

/* Memory holds credentials, and that of git children does: no core is written of it. Not
 * 0 but 1: a program to which the kernel gives cores is not kept from it by 0 (core(5)),
 * and a file of one byte is not made. */
static void node_serve_forbid_cores(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_CORE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max > 0 ? 1 : 0;
	setrlimit(RLIMIT_CORE, &limit);
}

/* Before a credential is read. */
static int node_serve_set_core_limit(const struct conf *conf, struct err *err)
{
	struct site site;
	int result = site_from_conf(conf, &site, err);

	if (result == 0 && !site.has_core_dumps)
		node_serve_forbid_cores();
	if (result == 0)
		site_clear(&site);
	return result;
}

/* Database, threads and watches of an idle node take some fifty. */
enum { FILES_MIN = 256 };

/* Connections and children need descriptors; the soft limit is there for select(). */
static int raise_file_limit(struct err *err)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 0;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_max >= FILES_MIN)
		return 0;
	err_set(err, ERR_CONFIG,
		"the limit of open files is %ju; a node needs at least %d",
		(uintmax_t)limit.rlim_max, FILES_MIN);
	return err_remedy(err, "raise the limit of open files (ulimit -n, or "
			       "LimitNOFILE= in the unit)");
}

static int node_serve(struct cli *cli)
{
	AUTO_CONF struct conf *conf = NULL;
	struct node *node;
	struct err err;
	sigset_t set;

	log_set_level(cli->is_verbose  ? LOG_LEVEL_DEBUG
		      : cli_is_quiet() ? LOG_LEVEL_WARN
				       : LOG_LEVEL_INFO);
	block_signals(&set);
	if (raise_file_limit(&err) != 0 || cli_load_config(cli, &conf, &err) != 0 ||
	    node_serve_set_core_limit(conf, &err) != 0 ||
	    node_start(conf, &node, &err) != 0)
		return cli_fail(&err);
	count_failed(false);
	notify("READY=1");
	node_serve_wait_for_end(cli, node, &set);
	end_at_once_next_time(&set);
	failpoint("node.stops");
	node_stop(node);
	log_info("node.stopped");
	return EXIT_DONE;
}

const struct cli_node node_for_cli = { node_serve, node_settings_check,
				       node_check_transport };
