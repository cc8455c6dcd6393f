/** `tapir extract`: writes a pruned ONNX file, and reports what it keeps and drops. */
import { addPhotoFlags, type PhotoFlags } from '../flags/photo-flags.js';
import { shown } from '../../base/printable.js';
import { Option, type Command } from 'commander';
import { invalidOption } from '../../base/checks.js';
import { QUANTIZE_FIELDS, quantizeModel } from '../../products/precision/quantize/quantize-model.js';
import { settingsPath } from '../../run/model/open/model-settings.js';
import { OUTPUT_DTYPES, PHOTO_KINDS, photoKindOf } from '../../run/model/prune/rewrite-options.js';
import { lowerPrecision, type LoweredModel } from '../../products/precision/lowering/lower-precision.js';
import type { LoweredPrecision } from '../../run/runtime/capabilities/capabilities.js';
import { PRUNE_FIELDS, pruneModel, type PruneOptions } from '../../extract/prune-model.js';
import { checkTarget, SAVE_FIELDS, type SaveOptions } from '../../run/model/open/save-whole.js';
import { verifyModel, type VerifyReport } from '../../run/model/oracle/verify.js';
import type { PrunedModel } from '../../run/model/prune/pruned-model.js';
import { loweringText } from '../terminal/lowering-text.js';
import { EXIT } from '../terminal/exit-code.js';
import { reportLeftOut } from '../terminal/left-out.js';
import { findModelFile, MODEL_HELP, YES_FLAG, YES_HELP, type CommonFlags } from '../flags/find-model.js';
import { collect } from '../flags/flag-values.js';
import { readTransformFlag } from '../flags/open-extractor.js';
import { readFlags } from '../flags/option-flags.js';
import { addPartFlags, readPartFlags, type PartFlags } from '../flags/part-flags.js';
import { RETURN_HELP, withReturnNodes } from '../flags/return-flags.js';
import { addSaveFlags, readOwnTransform, saveWithSettings, settingsFor } from '../flags/save-flags.js';
import { addSizeFlags, readSizeFlags, type SizeFlags } from '../flags/size-flags.js';
import { formatBytes } from '../../base/html/numbers.js';
import { formatDims, formatOutputs, formatTable } from '../terminal/table.js';
import { printJson, type Terminal } from '../terminal/terminal.js';
import { rare } from '../flags/rare.js';
import { addSettings } from '../flags/settings.js';

interface ExtractFlags extends CommonFlags, PhotoFlags, PartFlags, SizeFlags, SaveOptions {
  readonly return: readonly string[];
  readonly inputs?: readonly string[];
  readonly input: (typeof INPUTS)[number];
  readonly outputDtype: PruneOptions['outputDtype'];
  readonly precision: 'float32' | LoweredPrecision;
  readonly samples?: string;
  readonly sample: number;
  readonly minCosine: number;
  readonly out: string;
  readonly keepTensorNames: boolean;
  readonly fillTypes: boolean;
  readonly tidy: boolean;
  readonly verify: boolean;
}

const INPUTS = ['tensor', 'image-uint8', ...PHOTO_KINDS] as const;

export function addCommand(program: Command, terminal: Terminal): void {
  const extract = program
    .command('extract')
    .description('cut a model down to what the requested values need, and save it as a plain ONNX file')
    .argument('<model>', MODEL_HELP)
    .option(rare(YES_FLAG), YES_HELP, false)
    .requiredOption('--return <name[=key]>', RETURN_HELP, collect)
    .requiredOption('-o, --out <file>', 'ONNX file to write')
    .option('--inputs <name>', 'feed this tensor instead of the model’s input; repeatable', collect)
    .addOption(
      new Option(
        '--input <kind>',
        'what to feed; image-uint8 normalises pixels in the graph, photo takes a decoded photo and resizes as well (photo-batch: several of one size)',
      )
        .choices(INPUTS)
        .default(PRUNE_FIELDS.input.fallback),
    )
    .addOption(
      new Option('--output-dtype <type>', 'element type of the outputs')
        .choices(OUTPUT_DTYPES)
        .default(PRUNE_FIELDS.outputDtype.fallback),
    )
    .addOption(
      new Option(
        '--precision <type>',
        'weights and arithmetic; float16 halves the file and is for GPUs, int8 is for transformers on CPUs',
      )
        .choices(['float32', 'float16', 'int8'])
        .default('float32'),
    )
    .option(
      '--samples <photos>',
      'with int8: folder, list or archive of photos on which it is measured what 8 bits cost',
    )
    .option('--verify', 'run both graphs first; write nothing if their values differ', false);
  addSettings(extract, PRUNE_FIELDS, ['keepTensorNames', 'fillTypes', 'tidy']);
  addSaveFlags(addSizeFlags(extract))
    .option('--json', 'print the plan as JSON', false)
    .action((model: string, flags: ExtractFlags) => runExtract(terminal, model, flags));
  addPartFlags(extract);
  addSettings(extract, QUANTIZE_FIELDS, ['sample', 'minCosine'], 'with --samples: ');
  addPhotoFlags(extract, ['transform'], 'pixels of the cut, written beside it: ');
}

/** Prunes, saves and reports. Exit code 3 if the pruned model's values differ from the full graph's. */
async function runExtract(terminal: Terminal, model: string, flags: ExtractFlags): Promise<void> {
  const { inputs, input, outputDtype, keepTensorNames, fillTypes, tidy } = flags;
  if (flags.precision !== 'int8' && flags.samples !== undefined)
    throw invalidOption('--samples', 'left out without --precision int8', flags.samples);
  const saving = readFlags(SAVE_FIELDS, flags);
  checkTarget(flags.out, model, saving);
  const path = await findModelFile(model, terminal, flags.yes);
  const inputSizes = readSizeFlags(flags);
  const options = { inputs, input, outputDtype, keepTensorNames, fillTypes, tidy, inputSizes };
  const takesPhotos = photoKindOf(input) !== undefined;
  const pixels = takesPhotos ? { transform: flags.transform } : {};
  const exact = await withReturnNodes(flags.return, path, (nodes) =>
    pruneModel(path, nodes, { ...readPartFlags(flags), ...options, ...pixels }),
  );
  const lowered = await lower(terminal, exact, flags);
  const pruned = lowered?.model ?? exact;
  // Verify first, so that no wrong file is written.
  const verified = flags.verify ? await verifyModel(pruned) : undefined;
  const isRight = verified === undefined || verified.maxRelative <= verified.tolerance;
  terminal.signal.throwIfAborted();
  // A file that takes photos has its transform inside.
  const transform =
    isRight && !takesPhotos
      ? readOwnTransform(terminal, path, flags.out, flags.transform, exact.source)
      : undefined;
  const [first] = pruned.plan.resolved;
  const isScores = first?.tensor === exact.source.outputs[0]?.name && first?.computed.length === 0;
  const settings = settingsFor(transform, path, isScores ? ['labels'] : []);
  if (isRight)
    await saveWithSettings(flags.out, settings, saving.overwrite, () => pruned.save(flags.out, saving));
  else terminal.exitCode = EXIT.model;
  if (flags.json) {
    const precision = lowered && { precision: lowered.report };
    return printJson(terminal, { ...pruned.plan, ...precision, ...(verified && { verified }) });
  }
  report(terminal, pruned.plan, flags);
  if (lowered) terminal.out(`\n${loweringText(lowered.report)}`);
  if (verified) reportVerified(terminal, verified);
  if (takesPhotos)
    terminal.out('\npixels: in the file, which takes decoded RGB photos, uint8 [height, width, 3]\n');
  const origin = flags.transform === 'auto' ? 'from the model’s configuration' : 'as --transform says';
  if (transform) terminal.out(`\npixels: ${settingsPath(flags.out)}, ${origin}\n`);
  terminal.out(isRight ? `\nwritten: ${flags.out}\n` : '\nnot written: its values differ from the model’s\n');
}

/** The model in the precision of `--precision`; undefined for float32. */
async function lower(
  terminal: Terminal,
  exact: PrunedModel,
  flags: ExtractFlags,
): Promise<LoweredModel<PrunedModel> | undefined> {
  const { precision, samples, sample, minCosine } = flags;
  if (precision === 'float32') return undefined;
  if (samples === undefined) return lowerPrecision(exact, { precision });
  const transform = readTransformFlag(terminal, flags, exact.source);
  const options = { sample, minCosine, transform, signal: terminal.signal };
  const { failures, ...lowered } = await quantizeModel(exact, samples, options);
  reportLeftOut(terminal, failures);
  return lowered;
}

function report(terminal: Terminal, plan: PrunedModel['plan'], { weights, out }: ExtractFlags): void {
  const { kept, dropped, added, resolved, batch, notes } = plan;
  const outputs = resolved.map(({ request, key, tensor, why, computed }) => {
    return [key, request, tensor, [why, ...computed].join(', ')];
  });
  const parts = [kept, dropped, added];
  const counts = [
    ['', 'kept', 'dropped', 'added'],
    ['nodes', ...parts.map(({ nodes }) => String(nodes.length))],
    ['weights', ...parts.map(({ initializers }) => String(initializers.length))],
    ['inputs', ...parts.map(({ inputs }) => inputs.join(', '))],
    ['bytes', formatBytes(kept.bytes), formatBytes(dropped.bytes), ''],
  ];
  terminal.out(formatOutputs(outputs, terminal.columns));
  terminal.out(`\n${formatTable(counts, { columns: terminal.columns, names: [1, 2, 3] })}`);
  if (kept.externalFiles.length > 0) {
    const files = kept.externalFiles.join(', ');
    if (weights === 'inline') terminal.out(`\nweights from ${files} are now inside the file\n`);
    else if (weights === 'repack') terminal.out(`\nweights from ${files} went to ${out}.data\n`);
    else terminal.out(`\nweights stay in: ${files}\n`);
  }
  if (batch?.mode === 'dynamic')
    terminal.out(`\nbatch: ${batch.exported} → dynamic, ${batch.changes.length} nodes changed, verified\n`);
  else if (batch?.mode === 'per-sample')
    terminal.out(`\nbatch: stays ${batch.exported}, because ${batch.reason}\n`);
  else if (batch) terminal.out('\nbatch: dynamic already\n');
  for (const note of notes) terminal.out(`\nnote: ${note}\n`);
}

function reportVerified(
  terminal: Terminal,
  { outputs, rows, rowsRefused, inputs, seed }: VerifyReport,
): void {
  terminal.out(
    `\nverified against the full graph on ${rows} ${rows === 1 ? 'row' : 'rows'} of made-up inputs (seed ${seed}):\n`,
  );
  if (rowsRefused !== null)
    terminal.out(
      `  more rows do not run, although the file leaves the batch open: ${shown(rowsRefused)}; --set dynamicBatch=true rewrites the graph\n`,
    );
  for (const { name, dims, madeUp } of inputs.filter((input) => input.madeUp.length > 0)) {
    const sizes = madeUp.map((axis) => `dims[${axis}] = ${dims[axis]}`).join(' and ');
    terminal.out(
      `  ${name} was fed as ${formatDims(dims)}; ${sizes} made up, as the file leaves it open (--size or --input-shape state it)\n`,
    );
  }
  const lines = outputs.map(({ name, dims, isEqual, maxDifference }) => [
    `  ${name}`,
    formatDims(dims),
    isEqual ? 'equal, bit for bit' : `largest difference ${maxDifference.toPrecision(3)}`,
  ]);
  terminal.out(formatTable(lines, { columns: terminal.columns, names: [0] }));
}
