/*
 * Libraries: JavaScript of the host that makes globals, functions of `console` and the locale-dependent built-ins on first use. Part
 * of guest.c. See crates/core/src/libraries.
 */

/* The object that a library returns, once it has run. */
static JSValue library_objects[LIBRARY_COUNT];
static bool library_has_run[LIBRARY_COUNT];

enum { NATIVE_ENCODE, NATIVE_DECODE, NATIVE_WRITE, NATIVE_STACK, NATIVE_ARM };

/* `encode(text, isLatin1)`: the text as a Uint8Array of UTF-8 or Latin-1; undefined for characters that Latin-1 lacks. */
static JSValue encode_text(JSValueConst text, bool is_latin1) {
    JSValue flat = flat_string(text);
    JSString *s = JS_VALUE_GET_STRING(flat);
    JSValue bytes = JS_UNDEFINED;
    if (!is_latin1) {
        Out o; out_init(&o);
        out_utf8(&o, s, UINT32_MAX);
        bytes = JS_NewUint8ArrayCopy(ctx, o.data, o.len);
        out_free(&o);
    } else if (!s->is_wide_char) {
        bytes = JS_NewUint8ArrayCopy(ctx, str8(s), s->len);
    } else {
        uint32_t i = 0;
        while (i < s->len && str16(s)[i] < 0x100) i++;
        if (i == s->len) {
            uint8_t *narrow = js_malloc_rt(rt, s->len + 1);
            for (i = 0; i < s->len; i++) narrow[i] = str16(s)[i];
            bytes = JS_NewUint8ArrayCopy(ctx, narrow, s->len);
            js_free_rt(rt, narrow);
        }
    }
    JS_FreeValue(ctx, flat);
    return bytes;
}

/* `decode(bytes)`: the text of a Uint8Array; undefined if it is not valid UTF-8. */
static JSValue decode_text(JSValueConst view) {
    size_t len, units;
    uint8_t *bytes = JS_GetUint8Array(ctx, &len, view);
    if (!bytes) { JS_FreeValue(ctx, JS_GetException(ctx)); return js_empty_string(rt); } /* detached, or empty */
    int kind = utf8_scan((const char *)bytes, len, &units);
    if (kind & UTF8_HAS_ERRORS) return JS_UNDEFINED;
    if (kind & UTF8_HAS_16BIT) /* the engine accepts surrogates */
        for (size_t i = 0; i + 1 < len; i++) if (bytes[i] == 0xed && bytes[i + 1] >= 0xa0) return JS_UNDEFINED;
    return JS_NewStringLen(ctx, (const char *)bytes, len);
}

/* `write(level, line)`: a console line. */
static JSValue write_line(JSValueConst level, JSValueConst text) {
    static const char *const names[] = { [LEVEL_LOG] = "log", [LEVEL_WARN] = "warn", [LEVEL_ERROR] = "error" };
    if (!log_units_left || !JS_IsString(text)) return JS_UNDEFINED;
    const char *name = JS_ToCString(ctx, level);
    if (!name) return JS_EXCEPTION;
    int number = LEVEL_LOG;
    for (int i = 0; i < (int)countof(names); i++) if (names[i] && !strcmp(names[i], name)) number = i;
    JS_FreeCString(ctx, name);
    Out line; out_init(&line);
    out_log_string(&line, text);
    log_units_left = host_log(number, line.data, line.len);
    out_free(&line);
    return JS_UNDEFINED;
}

/* `arm(delay)`: asks the host to wake the program after so many milliseconds; undefined takes that back. */
static JSValue arm_timer(JSValueConst delay) {
    double ms = -1;
    if (!JS_IsUndefined(delay) && JS_ToFloat64(ctx, &ms, delay)) return JS_EXCEPTION;
    host_timer(ms);
    return JS_UNDEFINED;
}

/* `stack()`: the frames below the function of the library that calls this. */
static JSValue frames_of_caller(void) {
    JSStackFrame *function = rt->current_stack_frame->prev_frame;
    return frames_from(function->prev_frame, FRAMES_DEFAULT, NULL, 0, 0);
}

/* The functions of the engine that libraries call; they pass arguments of the types that are expected. */
static JSValue call_native(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int native) {
    switch (native) {
    case NATIVE_ENCODE: return encode_text(argv[0], JS_ToBool(ctx, argv[1]));
    case NATIVE_DECODE: return decode_text(argv[0]);
    case NATIVE_WRITE: return write_line(argv[0], argv[1]);
    case NATIVE_STACK: return frames_of_caller();
    default: return arm_timer(argv[0]);
    }
}

/* Drops the source of functions, so that `toString` shows no more of them than of the engine's own. Libraries nest a few levels. */
static void hide_source(JSFunctionBytecode *b) {
    js_free_rt(rt, b->source);
    b->source = NULL;
    b->source_len = 0;
    for (int i = 0; i < b->cpool_count; i++)
        if (JS_VALUE_GET_TAG(b->cpool[i]) == JS_TAG_FUNCTION_BYTECODE) hide_source(JS_VALUE_GET_PTR(b->cpool[i]));
}

/* Runs a library. An exception is pending if it fails, for want of stack for example. */
static JSValue run_library(int library) {
    static const struct { uint8_t count, natives[2]; } given[LIBRARY_COUNT] = {
        [LIBRARY_TEXT] = { 2, { NATIVE_ENCODE, NATIVE_DECODE } },
        [LIBRARY_CONSOLE] = { 2, { NATIVE_WRITE, NATIVE_STACK } },
        [LIBRARY_TIMERS] = { 1, { NATIVE_ARM } },
    };
    size_t len = host_library(library);
    char *source = js_malloc_rt(rt, len + 1);
    host_answer((uint8_t *)source);
    source[len] = 0;
    JSValue function = __JS_EvalInternal(ctx, ctx->global_obj, source, len, "<library>", 1, JS_EVAL_TYPE_GLOBAL, -1);
    js_free_rt(rt, source);
    if (JS_IsException(function)) return function;
    hide_source(JS_VALUE_GET_OBJ(function)->u.func.function_bytecode);
    JSValue natives[2] = { JS_UNDEFINED, JS_UNDEFINED };
    int count = given[library].count;
    for (int i = 0; i < count; i++)
        natives[i] = JS_NewCFunctionMagic(ctx, call_native, "", 2, JS_CFUNC_generic_magic, given[library].natives[i]);
    JSValue object = JS_Call(ctx, function, JS_UNDEFINED, count, vc(natives));
    for (int i = 0; i < count; i++) JS_FreeValue(ctx, natives[i]);
    JS_FreeValue(ctx, function);
    return object;
}

/* The member of a library. */
static JSValue library_member(int library, const char *name) {
    if (!library_has_run[library]) {
        JSValue object = run_library(library);
        if (JS_IsException(object)) return object;
        library_objects[library] = object;
        library_has_run[library] = true;
    }
    return JS_GetPropertyStr(ctx, library_objects[library], name);
}

/* A kind of the engine's list entries: a member of a library, which is got on first use. */
enum { LIBRARY_MEMBER = 192 };

#define MEMBER(library, text) { .name = text, .def_type = LIBRARY_MEMBER, .u.i32 = library }

static const JSCFunctionListEntry text_members[] = {
    MEMBER(LIBRARY_TEXT, "TextDecoder"), MEMBER(LIBRARY_TEXT, "TextEncoder"), MEMBER(LIBRARY_TEXT, "atob"),
    MEMBER(LIBRARY_TEXT, "btoa"), MEMBER(LIBRARY_TEXT, "eval"), MEMBER(LIBRARY_TEXT, "self"),
};
static const JSCFunctionListEntry console_members[] = {
    MEMBER(LIBRARY_CONSOLE, "assert"), MEMBER(LIBRARY_CONSOLE, "count"), MEMBER(LIBRARY_CONSOLE, "countReset"),
    MEMBER(LIBRARY_CONSOLE, "dir"), MEMBER(LIBRARY_CONSOLE, "dirxml"), MEMBER(LIBRARY_CONSOLE, "group"),
    MEMBER(LIBRARY_CONSOLE, "groupCollapsed"), MEMBER(LIBRARY_CONSOLE, "groupEnd"), MEMBER(LIBRARY_CONSOLE, "table"),
    MEMBER(LIBRARY_CONSOLE, "time"), MEMBER(LIBRARY_CONSOLE, "timeEnd"), MEMBER(LIBRARY_CONSOLE, "timeLog"),
    MEMBER(LIBRARY_CONSOLE, "trace"),
};
static const JSCFunctionListEntry timer_members[] = {
    MEMBER(LIBRARY_TIMERS, "clearImmediate"), MEMBER(LIBRARY_TIMERS, "clearInterval"), MEMBER(LIBRARY_TIMERS, "clearTimeout"),
    MEMBER(LIBRARY_TIMERS, "setImmediate"), MEMBER(LIBRARY_TIMERS, "setInterval"), MEMBER(LIBRARY_TIMERS, "setTimeout"),
};

/* Adds members that the object has not got already: a namespace of tools can have any of these names. */
static void add_members(JSValueConst object, const JSCFunctionListEntry *members, int count, int flags) {
    for (const JSCFunctionListEntry *member = members; member < members + count; member++) {
        JSAtom name = JS_NewAtom(ctx, member->name);
        if (!find_own_property1(JS_VALUE_GET_OBJ(object), name))
            JS_DefineAutoInitProperty(ctx, object, name, JS_AUTOINIT_ID_PROP, (void *)member, flags);
        JS_FreeAtom(ctx, name);
    }
}

static void add_globals(uint8_t flags) {
    const int hidden = JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE;
    if (flags & SCRIPT_COMMON_GLOBALS) add_members(ctx->global_obj, text_members, countof(text_members), hidden);
    if (flags & SCRIPT_TIMERS) add_members(ctx->global_obj, timer_members, countof(timer_members), hidden);
}

/* Runs at build time, after bootstrap.js, which touches every property. */
static void add_console_members(void) {
    JSValue console = JS_GetPropertyStr(ctx, ctx->global_obj, "console");
    add_members(console, console_members, countof(console_members), JS_PROP_C_W_E);
    JS_FreeValue(ctx, console);
}
