/*
 * Parts of generations that are small enough to write down.
 */
#ifndef UNIT_GENERATION_TEST_H
#define UNIT_GENERATION_TEST_H

#include "git/pkt_line.h"
#include "serve/generation.h"

#define NAME_OF_ALL "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define OID_1 "1111111111111111111111111111111111111111"

static inline void add_capabilities(struct str *out)
{
	pkt_addf(out, "version 2\n");
	pkt_addf(out, "agent=git/2.39.5\n");
	pkt_addf(out, "ls-refs=unborn\n");
	pkt_addf(out, "fetch=shallow wait-for-done filter\n");
	pkt_addf(out, "object-format=sha1\n");
	pkt_add_flush(out);
}

/* HEAD, and as many branches. */
static inline void add_refs(struct str *out, unsigned branches)
{
	static const char head[] = OID_1 " HEAD\0symref=HEAD:refs/heads/b000000\n";

	pkt_add(out, head, sizeof(head) - 1);
	for (unsigned i = 0; i < branches; i++)
		pkt_addf(out, OID_1 " refs/heads/b%06u\n", i);
	pkt_add_flush(out);
}

static inline struct generation_parts parts_with(const char *name, unsigned branches)
{
	struct generation_parts parts = GENERATION_PARTS_INIT;

	snprintf(parts.name, sizeof(parts.name), "%s", name);
	add_capabilities(&parts.capabilities);
	add_refs(&parts.refs, branches);
	str_add(&parts.symbolic, "HEAD refs/heads/b000000\n");
	return parts;
}

static inline struct generation *generation_with(const char *name, unsigned branches)
{
	struct generation_parts parts = parts_with(name, branches);
	struct generation *generation = NULL;
	struct err why;

	if (generation_new(&parts, &generation, &why) != 0)
		fail_msg("%s", why.text);
	return generation;
}

#endif
