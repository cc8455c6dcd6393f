/** What is not what a function of the apps takes: a forgotten await, an object of another kind. */
import { createService, findDuplicates, isTapirError, searchDataset, writeReport } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';

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
