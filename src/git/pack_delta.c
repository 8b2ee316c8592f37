#include "git/pack_delta.h"

static bool pack_head_read_base(const unsigned char *at, const unsigned char *end,
				uint64_t offset, struct pack_head *head)
{
	uint64_t back;
	const unsigned char *from = at;

	if (at == end)
		return false;
	for (back = *at & 0x7f; *at++ & 0x80;) {
		if (at == end || back > UINT64_MAX >> 8)
			return false;
		back = ((back + 1) << 7) | (*at & 0x7f);
	}
	head->len += (size_t)(at - from);
	head->base = offset - back;
	return back > 0 && back < offset;
}

bool pack_head_read(const unsigned char *bytes, size_t len, uint64_t offset,
		    size_t oid_len, struct pack_head *head)
{
	const unsigned char *at = bytes, *end = bytes + len;
	unsigned shift = 4;

	if (len == 0)
		return false;
	*head = (struct pack_head){ .kind = (*at >> 4) & 7, .size = *at & 15 };
	while (*at++ & 0x80) {
		if (at == end || shift > 56)
			return false;
		head->size |= (uint64_t)(*at & 0x7f) << shift;
		shift += 7;
	}
	head->len = (size_t)(at - bytes);
	if (head->kind == PACK_OFS_DELTA)
		return pack_head_read_base(at, end, offset, head);
	if (head->kind != PACK_REF_DELTA)
		return head->kind >= 1 && head->kind <= 4;
	head->oid = at;
	head->len += oid_len;
	return (size_t)(end - at) >= oid_len;
}

static bool pack_delta_read_size(const unsigned char **at, const unsigned char *end,
				 uint64_t *size)
{
	*size = 0;
	for (unsigned shift = 0; *at < end && shift <= 56; shift += 7) {
		unsigned char byte = *(*at)++;
		*size |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

/* Where from and how much, as the bits of `what` say which bytes are there. */
static bool pack_delta_read_copy(const unsigned char **at, const unsigned char *end,
				 unsigned what, size_t *from, size_t *len)
{
	size_t numbers[7] = { 0 };

	for (unsigned i = 0; i < 7; i++)
		if (what & (1u << i)) {
			if (*at == end)
				return false;
			numbers[i] = *(*at)++;
		}
	*from = numbers[0] | numbers[1] << 8 | numbers[2] << 16 | numbers[3] << 24;
	*len = numbers[4] | numbers[5] << 8 | numbers[6] << 16;
	if (*len == 0)
		*len = 0x10000;
	return true;
}

/* `out` has exactly the place for it. */
static bool pack_delta_apply(struct pack_bytes base, const unsigned char *at,
			     const unsigned char *end, unsigned char *out, size_t out_len)
{
	size_t done = 0, from, len;

	while (at < end) {
		unsigned what = *at++;
		const unsigned char *source = at;
		if (what == 0)
			return false;
		if (what & 0x80) {
			if (!pack_delta_read_copy(&at, end, what & 0x7f, &from, &len) ||
			    from > base.len || len > base.len - from)
				return false;
			source = base.data + from;
		} else {
			len = what;
			if (len > (size_t)(end - at))
				return false;
			at += len;
		}
		if (len > out_len - done)
			return false;
		memcpy(out + done, source, len);
		done += len;
	}
	return done == out_len;
}

int pack_delta_make(struct pack_bytes base, struct pack_bytes delta, uint64_t most,
		    unsigned char **data, size_t *len)
{
	const unsigned char *at = delta.data, *end = delta.data + delta.len;
	uint64_t base_len, size;

	if (!pack_delta_read_size(&at, end, &base_len) ||
	    !pack_delta_read_size(&at, end, &size) || base_len != base.len)
		return -1;
	if (size > most)
		return 0;
	*len = (size_t)size;
	*data = xmalloc(*len + 1);
	if (pack_delta_apply(base, at, end, *data, *len))
		return 1;
	free(TAKE(*data));
	return -1;
}
