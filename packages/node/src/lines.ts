/** Lines of the service protocol and their attachments, from bytes and to bytes. */

/** The longest line of a message, in bytes. */
export const MAX_MESSAGE_BYTES = 16 << 20;
/** The longest attachments of a message, together, in bytes. */
export const MAX_ATTACHMENT_BYTES = 64 << 20;

const NEWLINE = 10;
const ASTERISK = 42;

/** Splits what is read into lines with their attachments. */
export class LineReader {
  /** The beginning of a line that is not complete. */
  private parts: Buffer[] = [];
  private length = 0;
  private attachments: Uint8Array[] = [];
  private attachedBytes = 0;
  /** The attachment that is being read, and how many of its bytes there are. */
  private open: { bytes: Uint8Array; filled: number } | undefined;

  /** Calls `receive` with each message that is complete with this chunk. Fails if it is no line of the protocol. */
  read(chunk: Buffer, receive: (line: string, attachments: Uint8Array[]) => void): void {
    let begin = 0;
    while (begin < chunk.length) {
      if (this.open) {
        begin = this.fill(this.open, chunk, begin);
        continue;
      }
      const end = chunk.indexOf(NEWLINE, begin);
      if (end < 0) {
        this.keep(chunk.subarray(begin));
        return;
      }
      const line = this.whole(chunk, begin, end);
      begin = end + 1;
      if (line.charCodeAt(0) === ASTERISK) {
        this.attach(line);
      } else {
        const { attachments } = this;
        if (attachments.length > 0) {
          this.attachments = [];
          this.attachedBytes = 0;
        }
        receive(line, attachments);
      }
    }
  }

  private fill(open: { bytes: Uint8Array; filled: number }, chunk: Buffer, begin: number): number {
    const part = chunk.subarray(begin, begin + open.bytes.length - open.filled);
    open.bytes.set(part, open.filled);
    open.filled += part.length;
    if (open.filled === open.bytes.length) {
      this.attachments.push(open.bytes);
      this.open = undefined;
    }
    return begin + part.length;
  }

  private attach(line: string): void {
    const length = /^\*\d{1,8}$/.test(line) ? Number(line.slice(1)) : Number.NaN;
    this.attachedBytes += length;
    if (!(this.attachedBytes <= MAX_ATTACHMENT_BYTES)) throw new Error(`invalid attachment ${line.slice(0, 20)}`);
    const bytes = new Uint8Array(length);
    if (length > 0) this.open = { bytes, filled: 0 };
    else this.attachments.push(bytes);
  }

  private keep(part: Buffer): void {
    this.parts.push(part);
    this.length += part.length;
    if (this.length > MAX_MESSAGE_BYTES) throw new Error(`a line of more than ${MAX_MESSAGE_BYTES >> 20} MiB`);
  }

  private whole(chunk: Buffer, begin: number, end: number): string {
    if (this.parts.length === 0) return chunk.toString("utf8", begin, end);
    const line = Buffer.concat([...this.parts, chunk.subarray(begin, end)]).toString("utf8");
    this.parts = [];
    this.length = 0;
    return line;
  }
}

/** A message, as it is sent: a text, or bytes if it has attachments. */
export type Frame = string | Uint8Array[];

/** Writes a message. Fails with a `RangeError` if it is longer than a message can be. */
export function frame(head: string, body: string, attachments: Uint8Array[]): Frame {
  const line = `${head}${body}}\n`;
  if (3 * line.length > MAX_MESSAGE_BYTES) {
    const length = Buffer.byteLength(line) - 1;
    if (length > MAX_MESSAGE_BYTES) {
      const limit = `at most ${MAX_MESSAGE_BYTES >> 20} MiB, apart from byte strings`;
      throw new RangeError(`a message of ${Math.ceil(length / (1 << 20))} MiB is too long: ${limit}`);
    }
  }
  if (attachments.length === 0) return line;
  const total = attachments.reduce((sum, { length }) => sum + length, 0);
  if (total > MAX_ATTACHMENT_BYTES) {
    const limit = `at most ${MAX_ATTACHMENT_BYTES >> 20} MiB`;
    throw new RangeError(`the byte strings of a message have ${Math.ceil(total / (1 << 20))} MiB: ${limit}`);
  }
  return [...attachments.flatMap((bytes) => [Buffer.from(`*${bytes.length}\n`), bytes]), Buffer.from(line)];
}

const LONE_SURROGATE = /\\(?:u[dD][89a-fA-F][0-9a-fA-F]{2}|.)/gs;

/** Writes JSON in which U+FFFD stands for each lone surrogate, which UTF-8 cannot hold. `undefined` is `null`. */
export function toJson(value: unknown, replacer?: (this: any, key: string, value: unknown) => unknown): string {
  const text = JSON.stringify(value, replacer) ?? "null";
  return text.includes("\\ud") ? text.replace(LONE_SURROGATE, (each) => (each.length > 2 ? "\ufffd" : each)) : text;
}
