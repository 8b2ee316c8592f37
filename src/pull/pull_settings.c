#include "pull/pull.h"

#define CAPACITY_MOST 256

static int read_capacity(const struct conf *conf, const char *key, uint64_t *value,
			 struct err *err)
{
	return conf_read_uint(conf_get(conf, "sync", NULL, key), 0, CAPACITY_MOST, value,
			      err);
}

static int pull_settings_read_duration(const struct conf *conf, const char *key,
				       enum conf_unit bare, int64_t *value,
				       struct err *err)
{
	const struct conf_entry *entry = conf_get(conf, "sync", NULL, key);

	if (conf_read_duration(entry, bare, value, err) != 0)
		return -1;
	if (entry && *value < CONF_SECOND)
		return conf_error(entry, err, "it must be 1s or more");
	return 0;
}

int pull_settings_read(const struct conf *conf, struct pull_settings *settings,
		       struct err *err)
{
	*settings = (struct pull_settings){
		.repository_capacity = 10,
		.blob_capacity = 10,
		.verification_capacity = 2,
		.consistency_interval_ms = CONF_MINUTE,
		.timeout_ms = 3 * CONF_HOUR,
		.reverify_ms = 7 * (int64_t)CONF_DAY,
		.delete_brake = 0.05,
	};
	if (read_capacity(conf, "repositoryCapacity", &settings->repository_capacity,
			  err) != 0 ||
	    read_capacity(conf, "blobCapacity", &settings->blob_capacity, err) != 0 ||
	    read_capacity(conf, "verificationCapacity", &settings->verification_capacity,
			  err) != 0 ||
	    pull_settings_read_duration(conf, "consistencyInterval", CONF_SECOND,
					&settings->consistency_interval_ms, err) != 0 ||
	    pull_settings_read_duration(conf, "timeout", CONF_SECOND,
					&settings->timeout_ms, err) != 0 ||
	    pull_settings_read_duration(conf, "reverifyInterval", CONF_DAY,
					&settings->reverify_ms, err) != 0 ||
	    conf_read_size(conf_get(conf, "sync", NULL, "bandwidth"),
			   &settings->bandwidth, err) != 0)
		return -1;
	return conf_read_share(conf_get(conf, "sync", NULL, "deleteBrake"),
			       &settings->delete_brake, err);
}
