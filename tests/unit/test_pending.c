/* What waits for a connection: a queue a statement, and those that are due. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pending.h"

static struct request *make(struct request *req, enum verb verb, int64_t deadline_ms)
{
	*req = (struct request){ .verb = verb, .deadline_ms = deadline_ms };
	list_init(&req->link);
	return req;
}

static void each_statement_has_a_queue_and_the_lonely_another(void **state)
{
	struct request renewal, look, asked, alone;
	struct pending p;

	(void)state;
	pending_init(&p);
	pending_add(&p, make(&renewal, VERB_RENEW, 0));
	make(&look, VERB_RENEW, 0)->looking = true;
	pending_add(&p, &look);
	make(&asked, VERB_ACQUIRE, 0)->queueing = true;
	pending_add(&p, &asked);
	make(&alone, VERB_RENEW, 0)->solo = true;
	pending_add(&p, &alone);
	assert_int_equal(p.n, 4);
	assert_ptr_equal(pending_pop(&p, VERB_RENEW), &renewal);
	assert_ptr_equal(pending_pop(&p, VERB_LOOK), &look);
	assert_ptr_equal(pending_pop(&p, VERB_QUEUE), &asked);
	assert_ptr_equal(pending_pop(&p, PENDING_SOLO), &alone);
	assert_null(pending_pop(&p, VERB_RENEW));
	assert_int_equal(p.n, 0);
}

/* One that was asked again stands behind younger ones. */
static void the_overdue_are_found_wherever_they_stand(void **state)
{
	struct request young[3], old[2];
	struct list overdue;
	struct pending p;

	(void)state;
	pending_init(&p);
	pending_add(&p, make(&young[0], VERB_RENEW, 20));
	pending_add(&p, make(&old[0], VERB_RENEW, 10));
	pending_add_first(&p, make(&young[1], VERB_RENEW, 11));
	pending_add(&p, make(&young[2], VERB_LOOK, 30));
	pending_add(&p, make(&old[1], VERB_LOOK, 3));
	pending_take_overdue(&p, 10, &overdue);
	assert_ptr_equal(list_pop(&overdue), &old[0].link);
	assert_ptr_equal(list_pop(&overdue), &old[1].link);
	assert_null(list_pop(&overdue));
	assert_int_equal(p.n, 3);
	assert_ptr_equal(pending_pop(&p, VERB_RENEW), &young[1]);
	assert_ptr_equal(pending_pop(&p, VERB_RENEW), &young[0]);
	assert_ptr_equal(pending_pop(&p, VERB_LOOK), &young[2]);
}

static void what_travels_aside_is_no_lease(void **state)
{
	struct request trim, history, renew;
	struct pending p;

	(void)state;
	pending_init(&p);
	assert_int_equal(pending_first_aside(&p), VERB_COUNT);
	pending_add(&p, make(&trim, VERB_TRIM, 0));
	assert_int_equal(pending_first_aside(&p), VERB_TRIM);
	pending_add(&p, make(&history, VERB_HISTORY, 0)); /* somebody waits for that one */
	assert_int_equal(pending_first_aside(&p), VERB_HISTORY);
	assert_false(pending_has_leases(&p));
	pending_add(&p, make(&renew, VERB_RENEW, 0));
	assert_true(pending_has_leases(&p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_statement_has_a_queue_and_the_lonely_another),
		cmocka_unit_test(the_overdue_are_found_wherever_they_stand),
		cmocka_unit_test(what_travels_aside_is_no_lease),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
