/**
 * All functions of the package, and the methods of its objects, with wrong arguments in each place: what comes back is a TapirError or
 * the caller's own error, within seconds, and no rejection is left unhandled.
 */
import { isTapirError } from 'onnx-tapir';
import { findDuplicates, openSearch, searchDataset, trainProbe } from 'onnx-tapir/features';
import { writeReport } from 'onnx-tapir/pages';
import { createService } from 'onnx-tapir/serve';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scratchFolder } from './support/fixtures.js';
import { datasetOf, readGolden } from './support/probe-data.js';
import { exportedNames, openPublicCalls, type PublicCall } from './support/public-calls.js';
import { isNothing, wrongValues } from './support/wrong-values.js';

const LIMIT_MS = 20_000;
const { calls, close } = await openPublicCalls();
const unhandled: unknown[] = [];
const keep = (error: unknown): void => void unhandled.push(error);

beforeAll(() => {
  process.on('unhandledRejection', keep);
  // Some calls take any text as the name of a file to write.
  process.chdir(scratchFolder());
});
afterAll(async () => {
  process.off('unhandledRejection', keep);
  await close();
});

it('are called all', () => {
  expect(exportedNames.filter((name) => !Object.hasOwn(calls, name))).toEqual([]);
});

it.each(Object.keys(calls))(
  '%s',
  async (name) => {
    const { call, good } = calls[name]!;
    const raw: string[] = [];
    for (let place = 0; place < good.length; place++)
      for (const wrong of wrongValues) {
        if (isNothing(wrong) && (place > 0 || isNothing(good[place]))) continue;
        // oxlint-disable-next-line no-await-in-loop -- one session at a time
        const error = await endOf(call, good.with(place, wrong));
        const isOwn = error === wrong || (error as Partial<Error> | undefined)?.name === 'AbortError';
        if (error !== undefined && !isOwn && !isTapirError(error))
          raw.push(`argument ${place}: ${describeValue(wrong)}: ${describeValue(error)}`);
      }
    expect(raw).toEqual([]);
    expect(unhandled).toEqual([]);
  },
  240_000,
);

/** What a call ends in; undefined if it gives a value. A value that holds something open is closed. */
async function endOf(call: PublicCall['call'], args: readonly unknown[]): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer in ${LIMIT_MS} ms`)), LIMIT_MS);
  });
  try {
    await Promise.race([runToEnd(call, args), late]);
    return undefined;
  } catch (error) {
    return error;
  } finally {
    clearTimeout(timer);
  }
}

interface Open {
  close?(): Promise<void>;
  destroy?(): void;
  on?(event: 'error', listener: () => void): void;
  next?(): Promise<unknown>;
  return?(): Promise<unknown>;
}

async function runToEnd(call: PublicCall['call'], args: readonly unknown[]): Promise<void> {
  const result = (await (call as (...args: readonly unknown[]) => unknown)(...args)) as
    Open | null | undefined;
  if (typeof result?.next === 'function') {
    await result.next();
    await result.return?.();
  }
  if (typeof result?.close === 'function') await result.close();
  if (typeof result?.destroy === 'function') {
    result.on?.('error', () => undefined);
    result.destroy();
  }
}

function describeValue(value: unknown): string {
  return (
    value instanceof Error ? String(value.stack) : `${typeof value} ${Object.prototype.toString.call(value)}`
  ).slice(0, 300);
}

describe.each<[string, (value: never) => unknown]>([
  ['createService', (value) => createService(value)],
  ['findDuplicates', (value) => findDuplicates(value)],
  ['openSearch', (value) => openSearch(value)],
  ['searchDataset', (value) => searchDataset(value, [])],
  ['writeReport', (value) => writeReport(value)],
])('%s', (_, call) => {
  it('names a forgotten await', async () => {
    await expect((async () => call(Promise.resolve({}) as never))()).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('forgotten "await"'),
    });
  });
});

describe('onProgress that is no function', () => {
  const option = { onProgress: 7 as never };
  it.each([
    ['trainProbe', () => trainProbe(datasetOf(readGolden('wine')), new Map(), option)],
    ['writeReport', () => writeReport('.', option)],
  ])('%s refuses it before the work', async (_, call) => {
    await expect(call()).rejects.toMatchObject({ code: 'OPTION_INVALID', details: { option: 'onProgress' } });
  });
});
