#include "message.h"

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "status.h"

int arena_init(struct arena *arena, size_t size)
{
	uint8_t *block = malloc(size);

	if (!block)
		return LEASED_ENOMEM;
	*arena = (struct arena){ .block = block, .size = size };
	return 0;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	size_t start = (arena->used + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);

	if (start > arena->size || size > arena->size - start)
		return NULL;
	arena->used = start + size;
	return arena->block + start;
}

void arena_free(struct arena *arena)
{
	free(arena->block);
	*arena = (struct arena){ 0 };
}

/*
 * What repeats in a message decides. protobuf-c takes, for each element, the struct, its texts, a
 * pointer, and up to twice 32 bytes of notes while it scans (which nobody can give back here). Per
 * byte on the wire that is most for the smallest elements: a RenewalResult that failed, 4 bytes on
 * the wire, takes 120; a feature of one letter, 3 bytes, 88; a further name of one letter, 3 bytes, 96;
 * a Renewal with names of one letter, 25 bytes, 280; a row of a Listing, 28 bytes, 310. So 32 times the
 * body holds all of them, and the constant holds what does not repeat. Bodies of empty elements, which say
 * nothing, may need more.
 */
size_t message_arena_size(size_t len)
{
	return 32 * len + 1024;
}

/* The allocator's state: tells a full arena from a body that makes no sense. */
struct unpacking {
	struct arena *arena;
	bool was_full;
};

static void *alloc_from_arena(void *data, size_t size)
{
	struct unpacking *unpacking = data;
	void *memory = arena_alloc(unpacking->arena, size);

	if (!memory)
		unpacking->was_full = true;
	return memory;
}

/* The arena goes as a whole. */
static void free_nothing(void *data, void *memory)
{
	(void)data;
	(void)memory;
}

static void drop_unknown(ProtobufCMessage *message);

static bool is_there(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	const char *base = (const char *)message;
	uint32_t oneof_case;

	if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
		return true;
	memcpy(&oneof_case, base + field->quantifier_offset, sizeof oneof_case);
	return oneof_case == field->id;
}

static void drop_unknown_in_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	void *member = (char *)message + field->offset;
	ProtobufCMessage **children = member;
	size_t n = 1;

	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		memcpy(&n, (char *)message + field->quantifier_offset, sizeof n);
		children = *(ProtobufCMessage ***)member;
	}
	for (size_t i = 0; i < n; i++)
		if (children[i])
			drop_unknown(children[i]);
}

/* protobuf-c keeps unknown fields to send them on; a daemon that does not know them must not. */
static void drop_unknown(ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;

	message->n_unknown_fields = 0;
	message->unknown_fields = NULL;
	for (unsigned i = 0; i < descriptor->n_fields; i++)
		if (descriptor->fields[i].type == PROTOBUF_C_TYPE_MESSAGE &&
			is_there(message, &descriptor->fields[i]))
			drop_unknown_in_field(message, &descriptor->fields[i]);
}

static ProtobufCMessage *unpack(const ProtobufCMessageDescriptor *descriptor, struct arena *arena,
	const uint8_t *body, size_t len, struct leased_error *err)
{
	struct unpacking unpacking = { .arena = arena };
	ProtobufCAllocator allocator = {
		.alloc = alloc_from_arena, .free = free_nothing, .allocator_data = &unpacking
	};
	ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &allocator, len, body);

	if (!message) {
		fail(err, LEASED_EPROTO, "%s",
			unpacking.was_full ? "the message has too many parts for its size"
					   : "the frame does not hold a message of this protocol");
		return NULL;
	}
	drop_unknown(message);
	return message;
}

Leased__ClientMessage *message_unpack_client(
	struct arena *arena, const uint8_t *body, size_t len, struct leased_error *err)
{
	return (Leased__ClientMessage *)unpack(
		&leased__client_message__descriptor, arena, body, len, err);
}

Leased__ServerMessage *message_unpack_server(
	struct arena *arena, const uint8_t *body, size_t len, struct leased_error *err)
{
	return (Leased__ServerMessage *)unpack(
		&leased__server_message__descriptor, arena, body, len, err);
}

size_t message_packed_size(const ProtobufCMessage *message)
{
	return FRAME_HEADER_LEN + protobuf_c_message_get_packed_size(message);
}

int message_pack(uint8_t *out, size_t size, const ProtobufCMessage *message)
{
	size_t len = protobuf_c_message_get_packed_size(message);

	if (len == 0 || len > FRAME_BODY_MAX || FRAME_HEADER_LEN + len > size)
		return LEASED_EDATA;
	frame_put_header(out, len);
	len = protobuf_c_message_pack(message, out + FRAME_HEADER_LEN);
	return (int)(FRAME_HEADER_LEN + len);
}
