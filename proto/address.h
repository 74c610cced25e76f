/*
 * address.h - where a daemon listens: unix:/run/leased/leased.sock, tcp:127.0.0.1:7420,
 * tcp:[::1]:7420, tcp:localhost:7420; and for clients leased://10.0.0.5:7420/leased-server-pub:..., the same
 * place with the public key that the daemon there has to have. Pure; any thread; resolves nothing.
 */
#ifndef ADDRESS_H
#define ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "leased_status.h"
#include "noise_cipher.h"

#define ADDRESS_TEXT_SIZE 350

struct address {
	enum { ADDRESS_UNIX, ADDRESS_TCP } kind;
	char host[254];  /* ADDRESS_TCP: name or literal, brackets taken off */
	uint16_t port;   /* ADDRESS_TCP: 0 lets the kernel choose when listening */
	bool has_key;    /* ADDRESS_TCP: sealed, see handshake.h; for a daemon with this public key */
	uint8_t key[NOISE_KEY_LEN];
	char path[108];  /* ADDRESS_UNIX: absolute; fits struct sockaddr_un */
};

/* 0, or LEASED_EUSAGE with a sentence in err: unknown kind, no port, path relative or too long, no good key. */
int address_parse(struct address *ret_address, const char *text, struct leased_error *err);

/* The text form, as address_parse takes it. */
void address_format(char out[static ADDRESS_TEXT_SIZE], const struct address *address);

/*
 * For connect and bind. 0; or LEASED_EUSAGE: the host is neither a literal address nor "localhost",
 * which is 127.0.0.1. Names are not looked up: that blocks.
 */
int address_to_socket(struct sockaddr_storage *ret_socket, socklen_t *ret_len,
	const struct address *address, struct leased_error *err);

/* A literal 127.0.0.0/8 or ::1 address. Names are not. */
bool address_is_loopback_literal(const struct address *address);

#endif
