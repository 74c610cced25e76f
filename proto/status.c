#include "status.h"

#include <stdarg.h>
#include <stdio.h>

#include "name.h"

static const struct row {
	int status, exit_code;
	const char *name, *text;
} rows[] = {
#define ROW(name, wire, exit_code, text) { LEASED_##name, exit_code, #name, text },
	LEASED_STATUSES(ROW)
#undef ROW
};

static const struct row *find(int status)
{
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (rows[i].status == status)
			return &rows[i];
	return NULL;
}

int status_from_wire(unsigned wire)
{
	if (wire == 0)
		return LEASED_OK;
	if (wire > sizeof rows / sizeof rows[0])
		return LEASED_EINTERNAL;
	return -(int)wire;
}

int status_exit_code(int status)
{
	const struct row *row = find(status);

	if (status == LEASED_OK)
		return 0;
	return row ? row->exit_code : 70;
}

const char *status_text(int status)
{
	const struct row *row = find(status);

	if (status == LEASED_OK)
		return "done";
	return row ? row->text : "unknown status";
}

const char *status_name(int status)
{
	const struct row *row = find(status);

	if (status == LEASED_OK)
		return "OK";
	return row ? row->name : "EUNKNOWN";
}

int fail(struct leased_error *err, int status, const char *format, ...)
{
	va_list args;

	if (!err)
		return status;
	err->status = status;
	va_start(args, format);
	vsnprintf(err->text, sizeof err->text, format, args);
	va_end(args);
	text_make_safe(err->text);
	return status;
}
