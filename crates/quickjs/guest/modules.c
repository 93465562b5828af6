/*
 * ES modules. Part of guest.c.
 *
 * The first message has all modules. A module is compiled when it is first imported, and found by name: for `import`
 * declarations without recursion, and for `import(…)` if the module is importable.
 */

typedef struct {
    JSAtom name;
    const char *code; uint32_t len; /* its source, until it is compiled */
    Shifts shifts;
    JSValue exports;                /* of a synthetic module: the object whose properties it exports */
    JSModuleDef *def;
    bool is_synthetic, is_importable;
} Module;

static Module *modules;
static uint32_t module_count;
static SeenTable module_numbers; /* by name */

/* The last link error, for the host; guest code sees the pending exception. */
enum { LINK_BINDING, LINK_SYNTAX, LINK_SPECIFIER, LINK_EXPORT };
static struct { int kind; JSAtom module, specifier; } link_error;

static int fail_to_link(int kind, JSAtom module, JSAtom specifier) {
    link_error.kind = kind; link_error.module = module; link_error.specifier = specifier;
    return -1;
}

static Module *find_module(JSAtom name) {
    Seen *seen = seen_slot(&module_numbers, name + 1);
    return seen->key ? &modules[seen->index] : NULL;
}

static const Shifts *module_shifts(JSAtom name) {
    Module *m = module_count ? find_module(name) : NULL;
    return m ? &m->shifts : NULL;
}

/* ---- Names ---- */

/* Appends the parts of a path to `path`, which is `./` and then parts: `.` is skipped, `..` removes the last one.
   False above the root. */
static bool out_path_parts(Out *path, const char *at, const char *end) {
    while (at < end) {
        const char *part = at;
        while (at < end && *at != '/') at++;
        size_t len = at - part;
        if (at < end) at++; /* the slash */
        if (len == 1 && part[0] == '.') continue;
        if (len == 2 && part[0] == '.' && part[1] == '.') {
            if (path->len == 1) return false;
            do path->len--; while (path->data[path->len] != '/');
            continue;
        }
        out_u8(path, '/'); out_bytes(path, part, len);
    }
    return true;
}

/* Whether it is `.` or `..`, or begins with `./` or `../`. */
static bool is_relative(const char *specifier, size_t len) {
    size_t dots = len >= 1 && specifier[0] == '.' ? (len >= 2 && specifier[1] == '.' ? 2 : 1) : 0;
    return dots && (len == dots || specifier[dots] == '/');
}

/* Whether a name is an absolute path or a URL. */
static bool is_absolute(const char *name) {
    if (*name == '/') return true;
    if (!((*name | 32) >= 'a' && (*name | 32) <= 'z')) return false;
    while (((*name | 32) >= 'a' && (*name | 32) <= 'z') || (*name >= '0' && *name <= '9') || *name == '+' || *name == '-' || *name == '.') name++;
    return *name == ':';
}

/* Resolves `specifier` in `importer`; JS_ATOM_NULL above the root. The folder of an absolute name, and of a name above the
   root, is the root. */
static JSAtom resolve_name(const char *importer, const char *specifier, size_t len) {
    if (!is_relative(specifier, len)) return JS_NewAtomLen(ctx, specifier, len);
    const char *folder_end = strrchr(importer, '/');
    Out path; out_init(&path);
    out_u8(&path, '.');
    if (is_absolute(importer) || !out_path_parts(&path, importer, folder_end ? folder_end : importer)) path.len = 1;
    bool exists = out_path_parts(&path, specifier, specifier + len);
    JSAtom name = exists ? JS_NewAtomLen(ctx, (const char *)path.data, path.len) : JS_ATOM_NULL;
    out_free(&path);
    return name;
}

/* ---- Linking ---- */

static int init_synthetic(JSContext *c, JSModuleDef *def) {
    for (int i = 0; i < def->export_entries_count; i++) {
        JSExportEntry *export = &def->export_entries[i];
        JSValueConst value = own_data_property(JS_VALUE_GET_OBJ(def->private_value), export->export_name);
        set_value(ctx, export->u.local.var_ref->pvalue, js_dup(value));
    }
    return 0;
}

static JSModuleDef *make_synthetic(Module *m) {
    JSModuleDef *def = js_new_module_def(ctx, JS_DupAtom(ctx, m->name));
    def->init_func = init_synthetic;
    def->private_value = js_dup(m->exports);
    JSPropertyEnum *names; uint32_t count;
    if (JS_GetOwnPropertyNames(ctx, &names, &count, m->exports, JS_GPN_STRING_MASK | JS_GPN_ENUM_ONLY)) __builtin_trap();
    for (uint32_t i = 0; i < count; i++) add_export_entry2(ctx, NULL, def, JS_ATOM_NULL, names[i].atom, JS_EXPORT_TYPE_LOCAL);
    js_free_prop_enum(ctx, names, count);
    return def;
}

/* While a module is compiled, the engine does not resolve its imports: resolve_imports does afterwards. */
static bool compiling;

static JSModuleDef *compile_module(Module *m) {
    const char *name = JS_AtomToCString(ctx, m->name);
    compiling = true;
    JSValue module = __JS_EvalInternal(ctx, ctx->global_obj, m->code, m->len, name, 1, JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY, -1);
    compiling = false;
    JS_FreeCString(ctx, name);
    if (JS_IsException(module)) { fail_to_link(LINK_SYNTAX, m->name, JS_ATOM_NULL); return NULL; }
    JSModuleDef *def = JS_VALUE_GET_PTR(module);
    JS_FreeValue(ctx, module);
    return def;
}

static JSModuleDef *module_def(Module *m) {
    if (!m->def) m->def = m->is_synthetic ? make_synthetic(m) : compile_module(m);
    return m->def;
}

/* The compiled module for `specifier` in `importer`. NULL with an exception pending. */
static JSModuleDef *import_module(JSAtom importer, const char *importer_name, JSAtom specifier, JSValueConst attributes, bool is_dynamic) {
    size_t len;
    const char *text = JS_AtomToCStringLen(ctx, &len, specifier);
    JSAtom name = resolve_name(importer_name, text, len);
    Module *m = name == JS_ATOM_NULL ? NULL : find_module(name);
    JS_FreeAtom(ctx, name);
    JSModuleDef *def = NULL;
    if (!m || (is_dynamic && !m->is_importable)) {
        JS_ThrowTypeError(ctx, "there is no module '%s' for '%s' to import", text, importer_name);
        fail_to_link(LINK_SPECIFIER, importer, specifier);
    } else if (JS_IsObject(attributes)) {
        JS_ThrowTypeError(ctx, "import attributes are not supported: '%s' in '%s'", text, importer_name);
        fail_to_link(LINK_BINDING, importer, specifier);
    } else def = module_def(m);
    JS_FreeCString(ctx, text);
    return def;
}

/* Resolves the imports of `first` and of the modules that it imports. The engine's own code recurses (see quickjs.patch). */
static int resolve_imports(JSModuleDef *first) {
    if (compiling || first->resolved) return 0;
    JSModuleDef **found = js_malloc_rt(rt, 16 * sizeof(*found));
    uint32_t count = 0, cap = 16;
    found[count++] = first;
    first->resolved = true;
    int ret = 0;
    for (uint32_t i = 0; ret == 0 && i < count; i++) {
        JSModuleDef *importer = found[i];
        const char *name = JS_AtomToCString(ctx, importer->module_name);
        for (int j = 0; j < importer->req_module_entries_count; j++) {
            JSReqModuleEntry *request = &importer->req_module_entries[j];
            JSModuleDef *def = import_module(importer->module_name, name, request->module_name, request->attributes, false);
            if (!def) { ret = -1; break; }
            request->module = def;
            if (def->resolved) continue;
            def->resolved = true;
            if (count == cap) { cap *= 2; found = js_realloc_rt(rt, found, cap * sizeof(*found)); }
            found[count++] = def;
        }
        JS_FreeCString(ctx, name);
    }
    if (ret) for (uint32_t i = 0; i < count; i++) found[i]->resolved = false; /* the next attempt fails again */
    js_free_rt(rt, found);
    return ret;
}

/* Called by the engine for `import(…)` (see quickjs.patch). */
static JSModuleDef *import_dynamically(const char *importer, const char *specifier, JSValueConst attributes) {
    if (!has_modules) { JS_ThrowReferenceError(ctx, "cannot import '%s': a script has no modules; write the code that it needs", specifier); return NULL; }
    JSAtom name = JS_NewAtom(ctx, specifier);
    JSModuleDef *def = import_module(JS_ATOM_NULL, importer, name, attributes, true);
    JS_FreeAtom(ctx, name);
    return def && resolve_imports(def) == 0 ? def : NULL;
}

/* Called by the engine for the first `import.meta` of a module (see quickjs.patch): `{ url }` without a prototype. */
static JSValue new_import_meta(JSModuleDef *def) {
    JSValue meta = JS_NewObjectProto(ctx, JS_NULL);
    const char *name = JS_AtomToCString(ctx, def->module_name);
    Out url; out_init(&url);
    out_text(&url, "sandbox:"); out_text(&url, name);
    JS_DefinePropertyValueStr(ctx, meta, "url", JS_NewStringLen(ctx, (char *)url.data, url.len), JS_PROP_C_W_E);
    out_free(&url);
    JS_FreeCString(ctx, name);
    return meta;
}

/* ---- Promises of the host ---- */

static JSValue *host_promises; /* by number; undefined once settled */
static uint32_t host_promise_count;

static void keep_host_promise(uint32_t number, JSValueConst promise) {
    if (number >= 1u << 28) host_memory_refused(); /* the table would not fit */
    if (number >= host_promise_count) {
        uint32_t count = host_promise_count * 2 > number ? host_promise_count * 2 : number + 8;
        host_promises = js_realloc_rt(rt, host_promises, count * sizeof(JSValue));
        while (host_promise_count < count) host_promises[host_promise_count++] = JS_UNDEFINED;
    }
    set_value(ctx, &host_promises[number], js_dup(promise));
}

/* Removes the promise of that number from the table, and returns it; undefined if there is none. */
static JSValue take_host_promise(uint32_t number) {
    if (number >= host_promise_count) return JS_UNDEFINED;
    JSValue promise = host_promises[number];
    host_promises[number] = JS_UNDEFINED;
    return promise;
}
