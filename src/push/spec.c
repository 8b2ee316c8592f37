#include "push/spec.h"

/* JGit's rule. */
static bool is_side(const char *side)
{
	const char *star = strchr(side, '*');

	return side[0] && side[0] != '/' && !strstr(side, "//") &&
	       !text_ends_with(side, "/") && !(star && strchr(star + 1, '*'));
}

static int check_sides(const struct push_spec *spec, const char *text, struct err *err)
{
	if (!is_side(spec->src) || !is_side(spec->dst))
		err_set(err, ERR_CONFIG,
			"\"%.100s\" is no push spec, as "
			"+refs/heads/*:refs/heads/*",
			text);
	else if (!strchr(spec->src, '*') != !strchr(spec->dst, '*'))
		err_set(err, ERR_CONFIG,
			"\"%.100s\" has a * on one side only; Gerrit refuses it, too",
			text);
	else if (text_starts_with(spec->src, "refs/") &&
		 !text_starts_with(spec->dst, "refs/"))
		err_set(err, ERR_CONFIG,
			"\"%.100s\": the destination must begin with refs/", text);
	else
		return 0;
	return -1;
}

int push_spec_read(const char *text, struct push_spec *spec, struct err *err)
{
	const char *sides = text[0] == '+' ? text + 1 : text;
	const char *colon = strrchr(sides, ':');

	if (strchr(sides, '^') || text_starts_with(sides, ":"))
		return err_set(err, ERR_CONFIG,
			       "\"%.100s\" is not supported: name what is pushed, as "
			       "+refs/heads/*:refs/heads/*",
			       text);
	if (!colon && strchr(sides, '*'))
		return err_set(err, ERR_CONFIG,
			       "\"%.100s\" has a * and no destination; Gerrit refuses "
			       "it, too",
			       text);
	*spec = (struct push_spec){
		.src = colon ? xstrndup(sides, (size_t)(colon - sides)) : xstrdup(sides),
		.dst = xstrdup(colon ? colon + 1 : sides),
		.force = text[0] == '+',
	};
	if (check_sides(spec, text, err) == 0)
		return 0;
	push_spec_clear(spec);
	return -1;
}

void push_spec_clear(struct push_spec *spec)
{
	free(spec->src);
	free(spec->dst);
	*spec = (struct push_spec){ 0 };
}

/* A "*" stands for one character at least. */
bool push_spec_maps(const struct push_spec *spec, const char *ref, char **dst)
{
	const char *star = strchr(spec->src, '*'), *place = strchr(spec->dst, '*');
	size_t len = strlen(ref), head, tail;

	if (!star) {
		if (strcmp(ref, spec->src) != 0)
			return false;
		*dst = xstrdup(spec->dst);
		return true;
	}
	head = (size_t)(star - spec->src);
	tail = strlen(star + 1);
	if (len <= head + tail || memcmp(ref, spec->src, head) != 0 ||
	    !text_ends_with(ref, star + 1))
		return false;
	*dst = xasprintf("%.*s%.*s%s", (int)(place - spec->dst), spec->dst,
			 (int)(len - head - tail), ref + head, place + 1);
	return true;
}

void push_spec_render(const struct push_spec *spec, struct str *out)
{
	str_addf(out, "%s%s:%s", spec->force ? "+" : "", spec->src, spec->dst);
}
