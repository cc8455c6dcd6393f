/** The 512 bytes before a file in a tar: POSIX ustar, with GNU's and Sun's forms of large numbers and long names. */

export const BLOCK = 512;

/** A header. */
export interface TarHeader {
  /** As bytes, because the format leaves the encoding open. */
  readonly name: Uint8Array;
  readonly sizeBytes: number;
  /** Seconds since 1970. */
  readonly modified: number;
  /** The file that a link leads to. */
  readonly linkName: Uint8Array;
  /** One character; `0` for a regular file. */
  readonly type: string;
}

/** Reads a header. Returns undefined if its checksum or a number in it is wrong. */
export function readTarHeader(block: Uint8Array): TarHeader | undefined {
  if (numberAt(block, 148, 8) !== checksum(block)) return undefined;
  const sizeBytes = numberAt(block, 124, 12);
  if (sizeBytes === undefined || !Number.isSafeInteger(sizeBytes) || sizeBytes < 0) return undefined;
  const flag = String.fromCharCode(block[156]!);
  const name = textAt(block, 0, 100);
  // GNU's format, `ustar  `, has other fields in the place of the POSIX prefix.
  const isPosix = Buffer.from(block.subarray(257, 263)).toString('latin1') === 'ustar\0';
  const prefix = isPosix ? textAt(block, 345, 155) : new Uint8Array();
  return {
    name: prefix.length > 0 ? Buffer.concat([prefix, Buffer.from('/'), name]) : name,
    sizeBytes,
    linkName: textAt(block, 157, 100),
    modified: numberAt(block, 136, 12) ?? Number.NaN,
    type: flag === '\0' || flag === '7' ? '0' : flag,
  };
}

/** Whether a block is all zeros. Two such blocks end a tar. */
export function isZeroBlock(block: Uint8Array): boolean {
  return block.every((byte) => byte === 0);
}

/** Reads the records of a pax header, `<length> <key>=<value>\n` each. Returns undefined if they are damaged. */
export function readPaxRecords(bytes: Uint8Array): Map<string, Uint8Array> | undefined {
  const records = new Map<string, Uint8Array>();
  for (let at = 0; at < bytes.length && bytes[at] !== 0;) {
    const space = bytes.indexOf(0x20, at);
    const digits =
      space < 0 ? '' : Buffer.from(bytes.subarray(at, Math.min(space, at + 10))).toString('latin1');
    const end = at + Number(digits);
    if (!/^\d+$/.test(digits) || end <= space + 1 || end > bytes.length || bytes[end - 1] !== 0x0a)
      return undefined;
    const record = bytes.subarray(space + 1, end - 1);
    const equals = record.indexOf(0x3d);
    if (equals < 1) return undefined;
    records.set(Buffer.from(record.subarray(0, equals)).toString('utf8'), record.slice(equals + 1));
    at = end;
  }
  return records;
}

/** The sum of the bytes, with spaces in the place of the checksum itself. */
function checksum(block: Uint8Array): number {
  let sum = 8 * 0x20;
  for (let i = 0; i < BLOCK; i++) if (i < 148 || i >= 156) sum += block[i]!;
  return sum;
}

/** Reads octal digits between spaces and NULs, or a binary number if the first bit is set. */
function numberAt(block: Uint8Array, at: number, length: number): number | undefined {
  const field = block.subarray(at, at + length);
  if (field[0]! >= 0x80) {
    const isNegative = field[0] === 0xff;
    let value = isNegative ? -1 : field[0]! & 0x7f;
    for (const byte of field.subarray(1)) value = value * 256 + byte;
    return value;
  }
  const text = Buffer.from(field)
    .toString('latin1')
    .replace(/^[ \0]+|[ \0]+$/g, '');
  if (text === '') return 0;
  return /^[0-7]+$/.test(text) ? Number.parseInt(text, 8) : undefined;
}

/** Reads a field up to its first NUL. */
function textAt(block: Uint8Array, at: number, length: number): Uint8Array {
  const field = block.slice(at, at + length);
  const end = field.indexOf(0);
  return end < 0 ? field : field.subarray(0, end);
}
