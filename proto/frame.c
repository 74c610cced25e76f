#include "frame.h"

#include <assert.h>

#include "leased_status.h"

int frame_parse(const uint8_t *data, size_t len, size_t max, struct frame *ret_frame)
{
	size_t body_len;

	if (len < FRAME_HEADER_LEN)
		return FRAME_MORE;
	body_len = (size_t)data[0] << 24 | (size_t)data[1] << 16 | (size_t)data[2] << 8 | data[3];
	if (body_len == 0 || body_len > max || body_len > FRAME_BODY_MAX)
		return LEASED_EPROTO;
	if (len - FRAME_HEADER_LEN < body_len)
		return FRAME_MORE;
	ret_frame->body = data + FRAME_HEADER_LEN;
	ret_frame->len = body_len;
	return (int)(FRAME_HEADER_LEN + body_len);
}

void frame_put_header(uint8_t header[static FRAME_HEADER_LEN], size_t len)
{
	assert(len >= 1 && len <= FRAME_BODY_MAX);
	header[0] = (uint8_t)(len >> 24);
	header[1] = (uint8_t)(len >> 16);
	header[2] = (uint8_t)(len >> 8);
	header[3] = (uint8_t)len;
}
