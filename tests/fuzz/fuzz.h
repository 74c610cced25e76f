/*
 * fuzz.h - what the fuzz targets share. A broken promise ends the process, which libFuzzer reports.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* libFuzzer calls this with each input; returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input as a C string of its own on the heap, cut at its first NUL by whoever reads it. */
static inline char *fuzz_string(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	assert(text);
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

#endif
