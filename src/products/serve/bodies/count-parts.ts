/** Counts the parts of a form as it arrives: its parser skips those whose headers it cannot use, and says nothing. */
import type { FastifyRequest } from 'fastify';

const END = 0x2d;

/** Counts parts by the boundary before each. */
export class PartCount {
  readonly #boundary: Buffer;
  /** The end of what has come, in which a boundary may have begun. The first one needs no line break before it. */
  #rest: Buffer = Buffer.from('\r\n');
  parts = 0;

  constructor(boundary: string) {
    this.#boundary = Buffer.from(`\r\n--${boundary}`);
  }

  add(chunk: Buffer): void {
    const bytes = Buffer.concat([this.#rest, chunk]);
    let at = 0;
    for (;;) {
      const found = bytes.indexOf(this.#boundary, at);
      const next = found + this.#boundary.length;
      if (found < 0 || next >= bytes.length) {
        const kept = found < 0 ? Math.max(at, bytes.length - this.#boundary.length + 1) : found;
        this.#rest = bytes.subarray(kept);
        return;
      }
      // Two dashes behind it end the form.
      if (bytes[next] !== END) this.parts++;
      at = next;
    }
  }
}

/** Counts the parts of a request with a form, from now on. */
export function countParts({ raw, headers }: FastifyRequest): PartCount {
  const match = /;\s*boundary=(?:"([^"]*)"|([^;\s]+))/i.exec(headers['content-type'] ?? '');
  const count = new PartCount(match?.[1] ?? match?.[2] ?? '');
  raw.on('data', (chunk: Buffer) => count.add(chunk));
  return count;
}
