/*
 * Frames and messages: what came over the socket. A frame that comes out came out for the right
 * bytes and no fewer; a message that unpacks packs again, and that form is stable.
 */
#include "frame.h"
#include "fuzz.h"
#include "message.h"

static ProtobufCMessage *unpack(int is_client, struct arena *arena, const uint8_t *body, size_t len)
{
	struct leased_error err = { 0 };
	ProtobufCMessage *message;

	if (is_client)
		message = (ProtobufCMessage *)message_unpack_client(arena, body, len, &err);
	else
		message = (ProtobufCMessage *)message_unpack_server(arena, body, len, &err);
	assert(message || (err.status == LEASED_EPROTO && err.text[0]));
	assert(arena->used <= arena->size);
	return message;
}

static uint8_t *pack(const ProtobufCMessage *message, int *ret_used)
{
	size_t size = message_packed_size(message);
	uint8_t *wire = malloc(size);

	assert(wire);
	*ret_used = message_pack(wire, size, message);
	if (*ret_used > 0)
		assert((size_t)*ret_used == size);
	else
		assert(size == FRAME_HEADER_LEN || size > FRAME_HEADER_LEN + FRAME_BODY_MAX);
	return wire;
}

/* Unpack, pack, unpack, pack: both packed forms are the same. */
static void check_message(int is_client, const uint8_t *body, size_t len)
{
	struct arena first, second = { 0 };
	ProtobufCMessage *message, *again;
	uint8_t *wire, *wire_again;
	int used, used_again;

	assert(arena_init(&first, message_arena_size(len)) == 0);
	message = unpack(is_client, &first, body, len);
	if (!message)
		goto free_first;
	wire = pack(message, &used);
	if (used < 0)
		goto free_wire;
	/* Padded numbers may have bought the first a larger arena than its packed form gets. */
	assert(arena_init(&second, 8 * message_arena_size((size_t)used)) == 0);
	again = unpack(
		is_client, &second, wire + FRAME_HEADER_LEN, (size_t)used - FRAME_HEADER_LEN);
	assert(again);
	wire_again = pack(again, &used_again);
	assert(used_again == used && memcmp(wire, wire_again, (size_t)used) == 0);
	free(wire_again);
free_wire:
	free(wire);
	arena_free(&second);
free_first:
	arena_free(&first);
}

static void check_body(const uint8_t *body, size_t len)
{
	check_message(1, body, len);
	check_message(0, body, len);
}

/* Returns the bytes used, 0 when the input ends or breaks here. */
static size_t check_frame(const uint8_t *data, size_t size, size_t max)
{
	struct frame frame = { 0 }, none = { 0 };
	int used = frame_parse(data, size, max, &frame);

	if (used <= 0) {
		assert(used == FRAME_MORE || used == LEASED_EPROTO);
		assert(!frame.body);
		return 0;
	}
	assert((size_t)used <= size && frame.len == (size_t)used - FRAME_HEADER_LEN);
	assert(frame.len >= 1 && frame.len <= max && frame.body == data + FRAME_HEADER_LEN);
	assert(frame_parse(data, (size_t)used - 1, max, &none) == FRAME_MORE);
	check_body(frame.body, frame.len);
	return (size_t)used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t used;

	check_frame(data, size, FRAME_HELLO_MAX);
	for (size_t at = 0; at < size; at += used) {
		used = check_frame(data + at, size - at, FRAME_BODY_MAX);
		if (used == 0)
			break;
	}
	if (size <= FRAME_BODY_MAX)
		check_body(data, size); /* without a frame: a length is hard to guess */
	return 0;
}
