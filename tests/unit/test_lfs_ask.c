/*
 * Objects of LFS that come from an upstream's directory, and those that do not come at
 * all: what is kept is right, and of what is wrong nothing is. Over HTTP see
 * tests/site/test_mirror_lfs.sh.
 */
#include "mirror/lfs_ask.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "base/hash.h"
#include "test.h"

#define OTHER "0000000000000000000000000000000000000000000000000000000000000000"

static struct stop stop;
static struct mirror mirror;
static struct lfs_upstream upstream;
static struct lfs_asker asker;

static int set_up(void **state)
{
	if (test_make_root(state) != 0 || mkdirat(root_fd, "here", 0777) != 0 ||
	    mkdirat(root_fd, "up", 0777) != 0 || mkdirat(root_fd, "up/lfs", 0777) != 0 ||
	    mkdirat(root_fd, "up/lfs/objects", 0777) != 0)
		return -1;
	AUTO_FREE char *path = xasprintf("%s/up", root);
	stop_init(&stop);
	mirror = (struct mirror){ .url = (char *)(uintptr_t) "https://127.0.0.1:9/m" };
	upstream =
		(struct lfs_upstream){ .mirror = &mirror,
				       .local = lfs_upstream_open_path(path, &err),
				       .stop = &stop,
				       .until = clock_boot_ms() + 60000,
				       .root = openat(root_fd, "here",
						      O_RDONLY | O_DIRECTORY | O_CLOEXEC),
				       .type = "lfs" };
	asker = (struct lfs_asker){ .upstream = &upstream, .line = http_line_open() };
	return upstream.local < 0 || upstream.root < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	http_line_close(&asker.line);
	if (upstream.local >= 0)
		close(upstream.local);
	close(upstream.root);
	stop_clear(&stop);
	return test_remove_root(state);
}

#define ASK_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* At the upstream, by the name `oid`; NULL: its own. */
static struct lfs_offer offer_of(const char *content, const char *oid)
{
	struct lfs_offer offer = { .row = { .size = strlen(content) } };
	unsigned char digest[HASH_MAX_SIZE];
	AUTO_HASH struct hash hash;
	AUTO_FREE char *path = NULL;

	hash_init(&hash, HASH_SHA256);
	hash_add(&hash, content, strlen(content));
	hash_end(&hash, digest);
	blob_digest_format(digest, offer.row.oid);
	if (oid)
		memcpy(offer.row.oid, oid, sizeof(offer.row.oid));
	path = xasprintf("up/lfs/objects/%.2s/%.2s/%s", offer.row.oid, offer.row.oid + 2,
			 offer.row.oid);
	assert_ok(dir_make_parents(root_fd, path, &err));
	assert_ok(file_replace(root_fd, path, content, strlen(content), FILE_SYNC, &err));
	return offer;
}

static int bring(const struct lfs_offer *offer, struct blob_incoming **incoming)
{
	char id[BLOB_DIGEST_SIZE + 2];

	*incoming = NULL;
	blob_lfs_id(offer->row.oid, id);
	return lfs_ask_object(&asker, offer, id, incoming, &err);
}

TEST(an_object_comes_from_the_upstreams_directory)
{
	const struct lfs_offer offer = offer_of("content", NULL);
	struct blob_incoming *incoming;
	lfs_offers offers;

	assert_ok(lfs_ask_batch(&asker, &offer.row, 1, &offers, &err));
	assert_int_equal(offers.count, 1);
	assert_ok(bring(&offers.items[0], &incoming));
	assert_int_equal(blob_incoming_size(incoming), 7);
	assert_int_equal(asker.bytes, 7);
	blob_incoming_close(incoming, true);
	lfs_offers_clear(&offers);
}

TEST(what_is_wrong_leaves_nothing)
{
	struct lfs_offer offer = offer_of("content", OTHER);
	struct blob_incoming *incoming;

	assert_fails(bring(&offer, &incoming), ERR_CORRUPT);
	assert_null(incoming);
	assert_int_equal(blob_incoming_bytes(upstream.root), 0);
	offer = offer_of("content", NULL);
	offer.row.size = 6;
	assert_fails(bring(&offer, &incoming), ERR_CORRUPT);
	offer.row.size = 8;
	assert_fails(bring(&offer, &incoming), ERR_CORRUPT);
	assert_int_equal(blob_incoming_bytes(upstream.root), 0);
}

TEST(what_the_upstream_does_not_have_is_missing)
{
	struct lfs_offer offer = { .row = { OTHER, 5 } };
	struct blob_incoming *incoming;

	assert_fails(bring(&offer, &incoming), ERR_MISSING);
	assert_int_equal(lfs_upstream_open_path(root, &err), -1);
	assert_int_equal(err.class, ERR_MISSING);
}

TEST(a_stop_ends_it)
{
	const struct lfs_offer offer = offer_of("content", NULL);
	struct blob_incoming *incoming;

	stop_request(&stop);
	assert_fails(bring(&offer, &incoming), ERR_CANCELED);
}

/* Nothing is asked there: port 9 would be another error. */
TEST(what_was_asked_for_over_https_does_not_come_over_http)
{
	struct lfs_offer offer = { .row = { OTHER, 5 },
				   .href = (char *)(uintptr_t) "http://127.0.0.1:9/o" };
	struct blob_incoming *incoming;

	close(upstream.local);
	upstream.local = -1;
	assert_fails(bring(&offer, &incoming), ERR_CONFIG);
	assert_non_null(strstr(err.text, "over http, and not https"));
	mirror.url = (char *)(uintptr_t) "http://127.0.0.1:9/m";
	assert_fails(bring(&offer, &incoming), ERR_NETWORK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ASK_CASE(an_object_comes_from_the_upstreams_directory),
		ASK_CASE(what_is_wrong_leaves_nothing),
		ASK_CASE(what_the_upstream_does_not_have_is_missing),
		ASK_CASE(a_stop_ends_it),
		ASK_CASE(what_was_asked_for_over_https_does_not_come_over_http),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
