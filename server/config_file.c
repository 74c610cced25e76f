/*
 * leased.conf, read by inih one line at a time. inih knows no line numbers in its handler, and without a
 * word cuts long lines, what follows a NUL or a section header, and values with a blank and ';'; it joins
 * indented lines to the one before. All of that is refused before inih sees it.
 */
#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <string.h>

#include "config_table.h"
#include "status.h"

#define LINE_MAX_BYTES 195
#define BLANKS         " \t"

struct file_reader {
	FILE *in;
	struct config *config;
	struct leased_error *err;
	int line;
	int rc;
	bool seen[CONFIG_ROWS_MAX];
	char text[LINE_MAX_BYTES + 3]; /* one byte too many, or \r; the one after that; NUL */
	size_t len;
};

static int file_error(struct file_reader *r, const char *why)
{
	return r->rc = fail(r->err, LEASED_ECONFIG, "line %d: %s", r->line, why);
}

/* Takes the next line without its end; of one that is too long only enough to know. */
static bool next_line(struct file_reader *r)
{
	int c;

	r->len = 0;
	r->line++;
	errno = 0;
	while ((c = fgetc(r->in)) != EOF && c != '\n' && r->len < sizeof r->text - 1)
		r->text[r->len++] = (char)c;
	if (ferror(r->in)) {
		file_error(r, strerror(errno));
		return false;
	}
	if (c == EOF && r->len == 0)
		return false;
	if (r->len > 0 && r->text[r->len - 1] == '\r')
		r->len--;
	r->text[r->len] = '\0';
	return true;
}

/* Also hides the rest of a line behind a NUL or a carriage return. */
static bool has_control_character(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (iscntrl((unsigned char)text[i]) && text[i] != '\t')
			return true;
	return false;
}

static bool has_inline_comment(const char *text)
{
	for (const char *at = strchr(text, ';'); at; at = strchr(at + 1, ';'))
		if (at > text && strchr(BLANKS, at[-1]))
			return true;
	return false;
}

static int check_section(struct file_reader *r, const char *header)
{
	static const char ours[] = "[leased]";
	size_t len = strlen(ours);
	char why[LINE_MAX_BYTES + 64];

	if (strncmp(header, ours, len) != 0) {
		snprintf(why, sizeof why, "unknown section %s", header);
		return file_error(r, why);
	}
	header += len;
	return header[strspn(header, BLANKS)] ? file_error(r, "text after [leased] would be ignored") : 0;
}

/* 0 when inih reads the line as a person does. */
static int check_line(struct file_reader *r)
{
	const char *at = r->text + strspn(r->text, BLANKS);

	if (r->len > LINE_MAX_BYTES)
		return file_error(r, "longer than 195 bytes");
	if (has_control_character(r->text, r->len))
		return file_error(r, "holds a control character");
	if (*at == '\0' || *at == '#' || *at == ';')
		return 0;
	if (at > r->text)
		return file_error(r, "begins with a blank, which would continue the line before");
	if (*at == '[')
		return check_section(r, at);
	if (has_inline_comment(at))
		return file_error(r, "\" ;\" would begin a comment and cut the value");
	return 0;
}

/* inih's reader; a byte order mark is skipped, so that what stands behind it is checked. */
static char *read_line(char *out, int size, void *stream)
{
	static const char mark[] = "\xef\xbb\xbf";
	struct file_reader *r = stream;

	if (r->rc < 0 || !next_line(r))
		return NULL;
	if (r->line == 1 && strncmp(r->text, mark, strlen(mark)) == 0) {
		r->len -= strlen(mark);
		memmove(r->text, r->text + strlen(mark), r->len + 1);
	}
	if (check_line(r) < 0)
		return NULL;
	snprintf(out, (size_t)size, "%s\n", r->text);
	return out;
}

static int on_value(void *user, const char *section, const char *key, const char *value)
{
	struct file_reader *r = user;
	const struct option_row *row = config_find_row(key);
	struct leased_error why;
	char text[300];
	size_t index;

	(void)section; /* none or ours: see check_section */
	if (!row) {
		snprintf(text, sizeof text, "unknown key %s: did you mean %s?", key, config_nearest_key(key));
		file_error(r, text);
		return 0;
	}
	index = config_row_index(row);
	if (r->seen[index] && row->type != TYPE_LISTEN) {
		snprintf(text, sizeof text, "%s is given twice", key);
		file_error(r, text);
		return 0;
	}
	r->seen[index] = true;
	if (config_take_value(r->config, row, value, &why) == 0)
		return 1;
	r->rc = fail(r->err, LEASED_ECONFIG, "line %d: %s: %s", r->line, key, why.text);
	return 0;
}

int config_parse_stream(struct config *config, FILE *in, struct leased_error *err)
{
	struct file_reader r = { .in = in, .config = config, .err = err };
	int bad = ini_parse_stream(read_line, &r, on_value, &r);

	if (r.rc < 0)
		return r.rc;
	if (bad)
		return fail(err, LEASED_ECONFIG, "line %d: not of the form key = value", bad);
	return 0;
}
