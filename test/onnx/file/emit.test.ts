import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { collectChunks, layOut, writeChunks } from '../../../src/onnx/file/emit.js';
import { scanModel, type ScannedModel } from '../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../src/onnx/file/wire/source.js';
import { fixturePath, scratchFolder, sharedFixtures, tinyResNet } from '../../support/fixtures.js';

const scratch = scratchFolder();

function modelsBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.onnx'))
    .map((file) => join(folder, file));
}

describe('layOut', () => {
  const files = modelsBelow(
    sharedFixtures === undefined ? fixturePath('graphs') : join(sharedFixtures, 'graphs'),
  );

  it.each(files)('gives %s back byte for byte when nothing changes', async (file) => {
    const bytes = readFileSync(file);
    let model: ScannedModel;
    try {
      model = scanModel(memorySource(bytes));
    } catch {
      return; // Malformed on purpose: there is nothing to lay out.
    }
    const back = await collectChunks(memorySource(bytes), layOut(model, { dropped: new Set(), added: [] }));
    expect(Buffer.compare(back, bytes)).toBe(0);
  });

  it('writes the same bytes with every field apart, as with ranges', async () => {
    const bytes = tinyResNet();
    const model = scanModel(memorySource(bytes));
    const dropped = new Set(model.graph.valueInfos.map((info) => info.field));
    const added = [new Uint8Array(0)];
    // An empty addition forces the graph's head to be written again.
    expect(
      Buffer.compare(await collectChunks(memorySource(bytes), layOut(model, { dropped, added })), bytes),
    ).toBe(0);
  });

  it('copies kept fields that no schema knows', async () => {
    const unknown = Uint8Array.of(0xa2, 0x06, 3, 1, 2, 3); // Field 100 of ModelProto.
    const bytes = Buffer.concat([tinyResNet(), unknown]);
    const model = scanModel(memorySource(bytes));
    const dropped = new Set([model.graph.nodes.at(-1)!.field]);
    const back = await collectChunks(memorySource(bytes), layOut(model, { dropped, added: [] }));
    expect(back.byteLength).toBeLessThan(bytes.byteLength);
    expect([...back.subarray(-6)]).toEqual([...unknown]);
  });
});

describe('writeChunks', () => {
  const bytes = tinyResNet();
  const chunks = [{ start: 0, end: bytes.byteLength }];

  it('writes the file and leaves nothing else behind', async () => {
    const path = join(scratch, 'a.onnx');
    await writeChunks(memorySource(bytes), chunks, path);
    expect(Buffer.compare(readFileSync(path), bytes)).toBe(0);
    expect(readdirSync(scratch)).toEqual(['a.onnx']);
  });

  it('leaves the old file and no partial one if it fails', async () => {
    const path = join(scratch, 'b.onnx');
    writeFileSync(path, 'old');
    const source = { label: 'x', sizeBytes: 9, read: () => new Uint8Array(0) };
    await expect(writeChunks(source, [{ start: 0, end: 9 }], path)).rejects.toMatchObject({
      code: 'MODEL_CHANGED',
    });
    expect(readFileSync(path, 'utf8')).toBe('old');
    expect(readdirSync(scratch).toSorted()).toEqual(['a.onnx', 'b.onnx']);
  });

  it('says why a place cannot be written', async () => {
    const path = join(scratch, 'no/such/folder/c.onnx');
    await expect(writeChunks(memorySource(bytes), chunks, path)).rejects.toMatchObject({
      code: 'OUTPUT_UNWRITABLE',
      details: { path, reason: expect.stringContaining('ENOENT') },
    });
  });
});
