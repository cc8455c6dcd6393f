/** Records of benchmarks: gaps are said and end with 1, and rows that the last record had are missed. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import { describeMachine, machineText, reportGaps, writeRecord } from '../../bench/record.js';
import { scratchFolder } from '../support/fixtures.js';

const scratch = scratchFolder();
const exitCode = process.exitCode;
afterEach(() => {
  process.exitCode = exitCode;
  vi.restoreAllMocks();
});

const rowsOf = (record: unknown): string[] =>
  (record as { readonly results: readonly { readonly what: string }[] }).results.map(({ what }) => what);
const record = (date: string, ...rows: readonly string[]): object => ({
  date,
  results: rows.map((what) => ({ what })),
});
const lostIn = (path: string): unknown =>
  (JSON.parse(readFileSync(path, 'utf8')) as { readonly lost: unknown }).lost;

it('ends with 1 if something was not measured, and says what and why', () => {
  const log = vi.spyOn(console, 'log').mockReturnValue(undefined);
  reportGaps([]);
  expect(process.exitCode).toBe(exitCode);
  reportGaps([{ name: 'torchvision', reason: 'there is no torch' }]);
  expect(process.exitCode).toBe(1);
  expect(log.mock.calls.flat().join('\n')).toContain('torchvision: there is no torch');
});

it('says which rows the last record of its kind had', () => {
  const log = vi.spyOn(console, 'log').mockReturnValue(undefined);
  const at = (name: string): string => join(scratch, name);
  writeFileSync(at('peers-2026-01-01.json'), JSON.stringify(record('2026-01-01', 'tapir', 'limit', 'old')));
  writeFileSync(
    at('peers-2026-02-02-avx512.json'),
    JSON.stringify(record('2026-02-02', 'tapir', 'openvino')),
  );
  writeFileSync(at('int8-2026-03-03.json'), JSON.stringify(record('2026-03-03', 'other')));
  writeRecord(at('peers-2026-04-04.json'), record('2026-04-04', 'tapir', 'limit'), rowsOf);
  expect(lostIn(at('peers-2026-04-04.json'))).toEqual([
    { row: 'openvino', lastIn: 'peers-2026-02-02-avx512.json' },
  ]);
  expect(log.mock.calls.flat().join('\n')).toContain('openvino');
});

it('has nothing to miss in the first record of its kind', () => {
  const path = join(scratch, 'fresh-2026-04-04.json');
  writeRecord(path, record('2026-04-04', 'a'), rowsOf);
  expect(lostIn(path)).toEqual([]);
});

it('names the instructions of the machine', () => {
  const { cores, instructions } = describeMachine();
  expect(cores).toBeGreaterThan(0);
  expect(machineText()).toContain(instructions.join(', ') || 'unknown instructions');
});
