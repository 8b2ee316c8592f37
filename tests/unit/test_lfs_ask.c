/*
 * Objects of LFS that come from an upstream's directory, and those that do not come at
 * all: what is kept is right, and of what is wrong nothing is. Over HTTP see also
 * tests/site/test_mirror_lfs.sh.
 */
#include "mirror/lfs_ask.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/hash.h"
#include "http_peer.h"

#define OTHER "0000000000000000000000000000000000000000000000000000000000000000"

static struct stop stop;
static struct mirror mirror;
static struct lfs_upstream upstream;
static struct lfs_asker asker;

/* Free when it begins; and when so many bytes have come, others have filled the disk. */
static uint64_t free_bytes, others_fill_at;

int fstatvfs(int fd, struct statvfs *room)
{
	const uint64_t most = asker.bytes < others_fill_at ? free_bytes : 0;

	(void)fd;
	*room = (struct statvfs){ .f_frsize = 1,
				  .f_bavail =
					  most > asker.bytes ? most - asker.bytes : 0 };
	return 0;
}

static int set_up(void **state)
{
	if (test_make_root(state) != 0 || mkdirat(root_fd, "here", 0777) != 0 ||
	    mkdirat(root_fd, "up", 0777) != 0 || mkdirat(root_fd, "up/lfs", 0777) != 0 ||
	    mkdirat(root_fd, "up/lfs/objects", 0777) != 0)
		return -1;
	AUTO_FREE char *path = xasprintf("%s/up", root);
	stop_init(&stop);
	free_bytes = (uint64_t)1 << 40;
	others_fill_at = UINT64_MAX;
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
}

TEST(the_size_that_a_pointer_says_does_not_count)
{
	static const uint64_t sizes[] = { 0, 6, 8, (uint64_t)1 << 50, INT64_MAX };
	struct lfs_offer offer = offer_of("content", NULL);
	struct blob_incoming *incoming;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		offer.row.size = sizes[i];
		assert_ok(bring(&offer, &incoming));
		assert_int_equal(blob_incoming_size(incoming), 7);
		blob_incoming_close(incoming, true);
	}
}

TEST(what_is_larger_than_may_be_does_not_come)
{
	const struct lfs_offer offer = offer_of("content", NULL);
	struct blob_incoming *incoming;

	mirror.max_size = 6;
	assert_fails(bring(&offer, &incoming), ERR_CONFIG);
	assert_int_equal(err.reason, REASON_TOO_LARGE);
	assert_non_null(strstr(err.text, "maxSize"));
	assert_int_equal(blob_incoming_bytes(upstream.root), 0);
	mirror.max_size = 7;
	assert_ok(bring(&offer, &incoming));
	blob_incoming_close(incoming, true);
}

TEST(what_would_leave_others_less_than_a_tenth_of_the_disk_does_not_come)
{
	AUTO_FREE char *content = xmalloc(950001);
	struct blob_incoming *incoming;

	memset(content, 'x', 950000);
	content[950000] = '\0';
	const struct lfs_offer offer = offer_of(content, NULL);
	free_bytes = 1000000;
	assert_fails(bring(&offer, &incoming), ERR_DISK);
	assert_int_equal(err.reason, REASON_TOO_LARGE);
	assert_non_null(strstr(err.text, "nine tenths"));
	assert_int_equal(blob_incoming_bytes(upstream.root), 0);
	free_bytes = 1100000;
	assert_ok(bring(&offer, &incoming));
	blob_incoming_close(incoming, true);
}

#define LARGE 5000000

static struct lfs_offer large_offer(void)
{
	AUTO_FREE char *content = xmalloc(LARGE + 1);

	memset(content, 'x', LARGE);
	content[LARGE] = '\0';
	return offer_of(content, NULL);
}

static void come_by_http(struct lfs_offer *offer, void (*serve)(struct peer_link *link))
{
	peer_start(serve);
	if (upstream.local >= 0)
		close(upstream.local);
	upstream.local = -1;
	mirror.url = offer->href = peer.url;
	asker.bytes = 0;
}

static void say_large(struct peer_link *link, size_t begin)
{
	AUTO_FREE char *content = xmalloc(LARGE);

	memset(content, 'x', LARGE);
	peer_say_bytes(link, content, LARGE - begin);
}

static void give_the_rest(struct peer_link *link)
{
	while (peer_hear_head(link)) {
		const char *range =
			strstr(peer.heads[peer.requests - 1], "Range: bytes=");
		size_t begin = range ? (size_t)atol(strchr(range, '=') + 1) : 0;
		AUTO_FREE char *head =
			xasprintf("HTTP/1.1 206 Partial\r\nContent-Range: bytes %zu-%d/%d"
				  "\r\nContent-Length: %zu\r\n\r\n",
				  begin, LARGE - 1, LARGE, LARGE - begin);
		peer_say(link, head);
		say_large(link, begin);
	}
}

TEST(what_has_come_stays_while_others_fill_the_disk)
{
	struct lfs_offer offer = large_offer();
	struct blob_incoming *incoming;

	free_bytes = 20000000;
	others_fill_at = LARGE / 2;
	assert_fails(bring(&offer, &incoming), ERR_DISK);
	uint64_t have = blob_incoming_bytes(upstream.root);
	assert_in_range(have, LARGE / 2, LARGE - 1);
	/* With what has come, it would be more than nine tenths. */
	others_fill_at = UINT64_MAX;
	free_bytes = 2400000;
	come_by_http(&offer, give_the_rest);
	assert_fails(bring(&offer, &incoming), ERR_DISK);
	assert_int_equal(err.reason, REASON_TOO_LARGE);
	assert_int_equal(asker.bytes, 0);
	assert_int_equal(blob_incoming_bytes(upstream.root), have);
	free_bytes = 20000000;
	assert_ok(bring(&offer, &incoming));
	assert_int_equal(blob_incoming_size(incoming), LARGE);
	assert_true(asker.bytes <= LARGE / 2);
	blob_incoming_close(incoming, true);
	peer_stop();
}

static void do_not_say_how_much(struct peer_link *link)
{
	if (peer_hear_head(link) &&
	    peer_say(link, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"))
		say_large(link, 0);
}

TEST(what_fills_nine_tenths_of_the_disk_itself_does_not_stay)
{
	struct lfs_offer offer = large_offer();
	struct blob_incoming *incoming;

	free_bytes = 3000000;
	come_by_http(&offer, do_not_say_how_much);
	assert_fails(bring(&offer, &incoming), ERR_DISK);
	assert_int_equal(err.reason, REASON_TOO_LARGE);
	assert_int_equal(blob_incoming_bytes(upstream.root), 0);
	peer_stop();
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
		ASK_CASE(the_size_that_a_pointer_says_does_not_count),
		ASK_CASE(what_is_larger_than_may_be_does_not_come),
		ASK_CASE(
			what_would_leave_others_less_than_a_tenth_of_the_disk_does_not_come),
		ASK_CASE(what_has_come_stays_while_others_fill_the_disk),
		ASK_CASE(what_fills_nine_tenths_of_the_disk_itself_does_not_stay),
		ASK_CASE(what_the_upstream_does_not_have_is_missing),
		ASK_CASE(a_stop_ends_it),
		ASK_CASE(what_was_asked_for_over_https_does_not_come_over_http),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
