/*
 * message.h - protobuf bodies to structs and back, within a fixed amount of memory.
 * Pure; any thread. The structs are those that protobuf-c makes from leased.proto.
 */
#ifndef MESSAGE_H
#define MESSAGE_H

/* Features of Hello and Welcome, see PROTOCOL.md. */
#define FEATURE_LOST "lost"

#include <stddef.h>
#include <stdint.h>

#include "leased.pb-c.h"
#include "leased_status.h"

/*
 * A bump allocator over one block: unpacking a message allocates from it, and everything goes at
 * once with arena_free. It never grows: a message that needs more is refused.
 */
struct arena {
	uint8_t *block;
	size_t used, size;
};

/* 0 or LEASED_ENOMEM. */
int arena_init(struct arena *arena, size_t size);
/* Aligned for any type; NULL when full. */
void *arena_alloc(struct arena *arena, size_t size);
/* Accepts a zeroed arena. */
void arena_free(struct arena *arena);

/* What unpacking a body of len bytes may take at most; sizes an arena. */
size_t message_arena_size(size_t len);

/*
 * Unpack one body into memory from arena. NULL and a sentence in err when it is not a message of
 * ours or does not fit the arena. Unknown fields are dropped (they still take arena memory).
 * The result points into arena and lives as long; do not call the protobuf free functions on it.
 * What was not sent is empty, and a message within a message that was not sent is NULL: check.
 */
Leased__ClientMessage *message_unpack_client(struct arena *arena, const uint8_t *body, size_t len,
	struct leased_error *err);
Leased__ServerMessage *message_unpack_server(struct arena *arena, const uint8_t *body, size_t len,
	struct leased_error *err);

/*
 * Pack one message with its frame header into out. Returns the bytes written, or LEASED_EDATA when
 * the body would be empty, over FRAME_BODY_MAX or over size. message_packed_size tells the size
 * needed, header included.
 */
size_t message_packed_size(const ProtobufCMessage *message);
int message_pack(uint8_t *out, size_t size, const ProtobufCMessage *message);

#endif
