/*
 * Functions for which compilers use instructions of WebAssembly that Wasmtime runs in the host: `memory.copy`, and on x86-64,
 * where processors without SSE4.1 are supported, `f64.trunc` and its like. A call of the host takes longer than copying a
 * short text, so the other files are compiled without these instructions, and only long memory is copied by one here.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SHORT = 256 };

typedef uint64_t __attribute__((aligned(1), may_alias)) Word;

static void copy_up(uint8_t *to, const uint8_t *from, size_t len) {
    for (; len >= 8; len -= 8, to += 8, from += 8) *(Word *)to = *(const Word *)from;
    for (; len; len--) *to++ = *from++;
}

static void copy_down(uint8_t *to, const uint8_t *from, size_t len) {
    to += len; from += len;
    for (; len >= 8; len -= 8) { to -= 8; from -= 8; *(Word *)to = *(const Word *)from; }
    for (; len; len--) *--to = *--from;
}

void *memcpy(void *restrict to, const void *restrict from, size_t len) {
    if (len > SHORT) __builtin_memcpy(to, from, len);
    else copy_up(to, from, len);
    return to;
}

void *memmove(void *to, const void *from, size_t len) {
    if (len > SHORT) __builtin_memmove(to, from, len);
    else if ((uintptr_t)to - (uintptr_t)from >= len) copy_up(to, from, len);
    else copy_down(to, from, len);
    return to;
}

double guest_trunc(double), guest_floor(double), guest_ceil(double); /* the other files have them under the usual names */

/* Numbers from here on are integers, and so are infinities; no comparison holds for NaN. */
static const double INTEGERS = 0x1p52;

double guest_trunc(double x) {
    return __builtin_fabs(x) < INTEGERS ? __builtin_copysign((double)(int64_t)x, x) : x;
}

double guest_floor(double x) {
    double t = guest_trunc(x);
    return t > x ? t - 1 : t;
}

double guest_ceil(double x) {
    double t = guest_trunc(x);
    return t < x ? __builtin_copysign(t + 1, x) : t;
}
