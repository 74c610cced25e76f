/*
 * peer.h - a daemon by script, over a real Unix socket and the real protocol: for what the real one will
 * not do on command (cut the connection before the answer, answer late or never). Each call gives up
 * after a while and fails the test.
 */
#ifndef PEER_H
#define PEER_H

#include <stdbool.h>

#include "message.h"

struct peer {
	char path[64], address[80];
	int listener, fd;
	bool no_database;     /* as its Welcome and its Pongs say */
	bool ended;           /* the client has closed the connection */
	struct arena arena;   /* of the last message */
	uint8_t in[65536];
	size_t len;
};

void peer_start(struct peer *p);
void peer_stop(struct peer *p);

/* Takes the next connection and shakes hands; closes the one before. */
void peer_accept(struct peer *p);
void peer_cut(struct peer *p);

/* Says nothing on the old connection until a new one comes in. */
void peer_await(struct peer *p);

/* Nobody can connect for a while: the connection is cut, new ones are refused, until peer_back. */
void peer_away(struct peer *p);
void peer_back(struct peer *p);

/* Answers pings, and takes what else comes without an answer, until the client closes. */
void peer_stall(struct peer *p);

/* Answers pings until the client closes, and nothing else comes. */
void peer_end(struct peer *p);

/* The next message that is not a ping (pings are answered); it lives until the next call. */
Leased__ClientMessage *peer_next(struct peer *p);

/* The next one must be of this kind. */
Leased__ClientMessage *peer_expect(struct peer *p, Leased__ClientMessage__BodyCase kind);

/* Nothing but pings comes for so long. */
void peer_quiet(struct peer *p, int ms);

void peer_grant(struct peer *p, uint64_t id, uint64_t token, uint64_t expires_in_ms);
/* All n renewals get the same result. */
void peer_renewed(struct peer *p, uint64_t id, size_t n, int status, uint64_t expires_in_ms);
void peer_released(struct peer *p, uint64_t id);
/* Unasked: a grant was ended by somebody else. */
void peer_lost(struct peer *p, const char *name, uint64_t token);
/* Held by holder (FREE when NULL). */
void peer_lease(struct peer *p, uint64_t id, Leased__Holder *holder, uint64_t token);
/* A page of n grants. */
void peer_grants(struct peer *p, uint64_t id, Leased__Grant *const grants[], size_t n, const char *next);
/* SNAPSHOT and READY have no name. With a value, unless NULL; held by peer:1:0000000000000007. */
void peer_change(struct peer *p, uint64_t id, Leased__Change__Event event, const char *name, uint64_t token,
	const char *value);
void peer_fail(struct peer *p, uint64_t id, int status, const char *why);

#endif
