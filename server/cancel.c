#include <sodium.h>
#include <string.h>

#include "session.h"

/* uthash, with SipHash under a random key; one for which there is no memory is not in the table. */
#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION(key, len, value)                                                             \
	do {                                                                                       \
		unsigned char full[crypto_shorthash_BYTES];                                        \
		crypto_shorthash(full, (const unsigned char *)(key), (len), s->all->hash_key);     \
		memcpy(&(value), full, sizeof(value));                                             \
	} while (0)

#include "cancel.h"

void cancel_add(struct session *s, struct call *call)
{
	HASH_ADD(hh, s->acquires, id, sizeof call->id, call);
}

void cancel_remove(struct session *s, struct call *call)
{
	if (call->hh.tbl)
		HASH_DELETE(hh, s->acquires, call);
	call->hh.tbl = NULL;
}

struct call *cancel_find(const struct session *s, uint64_t id)
{
	struct call *call;

	HASH_FIND(hh, s->acquires, &id, sizeof id, call);
	return call;
}
