/** `tapir quantize`: writes a model in 8 bits, chosen on photos, and says what that costs and gains. */
import { addPhotoFlags, type PhotoFlags } from '../flags/photo-flags.js';
import type { Command } from 'commander';
import { checkTarget, SAVE_FIELDS, type SaveOptions } from '../../run/model/open/save-whole.js';
import { openModel } from '../../run/model/open/open-model.js';
import { pruneModel } from '../../run/model/oracle/prune-model.js';
import type { PrunedModel } from '../../run/model/prune/pruned-model.js';
import {
  QUANTIZE_FIELDS,
  quantizeModel,
  type QuantizeOptions,
  type StaticReport,
} from '../../products/precision/quantize/quantize-model.js';
import { findModelFile, MODEL_HELP, YES_FLAG, YES_HELP, type CommonFlags } from '../flags/find-model.js';
import { collect } from '../flags/flag-values.js';
import { addFlags, readFlags } from '../flags/option-flags.js';
import { readTransformFlag } from '../flags/open-extractor.js';
import { splitFlag, withReturnNodes } from '../flags/return-flags.js';
import { addSaveFlags, saveWithSettings, settingsFor } from '../flags/save-flags.js';
import { reportLeftOut } from '../terminal/left-out.js';
import { loweringText } from '../terminal/lowering-text.js';
import { shellWord } from '../terminal/shell-word.js';
import { formatTable } from '../terminal/table.js';
import { withStepLines } from '../terminal/progress-view.js';
import { printJson, type Terminal } from '../terminal/terminal.js';
import { rare } from '../flags/rare.js';
import { addSettings } from '../flags/settings.js';

interface QuantizeFlags
  extends
    CommonFlags,
    PhotoFlags,
    SaveOptions,
    Pick<QuantizeOptions, 'activations' | 'minCosine' | 'minNeighbours' | 'sample' | 'seconds'> {
  readonly return?: readonly string[];
  readonly out: string;
}

export function addCommand(program: Command, terminal: Terminal): void {
  const quantize = program
    .command('quantize')
    .description('write a model in 8 bits, calibrated on photos and judged by its vectors')
    .argument('<model>', MODEL_HELP)
    .argument('<photos>', 'folder, list, archive or pattern of images, such as those that you embed')
    .option(rare(YES_FLAG), YES_HELP, false)
    .requiredOption('-o, --out <file>', 'ONNX file to write')
    .option(
      '--return <name[=key]>',
      'cut the model at this node first; repeatable (default: the graph outputs)',
      collect,
    );
  addFlags(quantize, QUANTIZE_FIELDS, {
    keep: '--keep <node>',
    minCosine: '--min-cosine <x>',
  });
  addPhotoFlags(quantize, ['transform']);
  addSettings(quantize, QUANTIZE_FIELDS, ['activations', 'minNeighbours', 'sample', 'seconds']);
  addSaveFlags(quantize)
    .option(rare('--json'), 'print the report as JSON', false)
    .action((model: string, photos: string, flags: QuantizeFlags) =>
      runQuantize(terminal, model, photos, flags),
    );
}

async function runQuantize(
  terminal: Terminal,
  model: string,
  photos: string,
  flags: QuantizeFlags,
): Promise<void> {
  const { out } = flags;
  const saving = readFlags(SAVE_FIELDS, flags);
  checkTarget(out, model, saving);
  const path = await findModelFile(model, terminal, flags.yes);
  const source = flags.return
    ? await withReturnNodes(flags.return, path, (nodes) => pruneModel(path, nodes))
    : await openModel(path);
  const transform = readTransformFlag(terminal, flags, 'source' in source ? source.source : source);
  const options = { ...readFlags(QUANTIZE_FIELDS, flags), transform };
  const quantized = await withStepLines(terminal, flags.json, (watch) =>
    // A pruned model gives a pruned one, and a whole model a whole one.
    quantizeModel(source as PrunedModel, photos, { ...options, ...watch }),
  );
  const { report, failures } = quantized;
  terminal.signal.throwIfAborted();
  reportLeftOut(terminal, failures);
  // An assumption is no configuration.
  const stated = flags.transform === 'auto' && !transform.source ? undefined : transform;
  // A cut has other outputs, and its batch already.
  const settings = settingsFor(stated, path, flags.return ? [] : ['labels', 'dynamicBatch']);
  await saveWithSettings(out, settings, saving.overwrite, () => quantized.model.save(out, saving));
  const compare = compareCommand([path, out, photos], (await openModel(out)).outputs, flags);
  if (flags.json) printJson(terminal, { ...report, failures: failures.length, file: out });
  else
    terminal.out(
      `${loweringText(report)}${'calibration' in report ? staticText(report, out, terminal.columns) : ''}\nwritten: ${out}\ncompare them on other photos: ${compare}\n`,
    );
}

/** The command that compares a model with what was made of it, output by output. */
function compareCommand(
  paths: readonly string[],
  outputs: readonly { readonly name: string }[],
  { return: names = [], transform }: QuantizeFlags,
): string {
  const returns = names.flatMap((flag, i) => {
    const { name } = outputs[i]!;
    return ['--return', `${splitFlag(flag).name}=${name}`, '--return-b', name];
  });
  const words = [...paths, ...returns, ...(transform === 'auto' ? [] : ['--transform', transform])];
  return ['tapir compare', ...words.map(shellWord)].join(' ');
}

function staticText({ calibration, speeds }: StaticReport, out: string, columns: number | undefined): string {
  const { rule, samples, heldBack, neighbours, isCut } = calibration;
  const kept =
    neighbours === null
      ? 'too few photos to compare neighbours'
      : `${(100 * neighbours).toFixed(1)} % of the ten nearest neighbours stay`;
  const lines = [
    `  ranges from ${samples} photos (${rule}), judged on ${heldBack} others; ${kept}`,
    ...(isCut
      ? ['  the time ended before the search: more seconds (--set seconds=…) may keep more layers in 8 bits']
      : []),
  ];
  const rows = speeds.map(({ engine, precision, isInt8, imagesPerSecond, cpuMs }) => [
    `  ${engine}`,
    isInt8 ? `int8 and ${precision}` : precision,
    imagesPerSecond.toFixed(1),
    cpuMs.toFixed(1),
  ]);
  const [fastest] = speeds.toSorted((a, b) => a.cpuMs - b.cpuMs);
  const how = fastest && `--engine ${fastest.engine} --precision ${fastest.precision}`;
  const use = fastest?.isInt8
    ? `\nfastest here: --model ${out} ${how}\n`
    : `\nfastest here: the model without 8 bits, with ${how}\n`;
  return `${lines.join('\n')}\n\n${formatTable([['  engine', 'computes in', 'images/s', 'CPU ms/image'], ...rows], { columns, right: [2, 3], spare: [2] })}${use}`;
}
