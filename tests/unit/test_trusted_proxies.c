#include "test.h"

#include <arpa/inet.h>

#include "web/listen.h"

static void trust(struct trusted_proxies *proxies, const char *const *networks)
{
	for (; *networks; networks++)
		assert_ok(trusted_proxies_add(proxies, *networks, &err));
}

static struct ip_address ip_of(const char *text)
{
	struct sockaddr_storage any = { 0 };
	struct in_addr v4;
	struct in6_addr v6;
	struct ip_address ip;

	if (inet_pton(AF_INET, text, &v4) == 1) {
		any.ss_family = AF_INET;
		memcpy((char *)&any + offsetof(struct sockaddr_in, sin_addr), &v4, 4);
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, &v6), 1);
		any.ss_family = AF_INET6;
		memcpy((char *)&any + offsetof(struct sockaddr_in6, sin6_addr), &v6, 16);
	}
	address_ip((struct sockaddr *)&any, &ip);
	return ip;
}

static bool has(const struct trusted_proxies *proxies, const char *text)
{
	struct ip_address ip = ip_of(text);

	return trusted_proxies_has(proxies, &ip);
}

TEST(a_network_has_the_addresses_of_its_prefix_and_no_others)
{
	struct trusted_proxies proxies = { 0 };

	trust(&proxies, (const char *const[]){ "192.0.2.7", "10.0.0.0/9", "2001:db8::/33",
					       "fe80::1", NULL });
	assert_true(has(&proxies, "192.0.2.7"));
	assert_false(has(&proxies, "192.0.2.6"));
	assert_true(has(&proxies, "::ffff:192.0.2.7"));
	assert_true(has(&proxies, "10.127.255.255"));
	assert_false(has(&proxies, "10.128.0.0"));
	assert_true(has(&proxies, "2001:db8:7fff::1"));
	assert_false(has(&proxies, "2001:db8:8000::1"));
	assert_true(has(&proxies, "fe80::1"));
	assert_false(has(&proxies, "fe80::"));
	trusted_proxies_clear(&proxies);
	assert_false(has(&proxies, "192.0.2.7"));
}

TEST(all_of_one_protocol_are_none_of_the_other)
{
	struct trusted_proxies v4 = { 0 }, v6 = { 0 };

	trust(&v4, (const char *const[]){ "0.0.0.0/0", NULL });
	trust(&v6, (const char *const[]){ "::/0", NULL });
	assert_true(has(&v4, "192.0.2.7"));
	assert_false(has(&v4, "2001:db8::7"));
	assert_true(has(&v6, "2001:db8::7"));
	assert_false(has(&v6, "192.0.2.7"));
	trusted_proxies_clear(&v4);
	trusted_proxies_clear(&v6);
}

TEST(what_is_no_address_or_has_bits_behind_its_prefix_is_told)
{
	static const char *const bad[] = {
		"",
		"localhost",
		"10.0.0.0/33",
		"10.0.0.0/",
		"10.0.0/8",
		"10.0.0.1/8",
		"::1/129",
		"[::1]",
		"10.0.0.0/-1",
		"10.0.0.0/8 ",
		"2001:db8::1/32",
		"10.0.0.1:80",
		"10.0.0.0/8/8",
		"/8",
		"fe80::1%eth0",
	};
	struct trusted_proxies proxies = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_fails(trusted_proxies_add(&proxies, bad[i], &err), ERR_CONFIG);
		assert_non_null(strstr(err.text, bad[i]));
		assert_string_not_equal(err.remedy, "");
	}
	assert_int_equal(proxies.networks.count, 0);
}

static const struct row {
	const char *forwarded, *client; /* NULL: nobody that is known */
} rows[] = {
	{ "192.0.2.7", "192.0.2.7" },
	{ "198.51.100.1, 192.0.2.7", "192.0.2.7" },
	{ "198.51.100.1,192.0.2.7 ,\t10.1.2.3", "192.0.2.7" },
	{ "192.0.2.7:50312", "192.0.2.7" },
	{ "2001:db8::7", "2001:db8::7" },
	{ "[2001:db8::7]", "2001:db8::7" },
	{ "[2001:db8::7]:50312, 10.1.2.3:1", "2001:db8::7" },
	{ "::ffff:192.0.2.7", "192.0.2.7" },
	{ "127.0.0.1", "127.0.0.1" },
	{ "unknown, 192.0.2.7", "192.0.2.7" },
	/* Nothing before garbage counts: who wrote it is not known to be trusted. */
	{ "192.0.2.7, unknown", NULL },
	{ "192.0.2.7, 10.1.2.3, ", NULL },
	{ "192.0.2.7,,10.1.2.3", NULL },
	{ "192.0.2.7, [10.1.2.3]", NULL },
	{ "192.0.2.7:65536", NULL },
	{ "192.0.2.7:", NULL },
	{ "[2001:db8::7", NULL },
	{ "[2001:db8::7]x", NULL },
	{ "192.0.2.7 192.0.2.8", NULL },
	{ "for=192.0.2.7", NULL },
	{ "", NULL },
	{ " ", NULL },
	{ ",", NULL },
	/* No address of anybody but proxies. */
	{ "10.1.2.3, 10.1.2.4", NULL },
};

TEST(the_client_is_the_last_address_that_is_no_proxys)
{
	struct trusted_proxies proxies = { 0 };
	char text[ADDRESS_TEXT_SIZE];
	struct ip_address client;

	trust(&proxies, (const char *const[]){ "10.0.0.0/8", NULL });
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool is_known =
			trusted_proxies_client(&proxies, rows[i].forwarded, &client);
		if (is_known != (rows[i].client != NULL))
			fail_msg("\"%s\"", rows[i].forwarded);
		if (!is_known)
			continue;
		address_format_ip(&client, text);
		assert_string_equal(text, rows[i].client);
	}
	trusted_proxies_clear(&proxies);
}

TEST(an_element_of_any_length_is_garbage)
{
	AUTO_STR struct str text = STR_INIT;
	struct trusted_proxies proxies = { 0 };
	struct ip_address client;

	str_add(&text, "192.0.2.7, ");
	for (size_t i = 0; i < 30000; i++)
		str_add_char(&text, '1');
	assert_false(trusted_proxies_client(&proxies, text.data, &client));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_network_has_the_addresses_of_its_prefix_and_no_others),
		cmocka_unit_test(all_of_one_protocol_are_none_of_the_other),
		cmocka_unit_test(
			what_is_no_address_or_has_bits_behind_its_prefix_is_told),
		cmocka_unit_test(the_client_is_the_last_address_that_is_no_proxys),
		cmocka_unit_test(an_element_of_any_length_is_garbage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
