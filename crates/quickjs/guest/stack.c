/*
 * The places of errors, calls and thrown values. Part of guest.c.
 *
 * A record of a place is a text of frames, innermost first, one per line: `    at name (file:line:column)`, or
 * `    at file:line:column` in anonymous code. An Error has it where guest code cannot write; reading `stack` formats it.
 */

/* ---- Columns of the source ---- */

/* `Shift` in crates/core/src/language.rs, with SHIFT_INSERTED in `source_column`. */
typedef struct { uint32_t line, column, source_column; } Shift;
typedef struct { const Shift *shifts; uint32_t count; } Shifts;

static bool has_shifts; /* of any file */

/* The files of a script that have shifts: itself and its functions, as they are compiled. */
typedef struct File { struct File *next; JSAtom name; Shifts shifts; } File;
static File *files;

static const Shifts *module_shifts(JSAtom name);

static Shifts read_shifts(Reader *r) {
    Shifts to = { .count = read_u32(r) };
    if (!to.count) return to;
    const uint8_t *bytes = read_bytes(r, to.count * sizeof(Shift));
    Shift *shifts = keep(to.count * sizeof(Shift));
    memcpy(shifts, bytes, to.count * sizeof(Shift));
    to.shifts = shifts;
    has_shifts = true;
    return to;
}

static const Shifts *file_shifts(JSAtom name) {
    for (const File *file = files; file; file = file->next) if (file->name == name) return &file->shifts;
    return module_shifts(name);
}

static void add_file(const char *name, Shifts shifts) {
    JSAtom atom = JS_NewAtom(ctx, name);
    if (!shifts.count || file_shifts(atom)) { JS_FreeAtom(ctx, atom); return; }
    File *file = keep(sizeof *file);
    *file = (File){ files, atom, shifts };
    files = file;
}

/* The column of the source that a column of the code corresponds to (`Code::source_position`). Every position that the
   engine reports comes through here (see quickjs.patch). */
static int source_column(JSAtom file, int line, int column) {
    if (!has_shifts) return column;
    const Shifts *in = file_shifts(file);
    if (!in) return column;
    uint32_t after = 0, end = in->count; /* shifts before `after` begin at this place or before it */
    while (after < end) {
        uint32_t middle = after + (end - after) / 2;
        const Shift *s = &in->shifts[middle];
        if (s->line < (uint32_t)line || (s->line == (uint32_t)line && s->column <= (uint32_t)column)) after = middle + 1; else end = middle;
    }
    const Shift *s = &in->shifts[after - 1];
    if (!after || s->line != (uint32_t)line) return column;
    int begin = s->source_column & ~SHIFT_INSERTED;
    return s->source_column & SHIFT_INSERTED ? begin : begin + column - (int)s->column;
}

/* ---- Frames ---- */

enum { FRAMES_DEFAULT = 10, FRAMES_MAX = 64 };

/* A function's frame; `b` is NULL for native functions. Control characters in the name are replaced: it is one line. */
static void put_frame(DynBuf *text, JSValueConst function, JSFunctionBytecode *b, uint32_t pc) {
    const char *name = get_func_name(ctx, function), *before = name && *name ? " (" : "", *after = name && *name ? ")" : "";
    dbuf_putstr(text, "    at ");
    for (int i = 0; name && name[i] && i < 256; i++) dbuf_putc(text, (uint8_t)name[i] < ' ' ? ' ' : name[i]);
    if (b) {
        int column, line = find_line_num(ctx, b, pc, &column);
        const char *file = JS_AtomToCString(ctx, b->filename);
        dbuf_printf(text, "%s%s:%d:%d%s\n", before, file, line, column, after);
        JS_FreeCString(ctx, file);
    } else dbuf_printf(text, "%snative%s\n", before, after);
    JS_FreeCString(ctx, name);
}

static void put_stack_frame(DynBuf *text, JSStackFrame *frame) {
    JSObject *function = JS_VALUE_GET_OBJ(frame->cur_func);
    JSFunctionBytecode *b = js_class_has_bytecode(function->class_id) && frame->cur_pc ? function->u.func.function_bytecode : NULL;
    put_frame(text, frame->cur_func, b, b ? frame->cur_pc - b->byte_code_buf - 1 : 0);
}

/* The frames from `frame` on. `file`, if any, is the place of a syntax error, and comes first. */
static JSValue frames_from(JSStackFrame *frame, int limit, const char *file, int line, int column) {
    DynBuf text; js_dbuf_init(ctx, &text);
    if (file) { dbuf_printf(&text, "    at %s:%d:%d\n", file, line, column); limit--; }
    for (; frame && limit > 0; frame = frame->prev_frame, limit--) put_stack_frame(&text, frame);
    JSValue frames = JS_NewStringLen(ctx, (const char *)text.buf, text.size);
    dbuf_free(&text);
    return frames;
}

/* The frames of the caller of `import(…)`, while a job loads the module. */
static JSValueConst import_frames = JS_UNDEFINED;

static JSValue current_frames(void) { return frames_from(rt->current_stack_frame, FRAMES_DEFAULT, NULL, 0, 0); }

/* The guest's Error.stackTraceLimit, but at least one. */
static int frame_limit(void) {
    JSValueConst limit = ctx->error_stack_trace_limit;
    double n = JS_VALUE_GET_TAG(limit) == JS_TAG_INT ? JS_VALUE_GET_INT(limit) : JS_TAG_IS_FLOAT64(JS_VALUE_GET_TAG(limit)) ? JS_VALUE_GET_FLOAT64(limit) : FRAMES_DEFAULT;
    return n >= FRAMES_MAX ? FRAMES_MAX : n > 1 ? (int)n : 1;
}

/* The result of the guest's Error.prepareStackTrace. JS_NULL if it throws. */
static JSValue prepared_stack(JSValueConst error, JSStackFrame *frame, int limit) {
    JSValue pending = JS_GetException(ctx), sites = JS_NewArray(ctx);
    for (uint32_t i = 0; frame && i < (uint32_t)limit; frame = frame->prev_frame, i++) {
        JSCallSiteData site;
        js_new_callsite_data(ctx, &site, frame);
        JS_DefinePropertyValueUint32(ctx, sites, i, js_new_callsite(ctx, &site), JS_PROP_C_W_E);
    }
    JSValue prepare = js_dup(ctx->error_prepare_stack);
    JSValue stack = JS_Call(ctx, prepare, ctx->error_ctor, 2, (JSValueConst[]){ error, sites });
    if (JS_IsException(stack)) { JS_FreeValue(ctx, JS_GetException(ctx)); stack = JS_NULL; }
    JS_FreeValue(ctx, prepare); JS_FreeValue(ctx, sites);
    JS_Throw(ctx, pending);
    return stack;
}

static JSValue stack_text(JSValueConst error, JSValueConst frames);

/* Called by the engine for every new error (see quickjs.patch). */
static void build_backtrace(JSContext *c, JSValueConst error, JSValueConst filter_func, const char *filename, int line, int column, int flags) {
    bool captures = flags & JS_BACKTRACE_FLAG_OWN_PROPERTY;
    if (rt->in_build_stack_trace || !(captures || can_store_error_stack(error) || can_add_backtrace(error))) return;
    rt->in_build_stack_trace = true;
    JSStackFrame *frame = rt->current_stack_frame;
    if (flags & JS_BACKTRACE_FLAG_FILTER_FUNC)
        for (JSStackFrame *at = frame; at; at = at->prev_frame) if (js_same_value(ctx, at->cur_func, filter_func)) { frame = at; break; }
    if (frame && flags & JS_BACKTRACE_FLAG_SKIP_FIRST_LEVEL) frame = frame->prev_frame;
    int limit = frame_limit();
    if (filename && has_shifts) {
        JSAtom file = JS_NewAtom(ctx, filename);
        column = source_column(file, line, column);
        JS_FreeAtom(ctx, file);
    }
    bool imports = !rt->current_stack_frame && !filename && JS_IsString(import_frames);
    JSValue held = js_dup(error), own = JS_UNDEFINED;
    JSValue frames = imports ? js_dup(import_frames) : frames_from(frame, limit, filename, line, column);
    if (JS_IsFunction(ctx, ctx->error_prepare_stack)) own = prepared_stack(held, frame, limit);
    else if (captures) own = stack_text(held, frames);
    if (can_store_error_stack(held)) JS_VALUE_GET_OBJ(held)->u.object_data = js_dup(frames);
    else if (JS_IsUndefined(own) && can_add_backtrace(held)) own = stack_text(held, frames);
    if (!JS_IsUndefined(own)) JS_DefinePropertyValue(ctx, held, JS_ATOM_stack, own, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    JS_FreeValue(ctx, frames); JS_FreeValue(ctx, held);
    rt->in_build_stack_trace = false;
}

/* The `stack` of an error: the error as a string, then its frames. The stack of an error from the host is returned as it
   was sent. */
static JSValue stack_text(JSValueConst error, JSValueConst frames) {
    JSString *s = JS_VALUE_GET_STRING(frames);
    bool is_record = true;
    for (uint32_t i = 0; i < s->len && i < 7; i++) is_record &= string_get(s, i) == "    at "[i];
    if (!is_record) return js_dup(frames);
    JSValue pending = JS_GetException(ctx);
    JSValue head = js_error_toString(ctx, error, 0, NULL);
    if (JS_IsException(head)) { JS_FreeValue(ctx, JS_GetException(ctx)); head = JS_NewString(ctx, "<error>"); }
    JS_Throw(ctx, pending);
    if (!s->len) return head;
    return JS_ConcatString(ctx, JS_ConcatString3(ctx, "", head, "\n"), js_sub_string(ctx, s, 0, s->len - (string_get(s, s->len - 1) == '\n')));
}

/* Called by the engine when the guest reads `stack` of an Error (see quickjs.patch). */
static JSValue read_stack(JSContext *c, JSValueConst error) {
    JSValueConst frames = JS_VALUE_GET_OBJ(error)->u.object_data;
    return JS_IsString(frames) ? stack_text(error, frames) : JS_UNDEFINED;
}

/* ---- Thrown values other than errors ---- */

static struct { JSValue value, frames; } last_thrown = { JS_UNDEFINED, JS_UNDEFINED };

static void note_thrown_at(JSStackFrame *frame, JSValueConst value) {
    if (JS_IsError(value)) return;
    if (JS_IsObject(value) && js_same_value(ctx, value, last_thrown.value)) return; /* the same object, thrown on */
    set_value(ctx, &last_thrown.value, js_dup(value));
    set_value(ctx, &last_thrown.frames, frames_from(frame, FRAMES_DEFAULT, NULL, 0, 0));
}

/* Called by the engine for a `throw` of the guest (see quickjs.patch). */
static void note_thrown(JSContext *c, JSValueConst value) { note_thrown_at(rt->current_stack_frame, value); }

/* Called by the engine for `Promise.reject`, by the guest or by itself. */
static void note_rejected(JSContext *c, JSValueConst value) {
    JSStackFrame *frame = rt->current_stack_frame;
    JSObject *function = frame ? JS_VALUE_GET_OBJ(frame->cur_func) : NULL;
    if (function && function->class_id == JS_CLASS_C_FUNCTION && function->u.cfunc.c_function.generic_magic == js_promise_resolve)
        note_thrown_at(frame->prev_frame, value);
}

/* The engine's record for a thrown value, independent of its property `stack`. */
static JSValueConst frames_of(JSValueConst thrown) {
    if (JS_IsError(thrown) && JS_VALUE_GET_OBJ(thrown)->class_id == JS_CLASS_ERROR) return JS_VALUE_GET_OBJ(thrown)->u.object_data;
    return js_same_value(ctx, thrown, last_thrown.value) ? last_thrown.frames : JS_UNDEFINED;
}
