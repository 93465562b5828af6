/** The connection to `execbox serve`: a process, or a socket. */

import { type ChildProcess, spawn } from "node:child_process";
import { connect, type Socket } from "node:net";
import { debuglog } from "node:util";

import { BinaryNotFoundError, ExecutorClosedError, messageOf, ServiceEndedError, ServiceError } from "./errors.js";
import { type Frame, frame, LineReader, toJson } from "./lines.js";
import { type PromiseWithResolvers, withResolvers } from "./promises.js";

const MAX_UNSENT_BYTES = 1 << 20;
const MAX_ERROR_CHARS = 100_000;
const STDERR_TAIL_CHARS = 4096;
const EXIT_MS = 5000;
const CLOSE_MS = 200;

/** Shown with `NODE_DEBUG=execbox`. */
export const debug = debuglog("execbox");

export type Message = Record<string, any>;

/** The result of a request of the application, with its attachments. */
export interface Answer {
  result: any;
  attachments: Uint8Array[];
}

/** What the service asks of the application. */
export interface Handler {
  requested(method: string, params: Message, id: number, attachments: Uint8Array[]): void;
  /** `chars` is the length of the message. */
  notified(method: string, params: Message, attachments: Uint8Array[], chars: number): void;
  /** The connection has ended, after its requests have failed with the error. */
  ended(error: Error): void;
}

/** How a service is reached: a command that is started, or the path of a socket. */
export type Address = { command: string[] } | { socket: string };

/** A connection. While it has no open request, it does not keep the application alive. */
export class Service {
  /** The answer to `initialize`. */
  readonly ready: Promise<Answer>;
  /** Why the connection has ended. */
  error: Error | undefined;
  private readonly requests = new Map<number, PromiseWithResolvers<Answer>>();
  private lastId = 0;
  private readonly reader = new LineReader();
  private readonly process: ChildProcess | undefined;
  private readonly input: Socket;
  private readonly output: Socket;
  private readonly exited = withResolvers<void>();
  private stderrTail = "";
  private unsent: Frame[] = [];
  private unsentBytes = 0;
  private waiters: (() => void)[] = [];

  constructor(
    private readonly handler: Handler,
    address: Address,
  ) {
    if ("socket" in address) {
      this.input = this.output = connect({ path: address.socket, allowHalfOpen: false });
      this.input.on("close", () => {
        this.fail(new ServiceEndedError("the execbox service ended"));
        this.exited.resolve();
      });
      this.input.on("error", (error: NodeJS.ErrnoException) => {
        if (error.syscall !== "connect") return;
        this.fail(new ServiceError(`cannot connect to the service at ${address.socket}: ${error.code}`));
      });
    } else {
      this.process = this.spawn(address.command);
      this.input = this.process.stdout as Socket;
      this.output = this.process.stdin as Socket;
      this.output.on("error", () => {}); // the end of the input says why
      this.input.on("error", () => {});
      this.readStderr(this.process.stderr as Socket);
    }
    this.input.on("data", (chunk: Buffer) => this.received(chunk));
    this.output.on("drain", () => this.drained());
    this.keepAlive(false);
    this.ready = this.request("initialize", '{"protocolVersion":1,"attachments":true}');
    this.ready.catch(() => {});
  }

  // ---- Messages of the application -------------------------------------------------------------------------------------

  /** Sends a request, and waits for its result. */
  async request(method: string, params = "{}"): Promise<Answer> {
    return this.submit(this.prepare(), method, params, []);
  }

  /** Reserves the id of a request, which `submit` sends. */
  prepare(): number {
    if (this.error) throw this.error;
    this.lastId += 1;
    return this.lastId;
  }

  /** Sends the request. Fails with a `RangeError` if it is too long. */
  submit(id: number, method: string, params: string, attachments: Uint8Array[]): Promise<Answer> {
    if (this.error) throw this.error;
    const message = frame(`{"jsonrpc":"2.0","id":${id},"method":"${method}","params":`, params, attachments);
    if (this.requests.size === 0) this.keepAlive(true);
    const request = withResolvers<Answer>();
    this.requests.set(id, request);
    this.send(message);
    return request.promise;
  }

  /** The result of the request is this error, whatever the service answers. */
  reject(id: number, error: unknown): void {
    this.settled(id)?.reject(error);
  }

  /** Sends a notification. */
  notify(method: string, params: Message): void {
    this.send(frame(`{"jsonrpc":"2.0","method":"${method}","params":`, toJson(params), []));
  }

  /** Answers a request of the service. Fails with a `RangeError` if the answer is too long. */
  answer(id: number, result: string, attachments: Uint8Array[]): void {
    this.send(frame(`{"jsonrpc":"2.0","id":${id},"result":`, result, attachments));
  }

  /** Answers a request of the service with an error. A message that is too long is cut. */
  answerError(id: number, code: number, message: string, name?: string): void {
    const error = {
      code,
      message: message.slice(0, MAX_ERROR_CHARS),
      data: name === undefined ? undefined : { name: name.slice(0, 1000) },
    };
    this.send(frame(`{"jsonrpc":"2.0","id":${id},"error":`, toJson(error), []));
  }

  /** Whether the service has read most of what was sent. */
  get hasRoom(): boolean {
    return this.unsentBytes + this.output.writableLength <= MAX_UNSENT_BYTES;
  }

  /** Waits until the service has read most of what was sent. */
  async room(): Promise<void> {
    while (!this.hasRoom && !this.error) await new Promise<void>((resolve) => this.waiters.push(resolve));
  }

  /** What is sent at once is written at once. */
  private send(message: Frame): void {
    if (this.error) return;
    if (this.unsent.length === 0) setImmediate(() => this.write());
    this.unsent.push(message);
    this.unsentBytes +=
      typeof message === "string" ? message.length : message.reduce((sum, { length }) => sum + length, 0);
  }

  private write(): void {
    const messages = this.unsent;
    this.unsent = [];
    this.unsentBytes = 0;
    if (this.error) return;
    let text = "";
    this.output.cork();
    for (const message of messages) {
      if (typeof message === "string") {
        text += message;
        continue;
      }
      if (text) this.output.write(text);
      text = "";
      for (const part of message) this.output.write(part);
    }
    if (text) this.output.write(text);
    this.output.uncork();
    if (this.hasRoom) this.drained();
  }

  private drained(): void {
    for (const resolve of this.waiters.splice(0)) resolve();
  }

  // ---- Messages of the service -----------------------------------------------------------------------------------------

  private received(chunk: Buffer): void {
    try {
      this.reader.read(chunk, (line, attachments) => this.receive(line, attachments));
    } catch (error) {
      // Another program than `execbox serve`, or a version of it that is not compatible.
      debug("the service has sent an invalid message: %s", error);
      this.fail(new ServiceEndedError(`the execbox service has sent an invalid message: ${messageOf(error)}`));
      this.process?.kill("SIGKILL");
    }
  }

  private receive(line: string, attachments: Uint8Array[]): void {
    if (this.error) return;
    const message: Message = JSON.parse(line);
    const { method, id } = message;
    if (method === undefined) this.answered(message, attachments);
    else if (id !== undefined) this.handler.requested(method, message.params, id, attachments);
    else this.handler.notified(method, message.params, attachments, line.length);
  }

  private answered({ id, error, result }: Message, attachments: Uint8Array[]): void {
    if (error === undefined && result === undefined) throw new Error("an answer without a result");
    const failure = error === undefined ? undefined : new ServiceError(String(error.message), Number(error.code));
    const request = this.settled(id);
    if (failure === undefined) request?.resolve({ result, attachments });
    else if (request) request.reject(failure);
    else debug("the service has refused a message: %s", failure.message);
  }

  private settled(id: number): PromiseWithResolvers<Answer> | undefined {
    const request = this.requests.get(id);
    if (this.requests.delete(id) && this.requests.size === 0) this.keepAlive(false);
    return request;
  }

  // ---- The process -----------------------------------------------------------------------------------------------------

  private spawn(command: string[]): ChildProcess {
    const [file, ...args] = command as [string, ...string[]];
    // In a session of its own, an interrupt from the terminal goes to the application alone, which then ends the service.
    const child = spawn(file, args, { stdio: "pipe", detached: true });
    child.on("error", (error: NodeJS.ErrnoException) => {
      this.fail(new BinaryNotFoundError(`cannot start ${file}: ${error.code ?? error.message}`));
      this.exited.resolve();
    });
    child.on("exit", (code, signal) => {
      const how = code === null ? `, killed by ${signal}` : ` with the exit code ${code}`;
      const ended = () => {
        const tail = this.stderrTail.trim();
        this.fail(new ServiceEndedError(`the execbox service ended${how}${tail ? `: ${tail}` : ""}`));
        this.exited.resolve();
      };
      // Another process can have what it has written to.
      const timer = setTimeout(ended, CLOSE_MS);
      child.on("close", () => {
        clearTimeout(timer);
        ended();
      });
    });
    return child;
  }

  private readStderr(stderr: Socket): void {
    stderr.setEncoding("utf8");
    stderr.on("error", () => {});
    stderr.on("data", (text: string) => {
      this.stderrTail = (this.stderrTail + text).slice(-STDERR_TAIL_CHARS);
      debug("%s", text.trimEnd());
    });
  }

  /** Whether the connection keeps the application alive. */
  private keepAlive(yes: boolean): void {
    for (const each of [this.process, this.process?.stderr as Socket | undefined, this.input, this.output]) {
      if (yes) each?.ref?.();
      else each?.unref?.();
    }
  }

  // ---- The end ---------------------------------------------------------------------------------------------------------

  private fail(error: Error): void {
    if (this.error) return;
    this.error = error;
    this.unsent = [];
    const requests = [...this.requests.values()];
    this.requests.clear();
    this.keepAlive(false);
    for (const request of requests) request.reject(error);
    this.drained();
    this.handler.ended(error);
  }

  /** Ends the service, with everything that runs. Requests without an answer fail with `ExecutorClosedError`. */
  async close(): Promise<void> {
    this.fail(new ExecutorClosedError("the executor was closed"));
    this.keepAlive(true);
    this.output.end();
    if (!this.process) this.output.destroySoon();
    const timer = setTimeout(() => this.process?.kill("SIGKILL"), EXIT_MS);
    await this.exited.promise;
    clearTimeout(timer);
  }
}
