/*
 * Bytes to values, and structuredClone. Part of guest.c.
 *
 * Reads one value, without recursion. The bytes come from the host or from encode.c: malformed bytes are a trap, not an
 * error. Nothing is looked up or called that guest code can replace.
 */

/* An object whose parts are being read. `key`: of the next property; `held`: the key of the current entry of a Map. */
enum { NEST_ITEMS, NEST_MEMBERS, NEST_MAP, NEST_SET, NEST_CAUSE };
typedef struct { JSValue value, held; uint32_t next, count; JSAtom key; uint8_t parts; bool has_key; } Nest;

typedef struct { JSAtom *items; uint32_t count, cap; } Keys;

typedef struct {
    Reader *r;
    Keys keys;
    Nest *stack; uint32_t depth, cap;
    bool has_references; /* JSON has none */
    JSValue *objects; uint32_t count, objects_cap; /* by number, for references */
    bool is_clone; /* for structuredClone, which does not keep custom names of errors */
} Decoder;

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
    add_property(ctx, p, key, JS_PROP_C_W_E)->u.value = v; /* an own property, even for `__proto__` */
}

static void decoder_free(Decoder *d) {
    for (uint32_t i = 0; i < d->depth; i++) { JS_FreeValue(ctx, d->stack[i].value); JS_FreeValue(ctx, d->stack[i].held); }
    for (uint32_t i = 0; i < d->count; i++) JS_FreeValue(ctx, d->objects[i]);
    for (uint32_t i = 0; i < d->keys.count; i++) JS_FreeAtom(ctx, d->keys.items[i]);
    js_free_rt(rt, d->objects); js_free_rt(rt, d->keys.items); js_free_rt(rt, d->stack);
}

/* Gives the next number to `v`. A view begins before it can be made: it is stored under its number later. */
static uint32_t number_object(Decoder *d, JSValueConst v) {
    if (!d->has_references) return 0;
    if (d->count == d->objects_cap) {
        d->objects_cap = d->objects_cap ? d->objects_cap * 2 : 16;
        d->objects = js_realloc_rt(rt, d->objects, d->objects_cap * sizeof(JSValue));
    }
    d->objects[d->count] = js_dup(v);
    return d->count++;
}

static void nest(Decoder *d, JSValue v, int parts, uint32_t count) {
    if (d->depth == d->cap) { d->cap = d->cap ? d->cap * 2 : 8; d->stack = js_realloc_rt(rt, d->stack, d->cap * sizeof(Nest)); }
    d->stack[d->depth++] = (Nest){ .value = v, .held = JS_UNDEFINED, .count = count, .key = JS_ATOM_NULL, .parts = parts };
}

static JSValue decode_bigint(Reader *r) {
    uint32_t len = read_varint(r);
    const uint8_t *bytes = read_bytes(r, len);
    JSBigInt *p = js_bigint_new(ctx, (len + sizeof(js_limb_t) - 1) / sizeof(js_limb_t));
    if (!p) return JS_EXCEPTION;
    memset(p->tab, len && bytes[len - 1] & 0x80 ? 0xff : 0, p->len * sizeof(js_limb_t));
    memcpy(p->tab, bytes, len);
    return JS_CompactBigInt(ctx, js_bigint_normalize(ctx, p));
}

static JSValue decode_regexp(Reader *r) {
    JSValue pattern = decode_string(r), flags = decode_string(r);
    JSValue bytecode = js_compile_regexp(ctx, pattern, flags);
    JS_FreeValue(ctx, flags);
    if (JS_IsException(bytecode)) { JS_FreeValue(ctx, pattern); return JS_EXCEPTION; }
    return js_regexp_constructor_internal(ctx, JS_UNDEFINED, pattern, bytecode);
}

/* The prototype of an ECMAScript error class; undefined for other names. */
static JSValueConst error_proto(const uint8_t *name, uint32_t len) {
    static const struct { const char *name; int kind; } known[] = {
        { "EvalError", JS_EVAL_ERROR }, { "RangeError", JS_RANGE_ERROR }, { "ReferenceError", JS_REFERENCE_ERROR },
        { "SyntaxError", JS_SYNTAX_ERROR }, { "TypeError", JS_TYPE_ERROR }, { "URIError", JS_URI_ERROR },
    };
    for (int i = 0; i < (int)countof(known); i++)
        if (strlen(known[i].name) == len && !memcmp(known[i].name, name, len)) return ctx->native_error_proto[known[i].kind];
    if (len == 5 && !memcmp("Error", name, len)) return ctx->class_proto[JS_CLASS_ERROR];
    return JS_UNDEFINED;
}

static JSValue decode_error(Decoder *d, bool *has_cause) {
    Reader *r = d->r;
    uint32_t len = read_varint(r);
    const uint8_t *name = read_bytes(r, len);
    JSValueConst proto = error_proto(name, len);
    bool has_proto = !JS_IsUndefined(proto);
    JSValue error = JS_NewObjectProtoClass(ctx, has_proto ? proto : ctx->class_proto[JS_CLASS_ERROR], JS_CLASS_ERROR);
    const int hidden = JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE;
    uint8_t parts = read_u8(r);
    JSObject *p = JS_VALUE_GET_OBJ(error);
    if (!has_proto && !d->is_clone) add_property(ctx, p, JS_ATOM_name, hidden)->u.value = JS_NewStringLen(ctx, (const char *)name, len);
    if (parts & ERROR_MESSAGE) { JSValue text = decode_string(r); add_property(ctx, p, JS_ATOM_message, hidden)->u.value = text; }
    if (parts & ERROR_STACK) { JSValue text = decode_string(r); set_value(ctx, &p->u.object_data, text); }
    *has_cause = parts & ERROR_CAUSE;
    return error;
}

static JSValue decode_buffer(Reader *r) {
    uint32_t len = read_varint(r), most = read_varint(r);
    const uint8_t *bytes = read_bytes(r, len);
    uint64_t max_len = most - 1;
    uint8_t *data = js_malloc_rt(rt, len ? len : 1);
    memcpy(data, bytes, len);
    JSValue buffer = js_array_buffer_constructor3(ctx, JS_UNDEFINED, len, most ? &max_len : NULL, JS_CLASS_ARRAY_BUFFER, data,
                                                  js_array_buffer_realloc, NULL, false);
    if (JS_IsException(buffer)) js_free_rt(rt, data);
    return buffer;
}

/* A view and its buffer, which may have been read before. */
static JSValue decode_view(Decoder *d) {
    Reader *r = d->r;
    int class_id = JS_CLASS_UINT8C_ARRAY + read_u8(r);
    uint32_t offset = read_varint(r), len = read_varint(r);
    bool follows = len == 0;
    if (class_id > JS_CLASS_DATAVIEW || !d->has_references) __builtin_trap();
    uint32_t number = number_object(d, JS_UNDEFINED); /* the view precedes its buffer */
    JSValue buffer;
    if (read_u8(r) == TAG_REF) {
        uint32_t n = read_varint(r);
        if (n >= d->count) __builtin_trap();
        buffer = js_dup(d->objects[n]);
    } else {
        buffer = decode_buffer(r);
        if (JS_IsException(buffer)) return buffer;
        number_object(d, buffer);
    }
    if (JS_VALUE_GET_TAG(buffer) != JS_TAG_OBJECT || JS_VALUE_GET_OBJ(buffer)->class_id != JS_CLASS_ARRAY_BUFFER) __builtin_trap();
    JSValue view;
    if (class_id == JS_CLASS_DATAVIEW) {
        JSValueConst args[] = { buffer, js_uint32(offset), follows ? JS_UNDEFINED : js_uint32(len - 1) };
        view = js_dataview_constructor(ctx, JS_UNDEFINED, 3, args);
        JS_FreeValue(ctx, buffer);
    } else {
        JSArrayBuffer *b = JS_VALUE_GET_OBJ(buffer)->u.array_buffer;
        int shift = typed_array_size_log2(class_id);
        uint64_t end = follows ? offset : offset + ((uint64_t)(len - 1) << shift);
        if (end > (uint32_t)b->byte_length || (follows && b->max_byte_length < 0)) __builtin_trap();
        view = js_create_from_ctor(ctx, JS_UNDEFINED, class_id);
        if (typed_array_init(ctx, view, buffer, offset, follows ? (b->byte_length - offset) >> shift : len - 1, follows)) __builtin_trap();
    }
    if (JS_IsException(view)) return view;
    d->objects[number] = js_dup(view);
    return view;
}

static JSValue decode_bridged(Reader *r) {
    uint32_t number = read_varint(r);
    uint8_t kind = read_u8(r);
    JSValue name = decode_string(r);
    const char *text = JS_ToCString(ctx, name);
    JSValue function = new_host_function(call_bridged, text, 0, kind, number);
    JS_FreeCString(ctx, text);
    JS_FreeValue(ctx, name);
    return function;
}

static JSValue decode_promise(Reader *r) {
    JSValue promise = new_promise();
    keep_host_promise(read_varint(r), promise);
    return promise;
}

static JSValue decode_primitive(Reader *r, uint8_t tag) {
    switch (tag) {
    case TAG_UNDEFINED: return JS_UNDEFINED;
    case TAG_NULL: return JS_NULL;
    case TAG_FALSE: return JS_FALSE;
    case TAG_TRUE: return JS_TRUE;
    case TAG_INT: { uint32_t z = read_varint(r); return js_int32((int32_t)(z >> 1 ^ -(z & 1))); }
    case TAG_F64: return js_float64(read_f64(r));
    case TAG_STRING: return decode_string(r);
    case TAG_BIGINT: return decode_bigint(r);
    default: __builtin_trap();
    }
}

static JSValue decode_boxed(Reader *r) {
    JSValue primitive = decode_primitive(r, read_u8(r)), boxed = JS_ToObject(ctx, primitive);
    JS_FreeValue(ctx, primitive);
    return boxed;
}

/* An empty array of this length, for its properties to be defined. */
static JSValue new_sparse_array(uint32_t len) {
    JSValue array = JS_NewArray(ctx);
    JS_SetProperty(ctx, array, JS_ATOM_length, js_uint32(len)); /* runs no guest code */
    return array;
}

/* Reads a primitive, a reference, or the beginning of an object. `opens` is set if its parts follow: it is on the stack.
   A hole is JS_UNINITIALIZED. */
static JSValue decode_one(Decoder *d, bool *opens) {
    Reader *r = d->r;
    uint8_t tag = read_u8(r);
    JSValue v;
    int parts = NEST_MEMBERS;
    uint32_t count = 1;
    switch (tag) {
    case TAG_ARRAY: count = read_varint(r); v = js_allocate_fast_array(ctx, count); parts = NEST_ITEMS; break;
    case TAG_OBJECT: v = JS_NewObject(ctx); break;
    case TAG_SPARSE: v = new_sparse_array(read_varint(r)); break;
    case TAG_MAP: count = read_varint(r); v = js_map_constructor(ctx, JS_UNDEFINED, 0, NULL, 0); parts = NEST_MAP; break;
    case TAG_SET: count = read_varint(r); v = js_map_constructor(ctx, JS_UNDEFINED, 0, NULL, MAGIC_SET); parts = NEST_SET; break;
    case TAG_ERROR: { bool has_cause; v = decode_error(d, &has_cause); count = has_cause; parts = NEST_CAUSE; break; }
    case TAG_HOLE:
        if (d->depth == 0 || d->stack[d->depth - 1].parts != NEST_ITEMS) __builtin_trap();
        return JS_UNINITIALIZED;
    case TAG_VIEW: return decode_view(d);
    case TAG_REF: {
        uint32_t n = read_varint(r);
        if (n >= d->count) __builtin_trap();
        return js_dup(d->objects[n]); }
    case TAG_DATE: v = JS_NewDate(ctx, read_f64(r)); count = 0; break;
    case TAG_REGEXP: v = decode_regexp(r); count = 0; break;
    case TAG_BUFFER: v = decode_buffer(r); count = 0; break;
    case TAG_BOXED: v = decode_boxed(r); count = 0; break;
    case TAG_FUNCTION: v = decode_bridged(r); count = 0; break;
    case TAG_PROMISE: v = decode_promise(r); count = 0; break;
    default: return decode_primitive(r, tag);
    }
    if (JS_IsException(v)) return v;
    number_object(d, v);
    if (count) { nest(d, v, parts, count); *opens = true; }
    return v;
}

/* An array is fast until it has a hole. */
static void place_item(JSValueConst array, uint32_t i, JSValue v) {
    JSObject *p = JS_VALUE_GET_OBJ(array);
    if (JS_IsUninitialized(v)) JS_DeletePropertyInt64(ctx, array, i, 0);
    else if (p->fast_array) p->u.array.u.values[i] = v;
    else JS_DefinePropertyValueUint32(ctx, array, i, v, JS_PROP_C_W_E);
}

/* Makes a finished value the next part of the innermost object. */
static void place(Nest *n, JSValue v) {
    switch (n->parts) {
    case NEST_ITEMS: place_item(n->value, n->next++, v); return;
    case NEST_MEMBERS:
        if (JS_VALUE_GET_OBJ(n->value)->class_id == JS_CLASS_ARRAY) JS_DefinePropertyValue(ctx, n->value, n->key, v, JS_PROP_C_W_E);
        else set_own(n->value, n->key, v);
        return;
    case NEST_CAUSE:
        add_property(ctx, JS_VALUE_GET_OBJ(n->value), JS_ATOM_cause, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE)->u.value = v;
        n->next++;
        return;
    case NEST_MAP:
        if (!n->has_key) { n->held = v; n->has_key = true; return; }
    }
    JSValueConst entry[] = { n->parts == NEST_MAP ? n->held : v, v };
    JS_FreeValue(ctx, js_map_set(ctx, n->value, 2, entry, n->parts == NEST_SET ? MAGIC_SET : 0));
    JS_FreeValue(ctx, n->held); JS_FreeValue(ctx, v);
    n->held = JS_UNDEFINED; n->has_key = false;
    n->next++;
}

/* Whether the innermost object has another part. */
static bool has_next(Decoder *d, Nest *n) {
    if (n->parts != NEST_MEMBERS) return n->next < n->count;
    return (n->key = decode_key(d->r, &d->keys)) != JS_ATOM_NULL;
}

/* Reads one value. JS_EXCEPTION where the engine cannot make it: an invalid RegExp, a bigint or buffer that is too long. */
static JSValue decode_with(Decoder *d) {
    for (;;) {
        bool opens = false;
        JSValue v = decode_one(d, &opens);
        if (JS_IsException(v)) { decoder_free(d); return v; }
        /* Place finished values until an object has another part. */
        for (;; opens = false) {
            if (!opens) {
                if (d->depth == 0) { decoder_free(d); return v; }
                place(&d->stack[d->depth - 1], v);
            }
            Nest *n = &d->stack[d->depth - 1];
            if (has_next(d, n)) break;
            v = n->value;
            d->depth--;
        }
    }
}

/* A value from the host. */
static JSValue decode(Reader *r) {
    Decoder d = { .r = r, .has_references = has_modules };
    return decode_with(&d);
}

/* ---- structuredClone --------------------------------------------------------------------------------------------- */

/* `structuredClone(value)`: encodes the value and decodes the copy. Its second argument is ignored: nothing is transferred.
   Functions of the host and promises are not cloned. */
static JSValue structured_clone(JSContext *c, JSValueConst this_val, int argc, JSValueConst *argv) {
    JSValueConst v = argc > 0 ? argv[0] : JS_UNDEFINED;
    if (!JS_IsObject(v) && !JS_IsSymbol(v)) return js_dup(v);
    Out bytes; out_init(&bytes);
    bytes.is_internal = true;
    JSValue copy = JS_EXCEPTION;
    if (encode(&bytes, v, MODE_CLONE, "") == 0) {
        Reader r = { bytes.data, bytes.data + bytes.len };
        Decoder d = { .r = &r, .has_references = true, .is_clone = true };
        copy = decode_with(&d);
    }
    out_free(&bytes);
    return copy;
}

static void add_structured_clone(JSValueConst global) {
    JSValue function = JS_NewCFunction(ctx, structured_clone, "structuredClone", 1);
    JS_DefinePropertyValueStr(ctx, global, "structuredClone", function, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
}
