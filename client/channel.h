/*
 * channel.h - one non-blocking connection to a daemon: address, socket, frames, sealed where the address has
 * a key. The background thread's alone; no lock, no message in it.
 */
#ifndef CHANNEL_H
#define CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address.h"
#include "frame.h"
#include "leased_status.h"
#include "secure.h"

/* Unsent output over this is refused: the daemon does not read. */
#define CHANNEL_OUT_MAX (8 * 1024 * 1024)

struct channel {
	int fd; /* -1: closed */
	bool connecting;
	struct bytes in, out; /* frames as they are */
	size_t out_sent;
	struct secure *secure; /* NULL: the frames travel as they are */
};

/* A closed channel on zeroed or fini'ed memory. */
void channel_init(struct channel *ch);

/*
 * Starts to connect. Watch for POLLOUT, then call channel_finish_connect. key is our own, for an address that
 * has one; it must live as long. 0, LEASED_EUNAVAILABLE, LEASED_EDENIED, LEASED_EPROTO, LEASED_ENOMEM, or
 * LEASED_EUSAGE from address_to_socket.
 */
int channel_connect(struct channel *ch, const struct address *address, const struct noise_keypair *key,
	struct leased_error *err);

/* 0 when connected, else LEASED_EUNAVAILABLE. */
int channel_finish_connect(struct channel *ch, struct leased_error *err);

/* Room for a frame of len bytes, to be filled and given to channel_commit; NULL: no memory, or full. */
uint8_t *channel_reserve(struct channel *ch, size_t len);
void channel_commit(struct channel *ch, size_t len);

/*
 * Writes what the kernel takes, or forgets it where the daemon has closed, which channel_read will tell. Sealed,
 * nothing but the handshake goes until the daemon has shown its key. 0, or why not.
 */
int channel_flush(struct channel *ch, struct leased_error *err);

/* Reads what is there. 0, LEASED_EUNAVAILABLE (also at the end of the stream), LEASED_EDENIED, LEASED_EPROTO, LEASED_ENOMEM. */
int channel_read(struct channel *ch, struct leased_error *err);

/*
 * The next whole frame read so far; its body lives until the next channel_next or channel_read.
 * 1: a frame; 0: none; LEASED_EPROTO.
 */
int channel_next(struct channel *ch, struct frame *ret_frame);

/* What poll(2) should wait for. */
short channel_events(const struct channel *ch);

/* Closes and frees; the channel can connect again. */
void channel_close(struct channel *ch);

#endif
