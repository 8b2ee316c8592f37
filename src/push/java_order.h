/*
 * The order in which Java's HashSet walks through texts. Private to push/.
 */
#ifndef PUSH_JAVA_ORDER_H
#define PUSH_JAVA_ORDER_H

#include "push/task.h"

/* Drops repeated names and puts the others in the order of a HashSet to which they were
 * added one by one as they stand. */
void java_order(ref_names *names);

#endif
