/*
 * The check of memory accounting, for debug builds of the host. Part of guest.c.
 */

/* The last call of a guest, after the program has ended. Frees everything, and returns how many bytes are still counted as
   in use: 0, unless something leaks or is counted wrongly. */
EXPORT(guest_check) size_t guest_check(void) {
    JS_UpdateStackTop(rt);
    rt->malloc_state.malloc_limit = 0;
    for (uint32_t i = 0; i < slot_count; i++) { JS_FreeValue(ctx, slots[i].promise); JS_FreeValue(ctx, slots[i].caller); }
    js_free_rt(rt, slots);
    for (uint32_t i = 0; i < host_promise_count; i++) JS_FreeValue(ctx, host_promises[i]);
    js_free_rt(rt, host_promises);
    for (uint32_t i = 0; i < module_count; i++) JS_FreeValue(ctx, modules[i].exports);
    if (module_numbers.slots != module_numbers.small) js_free_rt(rt, module_numbers.slots);
    for (uint32_t i = 0; i < rejected.count; i++) JS_FreeValue(ctx, rejected.promises[i]);
    JS_FreeValue(ctx, last_thrown.value); JS_FreeValue(ctx, last_thrown.frames);
    for (int i = 0; i < LIBRARY_COUNT; i++) if (library_has_run[i]) JS_FreeValue(ctx, library_objects[i]);
    JS_FreeValue(ctx, selected.args);
    JS_FreeValue(ctx, program); JS_FreeValue(ctx, return_this);
    js_clear_kept_alive(rt);
    while (kept) {
        Kept *next = kept->next;
        js_free_rt(rt, kept);
        kept = next;
    }
    JS_FreeContext(ctx);
    JS_FreeRuntime(rt);
    return used_at_end;
}
