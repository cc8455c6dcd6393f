/** Archives made in tests. */
import { crc32, deflateRawSync } from 'node:zlib';
import { pack } from 'tar-stream';

export interface PackedFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** A tar as tar-stream writes it: ustar, with pax headers for long and other than ASCII names. */
export async function makeTar(files: readonly PackedFile[], modified = new Date(0)): Promise<Buffer> {
  const tar = pack();
  for (const { name, bytes } of files) tar.entry({ name, mtime: modified }, Buffer.from(bytes));
  tar.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of tar as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** A tar entry, with the fields that a test needs to set. */
export function tarBlock(
  name: string | Uint8Array,
  size: number,
  { type = '0', magic = 'ustar\u000000', prefix = '', link = '' } = {},
): Buffer {
  const block = Buffer.alloc(512);
  Buffer.from(name).copy(block, 0, 0, 100);
  block.write('0000644\0', 100);
  block.write(`${size.toString(8).padStart(11, '0')}\0`, 124);
  block.write('00000000017\0', 136);
  block.write(type, 156);
  block.write(link, 157);
  block.write(magic, 257, 'latin1');
  block.write(prefix, 345);
  return sealTarBlock(block);
}

/** Sets the checksum. */
export function sealTarBlock(block: Buffer): Buffer {
  block.fill(' ', 148, 156);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return block;
}

/** Bytes filled up to whole blocks. */
export function padBlocks(bytes: Uint8Array): Buffer {
  return Buffer.concat([bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)]);
}

/** The two empty blocks that end a tar. */
export const TAR_END = Buffer.alloc(1024);

export interface ZippedFile extends PackedFile {
  readonly isDeflated?: boolean;
  readonly isEncrypted?: boolean;
  /** Method that the directory names. */
  readonly method?: number;
  /** Size that the directory states. */
  readonly statedBytes?: number;
  readonly statedCrc?: number;
  /** Type and permissions, as Unix writes them. */
  readonly mode?: number;
}

/** A zip, written by hand so that it can lie. */
export function makeZip(files: readonly ZippedFile[], statedEntries = files.length): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let at = 0;
  for (const { name, bytes, isDeflated = false, isEncrypted = false, ...stated } of files) {
    const packed = isDeflated ? deflateRawSync(bytes) : Buffer.from(bytes);
    const fields = Buffer.alloc(26);
    fields.writeUInt16LE(20, 0);
    fields.writeUInt16LE(0x800 + (isEncrypted ? 1 : 0), 2);
    fields.writeUInt16LE(stated.method ?? (isDeflated ? 8 : 0), 4);
    // 12:30:10 on 2024-05-06.
    fields.writeUInt16LE((12 << 11) | (30 << 5) | 5, 6);
    fields.writeUInt16LE((44 << 9) | (5 << 5) | 6, 8);
    fields.writeUInt32LE(stated.statedCrc ?? crc32(bytes), 10);
    fields.writeUInt32LE(packed.length, 14);
    fields.writeUInt32LE(stated.statedBytes ?? bytes.length, 18);
    fields.writeUInt16LE(Buffer.byteLength(name), 22);
    parts.push(Buffer.from('PK\x03\x04', 'latin1'), fields, Buffer.from(name), packed);
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE(((stated.mode ?? 0) << 16) >>> 0, 6);
    tail.writeUInt32LE(at, 10);
    directory.push(Buffer.from('PK\x01\x02\x14\x00', 'latin1'), fields, tail, Buffer.from(name));
    at += 30 + Buffer.byteLength(name) + packed.length;
  }
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 'latin1');
  end.writeUInt16LE(statedEntries, 8);
  end.writeUInt16LE(statedEntries, 10);
  end.writeUInt32LE(Buffer.concat(directory).length, 12);
  end.writeUInt32LE(at, 16);
  return Buffer.concat([...parts, ...directory, end]);
}
