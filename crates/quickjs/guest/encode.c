/*
 * Values to bytes. Part of guest.c.
 *
 * Walks the object graph with a stack of its own. Data properties are read from the engine's structures, others through
 * their getters. A getter can change the objects that are being read, so no step relies on what an earlier one saw.
 * Nothing is looked up that guest code can replace.
 */

/* The tags of the format in crates/core/src/value/mod.rs. */
enum {
    TAG_UNDEFINED, TAG_NULL, TAG_FALSE, TAG_TRUE, TAG_INT, TAG_F64, TAG_STRING, TAG_ARRAY, TAG_OBJECT, TAG_HOLE,
    TAG_REF, TAG_FOREIGN, TAG_BIGINT, TAG_DATE, TAG_MAP, TAG_SET, TAG_REGEXP, TAG_ERROR, TAG_BUFFER, TAG_VIEW, TAG_BOXED,
    TAG_SPARSE, TAG_FUNCTION, TAG_PROMISE,
};
/* The parts of TAG_ERROR. */
enum { ERROR_MESSAGE = 1, ERROR_STACK = 2, ERROR_CAUSE = 4 };

/* Objects or atoms that were seen, in order: an open-addressing table from address (or atom) to index. */
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

/* An object whose parts are being written. ITEMS: of an array. LAID_OUT: data properties, read from the shape. NAMED: the
   properties of a list of names. LIST: values that were collected when the object was opened (the keys and values of a
   Map, the values of a Set, the cause of an Error). */
enum { ITEMS, LAID_OUT, NAMED, LIST };
typedef struct { JSObject *obj; JSPropertyEnum *names; JSValue *list; uint32_t next, count; uint8_t parts; } Frame;

/* MODE_JSON: for scripts; values that JSON cannot hold are TAG_FOREIGN, which the host rejects. MODE_GRAPH: for modules;
   values that cannot be copied throw a SerializationError. MODE_LOG: as MODE_GRAPH for logs; values that cannot be copied
   are described by a string. MODE_CLONE: structuredClone; values that cannot be copied throw a DataCloneError. */
typedef enum { MODE_JSON, MODE_GRAPH, MODE_LOG, MODE_CLONE } Mode;

typedef struct {
    Out *out;
    SeenTable objects, keys;
    SeenTable buffers; /* the length of each buffer when it was written; initialized at the first one */
    Frame *frames; uint32_t depth, cap;
    Frame small[8];
    Mode mode;
    const char *root;  /* the name of the value in errors */
    uint32_t arg;      /* the argument that is being written, if the value is the arguments of a call */
    uint32_t first;    /* the number of the first object */
} Encoder;

static JSObject *seen_object(const Seen *s) { return (JSObject *)(uintptr_t)s->key; }

static void frame_free(Frame *f) {
    if (f->parts == NAMED) js_free_prop_enum(ctx, f->names, f->count);
    if (f->parts != LIST) return;
    for (uint32_t i = 0; i < f->count; i++) JS_FreeValue(ctx, f->list[i]);
    js_free_rt(rt, f->list);
}

static void encoder_free(Encoder *e) {
    for (uint32_t i = 0; i < e->depth; i++) frame_free(&e->frames[i]);
    /* Both tables hold references, so that no address or atom is reused meanwhile. */
    if (e->objects.count)
        for (uint32_t i = 0; i <= e->objects.mask; i++)
            if (e->objects.slots[i].key) JS_FreeValue(ctx, JS_MKPTR(JS_TAG_OBJECT, seen_object(&e->objects.slots[i])));
    if (e->keys.count)
        for (uint32_t i = 0; i <= e->keys.mask; i++)
            if (e->keys.slots[i].key) JS_FreeAtom(ctx, e->keys.slots[i].key - 1);
    if (e->objects.slots != e->objects.small) js_free_rt(rt, e->objects.slots);
    if (e->keys.slots != e->keys.small) js_free_rt(rt, e->keys.slots);
    if (e->buffers.slots && e->buffers.slots != e->buffers.small) js_free_rt(rt, e->buffers.slots);
    if (e->frames != e->small) js_free_rt(rt, e->frames);
}

/* The own data property `name` of `p`, or undefined; runs no guest code. */
static JSValueConst own_data_property(JSObject *p, JSAtom name) {
    JSProperty *pr;
    JSShapeProperty *prs = find_own_property(&pr, p, name);
    return prs && (prs->flags & JS_PROP_TMASK) == JS_PROP_NORMAL ? pr->u.value : JS_UNDEFINED;
}

/* ---- Values that cannot be copied ---- */

/* The name of an object's class, if it is a data property of a data property `constructor` of its prototype. */
static JSValueConst class_name(JSObject *p) {
    JSObject *proto = p->shape->proto;
    JSValueConst maker = !proto || proto->is_exotic ? JS_UNDEFINED : own_data_property(proto, JS_ATOM_constructor);
    return JS_VALUE_GET_TAG(maker) == JS_TAG_OBJECT ? own_data_property(JS_VALUE_GET_OBJ(maker), JS_ATOM_name) : JS_UNDEFINED;
}

static int foreign_kind(JSObject *p) {
    if (JS_IsFunction(ctx, JS_MKPTR(JS_TAG_OBJECT, p))) return FOREIGN_FUNCTION;
    switch (p->class_id) {
    case JS_CLASS_OBJECT: return FOREIGN_INSTANCE;
    case JS_CLASS_ERROR: case JS_CLASS_DOM_EXCEPTION: return FOREIGN_ERROR;
    case JS_CLASS_NUMBER: case JS_CLASS_STRING: case JS_CLASS_BOOLEAN: case JS_CLASS_SYMBOL: case JS_CLASS_BIG_INT:
        return FOREIGN_BOXED_PRIMITIVE;
    case JS_CLASS_DATE: return FOREIGN_DATE;
    case JS_CLASS_REGEXP: return FOREIGN_REG_EXP;
    case JS_CLASS_ARRAY_BUFFER: case JS_CLASS_SHARED_ARRAY_BUFFER: return FOREIGN_ARRAY_BUFFER;
    case JS_CLASS_MAP: return FOREIGN_MAP;
    case JS_CLASS_SET: return FOREIGN_SET;
    case JS_CLASS_WEAKMAP: case JS_CLASS_WEAKSET: case JS_CLASS_WEAK_REF: return FOREIGN_WEAK;
    case JS_CLASS_PROXY: return FOREIGN_PROXY;
    case JS_CLASS_PROMISE: return FOREIGN_PROMISE;
    default:
        if (p->class_id >= JS_CLASS_UINT8C_ARRAY && p->class_id <= JS_CLASS_DATAVIEW) return FOREIGN_TYPED_ARRAY;
        return FOREIGN_OTHER;
    }
}

static void out_text(Out *o, const char *s) { out_bytes(o, s, strlen(s)); }

static void out_index(Out *o, const char *before, uint32_t i, const char *after) {
    char digits[48];
    snprintf(digits, sizeof digits, "%s[%u]%s", before, i, after);
    out_text(o, digits);
}

static void out_step_key(Out *o, JSAtom atom) {
    char buf[ATOM_GET_STR_BUF_SIZE];
    if (__JS_AtomIsTaggedInt(atom)) { out_index(o, "", __JS_AtomToUInt32(atom), ""); return; }
    const char *name = JS_AtomGetStr(ctx, buf, sizeof buf, atom);
    bool plain = *name && !(*name >= '0' && *name <= '9');
    for (const char *p = name; *p; p++)
        plain &= (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '_' || *p == '$';
    out_text(o, plain ? "." : "[\"");
    out_text(o, name);
    if (!plain) out_text(o, "\"]");
}

/* The path to the current part, for example `args[0].items[3].run`. */
static void out_path(Out *o, Encoder *e) {
    enum { ENDS = 8 };
    out_text(o, e->root);
    if (e->first) out_index(o, "", e->arg, "");
    for (uint32_t d = 0; d < e->depth; d++) {
        if (e->depth > 2 * ENDS && d == ENDS) { out_text(o, "…"); d = e->depth - ENDS; }
        Frame *f = &e->frames[d];
        uint32_t i = f->next - 1;
        if (f->parts == ITEMS) out_index(o, "", i, "");
        else if (f->parts == NAMED) out_step_key(o, f->names[i].atom);
        else if (f->parts == LAID_OUT) { if ((int)i < f->obj->shape->prop_count) out_step_key(o, get_shape_prop(f->obj->shape)[i].atom); }
        else if (f->obj->class_id == JS_CLASS_MAP) out_index(o, i % 2 ? ".values()" : ".keys()", i / 2, "");
        else if (f->obj->class_id == JS_CLASS_SET) out_index(o, ".values()", i, "");
        else out_text(o, ".cause");
    }
}

/* Throws an Error of this name. */
static int throw_named(const char *name, const Out *message) {
    JSValue error = JS_NewObjectClass(ctx, JS_CLASS_ERROR);
    const int hidden = JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE;
    JS_DefinePropertyValue(ctx, error, JS_ATOM_message, JS_NewStringLen(ctx, (char *)message->data, message->len), hidden);
    JS_DefinePropertyValue(ctx, error, JS_ATOM_name, JS_NewString(ctx, name), hidden);
    build_backtrace(ctx, error, JS_UNDEFINED, NULL, 0, 0, 0);
    JS_Throw(ctx, error);
    return -1;
}

static int throw_not_copied(Encoder *e, const char *why) {
    Out text; out_init(&text);
    out_path(&text, e);
    out_u8(&text, ' ');
    out_text(&text, why);
    int ret = throw_named("SerializationError", &text);
    out_free(&text);
    return ret;
}

static int throw_not_cloned(const char *what) {
    Out text; out_init(&text);
    out_text(&text, what);
    out_text(&text, " could not be cloned");
    int ret = throw_named("DataCloneError", &text);
    out_free(&text);
    return ret;
}

static const char *foreign_name(int kind) {
    switch (kind) {
    case FOREIGN_FUNCTION: return "a function";
    case FOREIGN_SYMBOL: return "a symbol";
    case FOREIGN_WEAK: return "a weak reference or collection";
    case FOREIGN_PROMISE: return "a Promise";
    case FOREIGN_PROXY: return "a Proxy";
    case FOREIGN_BOXED_PRIMITIVE: return "a boxed symbol";
    case FOREIGN_ARRAY_BUFFER: return "a detached ArrayBuffer";
    case FOREIGN_TYPED_ARRAY: return "a view that exceeds its ArrayBuffer";
    default: return "an object of this class";
    }
}

static const char *why_not_copied(int kind) {
    switch (kind) {
    case FOREIGN_FUNCTION: return "is a function of the program, which cannot be copied; pass the value that it returns";
    case FOREIGN_SYMBOL: return "is a symbol, which cannot be copied; use a string";
    case FOREIGN_WEAK: return "is a weak reference or collection, which cannot be copied";
    case FOREIGN_PROMISE: return "is a Promise, which cannot be copied; await it";
    case FOREIGN_PROXY: return "is a Proxy, which cannot be copied; use a plain object";
    case FOREIGN_INSTANCE: return "is an instance of a class, which cannot be copied; use a plain object ({ ...value })";
    default: return "is not plain data and cannot be copied";
    }
}

/* Writes a string in place of a value that cannot be copied, for logs. */
static void describe(Encoder *e, int kind, JSObject *p) {
    static const char *const names[] = { [FOREIGN_FUNCTION] = "[Function", [FOREIGN_WEAK] = "[Weak", [FOREIGN_PROMISE] = "[Promise", [FOREIGN_PROXY] = "[Proxy" };
    const char *name = kind < (int)countof(names) ? names[kind] : NULL;
    Out text; out_init(&text);
    out_text(&text, name ? name : "[object");
    JSValueConst of = kind == FOREIGN_FUNCTION ? own_data_property(p, JS_ATOM_name) : JS_UNDEFINED;
    if (JS_IsString(of)) {
        JSValue flat = flat_string(of);
        if (JS_VALUE_GET_STRING(flat)->len) out_u8(&text, ' ');
        out_utf8(&text, JS_VALUE_GET_STRING(flat), 64);
        JS_FreeValue(ctx, flat);
    }
    out_u8(&text, ']');
    out_u8(e->out, TAG_STRING); out_varint(e->out, text.len); out_bytes(e->out, text.data, text.len);
    out_free(&text);
}

static int encode_foreign(Encoder *e, uint8_t kind, JSObject *p) {
    if (e->mode == MODE_CLONE) return throw_not_cloned(foreign_name(kind));
    if (e->mode == MODE_GRAPH) {
        const char *why = why_not_copied(kind);
        JSValueConst name = kind == FOREIGN_INSTANCE ? class_name(p) : JS_UNDEFINED;
        if (!JS_IsString(name)) return throw_not_copied(e, why);
        char instance[160];
        const char *text = JS_ToCString(ctx, name);
        snprintf(instance, sizeof instance, "is an instance of %.64s, which cannot be copied; use a plain object ({ ...value })", text);
        JS_FreeCString(ctx, text);
        return throw_not_copied(e, instance);
    }
    if (e->mode == MODE_LOG) { describe(e, kind, p); return 0; }
    out_u8(e->out, TAG_FOREIGN); out_u8(e->out, kind);
    if (kind == FOREIGN_INSTANCE) {
        JSValueConst name = class_name(p);
        if (JS_IsString(name)) out_string(e->out, name, 64); else out_ascii(e->out, "");
    }
    return 0;
}

/* The result of a getter. In logs, a string replaces one that throws. */
static JSValue read_result(Encoder *e, JSValue v) {
    if (!JS_IsException(v) || e->mode != MODE_LOG) return v;
    JS_FreeValue(ctx, JS_GetException(ctx));
    return JS_NewString(ctx, "[getter threw]");
}

/* ---- Objects ---- */

/* Whether the object's enumerable string-keyed properties can be read from its shape, in order. */
static bool is_plainly_laid_out(JSObject *p) {
    if (p->is_exotic) return false;
    JSShapeProperty *prs = get_shape_prop(p->shape);
    for (int i = 0; i < p->shape->prop_count; i++, prs++) {
        if (prs->atom == JS_ATOM_NULL || !(prs->flags & JS_PROP_ENUMERABLE)) continue;
        if ((prs->flags & JS_PROP_TMASK) != JS_PROP_NORMAL || __JS_AtomIsTaggedInt(prs->atom)) return false;
    }
    return true;
}

/* Whether an array has no holes and no enumerable properties besides its items. A frozen, sealed or non-extensible array
   has its items among its properties. */
static bool is_dense(JSObject *p, uint32_t len) {
    uint32_t items = p->fast_array ? p->u.array.count : 0;
    JSShapeProperty *prs = get_shape_prop(p->shape);
    for (int i = 0; i < p->shape->prop_count; i++, prs++) {
        if (prs->atom == JS_ATOM_NULL || !(prs->flags & JS_PROP_ENUMERABLE)) continue;
        if (!__JS_AtomIsTaggedInt(prs->atom)) return false;
        items++;
    }
    return items == len;
}

static void push(Encoder *e, Frame f) {
    if (e->depth == e->cap) {
        uint32_t cap = e->cap * 2;
        Frame *grown = js_realloc_rt(rt, e->frames == e->small ? NULL : e->frames, cap * sizeof(Frame));
        if (e->frames == e->small) memcpy(grown, e->small, sizeof e->small);
        e->frames = grown; e->cap = cap;
    }
    e->frames[e->depth++] = f;
}

/* Writes the properties of an object, or of an array that is not dense. */
static int encode_members(Encoder *e, JSObject *p) {
    Frame f = { .obj = p, .parts = NAMED };
    if (is_plainly_laid_out(p)) { f.parts = LAID_OUT; f.count = p->shape->prop_count; }
    else if (JS_GetOwnPropertyNames(ctx, &f.names, &f.count, JS_MKPTR(JS_TAG_OBJECT, p), JS_GPN_STRING_MASK | JS_GPN_ENUM_ONLY))
        return -1;
    push(e, f);
    return 0;
}

static int encode_array(Encoder *e, JSObject *p) {
    uint32_t len;
    if (js_get_length32(ctx, &len, JS_MKPTR(JS_TAG_OBJECT, p))) return -1;
    if (e->mode != MODE_JSON && !is_dense(p, len)) {
        out_u8(e->out, TAG_SPARSE); out_varint(e->out, len);
        return encode_members(e, p);
    }
    if (len > 1000000 && !is_dense(p, len)) /* nearly all of it would be holes */
        return encode_foreign(e, FOREIGN_SPARSE_ARRAY, p);
    out_u8(e->out, TAG_ARRAY); out_varint(e->out, len);
    push(e, (Frame){ .obj = p, .parts = ITEMS, .count = len });
    return 0;
}

/* Writes the current content of a Map or Set: changes by getters do not count. */
static int encode_collection(Encoder *e, JSObject *p, bool is_map) {
    JSMapState *s = p->u.map_state;
    Frame f = { .obj = p, .parts = LIST };
    f.list = js_malloc_rt(rt, (s->record_count * 2 + 1) * sizeof(JSValue));
    struct list_head *el;
    list_for_each(el, &s->records) {
        JSMapRecord *record = list_entry(el, JSMapRecord, link);
        if (record->empty) continue;
        f.list[f.count++] = js_dup(record->key);
        if (is_map) f.list[f.count++] = js_dup(record->value);
    }
    out_u8(e->out, is_map ? TAG_MAP : TAG_SET); out_varint(e->out, s->record_count);
    push(e, f);
    return 0;
}

static double date_value(JSObject *p) {
    double time;
    JS_ToFloat64(ctx, &time, p->u.object_data);
    return time;
}

static int encode_error(Encoder *e, JSObject *p) {
    Out *o = e->out;
    JSValueConst error = JS_MKPTR(JS_TAG_OBJECT, p);
    JSValue name = read_result(e, JS_GetProperty(ctx, error, JS_ATOM_name));
    if (JS_IsException(name)) return -1;
    JSValue message = js_dup(own_data_property(p, JS_ATOM_message));
    if (!JS_IsUndefined(message) && !JS_IsString(message)) {
        JSValue text = read_result(e, JS_ToString(ctx, message));
        JS_FreeValue(ctx, message);
        if (JS_IsException(text)) { JS_FreeValue(ctx, name); return -1; }
        message = text;
    }
    JSValueConst stack = p->u.object_data; /* the engine's record, not the property `stack` */
    JSProperty *pr;
    JSShapeProperty *cause = find_own_property(&pr, p, JS_ATOM_cause);
    bool has_cause = cause && (cause->flags & JS_PROP_TMASK) == JS_PROP_NORMAL;
    if (has_cause) {
        Frame f = { .obj = p, .parts = LIST, .count = 1 };
        f.list = js_malloc_rt(rt, sizeof(JSValue));
        f.list[0] = js_dup(pr->u.value);
        push(e, f);
    }
    out_u8(o, TAG_ERROR);
    if (JS_IsString(name)) out_string(o, name, 256); else out_ascii(o, "Error");
    out_u8(o, (JS_IsString(message) ? ERROR_MESSAGE : 0) | (JS_IsString(stack) ? ERROR_STACK : 0) | (has_cause ? ERROR_CAUSE : 0));
    if (JS_IsString(message)) out_string(o, message, UINT32_MAX);
    if (JS_IsString(stack)) out_string(o, stack, 16384);
    JS_FreeValue(ctx, name); JS_FreeValue(ctx, message);
    return 0;
}

static int encode_regexp(Encoder *e, JSObject *p) {
    static const struct { int flag; char letter; } letters[] = { /* in the order of `RegExp.prototype.flags` */
        { LRE_FLAG_INDICES, 'd' }, { LRE_FLAG_GLOBAL, 'g' }, { LRE_FLAG_IGNORECASE, 'i' }, { LRE_FLAG_MULTILINE, 'm' },
        { LRE_FLAG_DOTALL, 's' }, { LRE_FLAG_UNICODE, 'u' }, { LRE_FLAG_UNICODE_SETS, 'v' }, { LRE_FLAG_STICKY, 'y' },
    };
    JSRegExp *re = &p->u.regexp;
    int set = lre_get_flags(str8(re->bytecode));
    char flags[countof(letters) + 1];
    int n = 0;
    for (int i = 0; i < (int)countof(letters); i++) if (set & letters[i].flag) flags[n++] = letters[i].letter;
    flags[n] = 0;
    out_u8(e->out, TAG_REGEXP);
    out_string(e->out, JS_MKPTR(JS_TAG_STRING, re->pattern), UINT32_MAX);
    out_ascii(e->out, flags);
    return 0;
}

static int encode_buffer(Encoder *e, JSObject *p) {
    JSArrayBuffer *b = p->u.array_buffer;
    uint32_t key = (uint32_t)(uintptr_t)p;
    if (!e->buffers.slots) seen_init(&e->buffers);
    seen_add(&e->buffers, seen_slot(&e->buffers, key), key);
    seen_slot(&e->buffers, key)->index = b->byte_length;
    out_u8(e->out, TAG_BUFFER); out_varint(e->out, b->byte_length);
    out_varint(e->out, b->max_byte_length < 0 ? 0 : (uint32_t)b->max_byte_length + 1);
    out_bytes(e->out, b->data, b->byte_length);
    return 0;
}

static int encode_object(Encoder *e, JSObject *p);

static bool is_out_of_bounds(JSObject *p) {
    return p->class_id == JS_CLASS_DATAVIEW ? dataview_is_oob(p) : typed_array_is_oob(p);
}

static int encode_view(Encoder *e, JSObject *p) {
    JSTypedArray *view = p->u.typed_array;
    uint32_t len = p->class_id == JS_CLASS_DATAVIEW ? view->length : p->u.array.count;
    out_u8(e->out, TAG_VIEW); out_u8(e->out, p->class_id - JS_CLASS_UINT8C_ARRAY);
    out_varint(e->out, view->offset); out_varint(e->out, view->track_rab ? 0 : len + 1);
    return encode_object(e, view->buffer); /* recurses once: a buffer has no parts */
}

static bool is_bridged(JSObject *p) {
    return p->class_id == JS_CLASS_C_FUNCTION_DATA && p->u.c_function_data_record->func == call_bridged;
}

static void encode_bridged(Encoder *e, JSObject *p) {
    JSCFunctionDataRecord *record = p->u.c_function_data_record;
    JSValueConst name = own_data_property(p, JS_ATOM_name);
    out_u8(e->out, TAG_FUNCTION); out_varint(e->out, host_function_number(vc(record->data))); out_u8(e->out, record->magic);
    if (JS_IsString(name)) out_string(e->out, name, 256); else out_ascii(e->out, "");
}

static int encode_one(Encoder *e, JSValueConst v);

/* Whether the object is copied as a plain object. structuredClone copies instances of classes too, but no `arguments`. */
static bool is_plain_object(Encoder *e, JSObject *p) {
    if (e->mode == MODE_CLONE) return p->class_id == JS_CLASS_OBJECT;
    if (p->class_id != JS_CLASS_OBJECT && p->class_id != JS_CLASS_ARGUMENTS && p->class_id != JS_CLASS_MAPPED_ARGUMENTS) return false;
    JSObject *proto = p->shape->proto;
    return !proto || proto == JS_VALUE_GET_OBJ(ctx->class_proto[JS_CLASS_OBJECT]) || e->mode == MODE_LOG;
}

static bool is_view(JSObject *p) { return p->class_id >= JS_CLASS_UINT8C_ARRAY && p->class_id <= JS_CLASS_DATAVIEW; }

/* Whether objects of this class have a tag of their own. */
static bool is_rich(Encoder *e, JSObject *p) {
    switch (p->class_id) {
    case JS_CLASS_DATE: case JS_CLASS_MAP: case JS_CLASS_SET: case JS_CLASS_REGEXP: case JS_CLASS_ERROR: case JS_CLASS_ARRAY_BUFFER:
    case JS_CLASS_NUMBER: case JS_CLASS_STRING: case JS_CLASS_BOOLEAN: case JS_CLASS_BIG_INT:
        return true;
    default: return is_view(p) || (is_bridged(p) && e->mode != MODE_CLONE);
    }
}

static int encode_rich(Encoder *e, JSObject *p) {
    switch (p->class_id) {
    case JS_CLASS_DATE: out_u8(e->out, TAG_DATE); out_f64(e->out, date_value(p)); return 0;
    case JS_CLASS_MAP: return encode_collection(e, p, true);
    case JS_CLASS_SET: return encode_collection(e, p, false);
    case JS_CLASS_REGEXP: return encode_regexp(e, p);
    case JS_CLASS_ERROR: return encode_error(e, p);
    case JS_CLASS_ARRAY_BUFFER: return encode_buffer(e, p);
    case JS_CLASS_C_FUNCTION_DATA: encode_bridged(e, p); return 0;
    case JS_CLASS_NUMBER: case JS_CLASS_STRING: case JS_CLASS_BOOLEAN: case JS_CLASS_BIG_INT:
        out_u8(e->out, TAG_BOXED);
        return encode_one(e, p->u.object_data);
    default: return encode_view(e, p);
    }
}

/* The length of the copy of a buffer. */
static uint32_t copied_length(Encoder *e, JSObject *buffer) {
    Seen *seen = e->buffers.slots ? seen_slot(&e->buffers, (uint32_t)(uintptr_t)buffer) : NULL;
    return seen && seen->key ? seen->index : (uint32_t)buffer->u.array_buffer->byte_length;
}

/* Why the content of a buffer or view cannot be copied; NULL if it can. */
static const char *why_lost(Encoder *e, JSObject *p) {
    if (p->class_id == JS_CLASS_ARRAY_BUFFER && p->u.array_buffer->detached) return "is a detached ArrayBuffer, which cannot be copied";
    if (!is_view(p)) return NULL;
    if (is_out_of_bounds(p)) return "shows an ArrayBuffer that is detached or too short, and cannot be copied";
    JSTypedArray *view = p->u.typed_array;
    uint64_t end = view->offset;
    if (!view->track_rab) end += p->class_id == JS_CLASS_DATAVIEW ? view->length : (uint64_t)p->u.array.count << typed_array_size_log2(p->class_id);
    if (end > copied_length(e, view->buffer)) return "shows more of an ArrayBuffer than it had when it was copied";
    return NULL;
}

/* Numbers the object, and holds a reference until the encoder is freed. */
static void number_seen(Encoder *e, Seen *seen, JSObject *p) {
    js_dup(JS_MKPTR(JS_TAG_OBJECT, p));
    seen_add(&e->objects, seen, (uint32_t)(uintptr_t)p);
}

static int encode_object(Encoder *e, JSObject *p) {
    Seen *seen = seen_slot(&e->objects, (uint32_t)(uintptr_t)p);
    if (seen->key) { out_u8(e->out, TAG_REF); out_varint(e->out, e->first + seen->index); return 0; }
    if (p->class_id == JS_CLASS_ARRAY) { number_seen(e, seen, p); return encode_array(e, p); }
    if (is_plain_object(e, p)) { number_seen(e, seen, p); out_u8(e->out, TAG_OBJECT); return encode_members(e, p); }
    if (e->mode == MODE_JSON || !is_rich(e, p)) return encode_foreign(e, foreign_kind(p), p);
    const char *lost = why_lost(e, p);
    if (lost && e->mode == MODE_GRAPH) return throw_not_copied(e, lost);
    if (lost) return encode_foreign(e, foreign_kind(p), p);
    number_seen(e, seen, p);
    return encode_rich(e, p);
}

static void out_bigint(Out *o, JSValueConst v) {
    JSBigIntBuf buf;
    JSBigInt *p = JS_VALUE_GET_TAG(v) == JS_TAG_SHORT_BIG_INT ? js_bigint_set_short(&buf, v) : JS_VALUE_GET_PTR(v);
    out_u8(o, TAG_BIGINT); out_varint(o, p->len * sizeof(js_limb_t)); out_bytes(o, p->tab, p->len * sizeof(js_limb_t));
}

/* Runs guest code only for errors: the getter of their `name`, and the conversion of their message to a string. By then
   the table of objects holds the error, so the caller need not hold `v`. */
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
    case JS_TAG_SYMBOL:
        if (e->mode != MODE_LOG) return encode_foreign(e, FOREIGN_SYMBOL, NULL);
        JSValue text = js_symbol_toString(ctx, v, 0, NULL);
        out_u8(o, TAG_STRING); out_string(o, text, UINT32_MAX);
        JS_FreeValue(ctx, text);
        return 0;
    case JS_TAG_BIG_INT: case JS_TAG_SHORT_BIG_INT:
        if (e->mode == MODE_JSON) return encode_foreign(e, FOREIGN_BIG_INT, NULL);
        out_bigint(o, v);
        return 0;
    default: out_u8(o, TAG_UNDEFINED); return 0;
    }
}

/* ---- Parts of objects ---- */

/* A key is 1 and its text the first time, and 2 plus its number after that; 0 ends an object. */
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
    JSValue v = read_result(e, JS_GetPropertyUint32(ctx, array, i));
    if (JS_IsException(v)) return -1;
    int ret = encode_one(e, v);
    JS_FreeValue(ctx, v);
    return ret;
}

/* Writes property `i` of the shape. The getter of a sibling may have changed the object since the frame was pushed, so
   everything is checked again. */
static int encode_laid_out(Encoder *e, JSObject *p, uint32_t i) {
    if ((int)i >= p->shape->prop_count || p->is_exotic) return 0;
    JSShapeProperty *prs = &get_shape_prop(p->shape)[i];
    if (prs->atom == JS_ATOM_NULL || !(prs->flags & JS_PROP_ENUMERABLE)) return 0;
    if ((prs->flags & JS_PROP_TMASK) != JS_PROP_NORMAL || JS_AtomGetKind(ctx, prs->atom) != JS_ATOM_KIND_STRING) return 0;
    encode_key(e, prs->atom);
    return encode_one(e, p->prop[i].u.value);
}

/* As structuredClone does, omits a property that a getter has removed meanwhile. */
static int encode_named(Encoder *e, JSObject *p, JSAtom atom) {
    JSValueConst object = JS_MKPTR(JS_TAG_OBJECT, p);
    if (e->mode != MODE_JSON) {
        int has = JS_GetOwnProperty(ctx, NULL, object, atom);
        if (has <= 0) return has;
    }
    JSValue v = read_result(e, JS_GetProperty(ctx, object, atom));
    if (JS_IsException(v)) return -1;
    encode_key(e, atom);
    int ret = encode_one(e, v);
    JS_FreeValue(ctx, v);
    return ret;
}

/* Writes the remaining parts of the innermost object, until another object opens or this one ends. */
static int encode_rest(Encoder *e) {
    uint32_t depth = e->depth;
    for (;;) {
        Frame *f = &e->frames[depth - 1];
        if (f->next == f->count) {
            if (f->parts == NAMED || f->parts == LAID_OUT) out_u8(e->out, 0);
            frame_free(f);
            e->depth--;
            return 0;
        }
        uint32_t i = f->next++;
        int ret = f->parts == ITEMS ? encode_element(e, f->obj, i)
                : f->parts == NAMED ? encode_named(e, f->obj, f->names[i].atom)
                : f->parts == LIST ? encode_one(e, f->list[i])
                : encode_laid_out(e, f->obj, i);
        if (ret || e->depth != depth) return ret;
    }
}

static void encoder_init(Encoder *e, Out *out, Mode mode, const char *root) {
    e->out = out; e->frames = e->small; e->cap = countof(e->small); e->depth = 0;
    e->mode = mode; e->root = root; e->first = 0;
    e->buffers.slots = NULL;
    seen_init(&e->objects); seen_init(&e->keys);
}

/* Writes `v`, without recursion. -1 with an exception pending if a getter threw or something cannot be copied. */
static int encode(Out *out, JSValueConst v, Mode mode, const char *root) {
    Encoder e;
    encoder_init(&e, out, mode, root);
    int ret = encode_one(&e, v);
    while (ret == 0 && e.depth) ret = encode_rest(&e);
    encoder_free(&e);
    return ret;
}

/* Writes the arguments of a call as an array, which is object number 0. */
static int encode_args(Out *out, int argc, JSValueConst *argv, Mode mode) {
    Encoder e;
    encoder_init(&e, out, mode, "args");
    e.first = 1;
    out_u8(out, TAG_ARRAY); out_varint(out, argc);
    int ret = 0;
    for (e.arg = 0; ret == 0 && e.arg < (uint32_t)argc; e.arg++) {
        ret = encode_one(&e, argv[e.arg]);
        while (ret == 0 && e.depth) ret = encode_rest(&e);
    }
    encoder_free(&e);
    return ret;
}
