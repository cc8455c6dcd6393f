/** `tapir models differentiate`: writes the gradients of a model as an ONNX file. */
import type { Command } from 'commander';
import { differentiate } from '../../../learn/gradients/differentiate.js';
import { collect } from '../../flags/flag-values.js';
import { findModelFile, MODEL_HELP, type CommonFlags } from '../../flags/find-model.js';
import { readFlags } from '../../flags/option-flags.js';
import { addSettings } from '../../flags/settings.js';
import { texts, type Fields } from '../../../base/options.js';
import { addSaveFlags } from '../../flags/save-flags.js';
import { SAVE_FIELDS, type SaveOptions } from '../../../run/model/open/save-whole.js';
import { addSizeFlags, readSizeFlags, type SizeFlags } from '../../flags/size-flags.js';
import { formatOutputs } from '../../terminal/table.js';
import { printJson, type Terminal } from '../../terminal/terminal.js';

interface DifferentiateFlags extends CommonFlags, SizeFlags, SaveOptions {
  readonly of: readonly string[];
  readonly wrt: readonly string[];
  readonly return?: readonly string[];
  readonly recompute?: readonly string[];
  readonly out: string;
}

const RECOMPUTE_FIELDS: Fields<Pick<DifferentiateFlags, 'recompute'>> = {
  recompute: texts(
    [],
    'value to keep; what lies between such values is computed again, for less memory; repeatable',
  ),
};

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('differentiate')
    .description('write the gradients of a model as an ONNX file of ordinary operators')
    .argument('<model>', MODEL_HELP)
    .option('--yes', 'download a model of a repository (hf:ORG/REPO) without asking', false)
    .requiredOption(
      '--of <name>',
      'value to differentiate; its seed is the input gradient/NAME; repeatable',
      collect,
    )
    .requiredOption(
      '--wrt <name>',
      'input, value or parameter to differentiate with respect to; repeatable',
      collect,
    )
    .requiredOption('-o, --out <file>', 'ONNX file to write')
    .option('--return <name>', 'value of the model to return as well; repeatable', collect);
  addSettings(command, RECOMPUTE_FIELDS, ['recompute']);
  addSaveFlags(addSizeFlags(command))
    .option('--json', 'print the plan as JSON', false)
    .action((model: string, flags: DifferentiateFlags) => runDifferentiate(terminal, model, flags));
}

async function runDifferentiate(terminal: Terminal, path: string, flags: DifferentiateFlags): Promise<void> {
  const { of, wrt, return: returnNodes, recompute, out, json, yes } = flags;
  const saving = readFlags(SAVE_FIELDS, flags);
  const file = await findModelFile(path, terminal, yes);
  const inputSizes = readSizeFlags(flags);
  const request = { of, withRespectTo: wrt, returnNodes, inputSizes, recompute };
  const gradients = await differentiate(file, request);
  terminal.signal.throwIfAborted();
  await gradients.save(out, saving);
  const { kept, added, resolved, notes } = gradients.plan;
  if (json) return printJson(terminal, gradients.plan);
  const rows = resolved.map(({ key, request, tensor, why }) => [key, request, tensor, why]);
  terminal.out(formatOutputs(rows, terminal.columns));
  terminal.out(`\ninputs: ${[...added.inputs, ...kept.inputs].join(', ')}\n`);
  terminal.out(`nodes: ${kept.nodes.length} of the model, ${added.nodes.length} for the backward pass\n`);
  for (const note of notes) terminal.out(`note: ${note}\n`);
  terminal.out(`\nwritten: ${out}\n`);
}
