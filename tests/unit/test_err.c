#include "test.h"

TEST(setting_an_error_replaces_all_of_the_one_before)
{
	errno = ENOSPC;
	assert_int_equal(err_errno(&err, "cannot write %s", "x"), -1);
	assert_int_equal(err.class, ERR_DISK);
	assert_int_equal(err.sys_errno, ENOSPC);
	assert_string_equal(err.text, "cannot write x: No space left on device");
	assert_non_null(strstr(err.remedy, "free some space"));

	assert_int_equal(err_set(&err, ERR_LOST, "lease %d", 7), -1);
	assert_int_equal(err.class, ERR_LOST);
	assert_int_equal(err.sys_errno, 0);
	assert_string_equal(err.text, "lease 7");
	assert_string_equal(err.remedy, "");
}

TEST(an_error_may_be_built_from_its_own_text)
{
	err_set(&err, ERR_MISSING, "no such row");
	err_set(&err, ERR_CONFIG, "paris: %s, again: %s", err.text, err.text);
	assert_string_equal(err.text, "paris: no such row, again: no such row");
	err_remedy(&err, "look");
	err_remedy(&err, "%s twice, %s", err.remedy, err.text);
	assert_string_equal(err.remedy,
			    "look twice, paris: no such row, again: no such row");
	err_prefix(&err, "%.5s", err.text);
	assert_string_equal(err.text, "paris: paris: no such row, again: no such row");
	errno = ENOENT;
	err_errno(&err, "%.5s", err.text);
	assert_string_equal(err.text, "paris: No such file or directory");
}

TEST(a_prefix_keeps_class_remedy_and_errno)
{
	errno = EACCES;
	err_errno(&err, "cannot open x");
	AUTO_FREE char *said = xstrdup(err.text);
	err_prefix(&err, "%s", ""); /* an empty name takes nothing away */
	assert_string_equal(err.text, said);
	assert_int_equal(err_prefix(&err, "repository %s", "a/b"), -1);
	assert_string_equal(err.text, "repository a/b: cannot open x: Permission denied");
	assert_int_equal(err.class, ERR_CONFIG);
	assert_int_equal(err.sys_errno, EACCES);
	assert_string_not_equal(err.remedy, "");
}

TEST(long_texts_are_cut_and_terminated)
{
	AUTO_STR struct str text = STR_INIT;

	for (int i = 0; i < 1000; i++)
		str_add_char(&text, 'x');
	err_set(&err, ERR_INTERNAL, "%s", text.data);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	err_prefix(&err, "who");
	assert_true(text_starts_with(err.text, "who: xxx"));
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	err_prefix(&err, "%s", text.data);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	err_remedy(&err, "%s", text.data);
	assert_int_equal(strlen(err.remedy), sizeof(err.remedy) - 1);
	errno = EIO;
	err_errno(&err, "%s", text.data);
	assert_true(text_ends_with(err.text, "Input/output error"));
}

TEST(the_errno_decides_the_class)
{
	static const struct {
		int code;
		enum err_class class;
	} table[] = {
		{ ENOENT, ERR_MISSING },       { EACCES, ERR_CONFIG },
		{ EEXIST, ERR_CONFLICT },      { ENOSPC, ERR_DISK },
		{ EROFS, ERR_DISK },           { ESTALE, ERR_DISK },
		{ ETIMEDOUT, ERR_TIMEOUT },    { ECONNREFUSED, ERR_NETWORK },
		{ EHOSTUNREACH, ERR_NETWORK }, { ENETDOWN, ERR_NETWORK },
		{ EMFILE, ERR_INTERNAL },      { ECANCELED, ERR_CANCELED },
		{ EXDEV, ERR_CONFIG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		errno = table[i].code;
		err_errno(&err, "x");
		assert_int_equal(err.class, table[i].class);
		assert_int_equal(err.sys_errno, table[i].code);
	}
}

TEST(what_a_machine_lacks_says_nothing_of_data)
{
	static const int of_data[] = { ENOENT, EACCES, EIO, EBADMSG };
	static const int other[] = { EMFILE,   ENFILE,    ENOMEM,      EAGAIN, ENOSPC,
				     EROFS,    ESTALE,    ETIMEDOUT,   EEXIST, ECANCELED,
				     ENOTCONN, EHOSTDOWN, ECONNABORTED };

	for (size_t i = 0; i < ARRAY_SIZE(of_data); i++) {
		errno = of_data[i];
		err_errno(&err, "x");
		assert_true(err_is_of_data(&err));
	}
	for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
		errno = other[i];
		err_errno(&err, "x");
		assert_false(err_is_of_data(&err));
	}
	err_set(&err, ERR_CORRUPT, "x");
	assert_true(err_is_of_data(&err));
	err_set(&err, ERR_NETWORK, "git: early EOF");
	assert_true(err_is_of_data(&err));
	err_set(&err, ERR_BUSY, "x");
	assert_false(err_is_of_data(&err));
}

TEST(every_class_has_a_name_and_only_some_pass_by_themselves)
{
	static const bool transient[ERR_INTERNAL + 1] = {
		[ERR_BUSY] = true,
		[ERR_LOST] = true,
		[ERR_NETWORK] = true,
		[ERR_TIMEOUT] = true,
		[ERR_DISK] = true,
		[ERR_CONFLICT] = true,
		[ERR_CANCELED] = false,
		[ERR_LOCK_TIMEOUT] = true,
		[ERR_LOCK_UNAVAILABLE] = true,
	};

	for (int class = ERR_NONE; class <= ERR_INTERNAL; class ++) {
		assert_non_null(err_class_name((enum err_class) class));
		assert_int_equal(err_is_transient((enum err_class) class),
				 transient[class]);
	}
	assert_string_equal(err_class_name(ERR_NONE), "none");
	assert_string_equal(err_class_name(ERR_INTERNAL), "internal");
}

TEST(a_reason_is_kept_with_the_noun_and_the_remedy_and_goes_with_another_error)
{
	err_set(&err, ERR_TIMEOUT, "x");
	assert_int_equal(err.reason, REASON_NONE);
	assert_int_equal(err_because(&err, REASON_SILENT), -1);
	err_prefix(&err, "y");
	err_remedy(&err, "z");
	assert_int_equal(err.reason, REASON_SILENT);
	errno = EIO;
	err_errno(&err, "x");
	assert_int_equal(err.reason, REASON_NONE);
}

TEST(a_reason_is_stored_by_its_name)
{
	assert_null(err_reason_name(REASON_NONE));
	assert_int_equal(err_reason_of_name(NULL), REASON_NONE);
	assert_int_equal(err_reason_of_name(""), REASON_NONE);
	assert_int_equal(err_reason_of_name("of a later version"), REASON_UNKNOWN);
	for (int reason = REASON_UNKNOWN; reason < REASONS; reason++)
		assert_int_equal(err_reason_of_name(err_reason_name(reason)), reason);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(setting_an_error_replaces_all_of_the_one_before),
		cmocka_unit_test(an_error_may_be_built_from_its_own_text),
		cmocka_unit_test(a_prefix_keeps_class_remedy_and_errno),
		cmocka_unit_test(long_texts_are_cut_and_terminated),
		cmocka_unit_test(the_errno_decides_the_class),
		cmocka_unit_test(what_a_machine_lacks_says_nothing_of_data),
		cmocka_unit_test(every_class_has_a_name_and_only_some_pass_by_themselves),
		cmocka_unit_test(
			a_reason_is_kept_with_the_noun_and_the_remedy_and_goes_with_another_error),
		cmocka_unit_test(a_reason_is_stored_by_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
