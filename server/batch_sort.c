#include "batch.h"

#include <stdlib.h>
#include <string.h>

/* Byte order of names (COLLATE "C"). */
static int compare_names(const void *a, const void *b)
{
	return text_compare((*(struct request *const *)a)->claim.name,
		(*(struct request *const *)b)->claim.name);
}

/* By name first. Different claims on one name never meet in its row: it fits one of them at most. */
static int compare_claims(const void *a, const void *b)
{
	const struct claim *x = &(*(struct request *const *)a)->claim;
	const struct claim *y = &(*(struct request *const *)b)->claim;
	int order = text_compare(x->name, y->name);

	if (order == 0)
		order = (x->token > y->token) - (x->token < y->token);
	if (order == 0)
		order = (x->nonce > y->nonce) - (x->nonce < y->nonce);
	if (order == 0)
		order = (x->pid > y->pid) - (x->pid < y->pid);
	if (order == 0)
		order = text_compare(x->host, y->host);
	return order != 0 ? order : text_compare(x->principal, y->principal);
}

size_t batch_sort(struct batch *batch)
{
	bool by_claim = batch->verb == VERB_RENEW || batch->verb == VERB_RENEW_VALUE ||
		batch->verb == VERB_RELEASE || batch->verb == VERB_RELEASE_AGAIN;
	int (*compare)(const void *, const void *) = by_claim ? compare_claims : compare_names;
	size_t kept = 0;

	if (batch->verb >= VERB_LOOK)
		return batch->n;
	qsort(batch->reqs, batch->n, sizeof(struct request *), compare);
	for (size_t i = 0; i < batch->n; i++) {
		struct request *req = batch->reqs[i];

		if (kept > 0 && compare(&batch->reqs[kept - 1], &req) == 0)
			continue;
		batch->reqs[i] = batch->reqs[kept];
		batch->reqs[kept++] = req;
	}
	return kept;
}

struct request *batch_find(const struct batch *batch, struct text name)
{
	struct request key = { .claim.name = name };
	struct request *wanted = &key, **found;

	found = bsearch(&wanted, batch->reqs, batch->n, sizeof(struct request *), compare_names);
	return found ? *found : NULL;
}
