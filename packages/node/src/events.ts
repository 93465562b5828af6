/** What happens in an execution: the events that it iterates over. */

import { type PromiseWithResolvers, withResolvers } from "./promises.js";

interface AnyEvent {
  /** How many events of this execution were dropped before this one, because the application did not read them in time. */
  dropped?: number;
}

interface CallEvent extends AnyEvent {
  /** The number of the call in its execution. */
  call: number;
  /** The name of the provider of a tool. Functions of the application have none. */
  provider?: string;
  /** The name of the tool in programs, or of the function. */
  name: string;
}

/** The executor has the request. It may wait for a runner. */
export interface Accepted extends AnyEvent {
  type: "accepted";
}

/** The program is given to an engine or a runner. */
export interface Started extends AnyEvent {
  type: "started";
}

/** The program has written to its console. */
export interface Log extends AnyEvent {
  type: "log";
  level: "log" | "info" | "debug" | "warn" | "error";
  /** The line of a script. */
  text?: string;
  /** The arguments of the call in a module. */
  args?: unknown[];
}

/** A call begins; its input is not checked yet. */
export interface CallBegan extends CallEvent {
  type: "call_began";
  inputBytes: number;
}

/** A tool reports how far it has come. */
export interface CallProgress extends CallEvent {
  type: "call_progress";
  done: number;
  total?: number;
  message?: string;
}

/** The call begins to wait for a person. */
export interface CallWaiting extends CallEvent {
  type: "call_waiting";
}

/** The call does not wait for a person any more. */
export interface CallResumed extends CallEvent {
  type: "call_resumed";
}

/** The policy has decided about the call. */
export interface CallDecided extends CallEvent {
  type: "call_decided";
  verdict: "allowed" | "denied" | "approved" | "refused" | "abandoned";
  reason?: string;
  /** How long the call waited for a person. */
  waitedMs: number;
}

/** The call has ended: with a value of `bytes`, with an `error`, or because the execution has ended. */
export interface CallEnded extends CallEvent {
  type: "call_ended";
  durationMs: number;
  bytes?: number;
  error?: { code: string; message: string };
}

/** The module has reported a value. */
export interface Reported extends AnyEvent {
  type: "reported";
  value: unknown;
}

/** The execution has ended. Its result follows. */
export interface Ended extends AnyEvent {
  type: "ended";
  ok: boolean;
}

/** Something that happened in an execution. */
export type Event =
  | Accepted
  | Started
  | Log
  | CallBegan
  | CallProgress
  | CallWaiting
  | CallResumed
  | CallDecided
  | CallEnded
  | Reported
  | Ended;

/** The types of events. */
export type EventType = Event["type"];

/** @internal */
export const EVENT_TYPES: readonly EventType[] = [
  "accepted",
  "started",
  "log",
  "call_began",
  "call_progress",
  "call_waiting",
  "call_resumed",
  "call_decided",
  "call_ended",
  "reported",
  "ended",
];

const MAX_QUEUED_EVENTS = 1024;
const MAX_QUEUED_CHARS = 8 << 20;

/** The events that have come and are not read yet. Further ones are dropped and counted. @internal */
export class EventQueue implements AsyncIterableIterator<Event> {
  /** How many events were dropped here. */
  dropped = 0;
  private events: { event: () => Event; chars: number }[] = [];
  private chars = 0;
  private readers: PromiseWithResolvers<IteratorResult<Event>>[] = [];
  private isOpen = true;
  private failure: { error: unknown } | undefined;

  /** Adds an event, which is read from its message when it is wanted. The message has `chars` characters. */
  push(event: () => Event, chars: number): void {
    if (!this.isOpen) return;
    const reader = this.readers.shift();
    if (reader) {
      read(event).then(reader.resolve, reader.reject);
    } else if (this.events.length >= MAX_QUEUED_EVENTS || this.chars + chars > MAX_QUEUED_CHARS) {
      this.dropped += 1;
    } else {
      this.events.push({ event, chars });
      this.chars += chars;
    }
  }

  /** No events follow. `failure` is what the execution has thrown. */
  end(failure?: { error: unknown }): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    for (const reader of this.readers.splice(0)) {
      if (failure) reader.reject(failure.error);
      else reader.resolve({ value: undefined, done: true });
      failure = undefined;
    }
    this.failure = failure;
  }

  next(): Promise<IteratorResult<Event>> {
    const next = this.events.shift();
    if (next) {
      this.chars -= next.chars;
      return read(next.event);
    }
    if (this.failure) {
      const { error } = this.failure;
      this.failure = undefined;
      return Promise.reject(error);
    }
    if (!this.isOpen) return Promise.resolve({ value: undefined, done: true });
    const reader = withResolvers<IteratorResult<Event>>();
    this.readers.push(reader);
    return reader.promise;
  }

  /** The application does not read further: what comes is not kept. */
  return(): Promise<IteratorResult<Event>> {
    this.end();
    this.events = [];
    this.failure = undefined;
    return Promise.resolve({ value: undefined, done: true });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

async function read(event: () => Event): Promise<IteratorResult<Event>> {
  return { value: event(), done: false };
}
