/** The table of conformance/README.md. */
import { readFileSync, writeFileSync } from 'node:fs';
import type { ModelCheck } from '../src/cli/measure/check-model.js';
import type { Finding, Verdict } from '../src/cli/measure/finding.js';

/** A model and what was found. */
export interface Row {
  readonly group: string;
  readonly name: string;
  readonly check?: ModelCheck;
  /** Why there is nothing. */
  readonly error?: string;
  /** Of torchvision's node names: how many, and those that denote nothing. */
  readonly torch?: { readonly names: number; readonly wrong: readonly string[] } | undefined;
  readonly seconds: number;
}

const CHECKS = ['opens', 'names', 'pixels', 'cut', 'split', 'reference', 'agree'] as const;
const CELLS: Readonly<Record<Verdict, string>> = {
  yes: '✓',
  close: '≈',
  no: '**✗**',
  refused: '–',
  unproven: '·',
};
/** Groups whose models are counted, not listed. */
const COUNTED = new Set(['corpus']);

/** The parts of README.md that a run writes. */
export type Part = 'counts' | 'names' | 'pixels' | 'photo-files' | 'models';

/** Replaces a part of the README: what stands between its mark and the next one. */
export function writePart(path: string, part: Part, content: string): void {
  const text = readFileSync(path, 'utf8');
  const mark = `<!-- ${part} -->`;
  const [before, rest] = text.split(mark) as [string, string];
  const next = rest.indexOf('<!-- ');
  const after = next < 0 ? '' : rest.slice(next);
  writeFileSync(path, `${before}${mark}\n\n${content.trim()}\n${after === '' ? '' : '\n'}${after}`);
}

/** A line of progress. */
export function describeRow({ name, check, error }: Row): string {
  if (!check) return `${name}: ${error}`;
  const rates = check.engines.flatMap(({ imagesPerSecond }) => imagesPerSecond?.toFixed(1) ?? []);
  return `${name}: ${CHECKS.map((what) => CELLS[check.findings[what].verdict]).join(' ')} ${rates.join(' ')}`;
}

/** Facts of the run. */
interface Run {
  readonly version: string;
  readonly machine: string;
  readonly hasPython: boolean;
}

/** Replaces what stands below the mark. */
export function writeTable(path: string, rows: readonly Row[], run: Run): void {
  const ways = [...new Set(rows.flatMap(({ check }) => check?.engines.map(wayOf) ?? []))].filter((way) =>
    rows.some(({ check }) =>
      check?.engines.some((one) => wayOf(one) === way && one.imagesPerSecond !== null),
    ),
  );
  const groups = [...new Set(rows.map(({ group }) => group))];
  const parts = groups.map((group) => {
    const own = rows.filter((row) => row.group === group);
    const body = COUNTED.has(group) ? countRows(own) : listRows(own, ways);
    return `## ${group}: ${own.length} models\n\n${body}\n\n${explain(own)}`;
  });
  const facts = `onnx-tapir ${run.version}, ${run.machine}; ${Math.ceil(rows.reduce((sum, { seconds }) => sum + seconds, 0) / 60)} minutes${run.hasPython ? '' : '; without Python, so that pixels and vectors are not proven'}.`;
  writePart(path, 'models', `${facts}\n\n${parts.join('\n\n')}`);
}

function wayOf({ engine, precision }: ModelCheck['engines'][number]): string {
  return `${engine} ${precision}`;
}

function listRows(rows: readonly Row[], ways: readonly string[]): string {
  const head = ['model', ...CHECKS, ...ways];
  const lines = rows.map((row) => {
    const { name, check } = row;
    if (!check) return [name, ...CHECKS.map(() => '–'), ...ways.map(() => '')];
    const engines = ways.map((way) => {
      const found = check.engines.find((one) => wayOf(one) === way);
      if (!found || found.imagesPerSecond === null) return '–';
      // Rounded down, so that it is true.
      const cosine = Math.floor(found.cosine! * 1e6) / 1e6;
      return `${found.imagesPerSecond.toFixed(1)}${cosine === 1 ? '' : ` (${cosine})`}`;
    });
    return [name, ...CHECKS.map((what) => CELLS[findingOf(row, what).verdict]), ...engines];
  });
  return [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** A name is right or refused: torchvision's names of sizes and lists, which are no tensors, are refused. */
function findingOf({ check, torch }: Row, what: (typeof CHECKS)[number]): Finding {
  if (what !== 'names' || !torch || torch.wrong.length === 0) return check!.findings[what];
  const kinds = new Set(torch.wrong.map((name) => name.replace(/_\d+$/, '').split('.').at(-1)!));
  return {
    verdict: 'refused',
    says: `of torchvision’s ${torch.names} names, ${torch.wrong.length} are refused, which are sizes and lists, no tensors: ${[...kinds].join(', ')}`,
  };
}

function countRows(rows: readonly Row[]): string {
  const checked = rows.filter(({ check }) => check);
  const head = ['', ...Object.values(CELLS)];
  const lines = CHECKS.map((what) => [
    what,
    ...Object.keys(CELLS).map((verdict) =>
      String(checked.filter((row) => findingOf(row, what).verdict === verdict).length),
    ),
  ]);
  return [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** Every cell that is not ✓, by its reason. */
function explain(rows: readonly Row[]): string {
  const reasons = new Map<string, string[]>();
  const add = (what: string, says: string, name: string): void => {
    const reason = `${what}: ${says}`;
    reasons.set(reason, [...(reasons.get(reason) ?? []), name]);
  };
  for (const row of rows) {
    if (!row.check) add('–', reasonOf(row.error!), row.name);
    else
      for (const what of CHECKS) {
        const { verdict, says, code } = findingOf(row, what);
        if (verdict === 'yes' || (verdict === 'unproven' && what !== 'opens')) continue;
        if (verdict === 'refused' && row.check.findings.opens.verdict === 'refused' && what !== 'opens')
          continue;
        add(`${what} ${CELLS[verdict]}`, code === undefined ? reasonOf(says) : `${code}`, row.name);
      }
  }
  return [...reasons].map(([reason, names]) => `- ${reason} (${names.join(', ')})`).join('\n');
}

/** Numbers and names differ from model to model. */
function reasonOf(says: string): string {
  return says.replaceAll('|', '\\|').replace(/\s+/g, ' ').slice(0, 300);
}
