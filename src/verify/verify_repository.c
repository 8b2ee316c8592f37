#include "verify/verify_repository.h"

#include "git/ref_diff.h"

static void value_text(const struct ref *ref, struct str *out)
{
	if (!ref)
		str_add(out, "absent");
	else if (ref->target)
		str_add(out, ref->target);
	else
		oid_add_text(&ref->oid, out);
}

static int verify_repository_report_diff(const struct ref_snapshot *found,
					 const struct ref_snapshot *expected,
					 const struct ref_diff *diff, struct err *err)
{
	AUTO_STR struct str is = STR_INIT;
	AUTO_STR struct str should = STR_INIT;
	const char *name = "HEAD";

	if (diff->changes.count > 0) {
		name = diff->changes.items[0].name;
		value_text(diff->changes.items[0].before, &is);
		value_text(diff->changes.items[0].after, &should);
	} else {
		str_add(&is, found->head_target ? found->head_target : "detached");
		str_add(&should,
			expected->head_target ? expected->head_target : "detached");
	}
	err_set(err, ERR_CORRUPT,
		"the copy differs from its source in %zu refs: %s is %s and should be %s",
		diff->changes.count + diff->head_changed, name, is.data, should.data);
	return err_remedy(err, "it is copied again at the next try; let nobody else "
			       "write to a copy");
}

int verify_repository(const struct repo *copy, const struct ref_snapshot *expected,
		      struct checksum *sum, struct fingerprint *print, struct err *err)
{
	AUTO_SNAPSHOT struct ref_snapshot found = REF_SNAPSHOT_INIT;
	AUTO_DIFF struct ref_diff diff = { 0 };

	if (fingerprint_take(copy->fd, FINGERPRINT_COPY, print, err) != 0 ||
	    ref_snapshot_read(copy->fd, copy->oid_len, &found, err) != 0)
		return -1;
	ref_diff_compute(&found, expected, &diff);
	if (!ref_diff_is_empty(&diff))
		return verify_repository_report_diff(&found, expected, &diff, err);
	checksum_of(&found, sum);
	return 0;
}
