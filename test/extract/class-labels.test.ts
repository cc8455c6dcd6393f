/** Labels in a model's metadata: the two forms, and what is refused. */
import { mkdtempSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pruneModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { readClassLabels, withClassLabels, type ClassLabels } from '../../src/extract/class-labels.js';
import { openModel } from '../../src/run/model/open/open-model.js';
import { scratchFolder } from '../support/fixtures.js';
import { chain, modelBytes, withMetadata } from '../support/graphs.js';

async function labelsIn(...entries: readonly Record<string, string>[]): Promise<ClassLabels> {
  let model = modelBytes(chain(1));
  for (const entry of entries) model = withMetadata(model, entry);
  return readClassLabels(await openModel(model));
}

describe('readClassLabels', () => {
  it('reads a JSON array under "labels"', async () => {
    expect(await labelsIn({ author: 'x', labels: '["cat", "dog\'s", "ünï\\n"]' })).toEqual({
      labels: ['cat', "dog's", 'ünï\n'],
    });
  });

  it.each<[string, string[]]>([
    [`{0: 'person', 1: 'bicycle'}`, ['person', 'bicycle']],
    [` {0:'a' , 1 : "sheriff's badge"} `, ['a', "sheriff's badge"]],
    [`['a', "b's"]`, ['a', "b's"]],
    [
      String.raw`{0: 'both \' and "', 1: 'back\\slash\ttab', 2: '\x85\u2028\U0001f984'}`,
      [`both ' and "`, 'back\\slash\ttab', '\u0085\u2028🦄'],
    ],
    [`{0: '}, 1: x'}`, ['}, 1: x']],
  ])('reads %s under "names"', async (names, labels) => {
    expect(await labelsIn({ names })).toEqual({ labels });
  });

  it.each([
    '',
    '{}',
    '[]',
    `{0: 'a'`,
    `{0: 'a'} + {}`,
    `{0: 'a',}`,
    `{1: 'a'}`,
    `{0: 'a', 2: 'b'}`,
    `{0: 'a', 0: 'b'}`,
    `{'0': 'a'}`,
    `{0: a}`,
    `{0: 1}`,
    `{0: f'a'}`,
    `['a', 1]`,
    `{0: 'a']`,
    `dict(a=1)`,
    String.raw`{0: '\q'}`,
    String.raw`{0: '\x4'}`,
    String.raw`{0: '\Uffffffff'}`,
  ])('refuses %s under "names"', async (names) => {
    expect(await labelsIn({ names })).toEqual({ problem: expect.stringContaining('entry "names"') });
  });

  it.each(['', 'cat', '{"0": "cat"}', '[]', '["cat", 1]'])('refuses %s under "labels"', async (labels) => {
    expect(await labelsIn({ labels, names: `{0: 'cat'}` })).toEqual({
      problem: expect.stringContaining('entry "labels"'),
    });
  });

  it('says where there are none, and takes the last of several entries', async () => {
    expect(await labelsIn({ author: 'x' })).toEqual({ problem: 'its metadata has no labels' });
    expect(await labelsIn({ labels: '["a"]' }, { labels: '["b"]' })).toEqual({ labels: ['b'] });
  });

  it('keeps them in a pruned model', async () => {
    const model = withMetadata(modelBytes(chain(2)), { labels: '["a"]' });
    const pruned = await pruneModel(model, ['tensor:t1']);
    expect(await readClassLabels(await openModel(await pruned.bytes()))).toEqual({ labels: ['a'] });
  });
});

describe('withClassLabels', () => {
  it('replaces the labels, and leaves all other bytes as they are', async () => {
    const plain = modelBytes(chain(1));
    const given = withMetadata(withMetadata(plain, { labels: '["old"]' }), { author: 'x' });
    const path = join(mkdtempSync(join(scratchFolder(), 'labels-')), 'labelled.onnx');
    const labels = ['ünï\n', '"'];
    await (await withClassLabels(await openModel(given), labels)).save(path);
    const expected = withMetadata(withMetadata(plain, { author: 'x' }), { labels: JSON.stringify(labels) });
    expect(readFileSync(path).equals(Buffer.from(expected))).toBe(true);
    expect(await readClassLabels(await openModel(path))).toEqual({ labels });
  });
});
