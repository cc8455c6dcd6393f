import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { importKoffi } from '../../../../../src/run/runtime/engines/native/koffi.js';
import { bindMapFile } from '../../../../../src/run/runtime/engines/native/map-file.js';

const folder = mkdtempSync(join(tmpdir(), 'tapir-map-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it.runIf(process.platform === 'linux')(
  'maps a file, which stays as it was if the memory is written',
  async () => {
    const koffi = await importKoffi();
    const path = join(folder, 'file');
    const content = Uint8Array.from({ length: 10_000 }, (_, i) => i % 251);
    writeFileSync(path, content);
    const map = bindMapFile(koffi);
    const first = map(path);
    expect(first.bytes).toBe(10_000);
    const memory = new Uint8Array(koffi.view(first.address, first.bytes));
    expect(memory).toEqual(content);
    memory[0] = 7;
    const second = map(path);
    expect(new Uint8Array(koffi.view(second.address, second.bytes))).toEqual(content);
    // An unlinked file stays readable.
    rmSync(path);
    expect(memory[9999]).toBe(content[9999]);
    first.free();
    second.free();
  },
);

it('reads what cannot be mapped', async () => {
  const path = join(folder, 'empty');
  writeFileSync(path, '');
  expect(bindMapFile(await importKoffi())(path)).toMatchObject({ bytes: 0 });
});
