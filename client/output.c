#include "output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "duration.h"
#include "name.h"

const char *output_state(const Leased__Lease *lease)
{
	switch (lease->state) {
	case LEASED__LEASE__STATE__HELD: return "held";
	case LEASED__LEASE__STATE__MIN_HOLD: return "min-hold";
	default: return "free";
	}
}

void output_holder(char *out, size_t size, const Leased__Lease *lease)
{
	char host[NAME_ESCAPED_SIZE];

	*out = '\0';
	if (!lease->holder)
		return;
	ctl_escape(host, sizeof host, lease->holder->host);
	snprintf(out, size, "%s:%" PRIu32 ":%016" PRIx64, host, lease->holder->pid,
		lease->holder->nonce);
}

/* Bytes that are UTF-8 by our rules; anything else a server might send is escaped. */
static json_t *text(ProtobufCBinaryData bytes)
{
	json_t *string = json_stringn((const char *)bytes.data, bytes.len);
	char escaped[4 * VALUE_MAX_LEN + 1];

	if (string)
		return string;
	ctl_escape(escaped, sizeof escaped, bytes);
	return json_string(escaped);
}

static json_t *time_text(int64_t unix_us)
{
	char out[32];

	ctl_format_time(out, unix_us);
	return json_string(out);
}

static void set(json_t *object, const char *key, json_t *value)
{
	json_object_set_new(object, key, value);
}

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

json_t *output_lease(const Leased__Lease *lease)
{
	json_t *object = json_object();
	char holder[NAME_ESCAPED_SIZE + 64];

	set(object, "name", text(lease->name));
	set(object, "state", json_string(output_state(lease)));
	if (lease->token > 0)
		set(object, "token", number(lease->token));
	if (lease->state != LEASED__LEASE__STATE__FREE) {
		set(object, "expires_in_ms", number(lease->expires_in_ms));
		set(object, "expires_at", time_text(lease->expires_at_us));
		if (lease->max_holders > 1)
			set(object, "max_holders", number(lease->max_holders));
	}
	if (lease->holder) {
		output_holder(holder, sizeof holder, lease);
		set(object, "holder", json_string(holder));
		set(object, "principal", text(lease->principal));
		set(object, "held_for_ms", number(lease->held_for_ms));
		set(object, "acquired_at", time_text(lease->acquired_at_us));
		set(object, "ttl_ms", number(lease->ttl_ms));
		if (lease->value.len > 0)
			set(object, "value", text(lease->value));
	}
	set(object, "waiters", number(lease->waiters));
	return object;
}

const char *output_ending(enum leased_ending ending)
{
	static const char *const names[] = { [LEASED_HELD] = "held", [LEASED_RELEASED] = "released",
		[LEASED_EXPIRED] = "expired", [LEASED_STOLEN] = "stolen" };

	return names[ending];
}

static json_t *string(const char *bytes)
{
	return text((ProtobufCBinaryData){ strlen(bytes), (uint8_t *)(uintptr_t)bytes });
}

json_t *output_grant(const struct leased_grant *g)
{
	json_t *object = json_object();

	set(object, "name", string(g->name));
	set(object, "token", number(g->token));
	set(object, "ended", json_string(output_ending(g->ended)));
	if (g->has_exit_status)
		set(object, "exit_status", json_integer(g->exit_status));
	set(object, "holder", string(g->holder));
	set(object, "principal", string(g->principal));
	set(object, "acquired_at", time_text(g->acquired_at_us));
	if (g->ended != LEASED_HELD)
		set(object, "ended_at", time_text(g->ended_at_us));
	set(object, "held_for_ms", number((uint64_t)g->held_for_ms));
	if (g->stolen_by)
		set(object, "stolen_by", string(g->stolen_by));
	if (g->reason)
		set(object, "reason", string(g->reason));
	return object;
}

static ProtobufCBinaryData bytes(const void *data, size_t len)
{
	return (ProtobufCBinaryData){ len, (uint8_t *)(uintptr_t)data };
}

json_t *output_change(const char *event, const struct leased_change *change)
{
	json_t *object = json_object();

	set(object, "event", json_string(event));
	if (change->name)
		set(object, "name", text(bytes(change->name, strlen(change->name))));
	if (change->holder) {
		set(object, "token", number(change->token));
		set(object, "holder", json_string(change->holder));
	}
	if (change->expires_in_ms > 0)
		set(object, "expires_in_ms", number((uint64_t)change->expires_in_ms));
	if (change->value)
		set(object, "value", text(bytes(change->value, change->value_len)));
	return object;
}

void output_change_line(const char *event, const struct leased_change *change)
{
	char name[NAME_ESCAPED_SIZE], holder[4 * HOLDER_TEXT_SIZE], left[DURATION_TEXT_SIZE];
	char value[4 * VALUE_MAX_LEN + 1];

	fputs(event, stdout);
	if (change->name) {
		ctl_escape(name, sizeof name, bytes(change->name, strlen(change->name)));
		printf(" %s", name);
	}
	if (change->holder) {
		ctl_escape(holder, sizeof holder, bytes(change->holder, strlen(change->holder)));
		printf(" token=%" PRIu64 " holder=%s", change->token, holder);
	}
	if (change->expires_in_ms > 0) {
		duration_format(left, change->expires_in_ms);
		printf(" expires_in=%s", left);
	}
	if (change->value) {
		ctl_escape(value, sizeof value, bytes(change->value, change->value_len));
		printf(" value=%s", value);
	}
	putchar('\n');
}

void output_json(json_t *object)
{
	json_dumpf(object, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	putchar('\n');
	json_decref(object);
}
