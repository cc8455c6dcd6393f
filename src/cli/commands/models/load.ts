/** `tapir models load`: loads a state dict into a model, and saves the model. */
import { counted } from '../../../base/printable.js';
import { Option, type Command } from 'commander';
import { LOAD_FIELDS, loadStateDict } from '../../../learn/parameters/load-state-dict.js';
import { readStateDict } from '../../../learn/parameters/dicts/read-state-dict.js';
import { findModelFile, MODEL_HELP, type CommonFlags } from '../../flags/find-model.js';
import { readFlags } from '../../flags/option-flags.js';
import { addSaveFlags } from '../../flags/save-flags.js';
import { addSettings } from '../../flags/settings.js';
import { SAVE_FIELDS, type SaveOptions } from '../../../run/model/open/save-whole.js';
import { printJson, type Terminal } from '../../terminal/terminal.js';

interface LoadFlags extends CommonFlags, SaveOptions {
  readonly state: string;
  readonly out: string;
  readonly reference?: string;
  readonly prefix?: string;
  readonly epsilon?: number;
  readonly strict: boolean;
}

export function addCommand(program: Command, terminal: Terminal): void {
  const state = new Option('--weights <file>', '.pth, .safetensors or model.safetensors.index.json');
  // The setting `weights` says where external ones go.
  state.attributeName = () => 'state';
  const command = program
    .command('load')
    .description('load a state dict into a model, and save the model')
    .argument('<model>', MODEL_HELP)
    .option('--yes', 'download a model of a repository (hf:ORG/REPO) without asking', false)
    .addOption(state.makeOptionMandatory())
    .requiredOption('-o, --out <file>', 'ONNX file to write')
    .option(
      '--reference <file>',
      'state dict of the model’s present weights: proves what was folded into what',
    )
    .option('--no-strict', 'load what fits, although keys are missing or unexpected');
  addSettings(command, LOAD_FIELDS, ['prefix', 'epsilon']);
  addSaveFlags(command)
    .option('--json', 'print the report as JSON', false)
    .action((model: string, flags: LoadFlags) => runLoad(terminal, model, flags));
}

async function runLoad(terminal: Terminal, path: string, flags: LoadFlags): Promise<void> {
  const { state, out, prefix, epsilon, strict, json, yes } = flags;
  const saving = readFlags(SAVE_FIELDS, flags);
  const file = await findModelFile(path, terminal, yes);
  const reference = flags.reference === undefined ? undefined : await readStateDict(flags.reference);
  const { model, report } = await loadStateDict(file, await readStateDict(state), {
    strict,
    prefix,
    epsilon,
    reference,
  });
  terminal.signal.throwIfAborted();
  await model.save(out, saving);
  if (json) return printJson(terminal, report);
  const counts = new Map<string, number>();
  for (const { origin } of report.entries) counts.set(origin.kind, (counts.get(origin.kind) ?? 0) + 1);
  const kinds = [...counts].map(([kind, count]) => `${count} ${kind}`).join(', ');
  terminal.out(`written: ${out} (${counted(report.entries.length, 'tensor')} loaded: ${kinds})\n`);
  for (const [what, keys] of [
    ['missing', report.missing],
    ['unexpected', report.unexpected],
  ] as const)
    if (keys.length > 0) terminal.err(`${what}: ${keys.join(', ')}\n`);
  for (const note of report.notes) terminal.err(`note: ${note}\n`);
}
