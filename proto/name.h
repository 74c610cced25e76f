/*
 * name.h - what a lease name, a host name and a value may be (design section 2). Pure; any thread.
 */
#ifndef NAME_H
#define NAME_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "leased_status.h"

#define NAME_MAX_LEN  255
#define HOST_MAX_LEN  255
#define VALUE_MAX_LEN 4096
#define REASON_MAX_LEN 1024

/* As in leased.h: how many names a lease may have, and how many may hold one at once. */
#define LEASED_NAMES_MAX 64
#define LEASED_SHARED 10000

/*
 * 0, or LEASED_EDATA with a sentence in err: empty, over 255 bytes, not UTF-8 (RFC 3629: no
 * overlong forms, no surrogates, nothing above U+10FFFF), or a control character
 * (U+0000 to U+001F, U+007F to U+009F).
 */
int name_check(const uint8_t *name, size_t len, struct leased_error *err);

/*
 * All names of one lease: each by itself, none twice, at most LEASED_NAMES_MAX together. Of more than that
 * none is looked at. The sentence says which one is wrong.
 */
int names_check(ProtobufCBinaryData name, const ProtobufCBinaryData also[], size_t n_also,
	struct leased_error *err);

/* The same rules for a slot. */
int slot_check(const uint8_t *slot, size_t len, struct leased_error *err);

/* The same rules for the host part of a holder, which besides holds no ':' and no space. */
int host_check(const uint8_t *host, size_t len, struct leased_error *err);

/* 0 to 4,096 bytes of UTF-8 without NUL; other control characters are fine. */
int value_check(const uint8_t *value, size_t len, struct leased_error *err);

/* Why a lease was stolen: 1 to 1,024 bytes, otherwise as a name. */
int reason_check(const uint8_t *reason, size_t len, struct leased_error *err);

/* A list prefix: as a name, but may be empty. */
int prefix_check(const uint8_t *prefix, size_t len, struct leased_error *err);

/*
 * Writes text so that it is safe on a terminal and in one line of a log: control characters and
 * bidirectional marks (U+202A-E, U+2066-9, U+200E-F, U+061C), line and paragraph separators
 * (U+2028-9) and bytes that are not UTF-8 become \xNN escapes; a backslash becomes two.
 * Cuts at size - 1 at a whole escape or character, always ends with NUL, returns the length.
 */
size_t name_escape(char *out, size_t size, const uint8_t *text, size_t len);
/* Enough for any name: each byte may become four. */
#define NAME_ESCAPED_SIZE (4 * NAME_MAX_LEN + 1)

/*
 * The same for texts that were cut to a fixed size: in place, each byte that name_escape would escape
 * becomes '?'; backslashes stay.
 */
void text_make_safe(char *text);

#endif
