/*
 * frame.h - length prefix on, length prefix off. Pure; any thread.
 * A frame is a 4-byte big-endian length, then that many bytes of one protobuf message.
 */
#ifndef FRAME_H
#define FRAME_H

#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER_LEN 4
/* Longest body. A sealed frame with its tag and padding still fits one Noise message (65,535). */
#define FRAME_BODY_MAX   61440
/* Longest body before the peer has said hello. */
#define FRAME_HELLO_MAX  512

enum { FRAME_MORE = 0 };

struct frame {
	const uint8_t *body; /* points into the caller's buffer */
	size_t len;          /* 1 to max */
};

/*
 * Looks for one whole frame at the start of data. max is FRAME_BODY_MAX or a lower limit.
 * Returns the bytes used (> 0) and fills ret_frame; FRAME_MORE when more bytes are needed;
 * LEASED_EPROTO for a length of 0 or over max, known as soon as the header is there.
 * ret_frame is untouched unless a frame came out.
 */
int frame_parse(const uint8_t *data, size_t len, size_t max, struct frame *ret_frame);

/* Writes the header for a body of len bytes, 1 to FRAME_BODY_MAX. */
void frame_put_header(uint8_t header[static FRAME_HEADER_LEN], size_t len);

#endif
