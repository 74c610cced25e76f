/*
 * leased_status.h - every outcome once: name, value on the wire, exit code of leasectl, text.
 * Installed beside leased.h, which includes it; the server and the tools use the same table.
 */
#ifndef LEASED_STATUS_H
#define LEASED_STATUS_H

/*
 * X(name, wire value, exit code, text). Functions return 0 or -(wire value).
 * Exit codes follow sysexits.h; wire values are never reused.
 */
#define LEASED_STATUSES(X)                                                                         \
	X(EUSAGE, 1, 64, "wrong usage")                                                            \
	X(EDATA, 2, 65, "bad data")                                                                \
	X(EUNAVAILABLE, 3, 69, "unavailable")                                                      \
	X(EINTERNAL, 4, 70, "internal error")                                                      \
	X(EHELD, 5, 75, "held by someone else")                                                    \
	X(ETIMEDOUT, 6, 75, "the wait ran out")                                                    \
	X(EGUARDED, 7, 75, "expired, but a guarded transaction still uses it")                     \
	X(ELOST, 8, 76, "the lease was lost")                                                      \
	X(ENOTHELD, 9, 76, "not held by you")                                                      \
	X(EDENIED, 10, 77, "not allowed")                                                          \
	X(ECONFIG, 11, 78, "wrong configuration")                                                  \
	X(EPROTO, 12, 70, "protocol violated")                                                     \
	X(EVERSION, 13, 69, "no protocol version in common")                                       \
	X(ENOMEM, 14, 70, "out of memory")                                                         \
	X(EBUSY, 15, 69, "too much work queued")                                                   \
	X(ECANCELLED, 16, 75, "cancelled")                                                         \
	X(EFREE, 17, 75, "free")                                                                   \
	X(EDONE, 18, 75, "already done")

enum leased_status {
	LEASED_OK = 0,
#define LEASED_STATUS_ENUM(name, wire, exit_code, text) LEASED_##name = -(wire),
	LEASED_STATUSES(LEASED_STATUS_ENUM)
#undef LEASED_STATUS_ENUM
};

/* Longest error text, its NUL included. Longer ones are cut. */
#define LEASED_ERROR_LEN 512

/* One failure in words: why it failed and, where there is one, what to do. No secrets, one line. */
struct leased_error {
	int status; /* enum leased_status */
	char text[LEASED_ERROR_LEN];
};

#endif
