/** The files in a tar, one after the other. */
import { invalidSource } from '../items/source-errors.js';
import { BLOCK, isZeroBlock, readPaxRecords, readTarHeader, type TarHeader } from './tar-header.js';

/** The bytes of a tar, forwards only. */
export interface TarBytes {
  /** Of the next byte, from the tar's beginning, after decompression. */
  readonly position: number;
  /** The next bytes; undefined if fewer are left. */
  read(length: number): Promise<Uint8Array | undefined>;
  /** Whether so many bytes were there to skip. */
  skip(length: number): Promise<boolean>;
}

/** A regular file in a tar. Its bytes come next; what is not read of them is skipped. */
export interface TarEntry {
  readonly name: Uint8Array;
  /** Where its bytes begin. */
  readonly position: number;
  readonly sizeBytes: number;
  /** Milliseconds since 1970, whole; null if it is not known. */
  readonly modifiedMs: number | null;
}

/** Longest name or list of attributes before a file. */
const MAX_EXTRA_BYTES = 1024 ** 2;
/** Links, devices, folders and pipes have no bytes, whatever their size says. */
const WITHOUT_BYTES = '123456';
/** Headers that belong to the next one. */
const EXTRAS = 'LKxXg';

/**
 * Reads a tar up to its end mark; links, devices and folders are left out.
 *
 * @throws {@link TapirError} `SOURCE_INVALID`, naming the byte, where it is damaged or ends too early.
 */
export async function* readTarEntries(bytes: TarBytes, source: string): AsyncGenerator<TarEntry> {
  const global = new Map<string, Uint8Array>();
  let extra = new Map<string, Uint8Array>();
  for (;;) {
    const at = bytes.position;
    const block = await bytes.read(BLOCK);
    if (!block) throw truncatedTar(source, at);
    if (isZeroBlock(block)) {
      const next = await bytes.read(BLOCK);
      if (!next || isZeroBlock(next)) return;
      throw invalidSource(source, `the tar goes on behind its end mark at byte ${at}`);
    }
    const header = readTarHeader(block);
    if (!header) throw invalidSource(source, `there is no tar header at byte ${at}`);
    if (EXTRAS.includes(header.type)) {
      const records = await readExtra(bytes, header, source, at);
      for (const [key, value] of records) (header.type === 'g' ? global : extra).set(key, value);
      continue;
    }
    if (header.type === 'S')
      throw invalidSource(source, `the file at byte ${at} of the tar is stored sparsely`);
    const entry = describe(header, new Map([...global, ...extra]), bytes.position);
    if (!entry) throw invalidSource(source, `the pax header before byte ${at} has a wrong size`);
    extra = new Map();
    if (WITHOUT_BYTES.includes(header.type)) continue;
    if (header.type === '0') yield entry;
    const end = entry.position + Math.ceil(entry.sizeBytes / BLOCK) * BLOCK;
    if (!(await bytes.skip(end - bytes.position))) throw truncatedTar(source, bytes.position);
  }
}

/** A tar that ends before its end. */
export function truncatedTar(source: string, position: number, cause?: unknown): Error {
  const reason = `the tar was cut off: it ends behind byte ${position}, before its end mark`;
  return invalidSource(source, reason, cause === undefined ? {} : { cause });
}

/** What stands before the next header, with pax keys. */
async function readExtra(
  bytes: TarBytes,
  { type, sizeBytes }: TarHeader,
  source: string,
  at: number,
): Promise<Map<string, Uint8Array>> {
  if (sizeBytes > MAX_EXTRA_BYTES)
    throw invalidSource(source, `the name at byte ${at} of the tar has ${sizeBytes} bytes`);
  const padded = await bytes.read(Math.ceil(sizeBytes / BLOCK) * BLOCK);
  if (!padded) throw truncatedTar(source, bytes.position);
  const content = padded.subarray(0, sizeBytes);
  if (type === 'K') return new Map();
  if (type === 'L') {
    const end = content.indexOf(0);
    return new Map([['path', end < 0 ? content : content.subarray(0, end)]]);
  }
  const records = readPaxRecords(content);
  if (!records) throw invalidSource(source, `the pax header at byte ${at} of the tar is damaged`);
  return records;
}

/** Undefined if a pax size is no size. */
function describe(
  header: TarHeader,
  pax: ReadonlyMap<string, Uint8Array>,
  position: number,
): TarEntry | undefined {
  const numberOf = (key: string, otherwise: number): number => {
    const bytes = pax.get(key);
    const text = bytes ? Buffer.from(bytes).toString('latin1') : '';
    return bytes === undefined ? otherwise : /^-?\d+(\.\d*)?$/.test(text) ? Number(text) : Number.NaN;
  };
  const sizeBytes = numberOf('size', header.sizeBytes);
  if (!Number.isSafeInteger(sizeBytes) || sizeBytes < 0) return undefined;
  const modifiedMs = Math.floor(1000 * numberOf('mtime', header.modified));
  return {
    name: pax.get('path') ?? header.name,
    position,
    sizeBytes,
    modifiedMs: Number.isSafeInteger(modifiedMs) ? modifiedMs : null,
  };
}
