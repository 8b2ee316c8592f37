/*
 * Hosts of upstreams that did not answer the last question: so that one of them does not
 * keep all askers waiting, at most SILENT_HOST_ASKERS ask it at once, until it answers.
 * Any thread.
 */
#ifndef MIRROR_SILENT_HOSTS_H
#define MIRROR_SILENT_HOSTS_H

#include "mirror/mirrors.h"

#define SILENT_HOST_ASKERS 2

struct silent_hosts;

struct silent_hosts *silent_hosts_new(void);
void silent_hosts_free(struct silent_hosts *hosts);

/* Whether the mirror's upstream may be asked now; then silent_hosts_leave() follows. */
bool silent_hosts_enter(struct silent_hosts *hosts, const struct mirror *mirror);

/* With the result of the question; *err counts if it is not 0, and is NULL if the host
 * was not asked after all. */
void silent_hosts_leave(struct silent_hosts *hosts, const struct mirror *mirror,
			int result, const struct err *err);

#endif
