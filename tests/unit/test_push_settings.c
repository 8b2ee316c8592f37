#include "test.h"

#include "push/destination.h"
#include "push_conf.h"

/* Until the task store brings it. */
__attribute__((weak)) void uri_key_of(const char *uri, char key[URI_KEY_SIZE])
{
	(void)uri;
	memset(key, 0, URI_KEY_SIZE);
}

static void put(const char *path, const char *text, mode_t mode)
{
	assert_ok(dir_make_parents(root_fd, path, &err));
	assert_ok(file_replace(root_fd, path, text, strlen(text), FILE_NO_SYNC, &err));
	assert_int_equal(fchmodat(root_fd, path, mode, 0), 0);
}

static bool has_note(const char *place, const char *text)
{
	for (size_t i = 0; i < settings->notes.count; i++)
		if (strstr(settings->notes.items[i], place) &&
		    strstr(settings->notes.items[i], text))
			return true;
	return false;
}

static void assert_note(const char *place, const char *text)
{
	if (has_note(place, text))
		return;
	for (size_t i = 0; i < settings->notes.count; i++)
		print_error("%s\n", settings->notes.items[i]);
	fail_msg("no note about %s says %s", place, text);
}

static const struct push_remote *read_keys(const char *keys)
{
	AUTO_FREE char *text = xasprintf("[remote \"r\"]\n"
					 "url = git://h/${name}\n%s\n",
					 keys);

	assert_ok(read_settings(text));
	assert_int_equal(settings->remotes.count, 1);
	return &settings->remotes.items[0];
}

TEST(what_is_not_said_has_the_documented_value)
{
	const struct push_remote *to = read_keys("");

	assert_string_equal(to->name, "r");
	assert_int_equal(to->silence_ms, 15 * 60 * 1000);
	assert_int_equal(to->delay_ms, 15 * 1000);
	assert_int_equal(to->reschedule_ms, 3000);
	assert_int_equal(to->retry_ms, 60 * 1000);
	assert_int_equal(to->slow_ms, 900 * 1000);
	assert_int_equal(to->max_retries, 0);
	assert_int_equal(to->drain_attempts, 0);
	assert_int_equal(to->threads, 1);
	assert_int_equal(to->batch_size, 0);
	assert_int_equal(to->style, NAME_SLASH);
	assert_true(to->creates_missing && to->replicates_permissions &&
		    to->replicates_note_db_meta);
	assert_false(to->replicates_deletions || to->mirrors || to->stores_ref_log);
	assert_string_equal(to->git_path, "git");
	assert_null(to->receive_pack);
	assert_string_equal(settings->directory, "/data/replication");
	assert_int_equal(settings->max_refs_to_log, 0);
	assert_int_equal(settings->max_refs_to_show, 2);
	assert_int_equal(settings->ssh_command_ms, 0);
	assert_int_equal(settings->ssh_connect_ms, 120 * 1000);
	assert_int_equal(settings->interval_ms, 0);
	assert_int_equal(settings->random_ms, 0);
	assert_int_equal(settings->lock_max_retries, -1);
	assert_int_equal(settings->repository_transfers, 4);
	assert_true(settings->bytes_in_flight > 0);
	assert_false(settings->replicates_on_startup);
	assert_int_equal(settings->notes.count, 0);
}

TEST(chance_delays_a_push_only_where_nodes_share_the_work)
{
	read_keys("replicationDelay = 1\n[replication]\ndistributionInterval = 5s\n");
	assert_int_equal(settings->random_ms, 1000);
	read_keys("replicationDelay = 1\n[replication]\ndistributionInterval = 0\n");
	assert_int_equal(settings->random_ms, 0);
	read_keys("replicationDelay = 1\n[replication]\nrandomDelay = 3s\n");
	assert_int_equal(settings->random_ms, 3000);
}

TEST(a_bare_number_has_gerrit_s_unit_of_its_key)
{
	const struct push_remote *to = read_keys(
		"timeout = 7\nreplicationDelay = 7\nrescheduleDelay = 7\n"
		"replicationRetry = 7\nslowLatencyThreshold = 7\n[gerrit]\n"
		"sshCommandTimeout = 7\nsshConnectionTimeout = 7\n[replication]\n"
		"distributionInterval = 7\nrandomDelay = 7\n");

	assert_int_equal(to->silence_ms, 7000);
	assert_int_equal(to->delay_ms, 7000);
	assert_int_equal(to->reschedule_ms, 7000);
	assert_int_equal(to->retry_ms, 7 * 60 * 1000);
	assert_int_equal(to->slow_ms, 7000);
	assert_int_equal(settings->ssh_command_ms, 7000);
	assert_int_equal(settings->ssh_connect_ms, 7);
	assert_int_equal(settings->interval_ms, 7000);
	assert_int_equal(settings->random_ms, 7000);
}

TEST(durations_have_units_and_gerrit_s_words_for_them)
{
	const struct push_remote *to = read_keys(
		"timeout = 5 minutes\nreplicationDelay = 250ms\nrescheduleDelay = 1 hr\n"
		"replicationRetry = 1m\nslowLatencyThreshold = 1 week\n[gerrit]\n"
		"sshCommandTimeout = 30 sec\nsshConnectionTimeout = 2m\n");

	assert_int_equal(to->silence_ms, 5 * 60 * 1000);
	assert_int_equal(to->delay_ms, 250);
	assert_int_equal(to->reschedule_ms, 3600 * 1000);
	assert_int_equal(to->retry_ms, 60 * 1000);
	assert_int_equal(to->slow_ms, 7 * 24 * 3600 * 1000);
	assert_int_equal(settings->ssh_command_ms, 30 * 1000);
	assert_int_equal(settings->ssh_connect_ms, 2 * 60 * 1000);
}

TEST(numbers_out_of_range_are_moved_as_gerrit_does_or_better)
{
	const struct push_remote *to = read_keys(
		"replicationDelay = -5\nrescheduleDelay = 1\nreplicationRetry = 0\n"
		"threads = 0\npushBatchSize = -1\ntimeout = 0\n"
		"drainQueueAttempts = -3\nreplicationMaxRetries = 1k\n"
		"remoteNameStyle = Dash\n");

	assert_int_equal(to->delay_ms, 0);
	assert_int_equal(to->reschedule_ms, 3000);
	assert_int_equal(to->retry_ms, 0);
	assert_int_equal(to->threads, 1);
	assert_int_equal(to->batch_size, 0);
	assert_int_equal(to->silence_ms, 0);
	assert_int_equal(to->drain_attempts, 0);
	assert_int_equal(to->max_retries, 1024);
	assert_int_equal(to->style, NAME_SLASH);
	assert_note("t.conf:4: remote.r.rescheduleDelay", "raised to 3 s");
	assert_note("t.conf:5: ", "1 s");
	assert_note("t.conf:6: ", "raised to 1");
	assert_note("t.conf:8: ", "never ended");
	assert_note("t.conf:11: ", "slash is taken");
}

TEST(retries_and_batches_are_inherited)
{
	const struct push_remote *to =
		read_keys("[replication]\nmaxRetries = 5\nlockErrorMaxRetries = 2\n"
			  "[gerrit]\npushBatchSize = 10\n");

	assert_int_equal(to->max_retries, 5);
	assert_int_equal(to->batch_size, 10);
	assert_int_equal(settings->lock_max_retries, 2);
	to = read_keys("replicationMaxRetries = 1\npushBatchSize = 3\n[replication]\n"
		       "maxRetries = 5\nlockErrorMaxRetries = 2\n"
		       "updateRefErrorMaxRetries = 0\n");
	assert_int_equal(to->max_retries, 1);
	assert_int_equal(to->batch_size, 3);
	assert_int_equal(settings->lock_max_retries, 0);
	to = read_keys("pushBatchSize = 3\n[replication]\ndistributionInterval = 3\n");
	assert_int_equal(to->batch_size, 0);
	assert_note("t.conf:3: ", "not split");
}

TEST(git_s_other_programs_are_beside_git)
{
	const struct push_remote *to = read_keys("gitPath = /opt/git/bin/git\n"
						 "uploadpack = /x/up\n"
						 "sshKey = /k\nsshKnownHosts = /h\n"
						 "[replication]\nsshConfig = /c\n"
						 "repositoryTransfers = 1k\n"
						 "bytesInFlight = 0\n");

	assert_string_equal(to->git_path, "/opt/git/bin/git");
	assert_string_equal(to->receive_pack, "/opt/git/bin/git-receive-pack");
	assert_string_equal(to->upload_pack, "/x/up");
	assert_string_equal(to->ssh_key, "/k");
	assert_string_equal(to->ssh_known_hosts, "/h");
	assert_string_equal(settings->ssh_config, "/c");
	assert_int_equal(settings->repository_transfers, 1024);
	assert_int_equal(settings->bytes_in_flight, 0);
}

TEST(values_that_make_no_sense_are_refused_with_their_line)
{
	static const char *const lines[] = {
		"replicationDelay = x",
		"replicationRetry = 1 fortnight",
		"timeout = 99999999999d",
		"threads = 1000000",
		"threads = many",
		"replicationMaxRetries = -1",
		"mirror = maybe",
		"sshKey = relative",
		"url",
		"push",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		AUTO_FREE char *text = xasprintf("[remote \"r\"]\nurl = git://h/${name}\n"
						 "%s\n",
						 lines[i]);
		if (read_settings(text) == 0)
			fail_msg("%s", lines[i]);
		assert_int_equal(err.class, ERR_CONFIG);
		assert_non_null(strstr(err.text, "t.conf:3: remote.r."));
	}
	assert_fails(read_settings("[remote \"\"]\nurl = git://h/${name}\n"), ERR_CONFIG);
	assert_fails(read_settings("[replication]\nrepositoryTransfers = 0\n"),
		     ERR_CONFIG);
	assert_fails(read_settings("[replication]\nrepositoryTransfers = 1025\n"),
		     ERR_CONFIG);
}

TEST(remotes_that_are_none_to_push_to_are_left_out_with_a_note)
{
	assert_ok(read_settings("[remote \"none\"]\nthreads = 1\n"
				"[remote \"pull\"]\nurl = git://h/${name}\n"
				"fetch = refs/*:refs/*\n"
				"[remote \"push\"]\nurl = git://h/${name}\n"
				"[remote]\nurl = x\n"));
	assert_int_equal(settings->remotes.count, 1);
	assert_non_null(push_remote_find(settings, "push"));
	assert_null(push_remote_find(settings, "pull"));
	assert_note("t.conf:2: ", "no url");
	assert_note("t.conf:5: remote.pull.fetch", "pull replication");
	assert_note("t.conf:9: remote.url", "needs a name");
}

TEST(keys_without_a_meaning_here_and_unknown_ones_are_noted)
{
	read_keys("authGroup = Mirror\nreplicateHiddenProjects = true\nthread = 3\n"
		  "apiUrl = x\n[gerrit]\nautoReload = true\n"
		  "useLegacyCredentials = true\n[replication]\nrsyncPath = /x\n"
		  "syncRefs = x\n[replication \"x\"]\nmaxRetries = 1\n");
	assert_int_equal(settings->notes.count, 9);
	assert_note("t.conf:3: remote.r.authGroup", "all that projects and push take");
	assert_note("t.conf:4: ", "hidden");
	assert_note("t.conf:5: remote.r.thread", "unknown key");
	assert_note("t.conf:6: ", "pull replication");
	assert_note("t.conf:8: gerrit.autoReload", "SIGHUP");
	assert_note("t.conf:9: ", "secure.config");
	assert_note("t.conf:11: ", "rsync");
	assert_note("t.conf:14: ", "no subsections");
}

TEST(without_any_section_there_is_nothing_to_push)
{
	AUTO_CONF struct conf *conf = NULL;
	const char *text = "[site]\nname = x\n";

	assert_ok(read_settings(text));
	assert_int_equal(settings->remotes.count, 0);
	assert_ok(conf_load_text("t", text, strlen(text), &conf, &err));
	assert_false(push_is_configured(conf));
}

/* As Gerrit's documentation has it, with the liberties that administrators take. */
static const char gerrit_file[] = "[gerrit]\n"
				  "    autoReload = true\n"
				  "    replicateOnStartup = false\n"
				  "    maxRefsToLog = 20\n"
				  "[replication]\n"
				  "    lockErrorMaxRetries = 5\n"
				  "    maxRetries = 5\n"
				  "[remote \"github\"]\n"
				  "    url = git@github.com:example/${name}.git\n"
				  "    push = +refs/heads/*:refs/heads/*\n"
				  "    push = +refs/tags/*:refs/tags/*\n"
				  "    timeout = 30\n"
				  "    threads = 3\n"
				  "    authGroup = Public Mirror Group\n"
				  "    remoteNameStyle = dash\n"
				  "    projects = public/*\n"
				  "[remote \"pubmirror\"]\n"
				  "    url = mirror1.us.some.org:/pub/git/${name}.git\n"
				  "    url = mirror2.us.some.org:/pub/git/${name}.git\n"
				  "    push = +refs/heads/*:refs/heads/*\n"
				  "    push = +refs/tags/*:refs/tags/*\n"
				  "    threads = 3\n"
				  "    adminUrl = gerrit+ssh://mirror1.us.some.org\n"
				  "[remote \"backup\"]\n"
				  "    url = https://backup.example.com/git/${name}.git\n"
				  "    mirror = true\n"
				  "    replicationDelay = 0\n"
				  "    slowLatencyThreshold = 5 minutes\n"
				  "    createMissingRepositories = false\n";

static int read_gerrit_with(const char *more)
{
	AUTO_FREE char *text = xasprintf("[replication]\n"
					 "config = %s/site/etc/replication.config\n%s",
					 root, more);

	return read_settings(text);
}

TEST(gerrit_s_own_file_is_read_as_it_is)
{
	AUTO_DESTINATIONS destination_list list = { 0 };
	const struct push_remote *backup;

	put("site/etc/replication.config", gerrit_file, 0644);
	put("site/etc/secure.config",
	    "[auth]\nregisterEmailPrivateKey = x\n"
	    "[remote \"backup\"]\nusername = joe\npassword = \"a b#c\"\n",
	    0600);
	assert_ok(read_gerrit_with(""));
	assert_int_equal(settings->remotes.count, 3);
	assert_int_equal(settings->max_refs_to_log, 20);
	assert_int_equal(settings->lock_max_retries, 5);
	assert_int_equal(settings->notes.count, 2);
	assert_note("site/etc/replication.config:14: remote.github.authGroup", "groups");
	backup = push_remote_find(settings, "backup");
	assert_string_equal(backup->urls.items[0].user, "joe");
	assert_string_equal(backup->urls.items[0].password, "a b#c");
	assert_int_equal(backup->slow_ms, 5 * 60 * 1000);
	assert_int_equal(backup->max_retries, 5);
	assert_true(backup->mirrors);
	destinations_of(settings, "public/a", &list);
	assert_int_equal(list.count, 4);
	assert_string_equal(list.items[0].uri, "git@github.com:example/public-a.git");
	assert_string_equal(list.items[2].uri,
			    "mirror2.us.some.org:/pub/git/public/a.git");
	assert_string_equal(list.items[3].uri,
			    "https://backup.example.com/git/public/a.git");
	assert_string_equal(settings->directory, "/data/replication");
}

TEST(with_gerrit_s_file_only_own_keys_may_stand_in_ours)
{
	put("site/etc/replication.config", gerrit_file, 0644);
	assert_ok(read_gerrit_with("distributionInterval = 5s\nrandomDelay = 0\n"
				   "eventsDirectory = shared\nrepositoryTransfers = 1\n"
				   "[remote \"github\"]\nsshKey = /key\n"
				   "[remote \"gitlab\"]\nsshKey = /key\n"));
	assert_int_equal(settings->interval_ms, 5000);
	assert_int_equal(settings->random_ms, 0);
	assert_string_equal(settings->directory, "/data/shared");
	assert_string_equal(push_remote_find(settings, "github")->ssh_key, "/key");
	assert_note("gitlab", "no such remote");
	assert_fails(read_gerrit_with("maxRetries = 1\n"), ERR_CONFIG);
	assert_non_null(strstr(err.text, "t.conf:3: replication.maxRetries"));
	assert_fails(read_gerrit_with("[gerrit]\nmaxRefsToLog = 1\n"), ERR_CONFIG);
	assert_fails(read_gerrit_with("[remote \"github\"]\nthreads = 1\n"), ERR_CONFIG);
	assert_fails(read_settings("[replication]\nconfig = /nowhere/x.config\n"),
		     ERR_CONFIG);
	assert_non_null(strstr(err.text, "t.conf:2: replication.config"));
	assert_fails(read_settings("[replication]\nconfig = x.config\n"), ERR_CONFIG);
}

TEST(errors_in_gerrit_s_file_name_it_and_the_line)
{
	put("site/etc/replication.config",
	    "[remote \"r\"]\nurl = git://h/${name}\nthreads = x\n", 0644);
	assert_fails(read_gerrit_with(""), ERR_CONFIG);
	assert_non_null(strstr(err.text, "/etc/replication.config:3: remote.r.threads"));
}

TEST(the_task_store_of_gerrit_is_found_or_pointed_at)
{
	AUTO_FREE char *shared = xasprintf("%s/site/shared", root);

	put("site/etc/replication.config",
	    "[replication]\neventsDirectory = shared\n[remote \"r\"]\n"
	    "url = git://h/${name}\n",
	    0644);
	assert_ok(read_gerrit_with(""));
	assert_string_equal(settings->directory, shared);
	put("site/etc/replication.config", "[remote \"r\"]\nurl = git://h/${name}\n",
	    0644);
	assert_ok(dir_make(root_fd, "site/data/replication/ref-updates", &err));
	assert_ok(read_gerrit_with(""));
	assert_string_equal(settings->directory, "/data/replication");
	assert_note("/site/data/replication/ref-updates",
		    "set replication.eventsDirectory to");
	assert_ok(read_settings("[replication]\neventsDirectory = store\n"));
	assert_string_equal(settings->directory, "/data/store");
}

TEST(a_fan_out_directory_has_one_remote_a_file)
{
	put("site/etc/replication.config", gerrit_file, 0644);
	put("site/etc/replication/one.config",
	    "# as [remote] \"x\"\n[remote]\nurl = git://h1/${name}\nauthGroup = g\n",
	    0644);
	put("site/etc/replication/two.config", "[remote]\n\turl = git://h2/${name}\n",
	    0644);
	put("site/etc/replication/named.config",
	    "[remote \"x\"]\nurl = git://h3/${name}\n", 0644);
	put("site/etc/replication/double.config",
	    "[remote]\nurl = git://h4/${name}\n[remote]\nurl = git://h5/${name}\n", 0644);
	put("site/etc/replication/empty.config", "", 0644);
	put("site/etc/replication/notes.txt", "[remote]\nurl = git://h6/${name}\n", 0644);
	put("site/etc/replication/sub.config/x", "", 0644);
	put("site/etc/secure.config", "[remote \"two\"]\nusername = u\n", 0600);
	assert_ok(read_gerrit_with(""));
	assert_int_equal(settings->remotes.count, 2);
	assert_string_equal(settings->remotes.items[0].name, "one");
	assert_string_equal(settings->remotes.items[1].name, "two");
	assert_note("replication.config: ", "not obeyed");
	assert_note("named.config: ", "without a name");
	assert_note("double.config: ", "one [remote]");
	assert_note("empty.config: ", "one [remote]");
	assert_note("notes.txt: ", "its name is not NAME.config");
	assert_note("one.config:4: remote.authGroup", "groups");
	assert_int_equal(settings->max_refs_to_log, 20);
	put("site/etc/replication/two.config", "[remote]\n\turl = git://h2/x\n", 0644);
	assert_fails(read_gerrit_with(""), ERR_CONFIG);
	assert_non_null(strstr(err.text, "two.config:2: remote.url"));
}

TEST(secure_config_must_be_kept_from_others)
{
	static const mode_t modes[] = { 0644, 0640, 0604, 0620, 0601 };
	const char *text = "[remote \"r\"]\nurl = https://joe:old@h/${name}\n";
	const struct push_url *url;

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		put("secure.config", "[remote \"r\"]\npassword = s3cret\n", modes[i]);
		assert_fails(read_settings(text), ERR_CONFIG);
		assert_non_null(strstr(err.remedy, "chmod 600 "));
	}
	put("secure.config", "[remote \"r\"]\npassword = s3cret\n", 0400);
	assert_ok(read_settings(text));
	url = &settings->remotes.items[0].urls.items[0];
	assert_string_equal(url->user, "joe");
	assert_string_equal(url->password, "s3cret");
	put("secure.config", "[remote \"r\"]\nusername = x\npassword", 0600);
	assert_ok(read_settings(text));
	url = &settings->remotes.items[0].urls.items[0];
	assert_string_equal(url->user, "x");
	assert_string_equal(url->password, "old");
	assert_int_equal(unlinkat(root_fd, "secure.config", 0), 0);
	assert_int_equal(mkdirat(root_fd, "secure.config", 0700), 0);
	assert_fails(read_settings(text), ERR_CONFIG);
	assert_non_null(strstr(err.text, "not a regular file"));
}

TEST(a_secure_config_that_is_named_must_be_there)
{
	AUTO_FREE char *text = xasprintf("[remote \"r\"]\nurl = https://h/${name}\n"
					 "[replication]\nsecureConfig = %s/my.secrets\n",
					 root);

	assert_fails(read_settings(text), ERR_CONFIG);
	assert_non_null(strstr(err.text, "t.conf:4: replication.secureConfig"));
	put("my.secrets", "[remote \"r\"]\nusername = joe\n", 0600);
	assert_ok(read_settings(text));
	assert_string_equal(settings->remotes.items[0].urls.items[0].user, "joe");
	put("my.secrets", "[remote \"r\"\nusername = joe\n", 0600);
	assert_fails(read_settings(text), ERR_CONFIG);
}

TEST(the_digest_changes_with_what_decides_on_tasks_only)
{
	static const char *const same[] = { "", "threads = 4\n", "timeout = 3\n",
					    "sshKey = /x\n" };
	static const char *const others[] = {
		"url = git://h2/${name}\n",
		"push = refs/heads/*:refs/heads/*\n",
		"projects = a\n",
		"projects = a*\n",
		"projects = ^a\n",
		"excludeProjects = a\n",
		"excludedRefsPattern = a\n",
		"replicatePermissions = false\n",
		"remoteNameStyle = dash\n",
		"replicateProjectDeletions = true\n",
		"projects = a\nprojects = b\n",
		"replicateNoteDbMetaRefs = false\n",
	};
	char seen[ARRAY_SIZE(others) + 1][65];

	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		read_keys(same[i]);
		assert_int_equal(strlen(settings->digest), 64);
		assert_true(i == 0 || strcmp(seen[0], settings->digest) == 0);
		memcpy(seen[0], settings->digest, 65);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		read_keys(others[i]);
		for (size_t k = 0; k <= i; k++)
			assert_string_not_equal(seen[k], settings->digest);
		memcpy(seen[i + 1], settings->digest, 65);
	}
}

/* Nodes of two versions that share a task store compare it. */
TEST(the_digest_of_a_configuration_is_that_of_all_versions)
{
	assert_ok(
		read_settings("[remote \"a\"]\nurl = https://joe@h/${name}\n"
			      "url = git@h2:${name}\npush = +refs/heads/*:refs/heads/*\n"
			      "push = refs/tags/v1\nprojects = a*\nprojects = ^b.*\n"
			      "excludeProjects = ab\nexcludedRefsPattern = refs/x/.*\n"
			      "mirror = true\nremoteNameStyle = underscore\n"
			      "threads = 3\n"
			      "[remote \"b\"]\nurl = /srv/${name}.git\n"
			      "replicateProjectDeletions = true\n"
			      "replicatePermissions = false\n"
			      "replicateNoteDbMetaRefs = false\n"
			      "[gerrit]\ndefaultForceUpdate = true\n"));
	assert_string_equal(
		settings->digest,
		"96fc5236b9c97f12f77091e04b206f58a21f729bce015c7e810b9c7c3d325ea8");
}

TEST(references_keep_the_settings)
{
	struct push_settings *kept;

	read_keys("");
	kept = push_settings_ref(settings);
	push_settings_unref(settings);
	settings = NULL;
	assert_string_equal(kept->remotes.items[0].name, "r");
	push_settings_unref(kept);
}

TEST(explain_says_what_goes_where_and_what_collides)
{
	static const char *const names[] = { "a/x", "a-x", "b", "c/.y", "d" };
	json_auto_t *reported = NULL;
	const json_t *one, *collision;

	assert_ok(read_settings("[remote \"flat\"]\nurl = /srv/${name}.git\n"
				"remoteNameStyle = dash\nprojects = a*\n"
				"authGroup = g\n"
				"[remote \"base\"]\nurl = https://joe:pw@h/${name}\n"
				"remoteNameStyle = basenameOnly\nexcludeProjects = a*\n"
				"[remote \"same\"]\nurl = file:///srv/${name}.git\n"
				"projects = a-x\n[gerrit]\nautoReload = true\n"));
	reported = push_settings_explain(settings, names, ARRAY_SIZE(names));
	one = json_array_get(json_object_get(reported, "remotes"), 0);
	assert_string_equal(json_string_value(json_object_get(one, "name")), "flat");
	assert_int_equal(json_integer_value(json_object_get(one, "repositories")), 2);
	assert_int_equal(json_array_size(json_object_get(one, "notes")), 1);
	one = json_array_get(json_object_get(reported, "remotes"), 1);
	assert_int_equal(json_integer_value(json_object_get(one, "repositories")), 3);
	assert_int_equal(json_array_size(json_object_get(one, "examples")), 2);
	assert_string_equal(
		json_string_value(json_array_get(json_object_get(one, "urls"), 0)),
		"https://h/${name}");
	assert_int_equal(json_array_size(json_object_get(reported, "notes")), 1);
	assert_int_equal(json_array_size(json_object_get(reported, "failures")), 1);
	assert_int_equal(json_array_size(json_object_get(reported, "collisions")), 1);
	collision = json_array_get(json_object_get(reported, "collisions"), 0);
	assert_string_equal(json_string_value(json_object_get(collision, "uri")),
			    "/srv/a-x.git");
	assert_int_equal(json_array_size(json_object_get(collision, "names")), 2);
	assert_int_equal(json_array_size(json_object_get(collision, "remotes")), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SETTINGS_CASE(what_is_not_said_has_the_documented_value),
		SETTINGS_CASE(chance_delays_a_push_only_where_nodes_share_the_work),
		SETTINGS_CASE(a_bare_number_has_gerrit_s_unit_of_its_key),
		SETTINGS_CASE(durations_have_units_and_gerrit_s_words_for_them),
		SETTINGS_CASE(numbers_out_of_range_are_moved_as_gerrit_does_or_better),
		SETTINGS_CASE(retries_and_batches_are_inherited),
		SETTINGS_CASE(git_s_other_programs_are_beside_git),
		SETTINGS_CASE(values_that_make_no_sense_are_refused_with_their_line),
		SETTINGS_CASE(remotes_that_are_none_to_push_to_are_left_out_with_a_note),
		SETTINGS_CASE(keys_without_a_meaning_here_and_unknown_ones_are_noted),
		SETTINGS_CASE(without_any_section_there_is_nothing_to_push),
		SETTINGS_CASE(gerrit_s_own_file_is_read_as_it_is),
		SETTINGS_CASE(with_gerrit_s_file_only_own_keys_may_stand_in_ours),
		SETTINGS_CASE(errors_in_gerrit_s_file_name_it_and_the_line),
		SETTINGS_CASE(the_task_store_of_gerrit_is_found_or_pointed_at),
		SETTINGS_CASE(a_fan_out_directory_has_one_remote_a_file),
		SETTINGS_CASE(secure_config_must_be_kept_from_others),
		SETTINGS_CASE(a_secure_config_that_is_named_must_be_there),
		SETTINGS_CASE(the_digest_changes_with_what_decides_on_tasks_only),
		SETTINGS_CASE(the_digest_of_a_configuration_is_that_of_all_versions),
		SETTINGS_CASE(references_keep_the_settings),
		SETTINGS_CASE(explain_says_what_goes_where_and_what_collides),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
