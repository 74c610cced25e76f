#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "job.h"
#include "output.h"

/* As one word of a shell, so that the line can be given to eval. */
static void print_word(FILE *to, const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_@%+=:,./-";

	if (text[strspn(text, plain)] == '\0') {
		fputs(text, to);
		return;
	}
	putc('\'', to);
	for (; *text; text++)
		if (*text == '\'')
			fputs("'\\''", to);
		else
			putc(*text, to);
	putc('\'', to);
}

/* One word that holds a word for each: for `eval "set -- $also"`, or as it is where names are simple. */
static void print_also(const struct lease_options *o)
{
	char *words = NULL;
	size_t size;
	FILE *list = open_memstream(&words, &size);

	for (size_t i = 0; list && i < o->acquire.n_also; i++) {
		if (i > 0)
			putc(' ', list);
		print_word(list, o->also[i]);
	}
	if (list && fclose(list) == 0) {
		fputs(" also=", stdout);
		print_word(stdout, words);
	}
	free(words);
}

static json_t *json_also(const struct lease_options *o)
{
	json_t *names = json_array();

	for (size_t i = 0; i < o->acquire.n_also; i++)
		json_array_append_new(names, json_string(o->also[i]));
	return names;
}

static void print_grant(const struct ctl *ctl, const struct lease_options *o, const struct leased_lease *lease)
{
	json_t *object;
	const char *name = leased_name(lease);

	if (!ctl->json) {
		fputs("holder=", stdout);
		print_word(stdout, leased_holder(lease));
		printf(" token=%" PRIu64 " expires_in_ms=%" PRId64 " name=", leased_token(lease),
			leased_remaining_ms(lease));
		print_word(stdout, name);
		if (o->acquire.n_also > 0)
			print_also(o);
		putchar('\n');
		return;
	}
	object = json_pack("{s:s, s:s, s:I, s:I}", "name", name, "holder", leased_holder(lease), "token",
		(json_int_t)leased_token(lease), "expires_in_ms", (json_int_t)leased_remaining_ms(lease));
	if (o->acquire.n_also > 0)
		json_object_set_new(object, "also", json_also(o));
	output_json(object);
}

/* A grant that nobody gets to know is given back. */
static int acquire(const struct ctl *ctl, struct leased_client *client, const struct lease_options *o)
{
	struct leased_lease *lease;
	struct leased_error err;
	int rc = leased_acquire(client, o->name, &o->acquire, &lease, &err);
	int code = 0;

	if (rc == 0 && !job_caught_signal()) {
		print_grant(ctl, o, lease);
		code = ctl_flush();
		if (code == 0)
			return 0;
	}
	if (rc == 0)
		leased_give_back(lease, NULL);
	if (job_caught_signal())
		return 128 + job_caught_signal();
	return rc < 0 ? ctl_refused(o, &err) : code;
}

int cmd_acquire(const struct ctl *ctl, int argc, char *argv[])
{
	struct leased_client *client;
	struct lease_options o;
	bool done;
	int code;

	code = ctl_read_options(&o, TAKES_ACQUIRE, argc, argv, &done);
	if (code || done)
		return code;
	code = ctl_open(ctl, &client);
	if (code)
		return code;
	o.acquire.no_renewal = true;
	job_catch_signals(client);
	code = acquire(ctl, client, &o);
	job_stop_catching();
	leased_client_close(client);
	job_die_of_interrupt(job_caught_interrupt(), false);
	return code;
}
