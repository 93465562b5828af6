/** One execution: its result, its events, and what the service asks of it: tools, functions, promises and questions. */

import { AsyncResource } from "node:async_hooks";

import { ExecutorClosedError, type ProgramError } from "./errors.js";
import { EVENT_TYPES, type Event, EventQueue } from "./events.js";
import { toJson } from "./lines.js";
import type { Answer, Options } from "./options.js";
import { isThenable } from "./promises.js";
import type { Message, Service } from "./service.js";
import type { Call, NamedProvider } from "./tools.js";
import { decoder, encode, type Handles } from "./values.js";

const MAX_ERRORS = 64;

/**
 * An execution: a promise of its result. With the option `events`, it iterates over what happens:
 *
 * ```js
 * const execution = box.run(code, { events: ["log"] });
 * for await (const event of execution) console.log(event.text);
 * const result = await execution;
 * ```
 *
 * While the application does not read, 1024 events wait, or 8 MiB; further ones are counted in `droppedEvents`.
 */
export interface Execution<T> extends Promise<T>, AsyncIterable<Event> {
  /**
   * Ends the execution: a module with the status `terminated`, a script as a cancellation. What it has written and reported is in
   * its result.
   */
  terminate(reason?: string): void;
}

/** The result of a request of the service as JSON, and its attachments. @internal */
export interface Reply {
  json: string;
  attachments: Uint8Array[];
}

/** A request of the service that waits for its answer. @internal */
export class OpenRequest {
  private controller: AbortController | undefined;
  private reason: { error: unknown } | undefined;

  constructor(
    readonly id: number,
    readonly execution: RunningExecution<any>,
  ) {}

  /** Whether the service waits for the answer. */
  get isOpen(): boolean {
    return this.reason === undefined;
  }

  /** Aborted when the answer is not needed any more. */
  get signal(): AbortSignal {
    if (!this.controller) {
      this.controller = new AbortController();
      if (this.reason) this.controller.abort(this.reason.error);
    }
    return this.controller.signal;
  }

  abort(error: unknown): void {
    if (this.reason) return;
    this.reason = { error };
    this.controller?.abort(error);
  }
}

/** Why a call is aborted. @internal */
export function abortError(): Error {
  return new DOMException("nobody waits for the result of this call any more", "AbortError");
}

/** An execution, as the session sees it. @internal */
export class RunningExecution<T> implements Execution<T>, Handles {
  readonly [Symbol.toStringTag] = "Execution";
  /** Runs functions with the asynchronous context of the application, at the call that has begun the execution. */
  readonly scope = new AsyncResource("Execution", { requireManualDestroy: true });
  /** What the execution throws, whatever its result is. */
  failure: { error: unknown } | undefined;
  private readonly outcome: Promise<T>;
  private readonly events: EventQueue | undefined;
  private readonly open = new Map<number, OpenRequest>();
  private readonly errors = new Map<number, unknown>();
  private readonly functions = new Map<number, (...args: any[]) => unknown>();
  private readonly promises = new Map<number, PromiseLike<unknown>>();
  private readonly handles = new Map<unknown, number>();
  private providers = new Map<number, NamedProvider>();
  private running: { service: Service; id: number } | undefined;
  private terminated: { reason: string | undefined } | undefined;
  private reject: (error: unknown) => void = () => {};

  constructor(
    readonly options: Options,
    work: (execution: RunningExecution<T>) => Promise<T>,
  ) {
    this.events = options?.events ? new EventQueue() : undefined;
    this.outcome = new Promise((resolve, reject) => {
      this.reject = reject;
      work(this).then(
        (result) => {
          this.events?.end();
          resolve(result);
        },
        (error) => {
          this.events?.end({ error });
          // What runs when the executor is closed is cancelled: an execution that nobody awaits is no mistake.
          if (error instanceof ExecutorClosedError) this.outcome.catch(() => {});
          reject(error);
        },
      );
    });
  }

  // ---- For the application ---------------------------------------------------------------------------------------------

  // biome-ignore lint/suspicious/noThenProperty: an execution is a promise
  then<A = T, B = never>(
    fulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    rejected?: ((reason: any) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.outcome.then(fulfilled, rejected);
  }

  catch<B = never>(rejected?: ((reason: any) => B | PromiseLike<B>) | null): Promise<T | B> {
    return this.outcome.catch(rejected);
  }

  finally(settled?: (() => void) | null): Promise<T> {
    return this.outcome.finally(settled);
  }

  [Symbol.asyncIterator](): AsyncIterator<Event> {
    if (!this.events)
      throw new TypeError("an execution has events with the option `events`: events: true, or a list of types");
    this.outcome.catch(() => {}); // the iteration throws the same
    return this.events;
  }

  terminate(reason?: string): void {
    this.terminated ??= { reason };
    if (this.running) this.running.service.notify("terminate", { id: this.running.id, reason: this.terminated.reason });
  }

  // ---- Beginning and end -----------------------------------------------------------------------------------------------

  /** The execution is sent. */
  begin(service: Service, id: number, providers: Map<number, NamedProvider>): void {
    this.running = { service, id };
    this.providers = providers;
    if (this.terminated) this.terminate();
  }

  /** The execution throws the error, and is cancelled. */
  fail(error: unknown): void {
    if (this.failure) return;
    this.failure = { error };
    if (this.running) {
      this.running.service.notify("cancel", { id: this.running.id });
      this.running.service.reject(this.running.id, error);
    } else {
      this.reject(error);
    }
  }

  throwIfFailed(): void {
    if (this.failure) throw this.failure.error;
  }

  /** Ends what is still done for the execution. Returns the requests of the service that need no answers. */
  end(): number[] {
    this.running = undefined;
    const ids = [...this.open.keys()];
    if (ids.length > 0) {
      const error = this.failure?.error ?? abortError();
      for (const request of this.open.values()) request.abort(error);
      this.open.clear();
    }
    return ids;
  }

  get droppedEvents(): number {
    return this.events?.dropped ?? 0;
  }

  /** Sets what a tool has thrown as the cause of the error of the program that did not catch it. */
  explain(error: ProgramError | undefined): void {
    if (error?.data?.kind === "failed_call" && this.errors.has(error.data.call as number)) {
      const cause = this.errors.get(error.data.call as number);
      Object.defineProperty(error, "cause", { value: cause, writable: true, configurable: true });
    }
  }

  // ---- Requests of the service -----------------------------------------------------------------------------------------

  /** Begins the work that a request asks for. */
  begun(id: number): OpenRequest {
    const request = new OpenRequest(id, this);
    this.open.set(id, request);
    return request;
  }

  /** The request is answered, or needs no answer. */
  settled(id: number): void {
    this.open.delete(id);
  }

  /** Calls a tool. */
  callTool({ provider: number, tool, input, call }: Message, request: OpenRequest): Reply | PromiseLike<Reply> {
    const provider = this.providers.get(number)!;
    try {
      const json = provider.tools
        .get(tool)!
        .call(input, new ToolCall(provider.name, tool, call, request, this.running!.service));
      if (typeof json === "string") return { json, attachments: [] };
      return json.then(
        (json) => ({ json, attachments: [] }),
        (error) => this.toolFailed(call, error),
      );
    } catch (error) {
      return this.toolFailed(call, error);
    }
  }

  private toolFailed(call: number, error: unknown): never {
    if (this.errors.size < MAX_ERRORS) this.errors.set(call, error);
    throw error;
  }

  /** Calls a function. */
  callFunction(params: Message, _: OpenRequest, attachments: Uint8Array[]): Reply | PromiseLike<Reply> {
    const args = decoder(this, attachments)(params.arguments) as unknown[];
    const value = this.functions.get(params.function)!(...args);
    return isThenable(value) ? Promise.resolve(value).then((value) => this.reply(value)) : this.reply(value);
  }

  /** Waits for a promise. */
  awaitPromise(params: Message): PromiseLike<Reply> {
    return this.promises.get(params.promise)!.then((value) => this.reply(value));
  }

  private reply(value: unknown): Reply {
    const attachments: Uint8Array[] = [];
    return { json: toJson({ value: encode(value, this, attachments) }), attachments };
  }

  /** Asks the application about a call. */
  async approve({ provider, tool, input, effect, call, lines }: Message): Promise<Reply> {
    try {
      const given = await this.options.approve!({ provider, tool, input, effect, call, lines: lines ?? [] });
      return { json: answer(given), attachments: [] };
    } catch (error) {
      this.fail(error);
      throw error;
    }
  }

  // ---- Events ----------------------------------------------------------------------------------------------------------

  event({ execution, ...event }: Message, attachments: Uint8Array[], chars: number): void {
    if (!EVENT_TYPES.includes(event.type)) return;
    this.events?.push(() => {
      const decode = decoder(this, attachments);
      if (event.args) event.args = decode(event.args);
      if ("value" in event) event.value = decode(event.value);
      return event as Event;
    }, chars);
  }

  // ---- Functions and promises ------------------------------------------------------------------------------------------

  addFunction(call: (...args: any[]) => unknown): number {
    return this.handles.get(call) ?? this.handle(this.functions, call, call);
  }

  addPromise(given: PromiseLike<unknown>): number {
    const known = this.handles.get(given);
    if (known !== undefined) return known;
    const promise = Promise.resolve(given);
    promise.catch(() => {}); // the program may await it, or not
    return this.handle(this.promises, given, promise);
  }

  function(number: number): ((...args: any[]) => unknown) | undefined {
    return this.functions.get(number);
  }

  private handle<V>(values: Map<number, V>, given: unknown, value: V): number {
    const number = this.handles.size + 1;
    this.handles.set(given, number);
    values.set(number, value);
    return number;
  }
}

class ToolCall implements Call {
  constructor(
    readonly provider: string,
    readonly tool: string,
    readonly number: number,
    private readonly request: OpenRequest,
    private readonly service: Service,
  ) {}

  get signal(): AbortSignal {
    return this.request.signal;
  }

  // A member of its own, so that it can be taken out of the call.
  readonly reportProgress = (done: number, total?: number, message?: string): void => {
    if (!Number.isFinite(done) || (total != null && !Number.isFinite(total))) {
      throw new TypeError(`progress must be finite numbers, not ${done} of ${total}`);
    }
    if (this.request.isOpen) this.service.notify("report_progress", { id: this.request.id, done, total, message });
  };
}

const ANSWERS = ["approve", "approve_tool", "refuse", "refuse_all"];

/** The result of `approve`, as JSON. */
function answer(given: Answer): string {
  const { answer, reason } = typeof given === "boolean" ? { answer: given ? "approve" : "refuse" } : { ...given };
  if (!ANSWERS.includes(answer as string) || !["string", "undefined"].includes(typeof reason)) {
    throw new TypeError(`approve must return a boolean or { answer: "approve", … }, with one of ${ANSWERS.join(", ")}`);
  }
  return toJson({ answer, reason });
}
