#include "node/alerts.h"

#include "web/api.h"
#include "web/tokens.h"

#define PEERS_MOST 50

static const char certificate_remedy[] =
	"put a new one into http.tlsCertificate, then: systemctl reload refrelay";
static const char token_remedy[] =
	"put a new token into its file, or set expires to a later time, then: systemctl "
	"reload refrelay";

/* alert_sources.report */
static int node_alerts_report(void *arg, struct report *report, struct err *err)
{
	return api_report(arg, API_WHOLE, report, err);
}

/* alert_sources.signs */
static void node_alerts_signs(void *arg, struct vital_signs *signs)
{
	const struct web_services *services = arg;

	vitals_look(services->vitals, signs);
}

static void node_alerts_add_tokens(const struct conf *conf, alert_endings *endings)
{
	struct tokens tokens = { 0 };

	/* They were read before; those that changed meanwhile are the next reload's. */
	tokens_read(conf, &tokens, ERR_IGNORED);
	for (size_t i = 0; i < tokens.list.count; i++) {
		const struct token *one = &tokens.list.items[i];
		if (one->expires_ms != INT64_MAX)
			vec_add(endings, ((struct alert_ending){
						 .what = xasprintf("the %s", one->name),
						 .at_ms = one->expires_ms,
						 .remedy = token_remedy }));
	}
	tokens_clear(&tokens);
}

static void node_alerts_add_endings(const struct conf *conf,
				    const struct node_settings *settings,
				    alert_endings *endings)
{
	const struct tls_identity *identity = settings->transport.identity;

	if (identity)
		vec_add(endings, ((struct alert_ending){
					 .what = xstrdup("the TLS certificate of this "
							 "site"),
					 .at_ms = tls_identity_expires(identity) * 1000,
					 .remedy = certificate_remedy }));
	node_alerts_add_tokens(conf, endings);
}

static bool node_alerts_has_peer(const alert_peers *peers, const char *what)
{
	for (size_t i = 0; i < peers->count; i++)
		if (strcmp(peers->items[i].what, what) == 0)
			return true;
	return false;
}

/* Of those on one host and port the first stands for all. */
static void node_alerts_add_upstream(const char *url, const char *ca_file,
				     alert_peers *peers)
{
	AUTO_URI struct uri_text uri = { 0 };

	if (!text_starts_with(url, "https://") || peers->count >= PEERS_MOST ||
	    uri_text_read(url, &uri, ERR_IGNORED) != 0 || !uri.host)
		return;
	AUTO_FREE char *port = uri.port ? xasprintf(":%u", uri.port) : xstrdup("");
	AUTO_FREE char *what = xasprintf("the TLS certificate of %s%s", uri.host, port);
	if (node_alerts_has_peer(peers, what))
		return;
	vec_add(peers,
		((struct alert_peer){ .what = TAKE(what),
				      .url = xasprintf("https://%s%s/", uri.host, port),
				      .ca_file = xstrdup_or_null(ca_file) }));
}

static void node_alerts_add_peers(const struct node_settings *settings,
				  alert_peers *peers)
{
	const struct mirrors *mirrors = &settings->mirrors;
	const char *primary = settings->site.primary_url;

	if (settings->site.role == SITE_SECONDARY && primary &&
	    text_starts_with(primary, "https://"))
		vec_add(peers, ((struct alert_peer){
				       .what = xstrdup("the TLS certificate of the "
						       "primary"),
				       .url = xstrdup(primary),
				       .ca_file = xstrdup_or_null(
					       settings->site.primary_ca_file) }));
	for (size_t i = 0; i < mirrors->sections.count; i++)
		node_alerts_add_upstream(mirrors->sections.items[i]->url,
					 mirrors->sections.items[i]->ca_file, peers);
	for (size_t i = 0; i < mirrors->lists.count; i++)
		node_alerts_add_upstream(mirrors->lists.items[i]->source.url,
					 mirrors->lists.items[i]->ca_file, peers);
}

struct alerter *node_alerts_start(const struct conf *conf, struct node_settings *settings,
				  const struct node_alerts_place *place)
{
	const struct web_services *services = place->services;
	alert_endings endings = { 0 };
	alert_peers peers = { 0 };
	struct alerter *alerter;

	node_alerts_add_endings(conf, settings, &endings);
	node_alerts_add_peers(settings, &peers);
	alerter = alerter_start(&(struct alerter_options){
		.alerts = &settings->alerts,
		.peers = &peers,
		.endings = &endings,
		.site = services->site,
		.role = site_role_name(services->role),
		.sources = { .store = services->store,
			     .report = node_alerts_report,
			     .signs = node_alerts_signs,
			     .arg = (struct web_services *)(uintptr_t)services,
			     .data = services->data,
			     .root = services->root,
			     .push_data = place->push_data,
			     .here = services->here,
			     .started_at = place->started_at } });
	alert_endings_clear(&endings);
	alert_peers_clear(&peers);
	return alerter;
}
