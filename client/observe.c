#include "observe.h"

#include <stdio.h>
#include <string.h>

#include "follow.h"
#include "name.h"
#include "output.h"

/* What was printed last, so that a fresh snapshot says nothing twice. */
struct observer {
	const struct ctl *ctl;
	const char *name;
	bool has_said;
	uint64_t token; /* of the leader, 0: none */
	char value[VALUE_MAX_LEN];
	size_t value_len;
	bool found;     /* in this snapshot */
};

static bool is_said(const struct observer *o, const struct leased_change *change)
{
	return o->has_said && o->token == change->token && o->value_len == change->value_len &&
	       (o->value_len == 0 || memcmp(o->value, change->value, o->value_len) == 0);
}

static void say(struct observer *o, const char *event, const struct leased_change *change)
{
	if (is_said(o, change))
		return;
	o->has_said = true;
	o->token = change->token;
	o->value_len = change->value_len < sizeof o->value ? change->value_len : sizeof o->value;
	if (o->value_len > 0)
		memcpy(o->value, change->value, o->value_len);
	if (o->ctl->json)
		output_json(output_change(event, change));
	else
		output_change_line(event, change);
}

static void say_none(struct observer *o)
{
	say(o, "none", &(struct leased_change){ .name = o->name });
}

static void on_change(const struct leased_change *change, void *data)
{
	struct observer *o = data;

	switch (change->kind) {
	case LEASED_CHANGE_SNAPSHOT: o->found = false; break;
	case LEASED_CHANGE_READY:
		if (!o->found)
			say_none(o);
		break;
	case LEASED_CHANGE_HELD:
	case LEASED_CHANGE_GRANTED:
	case LEASED_CHANGE_VALUE:
		o->found = true;
		say(o, "leader", change);
		break;
	default: say_none(o); break;
	}
}

int observe(const struct ctl *ctl, const char *name)
{
	struct observer o = { .ctl = ctl, .name = name };

	return follow(ctl, "elect", name, true, on_change, &o);
}
