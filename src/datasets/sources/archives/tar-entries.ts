/** The files in a tar, in order. */
import { SourceFault } from '../items/source-errors.js';
import { BLOCK, isZeroBlock, readPaxRecords, readTarHeader, type TarHeader } from './tar-header.js';

/** The bytes of a tar, read from front to back. */
export interface TarBytes {
  /** Position of the next byte in the tar, after decompression. */
  readonly position: number;
  /** Reads the next bytes. Returns undefined if fewer are left. */
  read(length: number): Promise<Uint8Array | undefined>;
  /** Skips bytes. Returns false if fewer are left. */
  skip(length: number): Promise<boolean>;
}

/** A link in a tar. */
export interface TarLink {
  readonly kind: 'hard' | 'symbolic';
  /** Of a hard link, the name of a file that comes before it. */
  readonly target: Uint8Array;
}

/** A regular file in a tar, or a link. The bytes of a file come next; bytes that nobody reads are skipped. */
export interface TarEntry {
  readonly name: Uint8Array;
  readonly link?: TarLink;
  /** Position of its first byte. */
  readonly position: number;
  readonly sizeBytes: number;
  /** Whole milliseconds since 1970; null if unknown. */
  readonly modifiedMs: number | null;
}

/** The most bytes of a name or a list of attributes before a file. */
const MAX_EXTRA_BYTES = 1024 ** 2;
/** Types without bytes, even if their size says otherwise: links, devices, folders and pipes. */
const WITHOUT_BYTES = '123456';
const LINKS: Readonly<Record<string, TarLink['kind']>> = { 1: 'hard', 2: 'symbolic' };
/** Types of headers that describe the next file: long names (GNU) and attributes (pax). */
const EXTRAS = 'LKxXg';

/**
 * Reads the regular files and the links of a tar, up to its end mark. Devices and folders are left out.
 *
 * @throws {@link SourceFault}, naming the byte, where the tar is damaged or ends too early.
 */
export async function* readTarEntries(bytes: TarBytes): AsyncGenerator<TarEntry> {
  const global = new Map<string, Uint8Array>();
  let extra = new Map<string, Uint8Array>();
  for (;;) {
    const at = bytes.position;
    const block = await bytes.read(BLOCK);
    if (!block) throw truncatedTar(at);
    if (isZeroBlock(block)) {
      const next = await bytes.read(BLOCK);
      if (!next || isZeroBlock(next)) return;
      throw new SourceFault(`the tar has more data after its end mark at byte ${at}`);
    }
    const header = readTarHeader(block);
    if (!header) throw new SourceFault(`there is no tar header at byte ${at}`);
    if (EXTRAS.includes(header.type)) {
      const records = await readExtra(bytes, header, at);
      for (const [key, value] of records) (header.type === 'g' ? global : extra).set(key, value);
      continue;
    }
    if (header.type === 'S') throw new SourceFault(`the file at byte ${at} of the tar is stored sparsely`);
    const entry = describe(header, new Map([...global, ...extra]), bytes.position);
    if (!entry) throw new SourceFault(`the pax header before byte ${at} has a wrong size`);
    extra = new Map();
    if (LINKS[header.type]) yield entry;
    if (WITHOUT_BYTES.includes(header.type)) continue;
    if (header.type === '0') yield entry;
    const end = entry.position + Math.ceil(entry.sizeBytes / BLOCK) * BLOCK;
    if (!(await bytes.skip(end - bytes.position))) throw truncatedTar(bytes.position);
  }
}

/** Makes the fault of a tar that ends before its end mark. */
export function truncatedTar(position: number, cause?: unknown): SourceFault {
  const reason = `the tar was cut off: it ends after byte ${position}, before its end mark`;
  return new SourceFault(reason, { cause });
}

/** Reads the attributes of the next file, by pax key. */
async function readExtra(
  bytes: TarBytes,
  { type, sizeBytes }: TarHeader,
  at: number,
): Promise<Map<string, Uint8Array>> {
  if (sizeBytes > MAX_EXTRA_BYTES)
    throw new SourceFault(`the name at byte ${at} of the tar has ${sizeBytes} bytes`);
  const padded = await bytes.read(Math.ceil(sizeBytes / BLOCK) * BLOCK);
  if (!padded) throw truncatedTar(bytes.position);
  const content = padded.subarray(0, sizeBytes);
  if (type === 'K' || type === 'L') {
    const end = content.indexOf(0);
    return new Map([[type === 'K' ? 'linkpath' : 'path', end < 0 ? content : content.subarray(0, end)]]);
  }
  const records = readPaxRecords(content);
  if (!records) throw new SourceFault(`the pax header at byte ${at} of the tar is damaged`);
  return records;
}

/** Combines a header with pax attributes. Returns undefined for an invalid size. */
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
  const kind = LINKS[header.type];
  return {
    name: pax.get('path') ?? header.name,
    ...(kind && { link: { kind, target: pax.get('linkpath') ?? header.linkName } }),
    position,
    sizeBytes,
    modifiedMs: Number.isSafeInteger(modifiedMs) ? modifiedMs : null,
  };
}
