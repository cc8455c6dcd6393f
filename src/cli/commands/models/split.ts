/** `tapir models split`: writes the stages of a model as ONNX files, with an index that says how to chain them. */
import { basename, join } from 'node:path';
import type { Command } from 'commander';
import { formatBytes, formatLarge } from '../../../base/html/numbers.js';
import { invalidOption } from '../../../base/checks.js';
import { openModel } from '../../../run/model/open/open-model.js';
import {
  SPLIT_FIELDS,
  splitModel,
  type ModelStages,
  type SplitOptions,
} from '../../../extract/stages/split-model.js';
import { collect, parseCount } from '../../flags/flag-values.js';
import { addFlags, readFlags } from '../../flags/option-flags.js';
import { findModelFile, MODEL_HELP, type CommonFlags } from '../../flags/find-model.js';
import { addSaveFlags } from '../../flags/save-flags.js';
import { addSizeFlags, readSizeFlags, type SizeFlags } from '../../flags/size-flags.js';
import { formatTable } from '../../terminal/table.js';
import type { Terminal } from '../../terminal/terminal.js';
import { checkNoSplit, INDEX, writeStages } from './stage-folder.js';
import { rare } from '../../flags/rare.js';
import { addSettings } from '../../flags/settings.js';
import { integer, optional, type Fields } from '../../../base/options.js';
import { SAVE_FIELDS, type SaveOptions } from '../../../run/model/open/save-whole.js';

interface SplitFlags extends CommonFlags, SizeFlags, SaveOptions {
  readonly stages?: number;
  readonly at?: readonly string[];
  readonly out: string;
  readonly by: SplitOptions['by'];
  readonly maxTensors: number;
  readonly memoryBytes?: number;
  readonly batch: number;
}

const MEMORY_FIELDS: Fields<Pick<SplitFlags, 'memoryBytes'>> = {
  memoryBytes: optional(integer(1, Number.MAX_SAFE_INTEGER, 1, 'bytes that each stage may need')),
};

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('split')
    .description('write the stages of a model as ONNX files, and stages.json, which says how to chain them')
    .argument('<model>', MODEL_HELP)
    .option(rare('--yes'), 'download a model of a repository (hf:ORG/REPO) without asking', false)
    .option('--stages <n>', 'as many stages, with balanced costs', parseCount)
    .option('--at <name>', 'cut after this value instead; repeatable, in execution order', collect)
    .requiredOption('-o, --out <folder>', 'folder to write to');
  addFlags(command, SPLIT_FIELDS, {
    by: '--by <cost>',
  });
  addSettings(command, SPLIT_FIELDS, ['maxTensors', 'batch']);
  addSettings(command, MEMORY_FIELDS, ['memoryBytes']);
  addSaveFlags(addSizeFlags(command))
    .option(rare('--json'), 'print the index as JSON', false)
    .action((model: string, flags: SplitFlags) => runSplit(terminal, model, flags));
}

async function runSplit(terminal: Terminal, path: string, flags: SplitFlags): Promise<void> {
  const { stages, at, out, by, maxTensors, memoryBytes, batch } = flags;
  const saving = readFlags(SAVE_FIELDS, flags);
  if ((stages === undefined) === (at === undefined))
    throw invalidOption('--stages', 'given, or else --at', stages ?? 'nothing');
  checkNoSplit(out, saving);
  const file = await findModelFile(path, terminal, flags.yes);
  const model = await openModel(file);
  const split = await splitModel(model, at === undefined ? { stages: stages! } : { cuts: at }, {
    by,
    maxTensors,
    batch,
    inputSizes: readSizeFlags(flags),
    memoryBytes,
  });
  terminal.signal.throwIfAborted();
  const names = split.stages.map((_, i) => `stage-${i}.onnx`);
  const description = {
    format: 'onnx-tapir stages 1',
    model: basename(file),
    inputs: model.inputs,
    outputs: model.outputs,
    stages: split.stages.map((stage, i) => ({ file: names[i]!, ...stage, model: undefined })),
    crossing: split.crossing,
    balance: split.balance,
    uncounted: split.uncounted,
  };
  const text = `${JSON.stringify(description, null, 2)}\n`;
  const stageModels = new Map(split.stages.map((stage, i) => [names[i]!, stage.model]));
  await writeStages(out, { source: file, stages: stageModels, index: text }, saving);
  terminal.out(flags.json ? text : describe(split, names, out, terminal.columns));
}

function describe(
  { stages, crossing, balance, uncounted }: ModelStages,
  names: readonly string[],
  out: string,
  columns: number | undefined,
): string {
  const rows = stages.map(({ macs, milliseconds, parameters, weightBytes }, i) => [
    names[i]!,
    formatLarge(macs),
    ...(milliseconds === null ? [] : [milliseconds.toFixed(1)]),
    formatLarge(parameters),
    formatBytes(weightBytes),
    i === 0 ? '' : `${formatBytes(crossing[i - 1]!.bytesPerSample)}  ${crossing[i - 1]!.tensors.join(', ')}`,
  ]);
  const isTimed = stages[0]!.milliseconds !== null;
  const head = ['stage', 'MACs', ...(isTimed ? ['ms'] : []), 'parameters', 'weights', 'takes, per sample'];
  const speedUp = (stages.length * balance).toFixed(2);
  const note = `not counted, because their operators have no rule: ${uncounted.join(', ')}\n`;
  const layout = { columns, names: [0, head.length - 1], spare: [head.length - 3, 1] };
  return `${formatTable([head, ...rows], layout)}\nbalance ${balance.toFixed(3)}: at most ${speedUp} times the speed of one stage after the other\n${uncounted.length === 0 ? '' : note}\nwritten: ${join(out, INDEX)}\n`;
}
