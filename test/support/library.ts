/** A shared library of headers alone: enough to say what it needs, not to be loaded. */
export function makeLibrary({
  needed,
  soname,
}: {
  readonly needed: readonly string[];
  readonly soname?: string;
}): Uint8Array {
  const names = [...needed, ...(soname === undefined ? [] : [soname])];
  const entries = needed.length + (soname === undefined ? 0 : 1) + 2;
  const dynamicAt = 64 + 2 * 56;
  const stringsAt = dynamicAt + entries * 16;
  const strings = Buffer.from(`\0${names.map((name) => `${name}\0`).join('')}`);
  const file = Buffer.alloc(stringsAt + strings.length);
  strings.copy(file, stringsAt);
  // Addresses differ from places in the file, as in real libraries.
  const base = 0x40_0000;
  file.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  file.writeBigUInt64LE(64n, 32);
  file.writeUInt16LE(56, 54);
  file.writeUInt16LE(2, 56);
  const segment = (at: number, type: number, offset: number, bytes: number): void => {
    file.writeUInt32LE(type, at);
    file.writeBigUInt64LE(BigInt(offset), at + 8);
    file.writeBigUInt64LE(BigInt(base + offset), at + 16);
    file.writeBigUInt64LE(BigInt(bytes), at + 32);
  };
  segment(64, 1, 0, file.length);
  segment(64 + 56, 2, dynamicAt, entries * 16);
  let at = dynamicAt;
  const entry = (tag: number, value: number): void => {
    file.writeBigUInt64LE(BigInt(tag), at);
    file.writeBigUInt64LE(BigInt(value), at + 8);
    at += 16;
  };
  const offsetOf = (name: string): number => strings.indexOf(`\0${name}\0`) + 1;
  for (const name of needed) entry(1, offsetOf(name));
  if (soname !== undefined) entry(14, offsetOf(soname));
  entry(5, base + stringsAt);
  entry(0, 0);
  return file;
}
