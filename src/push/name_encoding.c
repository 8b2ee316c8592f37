#include "push/name_encoding.h"

static void add_replaced(struct str *out, const char *name, char slash)
{
	for (; *name; name++)
		str_add_char(out, *name == '/' ? slash : *name);
}

static void add_basename(struct str *out, const char *name)
{
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
	const char *dot = strrchr(base, '.');

	str_add_bytes(out, base, dot ? (size_t)(dot - base) : strlen(base));
}

/* Gerrit does it behind the encoding, which comes to the same: no character that is
 * looked for here is encoded, and none comes into being. */
void name_add_styled(struct str *out, const char *project, enum name_style style)
{
	switch (style) {
	case NAME_DASH:
		add_replaced(out, project, '-');
		break;
	case NAME_UNDERSCORE:
		add_replaced(out, project, '_');
		break;
	case NAME_BASENAME:
		add_basename(out, project);
		break;
	case NAME_SLASH:
		str_add(out, project);
		break;
	}
}

void name_add_encoded(struct str *out, const char *name)
{
	static const char kept[] = "abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				   "-._~!$'()*,;&=@:+/";

	for (; *name; name++) {
		if (strchr(kept, *name))
			str_add_char(out, *name);
		else
			str_addf(out, "%%%02X", (unsigned)(unsigned char)*name);
	}
}
