#include "neighbours.h"

#include <netinet/in.h>
#include <sodium.h>
#include <string.h>

#define KNOWN_MS (24 * 60 * 60 * 1000)

_Static_assert(crypto_shorthash_KEYBYTES == sizeof((struct neighbours *)NULL)->key, "SipHash");

void neighbours_init(struct neighbours *n)
{
	memset(n, 0, sizeof *n);
	randombytes_buf(n->key, sizeof n->key);
	for (size_t i = 0; i < NEIGHBOURS_SIZE; i++) {
		list_init(&n->all[i].waiting);
		list_init(&n->all[i].turn);
	}
}

struct neighbour *neighbours_find(struct neighbours *n, const struct sockaddr_storage *address)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
	uint8_t network[8] = { 0 }, hash[crypto_shorthash_BYTES];
	uint64_t number;

	/* A socket for both families shows IPv4 as ::ffff:a.b.c.d, and all of it would be one /64. */
	if (address->ss_family == AF_INET)
		memcpy(network, &v4->sin_addr, 4);
	else if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		memcpy(network, &v6->sin6_addr.s6_addr[12], 4);
	else
		memcpy(network, &v6->sin6_addr, sizeof network);
	crypto_shorthash(hash, network, sizeof network, n->key);
	memcpy(&number, hash, sizeof number);
	return &n->all[number % NEIGHBOURS_SIZE];
}

static void forgive(struct neighbour *n, uint32_t max, int64_t now_ms)
{
	int64_t forgiven = (now_ms - n->since_ms) * max / 10000;

	if (forgiven <= 0)
		return;
	n->debt = forgiven < n->debt ? n->debt - (uint32_t)forgiven : 0;
	n->since_ms = now_ms;
}

bool neighbour_may_ask(struct neighbour *n, uint32_t max, int64_t now_ms)
{
	forgive(n, max, now_ms);
	if (n->debt >= max)
		return false;
	n->debt++;
	return true;
}

void neighbour_repay(struct neighbour *n)
{
	if (n->debt > 0)
		n->debt--;
}

void neighbour_note_known(struct neighbour *n, int64_t now_ms)
{
	n->known_until_ms = now_ms + KNOWN_MS;
}

bool neighbour_is_known(const struct neighbour *n, int64_t now_ms)
{
	return now_ms < n->known_until_ms;
}
