/** Saving: never over the source, over other files only if asked to, and advice that works. */
import {
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, openModel, pruneModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { fixturePath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { modelBytes } from '../../../support/graphs.js';

const scratch = scratchFolder();
const source = join(scratch, 'source.onnx');
writeFileSync(source, tinyResNet());
const bytes = readFileSync(source);

describe('save', () => {
  const aliases: [string, (path: string) => string][] = [
    ['its own path', () => source],
    ['its path by another way', () => join(scratch, 'sub', '..', 'source.onnx')],
    ['a link to it', (path) => (symlinkSync(source, path), path)],
    ['a hard link of it', (path) => (linkSync(source, path), path)],
  ];
  // Where the file system knows no case, another case is the same file.
  if (existsSync(join(scratch, 'SOURCE.onnx')))
    aliases.push(['another case', () => join(scratch, 'SOURCE.onnx')]);

  it.each(aliases)('never replaces the source: %s', async (what, makeAlias) => {
    const pruned = await pruneModel(source, ['layer1']);
    const path = makeAlias(join(scratch, `alias of ${what}.onnx`));
    for (const overwrite of [false, true])
      await expect(pruned.save(path, { overwrite })).rejects.toMatchObject({
        code: 'OUTPUT_UNWRITABLE',
        message: expect.stringMatching(/it is the model that is read; choose another name/),
      });
    expect(readFileSync(source).equals(bytes)).toBe(true);
  });

  it('replaces another file only with overwrite', async () => {
    const pruned = await pruneModel(source, ['layer1']);
    const path = join(scratch, 'other.onnx');
    copyFileSync(source, path);
    await expect(pruned.save(path)).rejects.toMatchObject({
      code: 'OUTPUT_EXISTS',
      message: expect.stringMatching(/overwrite: true \(tapir: --overwrite\)/),
      details: { path },
    });
    expect(readFileSync(path).equals(bytes)).toBe(true);
    await pruned.save(path, { overwrite: true });
    expect(statSync(path).size).toBe(pruned.plan.kept.bytes);
  });

  it('replaces a repacked pair only with overwrite, and never with the weights of the source', async () => {
    const folder = fixturePath('graphs/generated/external');
    const pruned = await pruneModel(join(folder, 'ok.onnx'), ['tensor:y']);
    const path = join(scratch, 'pair.onnx');
    await pruned.save(path, { weights: 'repack' });
    await expect(pruned.save(path, { weights: 'repack' })).rejects.toMatchObject({ code: 'OUTPUT_EXISTS' });
    await pruned.save(path, { weights: 'repack', overwrite: true });
    // The data file of the pair holds weights of the model that is opened now.
    const again = await pruneModel(path, ['tensor:y']);
    await expect(again.save(path, { weights: 'repack', overwrite: true })).rejects.toMatchObject({
      code: 'OUTPUT_UNWRITABLE',
    });
    mkdirSync(join(scratch, 'linked'));
    symlinkSync(`${path}.data`, join(scratch, 'linked/x.onnx.data'));
    await expect(
      again.save(join(scratch, 'linked/x.onnx'), { weights: 'repack', overwrite: true }),
    ).rejects.toMatchObject({
      code: 'OUTPUT_UNWRITABLE',
      message: expect.stringMatching(/it holds weights of the model/),
    });
  });

  it('gives a typed error for a path that no file can have', async () => {
    const pruned = await pruneModel(source, ['layer1']);
    await expect(pruned.save('a\0b')).rejects.toMatchObject({ code: 'OUTPUT_UNWRITABLE' });
  });
});

describe('the advice of EXTERNAL_DATA_ELSEWHERE', () => {
  const model = fixturePath('graphs/generated/external/ok.onnx');

  it('names inline and repack, and both work', async () => {
    const pruned = await pruneModel(model, ['tensor:y']);
    const place = join(scratch, 'elsewhere');
    mkdirSync(place);
    await expect(pruned.save(join(place, 'x.onnx'))).rejects.toMatchObject({
      code: 'EXTERNAL_DATA_ELSEWHERE',
      message: expect.stringMatching(/weights: 'inline' or 'repack' \(tapir: --set weights=…\)/),
    });
    for (const weights of ['inline', 'repack'] as const) {
      const path = join(place, `${weights}.onnx`);
      await pruned.save(path, { weights });
      await (await createFeatureExtractor(path, ['tensor:y'])).close();
    }
  });

  it('says to open by path what was opened from bytes: moving needs the folder, too', async () => {
    const pruned = await pruneModel(readFileSync(model), ['tensor:y']);
    await expect(pruned.save(join(scratch, 'bytes.onnx'))).rejects.toMatchObject({
      code: 'EXTERNAL_DATA_ELSEWHERE',
      message: expect.stringMatching(/open the model by its path/),
    });
  });
});

describe('a saved model', () => {
  it('from bytes needs no folder', async () => {
    const pruned = await pruneModel(
      modelBytes({ inputs: ['x'], outputs: ['y'], nodes: [{ op: 'Neg', inputs: ['x'], outputs: ['y'] }] }),
      { y: 'z' },
    );
    await pruned.save(join(scratch, 'z.onnx'));
    expect((await openModel(join(scratch, 'z.onnx'))).outputs.map(({ name }) => name)).toEqual(['z']);
  });
});
