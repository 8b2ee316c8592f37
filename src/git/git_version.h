/*
 * Which git this machine has. Any thread.
 */
#ifndef GIT_GIT_VERSION_H
#define GIT_GIT_VERSION_H

#include "base/base.h"

#define GIT_VERSION_SIZE 64

/* "git version 2.39.5". Asked of git the first time, and again when another program is
 * found under its name. When git does not say, a text that no other process and no later
 * call has. */
void git_version(char text[GIT_VERSION_SIZE]);

#endif
