/*
 * Libraries: JavaScript of the host that makes globals, functions of `console` and the locale-dependent built-ins on first use. Part
 * of guest.c. See crates/core/src/libraries.
 */

/* The object that a library returns, once it has run. */
static JSValue library_objects[LIBRARY_COUNT];
static bool library_has_run[LIBRARY_COUNT];

enum { NATIVE_ENCODE, NATIVE_DECODE, NATIVE_WRITE, NATIVE_STACK, NATIVE_ARM, NATIVE_LOCALE, NATIVE_ORDER };

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
    if (!JS_IsString(text) || log_dropped(LEVEL_LOG)) return JS_UNDEFINED;
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

/* `locale(...args)`: what the host knows of locales. Throws a RangeError with the message of the host. */
static JSValue call_locale(int argc, JSValueConst *argv) {
    Out input; out_init(&input);
    JSValue list = js_create_array(ctx, argc, argv);
    if (JS_IsException(list)) return list;
    int failed = encode(&input, list, MODE_JSON, "input");
    JS_FreeValue(ctx, list);
    if (failed) { out_free(&input); return JS_EXCEPTION; }
    size_t len = host_locale(input.data, input.len);
    out_free(&input);
    uint8_t *answer = js_malloc_rt(rt, len);
    host_answer(answer);
    Reader r = { answer, answer + len };
    JSValue result = decode(&r);
    js_free_rt(rt, answer);
    if (!JS_IsObject(result)) return result; /* an exception */
    JSValue value = JS_GetPropertyUint32(ctx, result, 0), error = JS_GetPropertyUint32(ctx, result, 1);
    JS_FreeValue(ctx, result);
    if (JS_IsUndefined(error)) return value;
    const char *message = JS_ToCString(ctx, error);
    JS_ThrowRangeError(ctx, "%s", message ? message : "");
    JS_FreeCString(ctx, message);
    JS_FreeValue(ctx, error); JS_FreeValue(ctx, value);
    return JS_EXCEPTION;
}

/* The printable characters of ASCII in the order of every locale that the host knows. Letters that differ in case alone are equal at
   first; then lower case comes first. */
static const char ascii_order[] = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789AaBbCcDdEeFfGgHhIiJjKkLlMmNnOoPpQqRrSsTtUuVvWwXxYyZz";
enum { ASCII_CASED = 43 }; /* the index of the first letter */

/* Ranks by character; 0 for those that are not printable. Made with the image. */
static uint8_t ascii_ranks[128];

static void make_ascii_ranks(void) {
    for (int i = 0; ascii_order[i]; i++) ascii_ranks[(uint8_t)ascii_order[i]] = i < ASCII_CASED ? i + 1 : (i - ASCII_CASED) / 2 + ASCII_CASED + 1;
}

/* Compares texts as the host does for its default options. False if that needs the host: texts with other characters than printable
   ones of ASCII before the first difference. No character of Latin-1 combines with one before it. */
static bool order_texts(JSString *left, JSString *right, int *order) {
    if (left->is_wide_char || right->is_wide_char) return false;
    const uint8_t *l = str8(left), *r = str8(right);
    uint32_t len = left->len < right->len ? left->len : right->len;
    int by_case = 0;
    for (uint32_t i = 0; i < len; i++) {
        if (l[i] >= 128 || r[i] >= 128) return false;
        int lr = ascii_ranks[l[i]], rr = ascii_ranks[r[i]];
        if (!lr || !rr) return false;
        if (lr != rr) { *order = lr < rr ? -1 : 1; return true; }
        if (!by_case && l[i] != r[i]) by_case = l[i] > r[i] ? -1 : 1;
    }
    if (left->len == right->len) { *order = by_case; return true; }
    uint8_t next = left->len > len ? l[len] : r[len];
    if (next >= 128 || !ascii_ranks[next]) return false; /* such as a control character, which is nothing */
    *order = left->len < right->len ? -1 : 1;
    return true;
}

/* `compareKnown(left, right)`: compares texts by the default options, if the host is not needed for that; else undefined. */
static JSValue order_values(JSValueConst left, JSValueConst right) {
    JSValue l = flat_string(left), r = flat_string(right);
    int order;
    bool is_known = order_texts(JS_VALUE_GET_STRING(l), JS_VALUE_GET_STRING(r), &order);
    JS_FreeValue(ctx, l); JS_FreeValue(ctx, r);
    return is_known ? js_int32(order) : JS_UNDEFINED;
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
    case NATIVE_LOCALE: return call_locale(argc, argv);
    case NATIVE_ORDER: return order_values(argv[0], argv[1]);
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
        [LIBRARY_INTL] = { 2, { NATIVE_LOCALE, NATIVE_ORDER } },
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
static const JSCFunctionListEntry intl_members[] = { MEMBER(LIBRARY_INTL, "Intl") };
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
    if (flags & SCRIPT_COMMON_GLOBALS) {
        add_members(ctx->global_obj, text_members, countof(text_members), hidden);
        add_members(ctx->global_obj, intl_members, countof(intl_members), hidden);
    }
    if (flags & SCRIPT_TIMERS) add_members(ctx->global_obj, timer_members, countof(timer_members), hidden);
}

/* Built-ins that depend on a locale, in every realm: the engine's own know none. */
static const struct { const char *function, *name; uint8_t length, class_id; } localized[] = {
    { "dateToLocaleString", "toLocaleString", 0, JS_CLASS_DATE },
    { "dateToLocaleDateString", "toLocaleDateString", 0, JS_CLASS_DATE },
    { "dateToLocaleTimeString", "toLocaleTimeString", 0, JS_CLASS_DATE },
    { "numberToLocaleString", "toLocaleString", 0, JS_CLASS_NUMBER },
    { "bigintToLocaleString", "toLocaleString", 0, JS_CLASS_BIG_INT },
    { "localeCompare", "localeCompare", 1, JS_CLASS_STRING },
    { "toLocaleUpperCase", "toLocaleUpperCase", 0, JS_CLASS_STRING },
    { "toLocaleLowerCase", "toLocaleLowerCase", 0, JS_CLASS_STRING },
};

static bool is_given(int argc, JSValueConst *argv, int index) { return index < argc && !JS_IsUndefined(argv[index]); }

static JSValue call_localized(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv, int index) {
    if (localized[index].length && argc > 0 && JS_IsString(this_val) && JS_IsString(argv[0]) && !is_given(argc, argv, 1) && !is_given(argc, argv, 2)) {
        JSValue order = order_values(this_val, argv[0]);
        if (!JS_IsUndefined(order)) return order;
    }
    JSValue function = library_member(LIBRARY_INTL, localized[index].function);
    if (JS_IsException(function)) return function;
    JSValue result = JS_Call(ctx, function, this_val, argc, argv);
    JS_FreeValue(ctx, function);
    return result;
}

/* Runs at build time. */
static void add_localized(void) {
    make_ascii_ranks();
    for (int i = 0; i < (int)countof(localized); i++)
        JS_DefinePropertyValueStr(ctx, ctx->class_proto[localized[i].class_id], localized[i].name,
            JS_NewCFunctionMagic(ctx, call_localized, localized[i].name, localized[i].length, JS_CFUNC_generic_magic, i),
            JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
}

/* Runs at build time, after bootstrap.js, which touches every property. */
static void add_console_members(void) {
    JSValue console = JS_GetPropertyStr(ctx, ctx->global_obj, "console");
    add_members(console, console_members, countof(console_members), JS_PROP_C_W_E);
    JS_FreeValue(ctx, console);
}
