/*
 * What the tests of upload-pack share: a repository r.git, requests to it, and the
 * answer.
 */
#ifndef UNIT_UPLOAD_PACK_TEST_H
#define UNIT_UPLOAD_PACK_TEST_H

#include "git_test.h"

#include "git/git_child.h"
#include "serve/upload_pack.h"

static struct upload_pack *pack;
static struct str answer = STR_INIT;
static struct upload_pack_request request;
static char path[96];

static inline int setup(void **state)
{
	if (make_repo(state) != 0)
		return -1;
	snprintf(path, sizeof(path), "%s/r.git", root);
	str_reset(&answer);
	request = (struct upload_pack_request){ .path = path, .body_fd = -1 };
	assert_ok(git_setup(root, &err));
	return 0;
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, test_remove_root)

static inline void set_ref(const char *name, const struct oid *oid)
{
	char text[OID_MAX_TEXT];

	must("git -C r.git update-ref %s %s", name, oid_text(oid, text));
}

static inline void fill(void)
{
	set_ref("refs/heads/main", &commits[9]);
	set_ref("refs/heads/topic", &commits[19]);
	set_ref("refs/tags/v1", &tags[0]);
}

static inline ssize_t read_all(size_t at_once)
{
	char buffer[32768];
	ssize_t got;

	while ((got = upload_pack_read(pack, buffer, at_once, &err)) > 0)
		str_add_bytes(&answer, buffer, (size_t)got);
	return got;
}

static inline void serve(void)
{
	str_reset(&answer);
	assert_ok(upload_pack_open(&request, &pack, &err));
	if (read_all(7777) != 0)
		fail_msg("%s", err.text);
	upload_pack_close(pack);
}

static inline void write_file(const char *name, const char *data, size_t len)
{
	assert_ok(file_replace(root_fd, name, data, len, FILE_NO_SYNC, &err));
}

static inline void add_packet(struct str *out, const char *text)
{
	str_addf(out, "%04zx%s", strlen(text) + 4, text);
}

static inline void open_body(const struct str *body)
{
	if (request.body_fd >= 0)
		close(request.body_fd);
	write_file("body", body->data, body->len);
	request.step = UPLOAD_PACK_ANSWER;
	request.body_fd = openat(root_fd, "body", O_RDONLY | O_CLOEXEC);
	assert_true(request.body_fd >= 0);
}

static inline void close_body(void)
{
	close(request.body_fd);
	request.body_fd = -1;
}

/* Of protocol 0: everything that commit 10 reaches, with depth if that is not "". */
static inline void want(const struct oid *oid, const char *depth, bool is_done)
{
	AUTO_STR struct str body = STR_INIT;
	AUTO_STR struct str line = STR_INIT;
	char text[OID_MAX_TEXT];

	str_addf(&line, "want %s multi_ack_detailed no-done side-band-64k ofs-delta\n",
		 oid_text(oid, text));
	add_packet(&body, line.data);
	if (*depth)
		add_packet(&body, depth);
	str_add(&body, "0000");
	if (is_done)
		add_packet(&body, "done\n");
	open_body(&body);
}

static inline void command(const char *name, const char *argument)
{
	AUTO_STR struct str body = STR_INIT;

	add_packet(&body, name);
	str_add(&body, "0001");
	add_packet(&body, argument);
	if (strcmp(name, "command=fetch") == 0)
		add_packet(&body, "done");
	str_add(&body, "0000");
	open_body(&body);
	request.protocol = "version=2";
}

#endif
