/*
 * The guest: QuickJS-ng and the code of Execbox around it, in one translation unit with encode.c, decode.c, stack.c,
 * modules.c, libraries.c and check.c. alloc.c is its malloc.
 *
 * The host drives it through these exports, and it calls the host through twelve imports (both below). It does no I/O, has
 * no clock, and does not depend on the contract: it evaluates one program, makes calls, receives answers, and ends once.
 *
 *   guest_init     at build time: creates the realm, runs bootstrap.js; its memory becomes the image of every guest
 *   guest_alloc    allocates memory for a message that does not fit in `guest_inbox`
 *   guest_start    one message: limits, seed, code and namespaces; runs until the program waits or ends
 *   guest_advance  one message: answers to calls; runs until the program waits or ends
 *   guest_check    in debug builds of the host: whether an ended program returns all memory that it was charged for
 *
 * No native frame is alive while the program waits: between two calls from the host, linear memory is the whole state. Only
 * host_call_now blocks with frames on the stack.
 *
 * Values cross as bytes, in the format that crates/core/src/value/mod.rs describes. The other numbers that cross are in
 * boundary.h.
 */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Weverything"
#include "quickjs.h"
#pragma clang diagnostic pop
#include <stddef.h>

#include "boundary.h"

#define EXPORT(name) __attribute__((export_name(#name), used))
#define IMPORT(name) __attribute__((import_module("host"), import_name(#name)))

/* A call of the host function `target`, to be answered later under `slot`. */
IMPORT(call) extern void host_call(uint32_t target, uint32_t slot, const uint8_t *input, size_t len);
/* A call that is answered before it returns. Returns the length of the answer, which is in `room` if it fits; else
   host_answer fetches it. */
IMPORT(call_now) extern size_t host_call_now(uint32_t target, const uint8_t *input, size_t len, uint8_t *room, size_t room_len);
IMPORT(answer) extern void host_answer(uint8_t *room);
/* A call without an answer. For logs, returns how many more bytes the host keeps; at 0 no more are sent. */
IMPORT(notify) extern uint32_t host_notify(uint32_t target, uint32_t is_log, const uint8_t *input, size_t len);
/* One console line of a LEVEL_*. Returns how many more UTF-16 units the host keeps; at 0 no more are sent. */
IMPORT(log) extern uint32_t host_log(uint32_t level, const uint8_t *text, size_t len);
/* A call of `target` is unanswered when the result of a script is settled, one of `count`. `frame` is its place, if not empty. */
IMPORT(unawaited) extern void host_unawaited(uint32_t count, uint32_t target, const uint8_t *frame, size_t len);
/* The program's end, exactly once. `kind` is an END_*. */
IMPORT(done) extern void host_done(uint32_t kind, const uint8_t *message, size_t len);
/* Microseconds since the Unix epoch. */
IMPORT(now_us) extern double host_now_us(void);
/* Asks for a settlement of SETTLES_TIMER after so many milliseconds, in place of the last one that was asked for. Negative: none. */
IMPORT(timer) extern void host_timer(double ms);
/* The length of the source of a LIBRARY_*, which host_answer fetches. */
IMPORT(library) extern size_t host_library(uint32_t library);
/* Calls the pure function of the host that knows locales. Returns the length of its answer, which host_answer fetches: a value. */
IMPORT(locale) extern size_t host_locale(const uint8_t *input, size_t len);
/* The memory limit is exceeded. The host ends the run: this never returns. */
IMPORT(memory_refused) extern void host_memory_refused(void) __attribute__((noreturn));

/* Called by the engine: see quickjs.patch. */
static size_t used_peak, used_at_end;
static JSValue make_host_property(const JSCFunctionListEntry *what);
struct JSModuleDef;
static int resolve_imports(struct JSModuleDef *first);
static struct JSModuleDef *import_dynamically(const char *importer, const char *specifier, JSValueConst attributes);
static JSValue new_import_meta(struct JSModuleDef *def);
static int source_column(JSAtom file, int line, int column);
static JSValue read_stack(JSContext *c, JSValueConst error);
static void note_thrown(JSContext *c, JSValueConst value);
static void note_rejected(JSContext *c, JSValueConst value);
static JSValue current_frames(void);
static JSValueConst import_frames;
static size_t used_by_image;

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Weverything"
#include "quickjs.c"
#pragma clang diagnostic pop

static JSRuntime *rt;
static JSContext *ctx;

/* ---- Messages from the host: little-endian, length-prefixed ------------------------------------------------------ */

/* The host writes messages that fit here, instead of calling guest_alloc. */
static uint8_t inbox[4096];

EXPORT(guest_inbox) uint8_t *guest_inbox(void) { return inbox; }
EXPORT(guest_alloc) uint8_t *guest_alloc(size_t len) {
    uint8_t *p = malloc(len);
    if (!p) host_memory_refused();
    return p;
}

/* The host reads the peak of bytes in use here; at first, those of the image. */
EXPORT(guest_peak) const size_t *guest_peak(void) { return &used_peak; }

static void release_message(uint8_t *message) {
    if (message != inbox) free(message);
}

/* Allocates memory that is freed when the program ends. */
typedef struct Kept { struct Kept *next; _Alignas(8) uint8_t bytes[]; } Kept;
static Kept *kept;

static void *keep(size_t len) {
    Kept *k = js_malloc_rt(rt, sizeof *k + len); /* never NULL: see quickjs.patch */
    k->next = kept;
    kept = k;
    return k->bytes;
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
/* Text in messages (unlike strings in values) ends with a NUL, so that it can be used in place. */
static const char *read_text(Reader *r, size_t *len) {
    *len = read_u32(r);
    return (const char *)read_bytes(r, *len + 1);
}
static JSValue read_text_value(Reader *r) {
    size_t len;
    const char *text = read_text(r, &len);
    return JS_NewStringLen(ctx, text, len);
}

/* ---- Encoded bytes ----------------------------------------------------------------------------------------------- */

/* A growing buffer. Bytes for the host do not count against the memory limit: the host counts what it receives against
   a budget of its own, and linear memory bounds the buffer here. Bytes that stay in the guest (`is_internal`) count, and
   keep lone surrogates, as UTF-8 would encode them. */
typedef struct { uint8_t *data; size_t len, cap; bool is_internal; uint8_t small[480]; } Out;

static void out_init(Out *o) { o->data = o->small; o->len = 0; o->cap = sizeof o->small; o->is_internal = false; }
static void out_free(Out *o) {
    if (o->data == o->small) return;
    if (o->is_internal) js_free_rt(rt, o->data); else free(o->data);
}
static void out_reserve(Out *o, size_t more) {
    if (o->cap - o->len >= more) return;
    size_t cap = o->cap * 2 > o->len + more ? o->cap * 2 : o->len + more;
    uint8_t *old = o->data == o->small ? NULL : o->data;
    uint8_t *grown = o->is_internal ? js_realloc_rt(rt, old, cap) : realloc(old, cap);
    if (!grown) host_memory_refused();
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

/* The string's first `max_units` UTF-16 units as UTF-8. Lone surrogates become U+FFFD, except in internal bytes. */
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
            } else if (!o->is_internal) c = 0xfffd;
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

/* A string with its length first. */
static void out_string(Out *o, JSValueConst v, uint32_t max_units) {
    JSValue flat = flat_string(v);
    JSString *s = JS_VALUE_GET_STRING(flat);
    if (!s->is_wide_char && s->len <= max_units) { /* ASCII, as nearly every string, in one pass */
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
    text.is_internal = o->is_internal;
    out_utf8(&text, s, max_units);
    out_varint(o, text.len); out_bytes(o, text.data, text.len);
    out_free(&text);
    JS_FreeValue(ctx, flat);
}
static void out_ascii(Out *o, const char *s) { size_t n = strlen(s); out_varint(o, n); out_bytes(o, s, n); }

/* Functions and promises of the host, which encode.c and decode.c refer to. */
static JSValue call_bridged(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int kind, JSValueConst *number);
static JSValue new_host_function(JSCFunctionData *call, const char *name, int length, int kind, uint32_t number);
static uint32_t host_function_number(const JSValueConst *data);
static JSValue new_promise(void);
static void keep_host_promise(uint32_t number, JSValueConst promise);

/* The program is made of modules: values of every kind cross, and there is no built-in console. */
static bool has_modules;

#include "encode.c"
#include "decode.c"
#include "stack.c"
#include "modules.c"

/* ---- Console ----------------------------------------------------------------------------------------------------- */

static uint32_t log_units_left;

/* Logs a line that the host does not keep, but counts. Whether that is so. */
static bool log_dropped(int level) {
    if (!log_units_left) host_log(level, NULL, 0);
    return !log_units_left;
}

static bool is_error_object(JSValueConst v) {
    return JS_VALUE_GET_TAG(v) == JS_TAG_OBJECT && JS_IsError(v);
}

static void out_log_string(Out *o, JSValueConst v) {
    JSValue flat = flat_string(v);
    /* One unit more than the host keeps, so that it can tell that it must cut. */
    out_utf8(o, JS_VALUE_GET_STRING(flat), log_units_left == UINT32_MAX ? UINT32_MAX : log_units_left + 1);
    JS_FreeValue(ctx, flat);
}

/* Runner specification, "Logs": strings as they are, `undefined` by name, other values as JSON where possible, and else as
   a string. Errors and numbers are strings too, instead of the `{}` and `null` of JSON. */
static void out_log_value(Out *o, JSValueConst v) {
    if (JS_IsString(v)) { out_log_string(o, v); return; }
    if (JS_IsUndefined(v)) { out_bytes(o, "undefined", 9); return; }
    if (JS_VALUE_GET_NORM_TAG(v) == JS_TAG_FLOAT64 && JS_VALUE_GET_FLOAT64(v) == 0 && signbit(JS_VALUE_GET_FLOAT64(v))) out_u8(o, '-');
    JSValue text = JS_UNDEFINED;
    if (!is_error_object(v) && !JS_IsSymbol(v) && !JS_IsNumber(v)) text = JS_JSONStringify(ctx, v, JS_UNDEFINED, JS_UNDEFINED);
    if (JS_IsException(text)) { JS_FreeValue(ctx, JS_GetException(ctx)); text = JS_UNDEFINED; }
    if (!JS_IsString(text)) {
        JS_FreeValue(ctx, text);
        text = JS_IsSymbol(v) ? js_symbol_toString(ctx, v, 0, NULL) : JS_ToString(ctx, v);
    }
    if (JS_IsException(text)) { JS_FreeValue(ctx, JS_GetException(ctx)); out_bytes(o, "[object]", 8); return; }
    out_log_string(o, text);
    JS_FreeValue(ctx, text);
}

#include "libraries.c"

static bool has_percent(JSValueConst text) {
    JSValue flat = flat_string(text);
    JSString *s = JS_VALUE_GET_STRING(flat);
    uint32_t i = 0;
    while (i < s->len && string_get(s, i) != '%') i++;
    bool found = i < s->len;
    JS_FreeValue(ctx, flat);
    return found;
}

static bool is_collection(JSValueConst v) {
    if (JS_VALUE_GET_TAG(v) != JS_TAG_OBJECT) return false;
    uint16_t class_id = JS_VALUE_GET_OBJ(v)->class_id;
    return class_id == JS_CLASS_MAP || class_id == JS_CLASS_SET;
}

/* Whether the library writes the line: with placeholders, maps or sets, and after any other function of it, as groups indent. */
static bool is_for_library(int argc, JSValueConst *argv) {
    if (library_has_run[LIBRARY_CONSOLE] || (argc > 1 && JS_IsString(argv[0]) && has_percent(argv[0]))) return true;
    for (int i = 0; i < argc; i++) if (is_collection(argv[i])) return true;
    return false;
}

/* Whether an object was written that is empty as JSON, as maps and sets in objects are. */
static bool has_empty_object(const Out *line, int argc, JSValueConst *argv) {
    int i = 0;
    while (i < argc && JS_VALUE_GET_TAG(argv[i]) != JS_TAG_OBJECT) i++;
    return i < argc && memmem(line->data, line->len, "{}", 2);
}

/* Writes the line with the library. False if that fails. */
static bool library_line(Out *line, int argc, JSValueConst *argv) {
    JSValue function = library_member(LIBRARY_CONSOLE, "line");
    JSValue text = JS_IsException(function) ? function : JS_Call(ctx, function, JS_UNDEFINED, argc, argv);
    JS_FreeValue(ctx, function);
    if (JS_IsException(text)) { JS_FreeValue(ctx, JS_GetException(ctx)); return false; }
    line->len = 0;
    out_log_string(line, text);
    JS_FreeValue(ctx, text);
    return true;
}

static JSValue console_log(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int level) {
    if (log_dropped(level)) return JS_UNDEFINED;
    Out line; out_init(&line);
    if (!is_for_library(argc, argv) || !library_line(&line, argc, argv)) {
        for (int i = 0; i < argc; i++) {
            if (i) out_u8(&line, ' ');
            out_log_value(&line, argv[i]);
        }
        if (has_empty_object(&line, argc, argv)) library_line(&line, argc, argv);
    }
    log_units_left = host_log(level, line.data, line.len);
    out_free(&line);
    return JS_UNDEFINED;
}

static void add_console(JSValueConst global) {
    static const char *const names[] = { [LEVEL_LOG] = "log", [LEVEL_INFO] = "info", [LEVEL_WARN] = "warn", [LEVEL_ERROR] = "error", [LEVEL_DEBUG] = "debug" };
    JSValue console = JS_NewObject(ctx);
    for (int i = 0; i < (int)countof(names); i++)
        JS_DefinePropertyValueStr(ctx, console, names[i],
            JS_NewCFunctionMagic(ctx, console_log, names[i], 0, JS_CFUNC_generic_magic, i), JS_PROP_C_W_E);
    JS_DefinePropertyValueStr(ctx, global, "console", console, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
}

/* ---- Calls to the host ------------------------------------------------------------------------------------------- */

/* Pending calls of `target`, by slot; a free slot links to the next free one. `caller` and `pc` are the place of the call. */
typedef struct { JSValue promise, caller; uint32_t pc, target, next_free; bool waits; } Slot;
static Slot *slots; static uint32_t slot_count, first_free = UINT32_MAX;
static uint32_t pending_calls;

/* A property of the error that a failed call rejects with: [code, message, cause] from the host. Its name is private: guest code
   cannot see, copy or forge it, so an error that has it comes from the host. */
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

static uint32_t take_slot(JSValueConst promise, uint32_t target) {
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
    slots[slot].target = target;
    slots[slot].waits = true;
    pending_calls++;
    JSStackFrame *caller = rt->current_stack_frame->prev_frame; /* the frame on top is call_host's own */
    if (caller && js_class_has_bytecode(JS_VALUE_GET_OBJ(caller->cur_func)->class_id) && caller->cur_pc) {
        slots[slot].caller = js_dup(caller->cur_func);
        slots[slot].pc = caller->cur_pc - JS_VALUE_GET_OBJ(caller->cur_func)->u.func.function_bytecode->byte_code_buf - 1;
    }
    return slot;
}

/* Frees the slot. The caller owns the values that it returns. */
static Slot free_slot(uint32_t slot) {
    if (slot >= slot_count || !slots[slot].waits) __builtin_trap(); /* the host answers each call once */
    Slot was = slots[slot];
    slots[slot] = (Slot){ .promise = JS_UNDEFINED, .caller = JS_UNDEFINED, .next_free = first_free };
    first_free = slot;
    pending_calls--;
    return was;
}

/* The place of a call, as a frame. */
static JSValue frame_of(const Slot *call) {
    if (JS_VALUE_GET_TAG(call->caller) != JS_TAG_OBJECT) return JS_UNDEFINED;
    DynBuf text; js_dbuf_init(ctx, &text);
    put_frame(&text, call->caller, JS_VALUE_GET_OBJ(call->caller)->u.func.function_bytecode, call->pc);
    JSValue frame = JS_NewStringLen(ctx, (const char *)text.buf, text.size);
    dbuf_free(&text);
    return frame;
}

/* A promise that is rejected with the pending exception. */
static JSValue rejected_promise(void) {
    JSValue promise = new_promise(), thrown = JS_GetException(ctx);
    fulfill_or_reject_promise(ctx, promise, thrown, true);
    JS_FreeValue(ctx, thrown);
    return promise;
}

/* A host function. The engine keeps 16 bits of `kind`, so the number of the function is its data. */
static JSValue new_host_function(JSCFunctionData *call, const char *name, int length, int kind, uint32_t number) {
    JSValue data = js_float64(number);
    return JS_NewCFunctionData2(ctx, call, name, length, kind, 1, vc(&data));
}
static uint32_t host_function_number(const JSValueConst *data) { return (uint32_t)JS_VALUE_GET_FLOAT64(data[0]); }

/* The functions of all namespaces, distinguished by their number. Only the first argument crosses. */
static JSValue call_host(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int kind, JSValueConst *number) {
    JSValue promise = new_promise();
    Out input; out_init(&input);
    if (encode(&input, argc > 0 ? argv[0] : JS_UNDEFINED, MODE_JSON, "input") == 0) {
        uint32_t target = host_function_number(number), slot = take_slot(promise, target);
        host_call(target, slot, input.data, input.len);
    } else {
        JS_FreeValue(ctx, promise);
        promise = rejected_promise();
    }
    out_free(&input);
    return promise;
}

/* Takes ownership of all values. */
static JSValue new_failure(JSValue code, JSValue message, JSValue cause, JSValue stack) {
    JSValue error = JS_NewObjectClass(ctx, JS_CLASS_ERROR), mark = JS_NewArray(ctx);
    JS_DefinePropertyValueUint32(ctx, mark, 0, js_dup(code), JS_PROP_C_W_E);
    JS_DefinePropertyValueUint32(ctx, mark, 1, js_dup(message), JS_PROP_C_W_E);
    JS_DefinePropertyValueUint32(ctx, mark, 2, cause, JS_PROP_C_W_E);
    JS_DefinePropertyValue(ctx, error, JS_ATOM_message, message, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    JS_DefinePropertyValueStr(ctx, error, "code", code, JS_PROP_C_W_E);
    JS_DefinePropertyValue(ctx, error, failure_mark, mark, 0);
    JS_VALUE_GET_OBJ(error)->u.object_data = stack;
    return error;
}

/* The value of a settlement, and whether it rejects. `call` is NULL for promises of the host. */
static JSValue take_settlement(Reader *r, const Slot *call, bool *rejects) {
    uint8_t how = read_u8(r);
    *rejects = how != SETTLE_FULFILLED;
    if (how == SETTLE_FAILED) {
        JSValue code = read_text_value(r), message = read_text_value(r), cause = read_text_value(r);
        return new_failure(code, message, cause, call ? frame_of(call) : JS_UNDEFINED);
    }
    JSValue v = decode(r);
    if (JS_IsException(v)) { *rejects = true; return JS_GetException(ctx); }
    /* An error of the host has no stack: it gets the place of the call. */
    if (how == SETTLE_REJECTED && call && JS_VALUE_GET_TAG(v) == JS_TAG_OBJECT && JS_VALUE_GET_OBJ(v)->class_id == JS_CLASS_ERROR &&
        JS_IsUndefined(JS_VALUE_GET_OBJ(v)->u.object_data))
        JS_VALUE_GET_OBJ(v)->u.object_data = frame_of(call);
    return v;
}

/* The host has woken the program: timers are due. `is_woken`: none of them has been called yet. */
static bool timers_are_due, is_woken;

static void take_answer(Reader *r) {
    uint8_t settles = read_u8(r);
    bool is_call = settles == SETTLES_CALL, rejects;
    uint32_t number = read_u32(r);
    if (settles == SETTLES_TIMER) { timers_are_due = is_woken = true; return; }
    Slot call = { .promise = JS_UNDEFINED, .caller = JS_UNDEFINED };
    if (is_call) call = free_slot(number); else call.promise = take_host_promise(number);
    JSValue v = take_settlement(r, is_call ? &call : NULL, &rejects);
    /* The promise is fulfilled with the value itself: `then` is not looked up on a value of the host. */
    if (!JS_IsUndefined(call.promise)) fulfill_or_reject_promise(ctx, call.promise, v, rejects);
    JS_FreeValue(ctx, v);
    JS_FreeValue(ctx, call.promise); JS_FreeValue(ctx, call.caller);
}

static JSValue call_sync(uint32_t target, const Out *input) {
    uint8_t room[512], *answer = room;
    size_t len = host_call_now(target, input->data, input->len, room, sizeof room);
    if (len > sizeof room) {
        answer = guest_alloc(len);
        host_answer(answer);
    }
    Reader r = { answer, answer + len };
    bool throws;
    JSValue v = take_settlement(&r, NULL, &throws);
    if (answer != room) free(answer);
    if (!throws) return v;
    if (is_error_object(v) && JS_IsUndefined(JS_VALUE_GET_OBJ(v)->u.object_data)) build_backtrace(ctx, v, JS_UNDEFINED, NULL, 0, 0, 0);
    return JS_Throw(ctx, v);
}

/* The host functions in values, distinguished by their number. All arguments cross. */
static JSValue call_bridged(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int kind, JSValueConst *number) {
    uint32_t target = host_function_number(number);
    if (kind == CALL_LOG && !log_units_left) { host_notify(target, true, NULL, 0); return JS_UNDEFINED; } /* it only counts more */
    Out input; out_init(&input);
    JSValue result = JS_UNDEFINED;
    if (encode_args(&input, argc, argv, kind == CALL_LOG ? MODE_LOG : MODE_GRAPH)) result = kind == CALL_ASYNC ? rejected_promise() : JS_EXCEPTION;
    else if (kind == CALL_ASYNC) { result = new_promise(); host_call(target, take_slot(result, target), input.data, input.len); }
    else if (kind == CALL_SYNC) result = call_sync(target, &input);
    else if (kind == CALL_NOTIFY) host_notify(target, false, input.data, input.len);
    else log_units_left = host_notify(target, true, input.data, input.len);
    out_free(&input);
    return result;
}

/* ---- Code from strings ------------------------------------------------------------------------------------------- */

/* Libraries find the global object by `Function('return this')()`. This one function is compiled with the image. */
static const char return_this_text[] = "(function anonymous(\n) {\nreturn this\n})";
static JSValue return_this;

/* Replaces the compiler once the program is compiled: rejects `new Function('…')` and the like. */
static JSValue refuse_code(JSContext *c, JSValueConst this_obj, const char *input, size_t len, const char *filename, int line,
                           int flags, int scope) {
    if (len == sizeof return_this_text - 1 && !memcmp(input, return_this_text, len)) return JS_EvalFunction(c, js_dup(return_this));
    return JS_ThrowTypeError(c, "code from strings cannot run in this sandbox");
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static JSValue program = JS_UNDEFINED; /* the promise of the program's result, or of its next step */
static bool ended;

/* Of modules: the export that is read or called when the entry has been evaluated. */
static struct { JSModuleDef *entry; JSAtom export; JSValue args; bool evaluated; } selected;

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

/* Property `name` of a thrown value if it is a string, else undefined. Runs getters and ignores what they throw. */
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

/* ---- Unhandled errors ---- */

/* Rejected promises without a handler, and the number of those that do not fit. */
static struct { JSValue promises[32]; uint32_t count, more; bool closed; } rejected;

/* Called by the engine when a promise without a handler is rejected, and when a rejected promise gets its first. */
static void track_rejection(JSContext *c, JSValueConst promise, JSValueConst reason, bool is_handled, void *opaque) {
    if (rejected.closed) return;
    if (!is_handled) {
        if (rejected.count < countof(rejected.promises)) rejected.promises[rejected.count++] = js_dup(promise); else rejected.more++;
        return;
    }
    for (uint32_t i = 0; i < rejected.count; i++) {
        if (JS_VALUE_GET_OBJ(rejected.promises[i]) != JS_VALUE_GET_OBJ(promise)) continue;
        JS_FreeValue(ctx, rejected.promises[i]);
        rejected.count--;
        memmove(&rejected.promises[i], &rejected.promises[i + 1], (rejected.count - i) * sizeof(JSValue));
        return;
    }
    if (rejected.more) rejected.more--;
}

/* Logs a thrown value and its place as an error. */
static void log_uncaught(const char *how, JSValueConst thrown) {
    if (log_dropped(LEVEL_ERROR)) return;
    Out line; out_init(&line);
    out_text(&line, how);
    out_log_value(&line, thrown);
    JSValueConst frames = frames_of(thrown);
    if (JS_IsString(frames) && JS_VALUE_GET_STRING(frames)->len) {
        JSString *s = JS_VALUE_GET_STRING(frames);
        uint32_t end = 0;
        while (end < s->len && string_get(s, end) != '\n') end++;
        out_u8(&line, '\n');
        out_utf8(&line, s, end);
    }
    log_units_left = host_log(LEVEL_ERROR, line.data, line.len);
    out_free(&line);
}

/* The rejection of the program itself is its outcome, and not unhandled. */
static void own_rejection(JSValueConst promise) {
    JSPromiseData *s = JS_GetOpaque(promise, JS_CLASS_PROMISE);
    if (!s->is_handled) track_rejection(ctx, promise, s->promise_result, true, NULL);
}

/* Logs the rejections that are unhandled at the program's end. */
static void log_rejections(void) {
    rejected.closed = true;
    for (uint32_t i = 0; i < rejected.count; i++) {
        JSValue reason = JS_PromiseResult(ctx, rejected.promises[i]);
        log_uncaught("Uncaught (in promise) ", reason);
        JS_FreeValue(ctx, reason);
    }
    char text[64];
    if (!rejected.more) return;
    int len = snprintf(text, sizeof text, "Uncaught (in promise) %u more errors", rejected.more);
    log_units_left = host_log(LEVEL_ERROR, (const uint8_t *)text, len);
}

/* ---- Calls that a program did not await ---- */

/* A script that has returned ends only when its calls are answered and no job is left. */
static bool waits_for_calls;

/* Reports the places of the first pending calls, once: when the result of the script is settled. */
static void report_unawaited(void) {
    static bool reported;
    if (reported) return;
    reported = true;
    uint32_t left = MAX_UNAWAITED;
    for (uint32_t slot = 0; slot < slot_count && left; slot++) {
        if (!slots[slot].waits) continue;
        left--;
        Out place; out_init(&place);
        JSValue frame = frame_of(&slots[slot]);
        if (JS_IsString(frame)) out_utf8(&place, JS_VALUE_GET_STRING(frame), UINT32_MAX);
        host_unawaited(pending_calls, slots[slot].target, place.data, place.len);
        out_free(&place);
        JS_FreeValue(ctx, frame);
    }
}

/* ---- Outcomes ---- */

static void end(uint32_t kind, const Out *o) {
    report_unawaited();
    if (!has_modules) log_rejections();
    ended = true;
    host_done(kind, o->data, o->len);
}

static void end_with_thrown(JSValue thrown) {
    Out o; out_init(&o);
    JSValueConst mark = JS_UNDEFINED;
    if (JS_VALUE_GET_TAG(thrown) == JS_TAG_OBJECT) mark = own_data_property(JS_VALUE_GET_OBJ(thrown), failure_mark);
    if (JS_VALUE_GET_TAG(mark) == JS_TAG_OBJECT) {
        JSValue *parts = JS_VALUE_GET_OBJ(mark)->u.array.u.values;
        out_u8(&o, TAG_ARRAY); out_varint(&o, 4);
        for (int i = 0; i < 3; i++) out_part(&o, parts[i], UINT32_MAX);
        out_part(&o, frames_of(thrown), 16384);
        end(END_FAILURE, &o);
    } else {
        out_u8(&o, TAG_ARRAY); out_varint(&o, 3);
        out_description(&o, thrown);
        out_part(&o, frames_of(thrown), 16384);
        end(END_THROWN, &o);
    }
    out_free(&o);
    JS_FreeValue(ctx, thrown);
}

static void end_with_value(JSValueConst v) {
    Out o; out_init(&o);
    if (encode(&o, v, has_modules ? MODE_GRAPH : MODE_JSON, "result") == 0) end(END_VALUE, &o);
    else end_with_thrown(JS_GetException(ctx));
    out_free(&o);
}

static void out_atom(Out *o, JSAtom atom) {
    JSValue name = atom == JS_ATOM_NULL ? JS_UNDEFINED : JS_AtomToString(ctx, atom);
    out_part(o, name, 1024);
    JS_FreeValue(ctx, name);
}

/* Reports a link error. Its exception is pending, except for a missing export. */
static void end_unlinked(void) {
    JSValue thrown = link_error.kind == LINK_EXPORT ? JS_UNDEFINED : JS_GetException(ctx);
    JSValueConst message = JS_UNDEFINED;
    if (JS_VALUE_GET_TAG(thrown) == JS_TAG_OBJECT) message = own_data_property(JS_VALUE_GET_OBJ(thrown), JS_ATOM_message);
    static const char *const kinds[] = { "binding", "syntax", "specifier", "export" };
    Out o; out_init(&o);
    out_u8(&o, TAG_ARRAY); out_varint(&o, 5);
    out_u8(&o, TAG_STRING); out_ascii(&o, kinds[link_error.kind]);
    out_atom(&o, link_error.module);
    out_atom(&o, link_error.specifier);
    out_part(&o, message, 16384);
    out_part(&o, frames_of(thrown), 16384);
    end(END_UNLINKED, &o);
    out_free(&o);
    JS_FreeValue(ctx, thrown);
}

/* Awaits `v` as the next step; ends with it if it is not an object. Takes `v`. */
static void await_value(JSValue v) {
    if (JS_VALUE_GET_TAG(v) != JS_TAG_OBJECT) { end_with_value(v); JS_FreeValue(ctx, v); return; }
    if (JS_VALUE_GET_OBJ(v)->class_id == JS_CLASS_PROMISE) {
        JSValue maker = JS_GetProperty(ctx, v, JS_ATOM_constructor);
        bool is_plain = js_same_value(ctx, maker, ctx->promise_ctor), threw = JS_IsException(maker);
        JS_FreeValue(ctx, maker);
        if (is_plain) { program = v; return; }
        if (threw) { JS_FreeValue(ctx, v); end_with_thrown(JS_GetException(ctx)); return; }
    }
    JSValue settle[2];
    program = new_promise();
    js_create_resolving_functions(ctx, settle, program);
    JS_FreeValue(ctx, JS_Call(ctx, settle[0], JS_UNDEFINED, 1, vc(&v)));
    JS_FreeValue(ctx, settle[0]); JS_FreeValue(ctx, settle[1]);
    JS_FreeValue(ctx, v);
}

/* Reads the selected export and calls it if it is a function (code-execution specification §5.1, 1 and 2). */
static void run_export(void) {
    selected.evaluated = true;
    JSValue space = JS_GetModuleNamespace(ctx, selected.entry);
    if (JS_IsException(space)) { end_with_thrown(JS_GetException(ctx)); return; }
    if (!find_own_property1(JS_VALUE_GET_OBJ(space), selected.export)) {
        fail_to_link(LINK_EXPORT, selected.entry->module_name, selected.export);
        end_unlinked();
        JS_FreeValue(ctx, space);
        return;
    }
    JSValue v = JS_GetProperty(ctx, space, selected.export);
    JS_FreeValue(ctx, space);
    JSObject *args = JS_VALUE_GET_OBJ(selected.args);
    if (JS_IsFunction(ctx, v)) {
        JSValue result = JS_Call(ctx, v, JS_UNDEFINED, args->u.array.count, vc(args->u.array.u.values));
        JS_FreeValue(ctx, v);
        v = result;
    } else if (!JS_IsException(v) && args->u.array.count) {
        char buf[ATOM_GET_STR_BUF_SIZE];
        JS_FreeValue(ctx, v);
        v = JS_ThrowTypeError(ctx, "the export %s is not a function, so it takes no arguments",
                              JS_AtomGetStr(ctx, buf, sizeof buf, selected.export));
    }
    if (JS_IsException(v)) end_with_thrown(JS_GetException(ctx)); else await_value(v);
}

/* A result that is a thenable is awaited again (§5.1, 3). Takes `v`. */
static void await_result(JSValue v) {
    if (JS_VALUE_GET_TAG(v) == JS_TAG_OBJECT) {
        JSValue then = JS_GetProperty(ctx, v, JS_ATOM_then);
        bool is_thenable = JS_IsFunction(ctx, then), threw = JS_IsException(then);
        JS_FreeValue(ctx, then);
        if (threw) { JS_FreeValue(ctx, v); end_with_thrown(JS_GetException(ctx)); return; }
        if (is_thenable) { await_value(v); return; }
    }
    end_with_value(v);
    JS_FreeValue(ctx, v);
}

/* Continues after `program` was settled: with another step or the program's end. */
static void next_step(JSPromiseStateEnum state) {
    JSValue result = JS_PromiseResult(ctx, program), settled = program;
    program = JS_UNDEFINED;
    if (state == JS_PROMISE_REJECTED) own_rejection(settled);
    if (state == JS_PROMISE_REJECTED) end_with_thrown(result);
    else if (!has_modules) { end_with_value(result); JS_FreeValue(ctx, result); }
    else if (!selected.evaluated) { JS_FreeValue(ctx, result); run_export(); }
    else await_result(result);
    JS_FreeValue(ctx, settled);
}

/* Calls the first timer that is due. */
static void fire_timer(void) {
    JSValue fire = library_member(LIBRARY_TIMERS, "fire"), woken = JS_NewBool(ctx, is_woken);
    is_woken = false;
    JSValue more = JS_IsException(fire) ? fire : JS_Call(ctx, fire, JS_UNDEFINED, 1, vc(&woken));
    JS_FreeValue(ctx, fire);
    if (JS_IsException(more)) {
        JSValue thrown = JS_GetException(ctx);
        log_uncaught("Uncaught ", thrown);
        JS_FreeValue(ctx, thrown);
    } else timers_are_due = JS_ToBool(ctx, more);
}

/* Runs jobs until the program waits or has ended. */
static void run_jobs(void) {
    while (!ended) {
        JSPromiseStateEnum state = JS_PromiseState(ctx, program);
        bool drains = state == JS_PROMISE_FULFILLED && waits_for_calls;
        if (drains) report_unawaited();
        if (state != JS_PROMISE_PENDING && !drains) { next_step(state); continue; }
        JSContext *c;
        int ran = JS_ExecutePendingJob(rt, &c);
        if (ran == 0 && drains && !pending_calls) { next_step(state); continue; }
        if (ran == 0 && !timers_are_due) return;
        if (ran == 0) fire_timer();
        if (ran >= 0) continue;
        JSValue thrown = JS_GetException(ctx); /* of a microtask */
        if (!has_modules) log_uncaught("Uncaught ", thrown);
        JS_FreeValue(ctx, thrown);
    }
}

/* Programs are given many functions and use few: namespaces and functions are created on first use, with the mechanism that
   the engine has for built-in properties. These are the kinds of its list entries. */
enum { HOST_NAMESPACE = 128, HOST_FUNCTION, OWN_FUNCTION };

/* A function of the program itself. */
typedef struct { JSCFunctionListEntry entry; const char *file, *code; size_t len; Shifts shifts; } OwnFunction;

static JSValue compile_own(const OwnFunction *function);

static void add_host_property(JSValueConst object, const char *name, size_t len, const JSCFunctionListEntry *what) {
    JSAtom atom = JS_NewAtomLen(ctx, name, len);
    JS_DefineAutoInitProperty(ctx, object, atom, JS_AUTOINIT_ID_PROP, (void *)what, JS_PROP_ENUMERABLE);
    JS_FreeAtom(ctx, atom);
}

static JSValue new_namespace(Reader members, uint32_t count, uint32_t target) {
    size_t len, unused;
    JSValue space = JS_NewObject(ctx);
    JSCFunctionListEntry *functions = keep(count * sizeof *functions);
    for (uint32_t i = 0; i < count; i++) {
        const char *name = read_text(&members, &len);
        functions[i] = (JSCFunctionListEntry){ .name = name, .def_type = HOST_FUNCTION, .u.i32 = target + i };
        add_host_property(space, name, len, &functions[i]);
    }
    while (members.at < members.end) {
        OwnFunction *own = keep(sizeof *own);
        const char *name = read_text(&members, &len);
        *own = (OwnFunction){ .entry.def_type = OWN_FUNCTION, .file = read_text(&members, &unused) };
        own->code = read_text(&members, &own->len);
        own->shifts = read_shifts(&members);
        add_host_property(space, name, len, &own->entry);
    }
    JS_PreventExtensions(ctx, space);
    return space;
}

typedef struct { JSCFunctionListEntry entry; Reader members; uint32_t count, target; } Namespace;

/* Called by the engine when a property is first touched (see quickjs.patch). */
static JSValue make_host_property(const JSCFunctionListEntry *what) {
    if (what->def_type == HOST_FUNCTION) return new_host_function(call_host, what->name, 1, 0, what->u.i32);
    if (what->def_type == OWN_FUNCTION) return compile_own((const OwnFunction *)what);
    if (what->def_type == LIBRARY_MEMBER) return library_member(what->u.i32, what->name);
    const Namespace *space = (const Namespace *)what;
    return new_namespace(space->members, space->count, space->target);
}

static void add_namespaces(Reader *message) {
    /* Names and code outlive the message. */
    size_t len = message->end - message->at;
    uint8_t *bytes = keep(len);
    memcpy(bytes, read_bytes(message, len), len);
    Reader r = { bytes, bytes + len };
    JSValue global = JS_GetGlobalObject(ctx);
    uint32_t count = read_u32(&r), target = 0;
    Namespace *spaces = keep(count * sizeof *spaces);
    for (Namespace *space = spaces; space < spaces + count; space++) {
        const char *name = read_text(&r, &len);
        add_host_property(global, name, len, &space->entry);
        *space = (Namespace){ .entry.def_type = HOST_NAMESPACE, .count = read_u32(&r), .target = target };
        target += space->count;
        len = read_u32(&r);
        space->members.at = read_bytes(&r, len); space->members.end = r.at;
    }
    JS_FreeValue(ctx, global);
}

/* Parses the whole text as the body of an async arrow function in global code. There is no text around it, so nothing in it
   can close the function. False with an exception pending. See js_parse_function_decl2 and js_parse_program. */
static bool parse_body(JSParseState *s, JSFunctionDef *fd) {
    s->cur_func = fd;
    fd->func_kind = JS_FUNC_ASYNC; fd->func_type = JS_PARSE_FUNC_ARROW;
    fd->arguments_allowed = true; /* an ordinary name: arrow functions have no `arguments` */
    fd->has_simple_parameter_list = true;
    fd->in_function_body = true;
    push_scope(s);
    fd->body_scope = fd->scope_level;
    if (next_token(s) || js_parse_directives(s)) return false;
    bool uses = false;
    BlockEnv using_block;
    while (s->token.val != TOK_EOF) {
        if (js_parse_source_element(s)) return false;
        if (uses || !fd->scopes[fd->body_scope].has_using) continue;
        uses = true;
        push_break_entry(fd, &using_block, JS_ATOM_NULL, -1, -1, 1);
        using_block.has_using = true;
        using_block.using_scope_level = fd->body_scope;
    }
    if (!uses) {
        if (js_is_live_code(s)) emit_return(s, false);
        return true;
    }
    pop_break_entry(fd);
    if (js_is_live_code(s)) {
        emit_op(s, OP_drop);
        emit_op(s, OP_using_dispose_init);
        emit_op(s, OP_dispose_scope); emit_u16(s, fd->body_scope);
        emit_op(s, OP_using_dispose_end);
        emit_return(s, false);
    }
    emit_label(s, fd->scopes[fd->body_scope].using_label_catch);
    emit_op(s, OP_dispose_scope); emit_u16(s, fd->body_scope);
    emit_throw_again(s);
    emit_label(s, fd->scopes[fd->body_scope].using_label_end);
    return true;
}

/* The function with this text as its body, and this parameter unless it is JS_ATOM_NULL. */
static JSValue compile_body(const char *code, size_t len, const char *name, JSAtom parameter) {
    JSParseState state, *s = &state;
    js_parse_init(ctx, s, code, len, name, 1);
    s->allow_html_comments = true;
    /* Global code around the function: evaluates to it. */
    JSFunctionDef *global = s->cur_func = js_new_function_def(ctx, NULL, true, false, name, 1, 1);
    global->eval_type = JS_EVAL_TYPE_GLOBAL;
    global->has_this_binding = global->arguments_allowed = global->is_global_var = true;
    push_scope(s);
    global->body_scope = global->scope_level;
    JSFunctionDef *fd = js_new_function_def(ctx, global, false, true, name, 1, 1);
    if (parameter != JS_ATOM_NULL) { add_arg(ctx, fd, parameter); fd->defined_arg_count = 1; }
    bool parsed = parse_body(s, fd);
    free_token(s, &s->token);
    if (!parsed) { js_free_function_def(ctx, global); return JS_EXCEPTION; }
    s->cur_func = global;
    fd->parent_cpool_idx = cpool_add(s, JS_NULL);
    emit_op(s, OP_fclosure); emit_u32(s, fd->parent_cpool_idx);
    emit_op(s, OP_set_name); emit_u32(s, JS_ATOM_NULL);
    emit_op(s, OP_return);
    JSValue code_object = js_create_function(ctx, global);
    return JS_IsException(code_object) ? code_object : JS_EvalFunctionInternal(ctx, code_object, ctx->global_obj, NULL, NULL);
}

/* With an exception pending if the engine rejects it: its message names the function. */
static JSValue compile_own(const OwnFunction *function) {
    add_file(function->file, function->shifts);
    JSAtom input = JS_NewAtom(ctx, "input");
    JSValue compiled = compile_body(function->code, function->len, function->file, input);
    JS_FreeAtom(ctx, input);
    if (!JS_IsException(compiled)) return compiled;
    JSValue error = JS_GetException(ctx), message = JS_GetProperty(ctx, error, JS_ATOM_message);
    message = JS_ConcatString3(ctx, function->file, JS_ConcatString3(ctx, " cannot be compiled: ", message, ""), "");
    JS_DefinePropertyValue(ctx, error, JS_ATOM_message, message, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    return JS_Throw(ctx, error);
}

/* Calls an async function with the script as its body. */
static void start_script(Reader *r) {
    size_t name_len, code_len;
    const char *name = read_text(r, &name_len), *code = read_text(r, &code_len);
    JS_SetHostPromiseRejectionTracker(rt, track_rejection, NULL);
    add_file(name, read_shifts(r));
    uint8_t flags = read_u8(r);
    waits_for_calls = flags & SCRIPT_WAITS_FOR_CALLS;
    add_namespaces(r);
    add_globals(flags);
    JSValue function = compile_body(code, code_len, name, JS_ATOM_NULL);
    ctx->eval_internal = refuse_code;
    if (!JS_IsException(function)) {
        program = JS_Call(ctx, function, JS_UNDEFINED, 0, NULL);
        JS_FreeValue(ctx, function);
    }
    if (JS_IsException(function) || JS_IsException(program)) { program = JS_UNDEFINED; end_with_thrown(JS_GetException(ctx)); }
}

/* A value in a message: its length and its bytes. */
static JSValue read_value(Reader *r) {
    read_u32(r);
    return decode(r);
}

/* False with an exception pending. */
static bool read_module(Reader *r, Module *m) {
    size_t len;
    uint8_t flags = read_u8(r);
    const char *name = read_text(r, &len);
    *m = (Module){ .name = JS_NewAtomLen(ctx, name, len), .exports = JS_UNDEFINED,
                   .is_synthetic = flags & MODULE_SYNTHETIC, .is_importable = flags & MODULE_IMPORTABLE };
    Seen *seen = seen_slot(&module_numbers, m->name + 1);
    if (seen->key) __builtin_trap(); /* the host sends each name once */
    seen_add(&module_numbers, seen, m->name + 1);
    if (m->is_synthetic) m->exports = read_value(r);
    else { m->code = read_text(r, &len); m->len = len; m->shifts = read_shifts(r); }
    if (m->is_synthetic && !JS_IsException(m->exports) && JS_VALUE_GET_TAG(m->exports) != JS_TAG_OBJECT) __builtin_trap();
    return !JS_IsException(m->exports);
}

/* Source that is not compiled yet outlives the message. */
static void keep_sources(void) {
    for (Module *m = modules; m < modules + module_count; m++) {
        if (m->is_synthetic || m->def) continue;
        char *code = keep(m->len + 1);
        memcpy(code, m->code, m->len + 1);
        m->code = code;
    }
}

static void start_modules(Reader *r) {
    has_modules = true;
    ctx->eval_internal = refuse_code;
    JSAtom console = JS_NewAtom(ctx, "console");
    JS_DeleteProperty(ctx, ctx->global_obj, console, 0);
    JS_FreeAtom(ctx, console);
    size_t len;
    uint32_t entry = read_u32(r);
    const char *export = read_text(r, &len);
    selected.export = JS_NewAtomLen(ctx, export, len);
    module_count = read_u32(r);
    modules = memset(keep(module_count * sizeof(Module)), 0, module_count * sizeof(Module));
    seen_init(&module_numbers);
    for (uint32_t i = 0; i < module_count; i++)
        if (!read_module(r, &modules[i])) { end_with_thrown(JS_GetException(ctx)); return; }
    selected.args = read_value(r);
    if (JS_IsException(selected.args)) { end_with_thrown(JS_GetException(ctx)); return; }
    if (JS_VALUE_GET_TAG(selected.args) != JS_TAG_OBJECT || !JS_VALUE_GET_OBJ(selected.args)->fast_array) __builtin_trap();

    selected.entry = module_def(&modules[entry]);
    if (!selected.entry || resolve_imports(selected.entry)) { end_unlinked(); return; }
    link_error.kind = LINK_BINDING;
    if (js_create_module_function(ctx, selected.entry) || js_link_module(ctx, selected.entry)) { end_unlinked(); return; }
    keep_sources();
    program = js_evaluate_module(ctx, selected.entry);
    if (JS_IsException(program)) end_with_thrown(JS_GetException(ctx));
}

EXPORT(guest_start) void guest_start(uint8_t *message, size_t len) {
    Reader r = { message, message + len };
    JS_UpdateStackTop(rt);
    uint64_t seed = read_u64(&r);
    ctx->random_state = seed ? seed : 1;
    uint32_t limit = read_u32(&r);
    rt->malloc_state.malloc_limit = used_by_image + limit + 1;
    set_gc_threshold(rt);
    log_units_left = read_u32(&r);
    if (read_u8(&r) == START_MODULES) start_modules(&r); else start_script(&r);
    release_message(message);
    if (!ended) run_jobs();
}

EXPORT(guest_advance) void guest_advance(uint8_t *message, size_t len) {
    Reader r = { message, message + len };
    JS_UpdateStackTop(rt);
    while (r.at < r.end) take_answer(&r);
    release_message(message);
    if (!ended) run_jobs();
}

#include "check.c"

/* ---- The image --------------------------------------------------------------------------------------------------- */

/* Runs once, at build time; traps on any failure. `source` is bootstrap.js. */
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
    add_structured_clone(global);
    add_localized();
    JS_FreeValue(ctx, global);
    JSValue warmed = JS_Eval(ctx, source, len, "bootstrap.js", JS_EVAL_TYPE_GLOBAL);
    if (JS_IsException(warmed)) __builtin_trap();
    JS_FreeValue(ctx, warmed);
    add_console_members();
    return_this = JS_Eval(ctx, return_this_text, sizeof return_this_text - 1, "<input>", JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_COMPILE_ONLY);
    if (JS_IsException(return_this)) __builtin_trap();
    JSContext *c;
    for (int ran; (ran = JS_ExecutePendingJob(rt, &c)) != 0;) if (ran < 0) __builtin_trap();
    JS_RunGC(rt);
    used_by_image = rt->malloc_state.malloc_size;
    used_peak = used_by_image;
}

/* ---- System calls of libc ---------------------------------------------------------------------------------------- */

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
/* Only printf refers to WASI. These return EBADF, so that nothing of WASI is imported. */
int32_t __imported_wasi_snapshot_preview1_fd_close(int32_t a) { return 8; }
int32_t __imported_wasi_snapshot_preview1_fd_fdstat_get(int32_t a, int32_t b) { return 8; }
int32_t __imported_wasi_snapshot_preview1_fd_seek(int32_t a, int64_t b, int32_t c, int32_t d) { return 8; }
int32_t __imported_wasi_snapshot_preview1_fd_write(int32_t a, int32_t b, int32_t c, int32_t d) { return 8; }
