/*
 * sealed.h - records: the stream of frames, cut, padded and sealed. Pure: time comes from the caller; any thread.
 *
 *   length, 2 bytes big-endian | that many bytes: one Noise transport message, which holds
 *   flags, 1 byte | n, 2 bytes big-endian | n bytes of the stream | padding
 *
 * A record need not begin or end where a frame does. Its length says little: all that is short is 256 bytes
 * long, and what is longer is rounded up by at most an eighth. With the flag REKEY the sender changes its key
 * after this record, as Noise's Rekey does: each hour, and each 2^32 records. Counters go on, so that a record
 * that was left out, repeated, moved or changed does not open; the first that does not ends the connection.
 */
#ifndef SEALED_H
#define SEALED_H

#include "frame.h"
#include "noise_cipher.h"

#define SEALED_HEADER_LEN 2
#define SEALED_REKEY      0x01

#define SEALED_TEXT_MIN   256
#define SEALED_TEXT_MAX   63488 /* the longest that the padding leaves as it is, and a Noise message holds */
#define SEALED_PREFIX_LEN 3     /* flags, n */
#define SEALED_DATA_MAX   (SEALED_TEXT_MAX - SEALED_PREFIX_LEN)
/* The longest whole record, and the longest that a first frame makes. */
#define SEALED_MAX        (SEALED_HEADER_LEN + SEALED_TEXT_MAX + NOISE_TAG_LEN)
#define SEALED_FIRST_MAX  (SEALED_HEADER_LEN + 544 + NOISE_TAG_LEN)

#define SEALED_REKEY_RECORDS (UINT64_C(1) << 32)
#define SEALED_REKEY_MS      INT64_C(3600000)

/* What we say. */
struct sealer {
	struct noise_cipher cipher;
	uint64_t in_key;  /* records under this key */
	int64_t since_ms; /* when this key began */
};

/* cipher is copied. now_ms is monotonic, here and below. */
void sealer_init(struct sealer *s, const struct noise_cipher *cipher, int64_t now_ms);

/* The bytes of the record that len bytes of the stream make; len is 1 to SEALED_DATA_MAX. */
size_t sealed_size(size_t len);

/* Makes one record of sealed_size(len) bytes. Returns its bytes; LEASED_EPROTO: the cipher has come to its end. */
int seal(struct sealer *s, int64_t now_ms, const uint8_t *data, size_t len, uint8_t *out);

/*
 * Looks for one whole record at the start of data; max is SEALED_MAX or a lower limit. Returns its bytes; 0 when
 * more are needed; LEASED_EPROTO for a length that cannot be or is over max, known from the header alone.
 */
int sealed_parse(const uint8_t *data, size_t len, size_t max);

/*
 * Opens a whole record, in place: the data is then at record + SEALED_HEADER_LEN + SEALED_PREFIX_LEN. Returns
 * its bytes, at least 1; LEASED_EPROTO: it was not made by the other side, or makes no sense. cipher moves on,
 * also to its next key.
 */
int sealed_open(struct noise_cipher *cipher, uint8_t *record, size_t len);

#endif
