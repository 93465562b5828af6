/** One connection: its providers, its executions, and the answers to what the service asks. */

import { InvalidInputError, messageOf, nameOf } from "./errors.js";
import { abortError, type OpenRequest, type Reply, type RunningExecution } from "./execution.js";
import { toJson } from "./lines.js";
import { isThenable } from "./promises.js";
import { type Address, type Answer, type Handler, type Message, Service } from "./service.js";
import type { NamedProvider } from "./tools.js";

const INVALID_PARAMS = -32602;
const FAILED = 1;
const MAX_PROVIDERS = 256;

/** A provider that was added, or is being added. */
interface Added {
  result: Promise<Answer>;
  /** What the service has answered. */
  known: { number: number; types: string } | undefined;
  users: number;
}

export class Session implements Handler {
  readonly service: Service;
  private readonly executions = new Map<number, RunningExecution<any>>();
  private readonly open = new Map<number, OpenRequest>();
  /** By their declarations, the one that was used last at the end. */
  private readonly providers = new Map<string, Added>();

  constructor(address: Address) {
    this.service = new Service(this, address);
  }

  // ---- Providers -------------------------------------------------------------------------------------------------------

  /** Adds the providers that are not there yet. They are not removed while `use` does its work. */
  async granted<T>(
    providers: NamedProvider[],
    use: (added: { number: number; types: string }[]) => Promise<T>,
  ): Promise<T> {
    const users: Added[] = [];
    try {
      const known = [];
      for (const provider of providers) {
        const added = this.added(provider);
        users.push(added);
        known.push(added.known ?? (await this.known(provider, added)));
      }
      return await use(known);
    } finally {
      for (const added of users) added.users -= 1;
    }
  }

  /** A provider with the same declarations, or a new one. */
  private added({ spec }: NamedProvider): Added {
    const added = this.providers.get(spec) ?? {
      result: this.service.request("add_provider", spec),
      known: undefined,
      users: 0,
    };
    this.providers.delete(spec);
    this.providers.set(spec, added);
    added.users += 1;
    if (this.providers.size > MAX_PROVIDERS) this.removeUnused();
    return added;
  }

  private async known(provider: NamedProvider, added: Added): Promise<{ number: number; types: string }> {
    try {
      const { result } = await added.result;
      if (!added.known) {
        added.known = { number: result.provider, types: result.types };
        for (const warning of result.warnings ?? []) process.emitWarning(warning, "ExecboxWarning");
      }
      return added.known;
    } catch (error) {
      if (this.providers.get(provider.spec) === added) this.providers.delete(provider.spec);
      throw error;
    }
  }

  /** Removes the providers that were not used for longest. */
  private removeUnused(): void {
    for (const [spec, added] of [...this.providers].slice(0, -MAX_PROVIDERS)) {
      if (added.users > 0 || !added.known) continue;
      this.providers.delete(spec);
      this.service.request("remove_provider", toJson({ provider: added.known.number })).catch(() => {});
    }
  }

  // ---- Executions ------------------------------------------------------------------------------------------------------

  /** Sends an execution, and waits for its result. */
  async execute(
    execution: RunningExecution<any>,
    method: string,
    providers: NamedProvider[],
    params: (numbers: number[], attachments: Uint8Array[]) => object,
  ): Promise<Answer> {
    return this.granted(providers, async (added) => {
      const { service } = this;
      if (!service.hasRoom) await service.room();
      execution.throwIfFailed();
      const numbers = added.map(({ number }) => number);
      const attachments: Uint8Array[] = [];
      const text = toJson(params(numbers, attachments));
      const id = service.prepare();
      this.executions.set(id, execution);
      try {
        const result = service.submit(id, method, text, attachments);
        execution.begin(service, id, new Map(numbers.map((number, index) => [number, providers[index]!])));
        return await result;
      } finally {
        this.executions.delete(id);
        for (const each of execution.end()) this.open.delete(each);
      }
    });
  }

  // ---- Messages of the service -----------------------------------------------------------------------------------------

  requested(method: string, params: Message, id: number, attachments: Uint8Array[]): void {
    const execution = this.executions.get(params.execution);
    const work = WORK[method];
    if (!execution || !work) {
      this.service.answerError(
        id,
        FAILED,
        work ? "the execution has ended" : `this version of the package has no ${method}`,
      );
      return;
    }
    const request = execution.begun(id);
    this.open.set(id, request);
    execution.scope.runInAsyncScope(() => {
      try {
        const reply = work(execution, params, request, attachments);
        if (isThenable(reply))
          reply.then(
            (reply) => this.answer(request, reply),
            (error) => this.refuse(request, error),
          );
        else this.answer(request, reply);
      } catch (error) {
        this.refuse(request, error);
      }
    });
  }

  private async answer(request: OpenRequest, { json, attachments }: Reply): Promise<void> {
    const { service } = this;
    if (!service.hasRoom) await service.room();
    if (!this.settle(request)) return;
    try {
      service.answer(request.id, json, attachments);
    } catch (error) {
      service.answerError(request.id, FAILED, messageOf(error));
    }
  }

  private refuse(request: OpenRequest, error: unknown): void {
    if (!this.settle(request)) return;
    const code = error instanceof InvalidInputError ? INVALID_PARAMS : FAILED;
    this.service.answerError(request.id, code, messageOf(error), nameOf(error));
  }

  /** Whether the service waits for the answer, which is sent now. */
  private settle(request: OpenRequest): boolean {
    request.execution.settled(request.id);
    return this.open.delete(request.id) && request.isOpen;
  }

  notified(method: string, params: Message, attachments: Uint8Array[], chars: number): void {
    if (method === "event") {
      this.executions.get(params.execution)?.event(params, attachments, chars);
    } else if (method === "cancel") {
      const request = this.open.get(params.id);
      if (!request) return;
      this.settle(request);
      request.abort(abortError());
    }
  }

  ended(error: Error): void {
    for (const request of this.open.values()) request.abort(error);
    this.open.clear();
  }
}

type Work = (
  execution: RunningExecution<any>,
  params: Message,
  request: OpenRequest,
  attachments: Uint8Array[],
) => Reply | PromiseLike<Reply>;

const WORK: Record<string, Work | undefined> = Object.assign(Object.create(null), {
  call_tool: (execution, params, request) => execution.callTool(params, request),
  call_function: (execution, params, request, attachments) => execution.callFunction(params, request, attachments),
  await_promise: (execution, params) => execution.awaitPromise(params),
  approve: (execution, params) => execution.approve(params),
} satisfies Record<string, Work>);
