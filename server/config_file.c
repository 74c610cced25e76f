/*
 * leased.conf, read by inih one line at a time: it knows no line numbers in its handler, cuts long lines
 * and values with " ;" without a word, and joins indented lines, so that is refused before it sees it.
 */
#include <ini.h>
#include <string.h>

#include "config_table.h"
#include "status.h"

#define LINE_MAX_BYTES 195

struct file_reader {
	FILE *in;
	struct config *config;
	struct leased_error *err;
	int line;
	int rc;
	bool seen[CONFIG_ROWS_MAX];
	char text[512];
};

static int file_error(struct file_reader *r, const char *why)
{
	return r->rc = fail(r->err, LEASED_ECONFIG, "line %d: %s", r->line, why);
}

/* Hands inih one line at a time, and refuses what it would cut or join without a word. */
static char *read_line(char *out, int size, void *stream)
{
	struct file_reader *r = stream;
	const char *at;
	size_t len;

	if (r->rc < 0 || !fgets(r->text, sizeof r->text, r->in))
		return NULL;
	r->line++;
	len = strcspn(r->text, "\r\n");
	at = r->text + strspn(r->text, " \t");
	if (len > LINE_MAX_BYTES)
		file_error(r, "longer than 195 bytes");
	else if (at > r->text && *at != '\r' && *at != '\n' && *at && *at != '#' && *at != ';')
		file_error(r, "begins with a blank, which would continue the line before");
	else if (*at != '#' && *at != ';' && strstr(r->text, " ;"))
		file_error(r, "\" ;\" would begin a comment and cut the value");
	if (r->rc < 0)
		return NULL;
	snprintf(out, (size_t)size, "%.*s\n", (int)len, r->text);
	return out;
}

static int on_value(void *user, const char *section, const char *key, const char *value)
{
	struct file_reader *r = user;
	const struct option_row *row = config_find_row(key);
	struct leased_error why;
	char text[300];
	size_t index;

	if (*section && strcmp(section, "leased") != 0) {
		snprintf(text, sizeof text, "unknown section [%s]", section);
		file_error(r, text);
		return 0;
	}
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

