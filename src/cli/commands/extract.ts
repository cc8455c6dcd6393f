/** `tapir extract`: writes a pruned ONNX file, and reports what it keeps and drops. */
import { existsSync } from 'node:fs';
import { outputExists, writeAtomically } from '../../base/atomic-file.js';
import { reasonOf } from '../../base/errors.js';
import { findTransform, sidecarOf } from '../../image/configs/find-transform.js';
import type { PruneOptions } from '../../model/cut-model.js';
import type { VerifyReport } from '../../model/oracle/compare-pruned.js';
import { lowerPrecision } from '../../model/precision/lower-precision.js';
import { pruneModel } from '../../model/oracle/prune-model.js';
import { verifyModel } from '../../model/oracle/verify.js';
import type { PrunedModel } from '../../model/pruned-model.js';
import { loweringText } from '../terminal/lowering-text.js';
import { EXIT } from '../terminal/exit-code.js';
import { findModelFile } from '../flags/find-model.js';
import { readPartFlags, type PartFlags } from '../flags/part-flags.js';
import { withReturnNodes } from '../flags/return-flags.js';
import { readSaveFlags, type SaveFlags } from '../flags/save-flags.js';
import { readSizeFlags, type SizeFlags } from '../flags/size-flags.js';
import { formatBytes } from '../../apps/pages/numbers.js';
import { formatDims, formatTable } from '../terminal/table.js';
import type { Terminal } from '../terminal/terminal.js';

export interface ExtractFlags extends PartFlags, SizeFlags, SaveFlags {
  readonly return: readonly string[];
  readonly inputs?: readonly string[];
  readonly input: 'tensor' | 'image-uint8';
  readonly outputDtype: PruneOptions['outputDtype'];
  readonly precision: 'float32' | 'float16';
  readonly out: string;
  readonly yes: boolean;
  readonly keepTensorNames: boolean;
  readonly fillTypes: boolean;
  readonly tidy: boolean;
  readonly verify: boolean;
  readonly json: boolean;
}

/** Prunes, saves and reports. Exit code 3 if the pruned model's values differ from the full graph's. */
export async function runExtract(terminal: Terminal, model: string, flags: ExtractFlags): Promise<void> {
  const { inputs, input, outputDtype, keepTensorNames, fillTypes, tidy } = flags;
  const saving = readSaveFlags(flags);
  const path = await findModelFile(model, terminal, flags.yes);
  const inputSizes = readSizeFlags(flags);
  const options = { inputs, input, outputDtype, keepTensorNames, fillTypes, tidy, inputSizes };
  const exact = await withReturnNodes(flags.return, path, (nodes) =>
    pruneModel(path, nodes, { ...readPartFlags(flags), ...options }),
  );
  const lowered = flags.precision === 'float16' ? await lowerPrecision(exact) : undefined;
  const pruned = lowered?.model ?? exact;
  // Verify first, so that no wrong file is written.
  const verified = flags.verify ? await verifyModel(pruned) : undefined;
  const isRight = verified === undefined || verified.maxRelative <= verified.tolerance;
  let transformed: string | null = null;
  if (isRight) {
    await pruned.save(flags.out, saving);
    transformed = await saveTransform(terminal, path, flags);
  } else terminal.exitCode(EXIT.model);
  if (flags.json) {
    const precision = lowered && { precision: lowered.report };
    const report = { ...pruned.plan, ...precision, ...(verified && { verified }) };
    terminal.out(`${JSON.stringify(report, null, 2)}\n`);
    return;
  }
  report(terminal, pruned.plan, flags);
  if (lowered) terminal.out(`\n${loweringText(lowered.report)}`);
  if (verified) reportVerified(terminal, verified);
  if (transformed !== null) terminal.out(`\npixels: ${transformed}, from the model’s configuration\n`);
  terminal.out(isRight ? `\nwritten: ${flags.out}\n` : '\nnot written: its values differ from the model’s\n');
}

/** Writes the transform of the whole model beside the new one, so that `findTransform` finds it. Returns its path, or null if the model has no transform. */
async function saveTransform(
  terminal: Terminal,
  path: string,
  { out, overwrite }: ExtractFlags,
): Promise<string | null> {
  try {
    const found = await findTransform(path);
    if (!found) return null;
    const text = `${JSON.stringify(found.transform.options, null, 2)}\n`;
    const to = sidecarOf(out);
    if (!overwrite && existsSync(to)) throw outputExists(to);
    await writeAtomically(to, Buffer.from(text));
    return to;
  } catch (error) {
    terminal.err(`note: no transform is written beside ${out}: ${reasonOf(error)}\n`);
    return null;
  }
}

function report(terminal: Terminal, plan: PrunedModel['plan'], { inline, repack, out }: ExtractFlags): void {
  const { kept, dropped, added, resolved, batch, notes } = plan;
  const outputs = resolved.map(({ request, key, tensor, why, computed }) => [
    key,
    request,
    tensor,
    [why, ...computed].join(', '),
  ]);
  const counts = [
    ['', 'kept', 'dropped', 'added'],
    ['nodes', String(kept.nodes.length), String(dropped.nodes.length), String(added.nodes.length)],
    [
      'weights',
      String(kept.initializers.length),
      String(dropped.initializers.length),
      String(added.initializers.length),
    ],
    ['inputs', kept.inputs.join(', '), dropped.inputs.join(', '), added.inputs.join(', ')],
    ['bytes', formatBytes(kept.bytes), formatBytes(dropped.bytes), ''],
  ];
  terminal.out(formatTable([['output', 'asked for', 'tensor', 'read as'], ...outputs]));
  terminal.out(`\n${formatTable(counts)}`);
  if (kept.externalFiles.length > 0) {
    const files = kept.externalFiles.join(', ');
    if (inline) terminal.out(`\nweights from ${files} are now inside the file\n`);
    else
      terminal.out(
        repack ? `\nweights from ${files} went to ${out}.data\n` : `\nweights stay in: ${files}\n`,
      );
  }
  if (batch?.mode === 'dynamic')
    terminal.out(`\nbatch: ${batch.exported} → dynamic, ${batch.changes.length} nodes changed, verified\n`);
  else if (batch?.mode === 'per-sample')
    terminal.out(`\nbatch: stays ${batch.exported}, because ${batch.reason}\n`);
  else if (batch) terminal.out('\nbatch: dynamic already\n');
  for (const note of notes) terminal.out(`\nnote: ${note}\n`);
}

function reportVerified(terminal: Terminal, { outputs, rows, inputs, seed }: VerifyReport): void {
  terminal.out(
    `\nverified against the full graph on ${rows} ${rows === 1 ? 'row' : 'rows'} of made-up inputs (seed ${seed}):\n`,
  );
  for (const { name, dims, madeUp } of inputs.filter((input) => input.madeUp.length > 0)) {
    const sizes = madeUp.map((axis) => dims[axis]).join(' and ');
    terminal.out(
      `  ${name} is ${formatDims(dims)}; the file leaves ${sizes} open (--size or --input-shape set them)\n`,
    );
  }
  const lines = outputs.map(({ name, dims, isEqual, maxDifference }) => [
    `  ${name}`,
    formatDims(dims),
    isEqual ? 'equal, bit for bit' : `largest difference ${maxDifference.toPrecision(3)}`,
  ]);
  terminal.out(formatTable(lines));
}
