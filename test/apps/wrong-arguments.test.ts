/** What is not what a function of the apps takes: a forgotten await, an object of another kind. */
import {
  createService,
  findDuplicates,
  isTapirError,
  searchDataset,
  trainProbe,
  writeReport,
} from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { datasetOf, readGolden } from '../support/probe-data.js';

const WRONG: readonly unknown[] = [
  Promise.resolve({}),
  {},
  { manifest: {} },
  null,
  undefined,
  7,
  [],
  () => 1,
  Symbol('x'),
];
const CALLS: readonly (readonly [string, (value: never) => unknown])[] = [
  ['createService', (value) => createService(value)],
  ['findDuplicates', (value) => findDuplicates(value)],
  ['searchDataset', (value) => searchDataset(value, [])],
  ['writeReport', (value) => writeReport(value)],
];

describe.each(CALLS)('%s', (_, call) => {
  it('refuses it with OPTION_INVALID, and names a forgotten await', async () => {
    for (const value of WRONG) {
      const error: unknown = await (async () => call(value as never))().catch((reason: unknown) => reason);
      expect(isTapirError(error, 'OPTION_INVALID'), `${String(value)}: ${String(error)}`).toBe(true);
      if (value instanceof Promise) expect(String(error)).toContain('forgotten "await"');
    }
  });
});

describe('onPhase that is no function', () => {
  const option = { onPhase: 7 as never };
  it.each([
    ['trainProbe', () => trainProbe(datasetOf(readGolden('wine')), new Map(), option)],
    ['writeReport', () => writeReport('.', option)],
  ])('%s refuses it before the work', async (_, call) => {
    await expect(call()).rejects.toMatchObject({ code: 'OPTION_INVALID', details: { option: 'onPhase' } });
  });
});
