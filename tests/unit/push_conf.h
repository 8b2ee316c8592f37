/*
 * Reads push settings for tests.
 */
#ifndef UNIT_PUSH_CONF_H
#define UNIT_PUSH_CONF_H

#include "base/conf.h"
#include "push/settings.h"

static struct push_settings *settings __attribute__((unused));

/* The settings before are given up. */
static inline int read_settings(const char *text)
{
	AUTO_CONF struct conf *conf = NULL;
	AUTO_FREE char *file = xasprintf("%s/t.conf", root);

	push_settings_unref(settings);
	settings = NULL;
	assert_ok(conf_load_text(file, text, strlen(text), &conf, &err));
	return push_settings_read(conf, "/data", &settings, &err);
}

static inline int forget_settings(void **state)
{
	push_settings_unref(settings);
	settings = NULL;
	return test_remove_root(state);
}

#define SETTINGS_CASE(name)                                                              \
	cmocka_unit_test_setup_teardown(name, test_make_root, forget_settings)

#endif
