/*
 * address.h - where a daemon listens: unix:/run/leased/leased.sock, tcp:127.0.0.1:7420,
 * tcp:[::1]:7420, tcp:localhost:7420. Pure; any thread; resolves nothing.
 */
#ifndef ADDRESS_H
#define ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "leased_status.h"

#define ADDRESS_TEXT_SIZE 300

struct address {
	enum { ADDRESS_UNIX, ADDRESS_TCP } kind;
	char host[254];  /* ADDRESS_TCP: name or literal, brackets taken off */
	uint16_t port;   /* ADDRESS_TCP: 0 lets the kernel choose when listening */
	char path[108];  /* ADDRESS_UNIX: absolute; fits struct sockaddr_un */
};

/* 0, or LEASED_EUSAGE with a sentence in err: unknown kind, no port, path relative or too long. */
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
