/** What a benchmark says about its machine, about what could not run, and about rows that the last record had. */
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { listInstructionSets } from '../src/run/runtime/cpu-features.js';

interface Machine {
  readonly node: string;
  readonly cores: number;
  readonly cpu: string;
  /** Those on which the speed of models depends. The name of a virtual CPU does not tell them. */
  readonly instructions: readonly string[];
}

export function describeMachine(): Machine {
  const instructions = listInstructionSets();
  return {
    node: process.versions.node,
    cores: availableParallelism(),
    cpu: cpus()[0]?.model ?? '',
    instructions,
  };
}

/** The machine in a line. */
export function machineText(): string {
  const { node, cores, cpu, instructions } = describeMachine();
  const sets = instructions.length > 0 ? instructions.join(', ') : 'unknown instructions';
  return `Node ${node}, ${cores} cores, ${cpu} (${sets})`;
}

/** Something that was to be measured and was not. */
export interface Gap {
  readonly name: string;
  readonly reason: string;
}

/** Prints what was not measured, last, so that it is seen. With such gaps, the process ends with 1. */
export function reportGaps(gaps: readonly Gap[]): void {
  if (gaps.length === 0) return;
  console.log('\nNOT MEASURED (exit code 1; exclude by name what is not wanted):');
  for (const { name, reason } of gaps) console.log(`  ${name}: ${reason}`);
  process.exitCode = 1;
}

/** A row that an earlier record has and this one lacks. */
interface LostRow {
  readonly row: string;
  /** The file of the earlier record. */
  readonly lastIn: string;
}

/**
 * Writes a record as JSON, with the rows in it that the last record of its kind had and it lacks. Of one kind are the files of a folder
 * whose names are the same up to the date.
 *
 * @param rowsOf - The names of the rows of a record, in whatever form an earlier version left it.
 */
export function writeRecord(
  path: string,
  content: object,
  rowsOf: (record: unknown) => readonly string[],
): void {
  mkdirSync(dirname(path), { recursive: true });
  const lost = listLost(path, new Set(rowsOf(content)), rowsOf);
  for (const { row, lastIn } of lost) console.log(`LOST ROW ${row}: ${lastIn} has it`);
  writeFileSync(path, `${JSON.stringify({ ...content, lost }, null, 2)}\n`);
}

function listLost(
  path: string,
  rows: ReadonlySet<string>,
  rowsOf: (record: unknown) => readonly string[],
): LostRow[] {
  const folder = dirname(path);
  const kind = kindOf(path);
  const others = readdirSync(folder)
    .filter((name) => name.endsWith('.json') && name !== basename(path) && kindOf(name) === kind)
    .map((name) => ({ name, date: dateOf(join(folder, name)) }))
    .toSorted((a, b) => (a.date < b.date ? 1 : -1));
  const last = others[0];
  if (!last) return [];
  const before = rowsOf(JSON.parse(readFileSync(join(folder, last.name), 'utf8')));
  return before.filter((row) => !rows.has(row)).map((row) => ({ row, lastIn: last.name }));
}

/** `peers-2026-11-24-avx512.json` → `peers-`. */
function kindOf(path: string): string {
  return /^\D*/.exec(basename(path))![0];
}

/** When a record was made: as it says itself, else when it was written. */
function dateOf(file: string): string {
  const { date } = JSON.parse(readFileSync(file, 'utf8')) as { readonly date?: string };
  return date ?? statSync(file).mtime.toISOString();
}
