/** `tapir check`: whether a model gives the right numbers here; for people, for CI, as a page. */
import { addPhotoFlags } from '../flags/photo-flags.js';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { writeAtomically } from '../../base/atomic-file.js';
import { shown } from '../../base/printable.js';
import { checkReplaceable } from '../../base/html/check-replaceable.js';
import { renderColumns, renderSection, renderTable } from '../../base/html/components.js';
import { renderPage } from '../../base/html/document.js';
import type { Fact } from '../../base/html/facts.js';
import { markup } from '../../base/html/html.js';
import { formatBytes } from '../../base/html/numbers.js';
import { findModelFile, MODEL_HELP, YES_FLAG, YES_HELP, type CommonFlags } from '../flags/find-model.js';
import { collect } from '../flags/flag-values.js';
import { addFlags, readFlags } from '../flags/option-flags.js';
import { readReturnFlags, RETURN_HELP } from '../flags/return-flags.js';
import { CHECK_FIELDS, checkModel, type CheckModelOptions, type ModelCheck } from '../measure/check-model.js';
import { ENGINE_COLUMNS, engineRows, engineTable } from '../terminal/engine-table.js';
import { checkProof, readProof } from '../measure/check-proof.js';
import { judge, type Finding, type Verdict } from '../measure/finding.js';
import { saveCheck } from '../measure/save-check.js';
import { askedDevices } from '../../products/precision/lowering/forms.js';
import { openModel } from '../../run/model/open/open-model.js';
import { invalidOption } from '../../base/checks.js';
import { EXIT } from '../terminal/exit-code.js';
import type { Terminal } from '../terminal/terminal.js';
import { rare } from '../flags/rare.js';
import { addSettings } from '../flags/settings.js';
import { MIN_COSINE } from '../../products/precision/judge/choose-engine.js';
import type { Fields } from '../../base/options.js';
import type { FoundSettings } from '../../run/model/open/model-settings.js';

interface CheckFlags extends CommonFlags, Omit<CheckModelOptions, 'returnNodes' | 'signal'> {
  readonly return?: readonly string[];
  readonly out?: string;
  readonly save: boolean;
  readonly saveCosine: number;
}

const SAVE_FIELDS: Fields<Pick<CheckFlags, 'saveCosine'>> = { saveCosine: MIN_COSINE };

const MARKS: Readonly<Record<Verdict, string>> = {
  yes: '✓',
  close: '≈',
  no: '✗',
  refused: '✗',
  unproven: '·',
};

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('check')
    .description(
      'check what a model gives here: names, pixels, cuts, splits, engines; exit code 1 if it is wrong',
    )
    .argument('<model>', MODEL_HELP)
    .argument(
      '[photos]',
      'folder, list, archive or pattern of images; the first 16 are measured; without, the test picture in a file that takes photos',
    )
    .option(rare(YES_FLAG), YES_HELP, false)
    .option('--return <name[=key]>', `${RETURN_HELP} (default: the graph outputs)`, collect)
    .option('--out <file>', 'also write an HTML page')
    .option(
      '--save',
      'write the engine and precision that are the fastest here, and a stated --transform, into the model’s own file (MODEL.tapir.json), which every command reads',
      false,
    )
    .option('--json', 'print JSON', false)
    .action((model: string, photos: string | undefined, flags: CheckFlags) =>
      runCheck(terminal, model, photos, flags),
    );
  addFlags(command, CHECK_FIELDS, {
    against: '--against <reference>',
    minCosine: '--min-cosine <c>',
    device: '--device <device>',
  });
  addPhotoFlags(command, ['transform']);
  addSettings(command, SAVE_FIELDS, ['saveCosine']);
}

async function runCheck(
  terminal: Terminal,
  path: string,
  photos: string | undefined,
  flags: CheckFlags,
): Promise<void> {
  const { out, json } = flags;
  if (photos === undefined) return runProof(terminal, path, flags);
  if (out !== undefined) await checkReplaceable(resolve(out), 'check');
  const file = await findModelFile(path, terminal, flags.yes);
  const found = await checkModel(file, photos, {
    ...readFlags(CHECK_FIELDS, flags),
    returnNodes: flags.return && readReturnFlags(flags.return),
    signal: terminal.signal,
  });
  if (out !== undefined) await writeAtomically(resolve(out), await renderCheck(found));
  const { opens, ...others } = found.findings;
  const isWrong = Object.values(others).some(({ verdict }) => verdict === 'no' || verdict === 'refused');
  const saved =
    flags.save && !isWrong && opens.verdict !== 'refused'
      ? await saveCheck(file, found, flags.transform, flags.saveCosine)
      : undefined;
  terminal.out(
    json
      ? `${JSON.stringify({ ...found, ...(flags.save ? { saved: saved ?? null } : {}) }, null, 2)}\n`
      : describe(found, terminal.columns) + (flags.save ? describeSaved(saved) : ''),
  );
  if (opens.verdict === 'refused') terminal.exitCode = EXIT.model;
  else if (isWrong) terminal.exitCode = EXIT.someFailed;
}

/** Runs the test picture of a file that takes photos, on each device that is asked for. Exit code 1 if its bits differ. */
async function runProof(terminal: Terminal, path: string, flags: CheckFlags): Promise<void> {
  const model = await openModel(await findModelFile(path, terminal, flags.yes));
  const proof = readProof(model);
  if (!proof)
    throw invalidOption('photos', 'given for a model without a test picture in its metadata', undefined);
  const findings: Finding[] = [];
  for (const device of await askedDevices(flags.device, terminal.signal))
    findings.push(await judge(() => checkProof(model, proof, device)));
  if (flags.json) terminal.out(`${JSON.stringify({ proof, findings }, null, 2)}\n`);
  else
    for (const { verdict, says } of findings)
      terminal.out(`${MARKS[verdict]} pixels  ${verdict}  ${shown(says)}\n`);
  if (findings.some(({ verdict }) => verdict !== 'yes')) terminal.exitCode = EXIT.someFailed;
}

function describe(found: ModelCheck, columns: number | undefined): string {
  const { file, bytes, producer } = found.model;
  const lines = Object.entries(found.findings).map(
    ([name, { verdict, says }]) =>
      `${MARKS[verdict]} ${name.padEnd(9)}  ${verdict.padEnd(8)}  ${shown(says)}\n`,
  );
  const table = engineTable(found.engines, columns);
  return `${shown(file)}, ${formatBytes(bytes)}${producer === '' ? '' : `, ${shown(producer)}`}\n\n${lines.join('')}${table === '' ? '' : `\n${table}`}`;
}

function describeSaved(saved: FoundSettings | undefined): string {
  if (!saved) return '\nnot saved: the check found something wrong\n';
  const { file, engine, precision, device, dynamicBatch } = saved;
  const form = engine === undefined ? [] : [`engine ${engine}, ${precision} on ${device}`];
  const facts = [...form, ...(dynamicBatch === true ? ['dynamicBatch'] : [])];
  return `\nsaved: ${shown(file)}${facts.length === 0 ? '' : `: ${facts.join(', ')}`}\n`;
}

async function renderCheck(found: ModelCheck): Promise<Uint8Array> {
  const { file, bytes, producer, sha256 } = found.model;
  const findings = Object.entries(found.findings);
  const namesOf = (asked: Verdict): string =>
    findings.flatMap(([name, { verdict }]) => (verdict === asked ? [name] : [])).join(', ');
  const leads = [
    ['Wrong', namesOf('no')],
    ['Refused', namesOf('refused')],
    ['Not proven', namesOf('unproven')],
  ].flatMap(([what, names]) => (names === '' ? [] : [`${what}: ${names}.`]));
  const facts = findings.map(([name, { verdict, says }]): Fact => {
    return [name, `${MARKS[verdict]} ${verdict}: ${says}`, verdict === 'no' ? 'bad' : undefined];
  });
  const caption = 'The model alone, on the first photos; cosines to ONNX Runtime in float32';
  return renderPage({
    kind: 'check',
    title: shown(file),
    subtitle: markup`${formatBytes(bytes)}, ${shown(producer)}, SHA-256 ${sha256}`,
    skip: { target: 'findings-section', text: 'Skip to the findings' },
    main: markup`<p class="lead">${leads.join(' ') || 'All is right.'}</p>
${renderSection('findings', 'Findings', renderTable(facts))}
${renderSection('engines', 'Engines', renderColumns(caption, ENGINE_COLUMNS, engineRows(found.engines)))}`,
  });
}
