#include "push/keys.h"

#include <strings.h>

/* Of those without meaning, the last ones are keys of Gerrit's pull replication. */
const char *const push_remote_keys[] = {
	"url",
	"adminUrl",
	"push",
	"receivepack",
	"uploadpack",
	"gitPath",
	"timeout",
	"replicationDelay",
	"rescheduleDelay",
	"replicationRetry",
	"replicationMaxRetries",
	"drainQueueAttempts",
	"threads",
	"createMissingRepositories",
	"replicatePermissions",
	"replicateProjectDeletions",
	"mirror",
	"remoteNameStyle",
	"projects",
	"excludeProjects",
	"slowLatencyThreshold",
	"pushBatchSize",
	"replicateNoteDbMetaRefs",
	"excludedRefsPattern",
	"storeRefLog",
	"sshKey",
	"sshKnownHosts",
	"authGroup",
	"replicateHiddenProjects",
	"fetch",
	"apiUrl",
	"fetchEvery",
	"connectionTimeout",
	"idleTimeout",
	"enableBatchedRefs",
	NULL,
};

const char *const push_replication_keys[] = {
	"config",
	"eventsDirectory",
	"distributionInterval",
	"randomDelay",
	"maxRetries",
	"updateRefErrorMaxRetries",
	"lockErrorMaxRetries",
	"sshConfig",
	"secureConfig",
	"repositoryTransfers",
	"bytesInFlight",
	"webhook",
	"webhookSecretFile",
	"rsyncPath",
	"maxApiPayloadSize",
	"maxApiHistoryDepth",
	"refsBatchSize",
	"useCGitClient",
	"excludeRefs",
	"syncRefs",
	"fallbackToApplyObjectsRefs",
	"applyObjectBannedCreateRefs",
	"shutDownDrainTimeout",
	"maxConnectionsPerRoute",
	"maxConnections",
	"consumeStreamEvents",
	"eventBrokerTopic",
	"eventBrokerGroupId",
	NULL,
};

const char *const push_gerrit_keys[] = {
	"replicateOnStartup",   "defaultForceUpdate",
	"maxRefsToLog",         "maxRefsToShow",
	"pushBatchSize",        "sshCommandTimeout",
	"sshConnectionTimeout", "autoReload",
	"useLegacyCredentials", NULL,
};

static const struct {
	const char *section, *key;
} own[] = {
	{ "replication", "config" },
	{ "replication", "eventsDirectory" },
	{ "replication", "distributionInterval" },
	{ "replication", "randomDelay" },
	{ "replication", "sshConfig" },
	{ "replication", "secureConfig" },
	{ "replication", "repositoryTransfers" },
	{ "replication", "bytesInFlight" },
	{ "replication", "webhook" },
	{ "replication", "webhookSecretFile" },
	{ "remote", "sshKey" },
	{ "remote", "sshKnownHosts" },
};

static const char pull[] = "it is for pull replication; a push does not use it";

static const struct {
	const char *section, *key, *remark;
} remarks[] = {
	{ "remote", "authGroup",
	  "there are no groups here: all that projects and push take is replicated, "
	  "whoever may read it in Gerrit" },
	{ "remote", "replicateHiddenProjects",
	  "no project is hidden here: all that projects takes are replicated" },
	{ "remote", "fetch",
	  "a remote with fetch is one of pull replication: nothing is pushed to it" },
	{ "remote", "apiUrl", pull },
	{ "remote", "fetchEvery", pull },
	{ "remote", "connectionTimeout", pull },
	{ "remote", "idleTimeout", pull },
	{ "remote", "enableBatchedRefs", pull },
	{ "replication", "rsyncPath", "rsync is not used: git sends all packs" },
	{ "replication", "maxApiPayloadSize", pull },
	{ "replication", "maxApiHistoryDepth", pull },
	{ "replication", "refsBatchSize", pull },
	{ "replication", "useCGitClient", pull },
	{ "replication", "excludeRefs", pull },
	{ "replication", "syncRefs", pull },
	{ "replication", "fallbackToApplyObjectsRefs", pull },
	{ "replication", "applyObjectBannedCreateRefs", pull },
	{ "replication", "shutDownDrainTimeout", pull },
	{ "replication", "maxConnectionsPerRoute", pull },
	{ "replication", "maxConnections", pull },
	{ "replication", "consumeStreamEvents", pull },
	{ "replication", "eventBrokerTopic", pull },
	{ "replication", "eventBrokerGroupId", pull },
	{ "gerrit", "autoReload",
	  "files are read again when the node gets SIGHUP, never by themselves" },
	{ "gerrit", "useLegacyCredentials",
	  "secure.config is always read as the file that it is" },
};

static bool push_keys_is_in_list(const char *const *keys, const char *key)
{
	for (; *keys; keys++)
		if (strcasecmp(*keys, key) == 0)
			return true;
	return false;
}

static const char *const *keys_of(const struct conf_entry *entry)
{
	if (strcasecmp(entry->section, "remote") == 0)
		return push_remote_keys;
	if (strcasecmp(entry->section, "replication") == 0)
		return push_replication_keys;
	if (strcasecmp(entry->section, "gerrit") == 0)
		return push_gerrit_keys;
	return NULL;
}

bool push_has_section(const struct conf_entry *entry)
{
	return keys_of(entry) != NULL;
}

bool push_key_is_own(const struct conf_entry *entry)
{
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (strcasecmp(own[i].section, entry->section) == 0 &&
		    strcasecmp(own[i].key, entry->key) == 0)
			return true;
	return false;
}

const char *push_key_remark(const struct conf_entry *entry)
{
	const char *const *keys = keys_of(entry);

	if (!keys)
		return "this section is not read here";
	if (!push_keys_is_in_list(keys, entry->key))
		return "there is no such key: it is ignored";
	for (size_t i = 0; i < ARRAY_SIZE(remarks); i++)
		if (strcasecmp(remarks[i].section, entry->section) == 0 &&
		    strcasecmp(remarks[i].key, entry->key) == 0)
			return remarks[i].remark;
	return NULL;
}
