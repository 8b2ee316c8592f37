/*
 * Root may do as any user for a while: what it may not do then fails as it would.
 */
#ifndef UNIT_RIGHTS_H
#define UNIT_RIGHTS_H

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test.h"

/* Of the calling thread: whether it may read, write and enter whatever modes say. Another
 * user than root may not in any case. */
static inline void rights_set_override(bool has)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];
	const unsigned mask = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;

	assert_int_equal(syscall(SYS_capget, &head, caps), 0);
	caps[0].effective = has ? caps[0].effective | (caps[0].permitted & mask)
				: caps[0].effective & ~mask;
	assert_int_equal(syscall(SYS_capset, &head, caps), 0);
}

#endif
