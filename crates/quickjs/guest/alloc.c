/*
 * The guest's allocator: malloc and its family, instead of the C library's. Segregated fit with boundary tags: a free
 * block is in the list of its size class, a bitmap marks the lists that are not empty, and adjacent free blocks are
 * merged. Every operation takes a bounded number of steps, besides copying and clearing.
 *
 * `malloc_usable_size` is the requested size, rounded up to 8 bytes, and not the size of the block: QuickJS counts by it,
 * so the memory that a program has in use depends on the program alone. QuickJS itself divides 4 KiB from here into blocks
 * of up to 512 bytes. The comparison with other allocators is in docs/performance.md, "The guest's allocator".
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>

/* The header of a block. `size` includes the header and is a multiple of 8; its low bits are flags. A free block has links
   in the place of `asked` and the first bytes, and repeats its size in its last 4 bytes. */
typedef struct Block {
    uint32_t size;
    union { uint32_t asked; struct Block *next; };
    struct Block *prev; /* the bytes of a used block begin here */
} Block;

enum { USED = 1, PREV_USED = 2, FLAGS = 7, HEADER = 8, LEAST = 16 };

/* Eight classes for each power of two; below 64 bytes, one class for each size. */
enum { CLASSES = 28 * 8 };
static Block *free_blocks[CLASSES];
static uint32_t has_blocks[CLASSES / 32];

/* Memory from `top` to `end` is not part of a block. From `untouched` on, it never was, and is zero. */
static uint8_t *top, *end, *untouched;

extern uint8_t __heap_base;

static uint32_t size_of(const Block *b) { return b->size & ~FLAGS; }
static Block *after(const Block *b) { return (Block *)((uint8_t *)b + size_of(b)); }
static Block *before(const Block *b) { return (Block *)((uint8_t *)b - ((const uint32_t *)b)[-1]); }
static void *bytes_of(Block *b) { return (uint8_t *)b + HEADER; }
static Block *block_of(const void *p) { return (Block *)((uint8_t *)p - HEADER); }

/* The class of blocks of this size. */
static uint32_t class_of(uint32_t size) {
    if (size < 64) return size >> 3;
    uint32_t log = 31 - __builtin_clz(size);
    return (log - 5) * 8 + (size >> (log - 3) & 7);
}

static void insert(Block *b, uint32_t size) {
    b->size = size | PREV_USED; /* two free neighbors would be one block */
    ((uint32_t *)((uint8_t *)b + size))[-1] = size;
    uint32_t class = class_of(size);
    b->next = free_blocks[class];
    b->prev = NULL;
    if (b->next) b->next->prev = b;
    free_blocks[class] = b;
    has_blocks[class >> 5] |= 1u << (class & 31);
}

static void unlink_block(Block *b) {
    if (b->next) b->next->prev = b->prev;
    if (b->prev) { b->prev->next = b->next; return; }
    uint32_t class = class_of(size_of(b));
    if (!(free_blocks[class] = b->next)) has_blocks[class >> 5] &= ~(1u << (class & 31));
}

/* Records in the block at `at` whether the block before it is in use. */
static void mark_before(uint8_t *at, bool used) {
    if (at == top) return; /* the block before the top is always in use */
    if (used) ((Block *)at)->size |= PREV_USED;
    else ((Block *)at)->size &= ~PREV_USED;
}

/* Frees [at, at + size): merges it with free neighbors, or with the memory above the top. */
static void release(uint8_t *at, uint32_t size, bool prev_used) {
    if (!prev_used) {
        Block *b = before((Block *)at);
        unlink_block(b);
        at = (uint8_t *)b; size += size_of(b);
    }
    uint8_t *next = at + size;
    if (next != top && !(((Block *)next)->size & USED)) {
        unlink_block((Block *)next);
        size += size_of((Block *)next);
        next = at + size;
    }
    if (next == top) { top = at; return; }
    insert((Block *)at, size);
    mark_before(next, false);
}

/* Removes a free block of at least this size from its list: one of the first few of the same class, or else any of the
   next class that has one. */
static Block *find(uint32_t size) {
    uint32_t class = class_of(size);
    Block *b = free_blocks[class];
    for (int tries = 8; b && tries; tries--, b = b->next)
        if (size_of(b) >= size) { unlink_block(b); return b; }
    if (++class == CLASSES) return NULL;
    uint32_t word = class >> 5, bits = has_blocks[word] & ~0u << (class & 31);
    while (!bits) {
        if (++word == CLASSES / 32) return NULL;
        bits = has_blocks[word];
    }
    b = free_blocks[word * 32 + __builtin_ctz(bits)];
    unlink_block(b);
    return b;
}

/* Makes room for at least `size` bytes above the top. Memory grows by several pages at once where possible. */
static bool grow_top(uint32_t size) {
    enum { PAGE = 1 << 16, STEP = 4 };
    if (!top) {
        top = untouched = (uint8_t *)(((uintptr_t)&__heap_base + 7) & ~(uintptr_t)7);
        end = (uint8_t *)(__builtin_wasm_memory_size(0) * (uintptr_t)PAGE);
    }
    if (size <= (size_t)(end - top)) return true;
    uint32_t pages = (size - (end - top) + PAGE - 1) / PAGE;
    if (pages < STEP && __builtin_wasm_memory_grow(0, STEP) != (size_t)-1) pages = STEP;
    else if (__builtin_wasm_memory_grow(0, pages) == (size_t)-1) return false;
    end += pages * (uintptr_t)PAGE;
    return true;
}

/* Uses `size` of the `has` bytes of a block, and frees the rest if it is large enough for a block. */
static void *use(Block *b, uint32_t has, uint32_t size, uint32_t asked, bool prev_used) {
    if (has - size < LEAST) size = has;
    b->size = size | USED | (prev_used ? PREV_USED : 0);
    b->asked = asked;
    uint8_t *next = (uint8_t *)b + size;
    if (size == has) mark_before(next, true);
    else release(next, has - size, true);
    return bytes_of(b);
}

/* The size of a block for this many bytes; 0 if it is too large. */
static uint32_t block_size(size_t asked) {
    if (asked > UINT32_MAX / 2) return 0;
    uint32_t size = ((asked + 7) & ~7u) + HEADER;
    return size < LEAST ? LEAST : size;
}

void *malloc(size_t asked) {
    uint32_t size = block_size(asked);
    if (!size) return NULL;
    Block *b = find(size);
    if (b) return use(b, size_of(b), size, asked, true);
    if (!grow_top(size)) return NULL;
    b = (Block *)top;
    top += size;
    if (untouched < top) untouched = top;
    return use(b, size, size, asked, true);
}

void *calloc(size_t count, size_t each) {
    size_t len;
    if (__builtin_mul_overflow(count, each, &len)) return NULL;
    uint8_t *was_untouched = untouched, *p = malloc(len);
    if (!p || p >= was_untouched) return p;
    return memset(p, 0, was_untouched && p + len > was_untouched ? was_untouched - p : len);
}

void free(void *p) {
    if (!p) return;
    Block *b = block_of(p);
    release((uint8_t *)b, size_of(b), b->size & PREV_USED);
}

void *realloc(void *p, size_t asked) {
    if (!p) return malloc(asked);
    uint32_t size = block_size(asked);
    if (!size) return NULL;
    Block *b = block_of(p);
    uint32_t has = size_of(b);
    bool prev_used = b->size & PREV_USED;
    if (size <= has) return use(b, has, size, asked, prev_used);
    uint8_t *next = (uint8_t *)after(b);
    if (next == top && grow_top(size - has)) {
        top += size - has;
        if (untouched < top) untouched = top;
        return use(b, size, size, asked, prev_used);
    }
    if (next != top && !(((Block *)next)->size & USED) && has + size_of((Block *)next) >= size) {
        unlink_block((Block *)next);
        return use(b, has + size_of((Block *)next), size, asked, prev_used);
    }
    void *moved = malloc(asked);
    if (!moved) return NULL;
    memcpy(moved, p, has - HEADER);
    free(p);
    return moved;
}

size_t malloc_usable_size(void *p) { return p ? (block_of(p)->asked + 7) & ~7u : 0; }
