/*
 * The guest: QuickJS-ng and what Execbox puts around it, in one translation unit.
 *
 * The host drives it through four exports and sees it through five imports (both below). It does no I/O, keeps no
 * clock, and knows nothing of contracts: it evaluates one program, hands out calls, takes answers, and ends once.
 *
 *   guest_init     at build time: makes the realm, runs bootstrap.js; its memory becomes the image of every guest
 *   guest_alloc    room for a message that does not fit in `guest_inbox`
 *   guest_start    one message: limits, seed, code, namespaces; runs until the program can go no further
 *   guest_advance  one message: answers to calls; runs on until the program can go no further
 *
 * No native frame is alive while the program waits: between two calls from the host, linear memory is the whole state.
 *
 * Values cross as bytes; the format is described in crates/core/src/value/mod.rs, which is also its other end.
 */
#include "quickjs.h"
#include <stddef.h>

#define EXPORT(name) __attribute__((export_name(#name), used))
#define IMPORT(name) __attribute__((import_module("host"), import_name(#name)))

/* A call of the host function `target`, to be answered later under `slot`. */
IMPORT(call) extern void host_call(uint32_t target, uint32_t slot, const uint8_t *input, size_t len);
/* One console line. Answers how many more UTF-16 units the host will keep; 0: stop telling. */
IMPORT(log) extern uint32_t host_log(uint32_t level, const uint8_t *text, size_t len);
/* The program's end, exactly once. `kind` is one of END_*; `peak` is the most bytes that it had in use. */
IMPORT(done) extern void host_done(uint32_t kind, size_t peak, const uint8_t *message, size_t len);
/* Microseconds since the Unix epoch. */
IMPORT(now_us) extern double host_now_us(void);
/* An allocation was refused. The host ends the run here: this never returns. */
IMPORT(memory_refused) extern void host_memory_refused(void) __attribute__((noreturn));

/* What quickjs.patch makes the engine call. */
static size_t used_peak;
static JSValue throw_not_defined(JSContext *c, JSAtom name);

#include "quickjs.c"

enum { END_VALUE = 0, END_THROWN = 1, END_FAILURE = 2 };

static JSRuntime *rt;
static JSContext *ctx;
static size_t used_by_image;

/* ---- Messages from the host: little-endian, length-prefixed ------------------------------------------------------ */

/* Where the host puts a message that fits: saves the call of guest_alloc. */
static uint8_t inbox[4096];

EXPORT(guest_inbox) uint8_t *guest_inbox(void) { return inbox; }
EXPORT(guest_alloc) uint8_t *guest_alloc(size_t len) {
    uint8_t *p = malloc(len);
    if (!p) host_memory_refused();
    return p;
}

static void release_message(uint8_t *message) {
    if (message != inbox) free(message);
}

typedef struct { const uint8_t *at, *end; } Reader;

static const uint8_t *read_bytes(Reader *r, size_t len) {
    const uint8_t *p = r->at;
    if ((size_t)(r->end - p) < len) __builtin_trap(); /* the host never sends this */
    r->at += len;
    return p;
}
static uint8_t read_u8(Reader *r) { return *read_bytes(r, 1); }
static uint32_t read_u32(Reader *r) { uint32_t v; memcpy(&v, read_bytes(r, 4), 4); return v; }
static uint64_t read_u64(Reader *r) { uint64_t v; memcpy(&v, read_bytes(r, 8), 8); return v; }
static double read_f64(Reader *r) { double v; memcpy(&v, read_bytes(r, 8), 8); return v; }
static uint32_t read_varint(Reader *r) {
    uint32_t v = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint8_t byte = read_u8(r);
        v |= (uint32_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return v;
    }
    __builtin_trap();
}
/* Strings in messages (not in values) carry a NUL after their bytes, so that they can be used in place. */
static const char *read_text(Reader *r, size_t *len) {
    *len = read_u32(r);
    return (const char *)read_bytes(r, *len + 1);
}

/* ---- Bytes for the host ------------------------------------------------------------------------------------------ */

/* Grows through the runtime's allocator, so what a program hands out counts against its memory limit. */
typedef struct { uint8_t *data; size_t len, cap; uint8_t small[480]; } Out;

static void out_init(Out *o) { o->data = o->small; o->len = 0; o->cap = sizeof o->small; }
static void out_free(Out *o) { if (o->data != o->small) js_free_rt(rt, o->data); }
static void out_reserve(Out *o, size_t more) {
    if (o->cap - o->len >= more) return;
    size_t cap = o->cap * 2 > o->len + more ? o->cap * 2 : o->len + more;
    uint8_t *grown = js_realloc_rt(rt, o->data == o->small ? NULL : o->data, cap); /* never NULL: see quickjs.patch */
    if (o->data == o->small) memcpy(grown, o->small, o->len);
    o->data = grown; o->cap = cap;
}
static void out_u8(Out *o, uint8_t v) { out_reserve(o, 1); o->data[o->len++] = v; }
static void out_bytes(Out *o, const void *p, size_t len) {
    out_reserve(o, len); memcpy(o->data + o->len, p, len); o->len += len;
}
static void out_f64(Out *o, double v) { out_bytes(o, &v, 8); }
static void out_varint(Out *o, uint32_t v) {
    out_reserve(o, 5);
    while (v >= 0x80) { o->data[o->len++] = v | 0x80; v >>= 7; }
    o->data[o->len++] = v;
}

/* The string's first `max_units` UTF-16 units as UTF-8; a lone surrogate becomes U+FFFD. */
static void out_utf8(Out *o, JSString *s, uint32_t max_units) {
    uint32_t len = s->len < max_units ? s->len : max_units;
    if (!s->is_wide_char) {
        const uint8_t *p = str8(s);
        uint32_t high = 0;
        for (uint32_t i = 0; i < len; i++) high += p[i] >> 7;
        out_reserve(o, len + high);
        uint8_t *q = o->data + o->len;
        if (!high) memcpy(q, p, len);
        else for (uint32_t i = 0; i < len; i++) {
            if (p[i] < 0x80) *q++ = p[i];
            else { *q++ = 0xc0 | p[i] >> 6; *q++ = 0x80 | (p[i] & 0x3f); }
        }
        o->len += len + high;
        return;
    }
    const uint16_t *p = str16(s);
    out_reserve(o, (size_t)len * 3);
    uint8_t *q = o->data + o->len;
    for (uint32_t i = 0; i < len; i++) {
        uint32_t c = p[i];
        if (c >= 0xd800 && c < 0xe000) {
            if (c < 0xdc00 && i + 1 < s->len && p[i + 1] >= 0xdc00 && p[i + 1] < 0xe000) {
                if (i + 1 == len) break; /* a pair is never split */
                c = 0x10000 + ((c - 0xd800) << 10) + (p[++i] - 0xdc00);
            } else c = 0xfffd;
        }
        if (c < 0x80) *q++ = c;
        else if (c < 0x800) { *q++ = 0xc0 | c >> 6; *q++ = 0x80 | (c & 0x3f); }
        else if (c < 0x10000) { *q++ = 0xe0 | c >> 12; *q++ = 0x80 | (c >> 6 & 0x3f); *q++ = 0x80 | (c & 0x3f); }
        else { *q++ = 0xf0 | c >> 18; *q++ = 0x80 | (c >> 12 & 0x3f); *q++ = 0x80 | (c >> 6 & 0x3f); *q++ = 0x80 | (c & 0x3f); }
    }
    o->len = q - o->data;
}

/* The flat string behind `v`, which must be a string; owned by the caller. */
static JSValue flat_string(JSValueConst v) {
    return JS_VALUE_GET_TAG(v) == JS_TAG_STRING_ROPE ? js_linearize_string_rope(ctx, v) : js_dup(v);
}

/* A length-prefixed string: the prefix is written once the length is known. */
static void out_string(Out *o, JSValueConst v, uint32_t max_units) {
    JSValue flat = flat_string(v);
    JSString *s = JS_VALUE_GET_STRING(flat);
    if (!s->is_wide_char && s->len <= max_units) { /* one pass for what nearly every string is: plain ASCII */
        const uint8_t *p = str8(s);
        uint32_t high = 0;
        for (uint32_t i = 0; i < s->len; i++) high |= p[i];
        if (high < 0x80) {
            out_varint(o, s->len); out_bytes(o, p, s->len);
            JS_FreeValue(ctx, flat);
            return;
        }
    }
    Out text; out_init(&text);
    out_utf8(&text, s, max_units);
    out_varint(o, text.len); out_bytes(o, text.data, text.len);
    out_free(&text);
    JS_FreeValue(ctx, flat);
}
static void out_ascii(Out *o, const char *s) { size_t n = strlen(s); out_varint(o, n); out_bytes(o, s, n); }

/* ---- Values to bytes --------------------------------------------------------------------------------------------- */

enum {
    TAG_UNDEFINED, TAG_NULL, TAG_FALSE, TAG_TRUE, TAG_INT, TAG_F64, TAG_STRING, TAG_ARRAY, TAG_OBJECT, TAG_HOLE,
    TAG_REF, TAG_FOREIGN,
};
/* Kinds of TAG_FOREIGN, in the order of `Foreign` in crates/core/src/value/mod.rs. */
enum {
    F_FUNCTION, F_SYMBOL, F_BIGINT, F_DATE, F_MAP, F_SET, F_WEAK, F_REGEXP, F_ERROR, F_PROMISE, F_BUFFER, F_TYPED_ARRAY,
    F_PROXY, F_BOXED, F_SPARSE, F_OTHER, F_INSTANCE,
};

/* What was seen already, by identity: an open-addressing table from address (or atom) to index. */
typedef struct { uint32_t key, index; } Seen;
typedef struct { Seen *slots; uint32_t mask, count; Seen small[32]; } SeenTable;

static void seen_init(SeenTable *t) {
    t->slots = t->small; t->mask = countof(t->small) - 1; t->count = 0;
    memset(t->small, 0, sizeof t->small);
}
static Seen *seen_slot(SeenTable *t, uint32_t key) {
    uint32_t i = key * 2654435769u >> 7;
    for (;; i++) {
        Seen *s = &t->slots[i & t->mask];
        if (s->key == key || s->key == 0) return s;
    }
}
static void seen_add(SeenTable *t, Seen *slot, uint32_t key) {
    slot->key = key; slot->index = t->count++;
    if (t->count * 2 <= t->mask) return;
    SeenTable grown = { .mask = t->mask * 4 + 3, .count = t->count };
    grown.slots = js_calloc_rt(rt, grown.mask + 1, sizeof(Seen));
    for (uint32_t i = 0; i <= t->mask; i++)
        if (t->slots[i].key) *seen_slot(&grown, t->slots[i].key) = t->slots[i];
    if (t->slots != t->small) js_free_rt(rt, t->slots);
    t->slots = grown.slots; t->mask = grown.mask;
}

/* One container whose elements are being written. `names` is NULL for arrays and for plainly laid out objects. */
typedef struct { JSObject *obj; JSPropertyEnum *names; uint32_t next, count; } Frame;

typedef struct {
    Out *out;
    SeenTable objects, keys;
    Frame *frames; uint32_t depth, cap;
    Frame small[8];
} Encoder;

static void encoder_free(Encoder *e) {
    for (uint32_t i = 0; i < e->depth; i++)
        if (e->frames[i].names) js_free_prop_enum(ctx, e->frames[i].names, e->frames[i].count);
    /* Both tables hold a reference to what they name, so that an address or atom cannot come to mean something else. */
    if (e->objects.count)
        for (uint32_t i = 0; i <= e->objects.mask; i++)
            if (e->objects.slots[i].key)
                JS_FreeValue(ctx, JS_MKPTR(JS_TAG_OBJECT, (JSObject *)(uintptr_t)e->objects.slots[i].key));
    if (e->keys.count)
        for (uint32_t i = 0; i <= e->keys.mask; i++)
            if (e->keys.slots[i].key) JS_FreeAtom(ctx, e->keys.slots[i].key - 1);
    if (e->objects.slots != e->objects.small) js_free_rt(rt, e->objects.slots);
    if (e->keys.slots != e->keys.small) js_free_rt(rt, e->keys.slots);
    if (e->frames != e->small) js_free_rt(rt, e->frames);
}

static void encode_foreign(Encoder *e, uint8_t kind) { out_u8(e->out, TAG_FOREIGN); out_u8(e->out, kind); }

/* The own data property `name` of `p`, or undefined; runs no guest code. */
static JSValueConst own_data_property(JSObject *p, JSAtom name) {
    JSProperty *pr;
    JSShapeProperty *prs = find_own_property(&pr, p, name);
    return prs && (prs->flags & JS_PROP_TMASK) == JS_PROP_NORMAL ? pr->u.value : JS_UNDEFINED;
}

/* An object whose prototype is neither Object.prototype nor null, with its class's name if that is plain to see. */
static void encode_instance(Encoder *e, JSObject *p) {
    encode_foreign(e, F_INSTANCE);
    JSObject *proto = p->shape->proto;
    JSValueConst name = JS_UNDEFINED, maker = proto->is_exotic ? JS_UNDEFINED : own_data_property(proto, JS_ATOM_constructor);
    if (JS_VALUE_GET_TAG(maker) == JS_TAG_OBJECT) name = own_data_property(JS_VALUE_GET_OBJ(maker), JS_ATOM_name);
    if (JS_IsString(name)) out_string(e->out, name, 64); else out_ascii(e->out, "");
}

static int foreign_kind(JSObject *p) {
    switch (p->class_id) {
    case JS_CLASS_ERROR: case JS_CLASS_DOM_EXCEPTION: return F_ERROR;
    case JS_CLASS_NUMBER: case JS_CLASS_STRING: case JS_CLASS_BOOLEAN: case JS_CLASS_SYMBOL: case JS_CLASS_BIG_INT:
        return F_BOXED;
    case JS_CLASS_DATE: return F_DATE;
    case JS_CLASS_REGEXP: return F_REGEXP;
    case JS_CLASS_ARRAY_BUFFER: case JS_CLASS_SHARED_ARRAY_BUFFER: return F_BUFFER;
    case JS_CLASS_MAP: return F_MAP;
    case JS_CLASS_SET: return F_SET;
    case JS_CLASS_WEAKMAP: case JS_CLASS_WEAKSET: case JS_CLASS_WEAK_REF: return F_WEAK;
    case JS_CLASS_PROXY: return F_PROXY;
    case JS_CLASS_PROMISE: return F_PROMISE;
    default:
        if (p->class_id >= JS_CLASS_UINT8C_ARRAY && p->class_id <= JS_CLASS_DATAVIEW) return F_TYPED_ARRAY;
        return F_OTHER;
    }
}

/* Whether the object's enumerable string-keyed properties can be read straight off its shape, in order. */
static bool is_plainly_laid_out(JSObject *p) {
    if (p->is_exotic) return false;
    JSShapeProperty *prs = get_shape_prop(p->shape);
    for (int i = 0; i < p->shape->prop_count; i++, prs++) {
        if (prs->atom == JS_ATOM_NULL || !(prs->flags & JS_PROP_ENUMERABLE)) continue;
        if ((prs->flags & JS_PROP_TMASK) != JS_PROP_NORMAL || __JS_AtomIsTaggedInt(prs->atom)) return false;
    }
    return true;
}

/* Opens a container: writes its head and pushes its frame. -1 with an exception pending if guest code threw. */
static int encode_container(Encoder *e, JSObject *p, bool is_array) {
    Frame f = { .obj = p };
    if (is_array) {
        uint32_t len;
        if (js_get_length32(ctx, &len, JS_MKPTR(JS_TAG_OBJECT, p))) return -1;
        if (len > 1000000 && (!p->fast_array || len > p->u.array.count)) { /* would be written as holes without end */
            encode_foreign(e, F_SPARSE);
            return 0;
        }
        f.count = len;
        out_u8(e->out, TAG_ARRAY); out_varint(e->out, len);
    } else {
        out_u8(e->out, TAG_OBJECT);
        if (is_plainly_laid_out(p)) f.count = p->shape->prop_count;
        else if (JS_GetOwnPropertyNames(ctx, &f.names, &f.count, JS_MKPTR(JS_TAG_OBJECT, p), JS_GPN_STRING_MASK | JS_GPN_ENUM_ONLY))
            return -1;
    }
    if (e->depth == e->cap) {
        uint32_t cap = e->cap * 2;
        Frame *grown = js_realloc_rt(rt, e->frames == e->small ? NULL : e->frames, cap * sizeof(Frame));
        if (e->frames == e->small) memcpy(grown, e->small, sizeof e->small);
        e->frames = grown; e->cap = cap;
    }
    e->frames[e->depth++] = f;
    return 0;
}

static int encode_object(Encoder *e, JSObject *p) {
    Seen *seen = seen_slot(&e->objects, (uint32_t)(uintptr_t)p);
    if (seen->key) { out_u8(e->out, TAG_REF); out_varint(e->out, seen->index); return 0; }
    if (JS_IsFunction(ctx, JS_MKPTR(JS_TAG_OBJECT, p))) { encode_foreign(e, F_FUNCTION); return 0; }
    bool is_array = p->class_id == JS_CLASS_ARRAY;
    if (!is_array && p->class_id != JS_CLASS_OBJECT && p->class_id != JS_CLASS_ARGUMENTS && p->class_id != JS_CLASS_MAPPED_ARGUMENTS) {
        encode_foreign(e, foreign_kind(p));
        return 0;
    }
    if (!is_array && p->shape->proto && p->shape->proto != JS_VALUE_GET_OBJ(ctx->class_proto[JS_CLASS_OBJECT])) {
        encode_instance(e, p);
        return 0;
    }
    js_dup(JS_MKPTR(JS_TAG_OBJECT, p));
    seen_add(&e->objects, seen, (uint32_t)(uintptr_t)p);
    return encode_container(e, p, is_array);
}

/* Runs no guest code, so the caller need not hold on to `v`. */
static int encode_one(Encoder *e, JSValueConst v) {
    Out *o = e->out;
    switch (JS_VALUE_GET_NORM_TAG(v)) {
    case JS_TAG_INT: {
        int32_t i = JS_VALUE_GET_INT(v);
        out_u8(o, TAG_INT); out_varint(o, (uint32_t)i << 1 ^ (uint32_t)(i >> 31));
        return 0; }
    case JS_TAG_FLOAT64: out_u8(o, TAG_F64); out_f64(o, JS_VALUE_GET_FLOAT64(v)); return 0;
    case JS_TAG_BOOL: out_u8(o, JS_VALUE_GET_BOOL(v) ? TAG_TRUE : TAG_FALSE); return 0;
    case JS_TAG_NULL: out_u8(o, TAG_NULL); return 0;
    case JS_TAG_STRING: case JS_TAG_STRING_ROPE: out_u8(o, TAG_STRING); out_string(o, v, UINT32_MAX); return 0;
    case JS_TAG_OBJECT: return encode_object(e, JS_VALUE_GET_OBJ(v));
    case JS_TAG_SYMBOL: encode_foreign(e, F_SYMBOL); return 0;
    case JS_TAG_BIG_INT: case JS_TAG_SHORT_BIG_INT: encode_foreign(e, F_BIGINT); return 0;
    default: out_u8(o, TAG_UNDEFINED); return 0;
    }
}

/* Keys are written once and then named by number; 0 ends an object. */
static void encode_key(Encoder *e, JSAtom atom) {
    Seen *seen = seen_slot(&e->keys, atom + 1);
    if (seen->key) { out_varint(e->out, seen->index + 2); return; }
    seen_add(&e->keys, seen, JS_DupAtom(ctx, atom) + 1);
    out_varint(e->out, 1);
    JSValue name = JS_AtomToString(ctx, atom);
    out_string(e->out, name, UINT32_MAX);
    JS_FreeValue(ctx, name);
}

static int encode_element(Encoder *e, JSObject *p, uint32_t i) {
    if (p->fast_array && i < p->u.array.count) return encode_one(e, p->u.array.u.values[i]);
    JSValueConst array = JS_MKPTR(JS_TAG_OBJECT, p);
    JSAtom atom = JS_NewAtomUInt32(ctx, i);
    int has = JS_GetOwnProperty(ctx, NULL, array, atom);
    JS_FreeAtom(ctx, atom);
    if (has < 0) return -1;
    if (!has) { out_u8(e->out, TAG_HOLE); return 0; }
    JSValue v = JS_GetPropertyUint32(ctx, array, i);
    if (JS_IsException(v)) return -1;
    int ret = encode_one(e, v);
    JS_FreeValue(ctx, v);
    return ret;
}

/* Property `i` read straight off the shape. Guest code that runs for a sibling (a getter further down) may have
   changed the object since the frame was pushed, so everything is looked at afresh. */
static int encode_laid_out(Encoder *e, JSObject *p, uint32_t i) {
    if ((int)i >= p->shape->prop_count || p->is_exotic) return 0;
    JSShapeProperty *prs = &get_shape_prop(p->shape)[i];
    if (prs->atom == JS_ATOM_NULL || !(prs->flags & JS_PROP_ENUMERABLE)) return 0;
    if ((prs->flags & JS_PROP_TMASK) != JS_PROP_NORMAL || JS_AtomGetKind(ctx, prs->atom) != JS_ATOM_KIND_STRING) return 0;
    encode_key(e, prs->atom);
    return encode_one(e, p->prop[i].u.value);
}

static int encode_named(Encoder *e, JSObject *p, JSAtom atom) {
    JSValue v = JS_GetProperty(ctx, JS_MKPTR(JS_TAG_OBJECT, p), atom);
    if (JS_IsException(v)) return -1;
    encode_key(e, atom);
    int ret = encode_one(e, v);
    JS_FreeValue(ctx, v);
    return ret;
}

/* Writes what the innermost container still has, up to where another one opens, or its end. */
static int encode_rest(Encoder *e) {
    uint32_t depth = e->depth;
    for (;;) {
        Frame *f = &e->frames[depth - 1];
        bool is_array = f->obj->class_id == JS_CLASS_ARRAY;
        if (f->next == f->count) {
            if (!is_array) out_u8(e->out, 0);
            if (f->names) js_free_prop_enum(ctx, f->names, f->count);
            e->depth--;
            return 0;
        }
        uint32_t i = f->next++;
        int ret = is_array ? encode_element(e, f->obj, i)
                : f->names ? encode_named(e, f->obj, f->names[i].atom)
                : encode_laid_out(e, f->obj, i);
        if (ret || e->depth != depth) return ret;
    }
}

/* Writes `v`, without recursion. -1 with an exception pending if guest code (a getter) threw. */
static int encode(Out *out, JSValueConst v) {
    Encoder e;
    e.out = out; e.frames = e.small; e.cap = countof(e.small); e.depth = 0;
    seen_init(&e.objects); seen_init(&e.keys);
    int ret = encode_one(&e, v);
    while (ret == 0 && e.depth) ret = encode_rest(&e);
    encoder_free(&e);
    return ret;
}

/* ---- Bytes to values --------------------------------------------------------------------------------------------- */

typedef struct { JSValue value; uint32_t next, count; JSAtom key; } Nest;

typedef struct { JSAtom *items; uint32_t count, cap; } Keys;

/* The next key, which stays owned by `keys`; JS_ATOM_NULL at the object's end. */
static JSAtom decode_key(Reader *r, Keys *keys) {
    uint32_t n = read_varint(r);
    if (n == 0) return JS_ATOM_NULL;
    if (n > 1) { if (n - 2 >= keys->count) __builtin_trap(); return keys->items[n - 2]; }
    uint32_t len = read_varint(r);
    JSAtom atom = JS_NewAtomLen(ctx, (const char *)read_bytes(r, len), len);
    if (keys->count == keys->cap) {
        keys->cap = keys->cap ? keys->cap * 2 : 16;
        keys->items = js_realloc_rt(rt, keys->items, keys->cap * sizeof(JSAtom));
    }
    return keys->items[keys->count++] = atom;
}

static JSValue decode_string(Reader *r) {
    uint32_t len = read_varint(r);
    return JS_NewStringLen(ctx, (const char *)read_bytes(r, len), len);
}

static void set_own(JSValue obj, JSAtom key, JSValue v) {
    JSObject *p = JS_VALUE_GET_OBJ(obj);
    JSProperty *pr;
    if (find_own_property(&pr, p, key)) { set_value(ctx, &pr->u.value, v); return; }
    add_property(ctx, p, key, JS_PROP_C_W_E)->u.value = v; /* own, whatever its name: `__proto__` is only a name here */
}

/* Reads one value, without recursion. The host is the other end, so what is malformed is a trap, not an error. */
static JSValue decode(Reader *r) {
    Nest *stack = NULL; uint32_t depth = 0, cap = 0;
    Keys keys = { 0 };
    for (;;) {
        JSValue v; bool opens = false; uint32_t count = 0;
        switch (read_u8(r)) {
        case TAG_UNDEFINED: v = JS_UNDEFINED; break;
        case TAG_NULL: v = JS_NULL; break;
        case TAG_FALSE: v = JS_FALSE; break;
        case TAG_TRUE: v = JS_TRUE; break;
        case TAG_INT: { uint32_t z = read_varint(r); v = js_int32((int32_t)(z >> 1 ^ -(z & 1))); break; }
        case TAG_F64: v = js_float64(read_f64(r)); break;
        case TAG_STRING: v = decode_string(r); break;
        case TAG_ARRAY: count = read_varint(r); v = js_allocate_fast_array(ctx, count); opens = count > 0; break;
        case TAG_OBJECT: v = JS_NewObject(ctx); opens = true; break;
        default: __builtin_trap();
        }
        if (opens) {
            if (depth == cap) { cap = cap ? cap * 2 : 8; stack = js_realloc_rt(rt, stack, cap * sizeof(Nest)); }
            stack[depth++] = (Nest){ .value = v, .count = count, .key = JS_ATOM_NULL };
        }
        /* Place finished values until something still wants one. */
        for (bool placed = opens;; placed = false) {
            if (!placed) {
                if (depth == 0) {
                    for (uint32_t i = 0; i < keys.count; i++) JS_FreeAtom(ctx, keys.items[i]);
                    js_free_rt(rt, keys.items); js_free_rt(rt, stack);
                    return v;
                }
                Nest *n = &stack[depth - 1];
                if (n->count) JS_VALUE_GET_OBJ(n->value)->u.array.u.values[n->next++] = v;
                else set_own(n->value, n->key, v);
            }
            Nest *n = &stack[depth - 1];
            if (n->count ? n->next < n->count : (n->key = decode_key(r, &keys)) != JS_ATOM_NULL) break;
            v = n->value;
            depth--;
        }
    }
}

/* ---- Console ----------------------------------------------------------------------------------------------------- */

static uint32_t log_units_left;

static bool is_error_object(JSValueConst v) {
    return JS_VALUE_GET_TAG(v) == JS_TAG_OBJECT && JS_IsError(v);
}

static void out_log_string(Out *o, JSValueConst v) {
    JSValue flat = flat_string(v);
    out_utf8(o, JS_VALUE_GET_STRING(flat), log_units_left);
    JS_FreeValue(ctx, flat);
}

/* Runner specification, "Logs": strings as they are, `undefined` as its name, anything else as JSON where that is
   possible, else as a string. An error is more useful as its text than as the `{}` that JSON makes of it. */
static void out_log_value(Out *o, JSValueConst v) {
    if (JS_IsString(v)) { out_log_string(o, v); return; }
    if (JS_IsUndefined(v)) { out_bytes(o, "undefined", 9); return; }
    JSValue text = JS_UNDEFINED;
    if (!is_error_object(v) && !JS_IsSymbol(v)) text = JS_JSONStringify(ctx, v, JS_UNDEFINED, JS_UNDEFINED);
    if (JS_IsException(text)) { JS_FreeValue(ctx, JS_GetException(ctx)); text = JS_UNDEFINED; }
    if (!JS_IsString(text)) {
        JS_FreeValue(ctx, text);
        text = JS_IsSymbol(v) ? js_symbol_toString(ctx, v, 0, NULL) : JS_ToString(ctx, v);
    }
    if (JS_IsException(text)) { JS_FreeValue(ctx, JS_GetException(ctx)); out_bytes(o, "[object]", 8); return; }
    out_log_string(o, text);
    JS_FreeValue(ctx, text);
}

static JSValue console_log(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int level) {
    if (!log_units_left) return JS_UNDEFINED; /* the host keeps no more: not even formatted */
    Out line; out_init(&line);
    for (int i = 0; i < argc; i++) {
        if (i) out_u8(&line, ' ');
        out_log_value(&line, argv[i]);
    }
    if (log_units_left) log_units_left = host_log(level, line.data, line.len); /* a getter may have logged meanwhile */
    out_free(&line);
    return JS_UNDEFINED;
}

static void add_console(JSValueConst global) {
    static const char *const names[] = { "log", "info", "warn", "error", "debug" };
    JSValue console = JS_NewObject(ctx);
    for (int i = 0; i < (int)countof(names); i++)
        JS_DefinePropertyValueStr(ctx, console, names[i],
            JS_NewCFunctionMagic(ctx, console_log, names[i], 0, JS_CFUNC_generic_magic, i), JS_PROP_C_W_E);
    JS_DefinePropertyValueStr(ctx, global, "console", console, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
}

/* ---- Calls to the host ------------------------------------------------------------------------------------------- */

/* Calls that wait, by slot; a free slot links to the next free one. `caller` and `pc` are where the call was made. */
typedef struct { JSValue promise, caller; uint32_t pc, next_free; bool waits; } Slot;
static Slot *slots; static uint32_t slot_count, first_free = UINT32_MAX;

/* On the error that a failed call rejects with: [code, message] as the host gave them. A private name, so guest code
   can neither see, copy nor forge it: being *this error* is what makes an error trusted. */
static JSAtom failure_mark;

static JSValue new_promise(void) {
    JSValue promise = JS_NewObjectClass(ctx, JS_CLASS_PROMISE);
    JSPromiseData *s = js_mallocz(ctx, sizeof *s);
    s->promise_state = JS_PROMISE_PENDING;
    init_list_head(&s->promise_reactions[0]);
    init_list_head(&s->promise_reactions[1]);
    s->promise_result = JS_UNDEFINED;
    JS_SetOpaqueInternal(promise, s);
    return promise;
}

static uint32_t take_slot(JSValueConst promise) {
    if (first_free == UINT32_MAX) {
        uint32_t count = slot_count ? slot_count * 2 : 8;
        slots = js_realloc_rt(rt, slots, count * sizeof(Slot));
        for (uint32_t i = count; i-- > slot_count;) {
            slots[i] = (Slot){ .promise = JS_UNDEFINED, .caller = JS_UNDEFINED, .next_free = first_free };
            first_free = i;
        }
        slot_count = count;
    }
    uint32_t slot = first_free;
    first_free = slots[slot].next_free;
    slots[slot].promise = js_dup(promise);
    slots[slot].waits = true;
    JSStackFrame *caller = rt->current_stack_frame->prev_frame; /* the frame on top is call_host's own */
    if (caller && js_class_has_bytecode(JS_VALUE_GET_OBJ(caller->cur_func)->class_id) && caller->cur_pc) {
        slots[slot].caller = js_dup(caller->cur_func);
        slots[slot].pc = caller->cur_pc - JS_VALUE_GET_OBJ(caller->cur_func)->u.func.function_bytecode->byte_code_buf - 1;
    }
    return slot;
}

/* What was in the slot; its values are the caller's to free. */
static Slot free_slot(uint32_t slot) {
    if (slot >= slot_count || !slots[slot].waits) __builtin_trap(); /* the host answers each call once */
    Slot was = slots[slot];
    slots[slot] = (Slot){ .promise = JS_UNDEFINED, .caller = JS_UNDEFINED, .next_free = first_free };
    first_free = slot;
    return was;
}

/* The place of a call, as the engine writes a frame of a stack. */
static JSValue stack_of(const Slot *call) {
    if (JS_VALUE_GET_TAG(call->caller) != JS_TAG_OBJECT) return JS_UNDEFINED;
    JSFunctionBytecode *b = JS_VALUE_GET_OBJ(call->caller)->u.func.function_bytecode;
    int column, line = find_line_num(ctx, b, call->pc, &column);
    const char *function = get_func_name(ctx, call->caller), *file = b->filename ? JS_AtomToCString(ctx, b->filename) : NULL;
    DynBuf text; js_dbuf_init(ctx, &text);
    dbuf_printf(&text, "    at %s (%s:%d:%d)\n", function && *function ? function : "<anonymous>", file ? file : "", line, column);
    JSValue stack = JS_NewStringLen(ctx, (const char *)text.buf, text.size);
    dbuf_free(&text);
    JS_FreeCString(ctx, function); JS_FreeCString(ctx, file);
    return stack;
}

/* Every host function is this one, told apart by `target`. Only the first argument crosses. */
static JSValue call_host(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int target, JSValueConst *data) {
    JSValue promise = new_promise();
    Out input; out_init(&input);
    if (encode(&input, argc > 0 ? argv[0] : JS_UNDEFINED) == 0) {
        uint32_t slot = take_slot(promise);
        host_call(target, slot, input.data, input.len);
    } else {
        JSValue thrown = JS_GetException(ctx);
        fulfill_or_reject_promise(ctx, promise, thrown, true);
        JS_FreeValue(ctx, thrown);
    }
    out_free(&input);
    return promise;
}

/* Takes over all three values. */
static JSValue new_failure(JSValue code, JSValue message, JSValue stack) {
    JSValue error = JS_NewObjectClass(ctx, JS_CLASS_ERROR), mark = JS_NewArray(ctx);
    JS_DefinePropertyValueUint32(ctx, mark, 0, js_dup(code), JS_PROP_C_W_E);
    JS_DefinePropertyValueUint32(ctx, mark, 1, js_dup(message), JS_PROP_C_W_E);
    JS_DefinePropertyValue(ctx, error, JS_ATOM_message, message, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    JS_DefinePropertyValueStr(ctx, error, "code", code, JS_PROP_C_W_E);
    JS_DefinePropertyValue(ctx, error, failure_mark, mark, 0);
    JS_VALUE_GET_OBJ(error)->u.object_data = stack;
    return error;
}

static void take_answer(Reader *r) {
    Slot call = free_slot(read_u32(r));
    bool failed = !read_u8(r);
    JSValue v;
    if (failed) { JSValue code = decode_string(r), message = decode_string(r); v = new_failure(code, message, stack_of(&call)); }
    else v = decode(r);
    /* Settled with the value itself: no `then` of guest making is looked up on what the host sent. */
    fulfill_or_reject_promise(ctx, call.promise, v, failed);
    JS_FreeValue(ctx, v);
    JS_FreeValue(ctx, call.promise); JS_FreeValue(ctx, call.caller);
}

/* ---- What is not there ------------------------------------------------------------------------------------------- */

static char *available; /* ", tools, github": what the program was given, for the message below */

static bool is_host_name(const char *name) {
    static const char *const names[] = {
        "setTimeout", "setInterval", "setImmediate", "clearTimeout", "clearInterval", "fetch", "require", "process", "global", "window",
        "self", "document", "Buffer", "Deno", "Bun", "URL", "URLSearchParams", "Request", "Response", "Headers", "FormData", "Blob",
        "WebSocket", "XMLHttpRequest", "WebAssembly", "crypto", "performance", "atob", "btoa", "TextEncoder", "TextDecoder",
        "AbortController", "AbortSignal", "Intl", "eval", "SharedArrayBuffer", "Atomics", "navigator", "localStorage", "alert",
        "module", "exports", "__dirname", "__filename", "fs", "path",
    };
    for (int i = 0; i < (int)countof(names); i++) if (!strcmp(name, names[i])) return true;
    return false;
}

/* Called by JS_ThrowReferenceErrorNotDefined (see quickjs.patch). */
static JSValue throw_not_defined(JSContext *c, JSAtom atom) {
    char buf[ATOM_GET_STR_BUF_SIZE];
    const char *name = JS_AtomGetStr(c, buf, sizeof buf, atom);
    if (!is_host_name(name)) return JS_ThrowReferenceError(c, "%s is not defined", name);
    return JS_ThrowReferenceError(c, "%s is not available in this sandbox, which has the ECMAScript built-ins, console%s",
                                  name, available ? available : "");
}

/* Stands in for the compiler once the program is compiled: `new Function('…')` and its like end here. */
static JSValue refuse_code(JSContext *c, JSValueConst this_obj, const char *input, size_t len, const char *filename, int line,
                           int flags, int scope) {
    return JS_ThrowTypeError(c, "code from strings cannot run in this sandbox");
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static JSValue program = JS_UNDEFINED; /* the promise of the program's end */
static bool ended;

/* The parts of a failure are the strings of an array. */
static void out_part(Out *o, JSValueConst text, uint32_t max_units) {
    out_u8(o, TAG_STRING);
    if (JS_IsString(text)) out_string(o, text, max_units); else out_varint(o, 0);
}

static void out_text_of(Out *o, JSValueConst v) {
    JSValue text = JS_IsSymbol(v) ? js_symbol_toString(ctx, v, 0, NULL) : JS_ToString(ctx, v);
    if (JS_IsException(text)) JS_FreeValue(ctx, JS_GetException(ctx));
    out_part(o, text, 16384);
    JS_FreeValue(ctx, text);
}

/* Property `name` of a thrown value if it is a string, else undefined. Guest getters may run; what they throw is dropped. */
static JSValue text_property(JSValueConst v, JSAtom name) {
    JSValue text = JS_GetProperty(ctx, v, name);
    if (JS_IsException(text)) { JS_FreeValue(ctx, JS_GetException(ctx)); return JS_UNDEFINED; }
    if (JS_IsString(text)) return text;
    JS_FreeValue(ctx, text);
    return JS_UNDEFINED;
}

/* Name and message of a thrown value; either may be empty. */
static void out_description(Out *o, JSValueConst thrown) {
    if (JS_VALUE_GET_TAG(thrown) != JS_TAG_OBJECT) { out_part(o, JS_UNDEFINED, 0); out_text_of(o, thrown); return; }
    JSValue name = text_property(thrown, JS_ATOM_name), message = text_property(thrown, JS_ATOM_message);
    bool is_error = is_error_object(thrown);
    out_part(o, is_error ? name : JS_UNDEFINED, 256);
    if (JS_IsString(message) || is_error) out_part(o, message, 16384);
    else {
        JSValue json = JS_JSONStringify(ctx, thrown, JS_UNDEFINED, JS_UNDEFINED);
        if (JS_IsException(json)) JS_FreeValue(ctx, JS_GetException(ctx));
        if (JS_IsString(json)) out_part(o, json, 16384); else out_text_of(o, thrown);
        JS_FreeValue(ctx, json);
    }
    JS_FreeValue(ctx, name); JS_FreeValue(ctx, message);
}

/* The stack that the engine recorded, whatever the guest made of the property `stack`. */
static void out_stack(Out *o, JSValueConst thrown) {
    JSValueConst stack = JS_UNDEFINED;
    if (JS_VALUE_GET_TAG(thrown) == JS_TAG_OBJECT && JS_VALUE_GET_OBJ(thrown)->class_id == JS_CLASS_ERROR)
        stack = JS_VALUE_GET_OBJ(thrown)->u.object_data;
    out_part(o, stack, 16384);
}

static void end(uint32_t kind, const Out *o) {
    ended = true;
    host_done(kind, used_peak - used_by_image, o->data, o->len);
}

static void end_with_thrown(JSValue thrown) {
    Out o; out_init(&o);
    JSValueConst mark = JS_UNDEFINED;
    if (JS_VALUE_GET_TAG(thrown) == JS_TAG_OBJECT) mark = own_data_property(JS_VALUE_GET_OBJ(thrown), failure_mark);
    if (JS_VALUE_GET_TAG(mark) == JS_TAG_OBJECT) {
        JSValue *parts = JS_VALUE_GET_OBJ(mark)->u.array.u.values;
        out_u8(&o, TAG_ARRAY); out_varint(&o, 3);
        out_part(&o, parts[0], UINT32_MAX); out_part(&o, parts[1], UINT32_MAX);
        out_stack(&o, thrown);
        end(END_FAILURE, &o);
    } else {
        out_u8(&o, TAG_ARRAY); out_varint(&o, 3);
        out_description(&o, thrown);
        out_stack(&o, thrown);
        end(END_THROWN, &o);
    }
    out_free(&o);
    JS_FreeValue(ctx, thrown);
}

static void end_with_value(JSValueConst v) {
    Out o; out_init(&o);
    if (encode(&o, v) == 0) end(END_VALUE, &o);
    else end_with_thrown(JS_GetException(ctx));
    out_free(&o);
}

/* Runs jobs until the program has ended or can go no further. What a job throws on its own (a microtask) concerns nobody. */
static void run_jobs(void) {
    for (;;) {
        JSPromiseStateEnum state = JS_PromiseState(ctx, program);
        if (state != JS_PROMISE_PENDING) {
            JSValue result = JS_PromiseResult(ctx, program);
            if (state == JS_PROMISE_REJECTED) { end_with_thrown(result); return; }
            end_with_value(result);
            JS_FreeValue(ctx, result);
            return;
        }
        JSContext *c;
        int ran = JS_ExecutePendingJob(rt, &c);
        if (ran == 0) return;
        if (ran < 0) JS_FreeValue(ctx, JS_GetException(ctx));
    }
}

static void add_namespace(Reader *r, JSValueConst global, uint32_t *target, Out *names) {
    size_t len;
    const char *name = read_text(r, &len);
    out_bytes(names, ", ", 2); out_bytes(names, name, len);
    JSValue space = JS_NewObjectProto(ctx, JS_NULL);
    for (uint32_t n = read_u32(r); n > 0; n--) {
        const char *tool = read_text(r, &len);
        JSAtom atom = JS_NewAtomLen(ctx, tool, len);
        JS_DefinePropertyValue(ctx, space, atom, JS_NewCFunctionData2(ctx, call_host, tool, 1, (*target)++, 0, NULL), JS_PROP_ENUMERABLE);
        JS_FreeAtom(ctx, atom);
    }
    JS_PreventExtensions(ctx, space);
    JS_DefinePropertyValueStr(ctx, global, name, space, JS_PROP_ENUMERABLE);
}

static void add_namespaces(Reader *r) {
    JSValue global = JS_GetGlobalObject(ctx);
    Out names; out_init(&names);
    uint32_t target = 0;
    for (uint32_t n = read_u32(r); n > 0; n--) add_namespace(r, global, &target, &names);
    out_u8(&names, 0);
    available = js_malloc_rt(rt, names.len);
    memcpy(available, names.data, names.len);
    out_free(&names);
    JS_FreeValue(ctx, global);
}

EXPORT(guest_start) void guest_start(uint8_t *message, size_t len) {
    Reader r = { message, message + len };
    JS_UpdateStackTop(rt);
    uint64_t seed = read_u64(&r);
    ctx->random_state = seed ? seed : 1;
    uint32_t limit = read_u32(&r);
    rt->malloc_state.malloc_limit = used_by_image + limit + 1;
    log_units_left = read_u32(&r);
    size_t name_len, code_len;
    const char *name = read_text(&r, &name_len), *code = read_text(&r, &code_len);
    add_namespaces(&r);
    JSValue function = JS_Eval(ctx, code, code_len, name, JS_EVAL_TYPE_GLOBAL);
    ctx->eval_internal = refuse_code;
    release_message(message);
    if (!JS_IsException(function)) {
        program = JS_Call(ctx, function, JS_UNDEFINED, 0, NULL);
        JS_FreeValue(ctx, function);
    }
    if (JS_IsException(function) || JS_IsException(program)) { program = JS_UNDEFINED; end_with_thrown(JS_GetException(ctx)); return; }
    run_jobs();
}

EXPORT(guest_advance) void guest_advance(uint8_t *message, size_t len) {
    Reader r = { message, message + len };
    JS_UpdateStackTop(rt);
    while (r.at < r.end) take_answer(&r);
    release_message(message);
    if (!ended) run_jobs();
}

/* ---- The image --------------------------------------------------------------------------------------------------- */

/* Runs once, at build time; traps if anything is amiss. `source` is bootstrap.js. */
EXPORT(guest_init) void guest_init(const char *source, size_t len) {
    rt = JS_NewRuntime();
    JS_SetMaxStackSize(rt, GUEST_JS_STACK);
    ctx = JS_NewContextRaw(rt);
    if (JS_AddIntrinsicBaseObjects(ctx) || JS_AddIntrinsicDate(ctx) || JS_AddIntrinsicEval(ctx) || JS_AddIntrinsicRegExp(ctx) ||
        JS_AddIntrinsicJSON(ctx) || JS_AddIntrinsicProxy(ctx) || JS_AddIntrinsicMapSet(ctx) || JS_AddIntrinsicTypedArrays(ctx) ||
        JS_AddIntrinsicPromise(ctx) || JS_AddIntrinsicWeakRef(ctx))
        __builtin_trap();
    JSValue mark = JS_NewSymbolFromAtom(ctx, JS_ATOM_brand, JS_ATOM_TYPE_PRIVATE);
    failure_mark = js_symbol_to_atom(ctx, mark);
    JSValue global = JS_GetGlobalObject(ctx);
    add_console(global);
    JS_FreeValue(ctx, global);
    JSValue warmed = JS_Eval(ctx, source, len, "bootstrap.js", JS_EVAL_TYPE_GLOBAL);
    if (JS_IsException(warmed)) __builtin_trap();
    JS_FreeValue(ctx, warmed);
    JSContext *c;
    for (int ran; (ran = JS_ExecutePendingJob(rt, &c)) != 0;) if (ran < 0) __builtin_trap();
    JS_RunGC(rt);
    used_by_image = rt->malloc_state.malloc_size;
    used_peak = used_by_image;
}

/* ---- What libc wants from a system ------------------------------------------------------------------------------- */

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
    long long us = (long long)host_now_us();
    tv->tv_sec = us / 1000000; tv->tv_usec = us % 1000000;
    return 0;
}
int clock_gettime(clockid_t clock, struct timespec *ts) {
    long long us = (long long)host_now_us();
    ts->tv_sec = us / 1000000; ts->tv_nsec = (us % 1000000) * 1000;
    return 0;
}
struct tm *localtime_r(const time_t *restrict t, struct tm *restrict tm) { memset(tm, 0, sizeof *tm); return tm; } /* UTC */
_Noreturn void abort(void) { __builtin_trap(); }
/* printf's way to stdout is all that still names WASI; answered here (EBADF), so that nothing of it is imported. */
int32_t __imported_wasi_snapshot_preview1_fd_close(int32_t a) { return 8; }
int32_t __imported_wasi_snapshot_preview1_fd_fdstat_get(int32_t a, int32_t b) { return 8; }
int32_t __imported_wasi_snapshot_preview1_fd_seek(int32_t a, int64_t b, int32_t c, int32_t d) { return 8; }
int32_t __imported_wasi_snapshot_preview1_fd_write(int32_t a, int32_t b, int32_t c, int32_t d) { return 8; }
