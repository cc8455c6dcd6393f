/** Names beside a model: those that models/export_torchvision.py wrote are exact, damaged and foreign ones are refused. */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { isTapirError } from '../../../src/base/errors.js';
import { getGraphNodeNames, openModel } from '../../../src/run/model/open/open-model.js';
import { pruneModel } from '../../../src/run/model/oracle/prune-model.js';
import { fixturePath, scratchFolder } from '../../support/fixtures.js';
import { chain, modelBytes } from '../../support/graphs.js';

const scratch = scratchFolder();

interface Sidecar {
  readonly model: { readonly fingerprint: string };
  readonly names: Readonly<Record<string, string>>;
  readonly absent: Readonly<Record<string, string | null>>;
}

const readSidecar = (path: string): Sidecar => JSON.parse(readFileSync(path, 'utf8')) as Sidecar;

describe.each(['googlenet.ts', 'resnet18.dynamo'])('names beside %s', (name) => {
  const path = fixturePath(`sidecar/${name}.onnx`);
  const { names, absent } = readSidecar(`${path}.names.json`);

  it('make every name exact', async () => {
    const model = await openModel(path);
    expect(model.names).toBe(`${path}.names.json`);
    for (const [request, tensor] of Object.entries(names)) {
      const { resolved } = (await pruneModel(model, [request])).plan;
      expect(resolved[0]).toMatchObject({ request, tensor });
    }
    const { resolved } = (await pruneModel(model, [Object.keys(names)[5]!])).plan;
    expect(resolved[0]?.why).toBe('from the names beside the model');
    expect(getGraphNodeNames(model)).toEqual(expect.arrayContaining(Object.keys(names).slice(1, 4)));
  });

  it('refuse names whose value no tensor has, and name what is there', async () => {
    const model = await openModel(path);
    for (const [request, instead] of Object.entries(absent)) {
      await expect(pruneModel(model, [request])).rejects.toMatchObject({
        code: 'NAME_FOLDED',
        details: { request, ...(instead === null ? {} : { instead }) },
      });
    }
  });

  it('are left aside if that is asked for', async () => {
    expect((await openModel(path, { names: 'ignore' })).names).toBeNull();
  });
});

describe('names that cannot be used', () => {
  const folder = join(scratch, 'bad');
  mkdirSync(folder);
  const path = join(folder, 'chain.onnx');
  writeFileSync(path, modelBytes(chain(3)));
  const good = {
    format: 'onnx-tapir-names',
    version: 1,
    // SHA-256 of "t1\nt2\nt3\n".
    model: { fingerprint: '7c40a39c8da15fc2e4e0efdab2b3a7a2d8cebef4aaba12ae4aee3ea21ab8c1d8' },
    names: { 'a.b': 't2' },
    absent: {},
  };

  it.each([
    ['no JSON', '{', /no JSON/],
    ['another format', JSON.stringify({ ...good, format: 'x' }), /not of format/],
    ['a list', '[]', /not of format/],
    ['names that are no record', JSON.stringify({ ...good, names: 3 }), /must be objects/],
    ['another graph', JSON.stringify({ ...good, model: { fingerprint: '0' } }), /fingerprint/],
  ])('%s', async (_, text, reason) => {
    writeFileSync(`${path}.names.json`, text);
    const error: unknown = await openModel(path).catch((caught: unknown) => caught);
    expect(isTapirError(error, 'NAMES_INVALID'), String(error)).toBe(true);
    expect(String(error)).toMatch(reason);
    await expect(openModel(path, { names: 'ignore' })).resolves.toBeDefined();
  });

  it('are looked for only where they are asked for', async () => {
    const elsewhere = join(scratch, 'elsewhere.json');
    await expect(openModel(path, { names: elsewhere })).rejects.toMatchObject({ code: 'NAMES_INVALID' });
    copyFileSync(fixturePath('sidecar/resnet18.dynamo.onnx.names.json'), elsewhere);
    const model = fixturePath('sidecar/resnet18.dynamo.onnx');
    expect((await openModel(readFileSync(model), { names: elsewhere })).names).toBe(elsewhere);
    expect((await openModel(readFileSync(model))).names).toBeNull();
  });

  it('may not lead to tensors that do not exist, nor to a prototype', async () => {
    const names = { ghost: 't3', constructor: 't1', 'a.b': 't2' };
    const text = JSON.stringify({ ...good, names }).replace('"ghost"', '"__proto__"');
    const model = await openModel(path, { names: 'ignore' });
    expect(model.nodes).toHaveLength(3);
    const { createHash } = await import('node:crypto');
    const fingerprint = createHash('sha256').update('t1\nt2\nt3\n').digest('hex');
    writeFileSync(`${path}.names.json`, text.replace(good.model.fingerprint, fingerprint));
    const named = await openModel(path);
    expect((await pruneModel(named, ['constructor'])).plan.resolved[0]?.tensor).toBe('t1');
    expect((await pruneModel(named, ['a.b'])).plan.resolved[0]?.tensor).toBe('t2');
    await expect(pruneModel(named, ['ghost'])).rejects.toMatchObject({ code: 'NAME_NOT_FOUND' });
    writeFileSync(
      `${path}.names.json`,
      text.replace(good.model.fingerprint, fingerprint).replace('"t3"', '"t9"'),
    );
    await expect(openModel(path)).rejects.toMatchObject({ code: 'NAMES_INVALID' });
  });
});
