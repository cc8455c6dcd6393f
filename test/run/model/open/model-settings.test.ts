/** A model's own file: what it may state, and that a damaged one is never taken for an absent one. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  encodeModelSettings,
  readModelSettings,
  settingsPath,
} from '../../../../src/run/model/open/model-settings.js';
import { scratchFolder } from '../../../support/fixtures.js';

const folder = mkdtempSync(join(scratchFolder(), 'settings-'));
let count = 0;

/** A model, of which only its own file is there. */
function modelWith(content: string | Uint8Array): string {
  const model = join(folder, `${count++}.onnx`);
  writeFileSync(settingsPath(model), content);
  return model;
}

describe('readModelSettings', () => {
  it('gives back what was written, and nothing without a file', () => {
    const settings = {
      transform: { crop: 96 },
      labels: ['cat', 'dog'],
      dynamicBatch: true,
      engine: 'openvino',
      precision: 'bfloat16',
      device: 'cpu',
    } as const;
    const model = modelWith(encodeModelSettings(settings));
    expect(readModelSettings(model)).toEqual({ ...settings, file: `${model}.tapir.json` });
    expect(readModelSettings(join(folder, 'nothing.onnx'))).toBeUndefined();
    expect(readModelSettings(undefined)).toBeUndefined();
    expect(readModelSettings(modelWith('{"transform": "Squash224"}'))).toMatchObject({
      transform: 'Squash224',
    });
  });

  it.each<[string, string | null, RegExp]>([
    ['', null, /no JSON/],
    ['{"labels": ["a"', null, /no JSON/],
    ['[]', null, /no JSON object/],
    ['null', null, /no JSON object/],
    [`{"transform": ${'['.repeat(1000)}`, null, /nested/],
    ['{"dynamic_batch": true}', 'dynamic_batch', /dynamicBatch/],
    ['{"__proto__": {"engine": "openvino"}}', '__proto__', /keys are/],
    ['{"transform": 7}', 'transform', /an object of transform options/],
    ['{"labels": []}', 'labels', /a list of strings/],
    ['{"labels": ["a", 1]}', 'labels', /a list of strings/],
    ['{"dynamicBatch": "yes"}', 'dynamicBatch', /true or false/],
    ['{"engine": "tensorrt"}', 'engine', /onnxruntime, openvino/],
    ['{"precision": "int4"}', 'precision', /float32/],
    ['{"device": "auto"}', 'device', /cpu, cuda/],
  ])('refuses %s, by its path and key', (content, key, reason) => {
    const model = modelWith(content);
    let error: unknown;
    try {
      readModelSettings(model);
    } catch (caught) {
      error = caught;
    }
    expect(error).toMatchObject({
      code: 'SETTINGS_INVALID',
      message: expect.stringMatching(reason),
      details: { path: settingsPath(model), key },
    });
    expect((error as Error).message).toContain(settingsPath(model));
  });
});
