/** `tapir models load`: loads a state dict into a model, and saves the model. */
import { counted } from '../../../base/printable.js';
import type { Command } from 'commander';
import { loadStateDict } from '../../../learn/parameters/load-state-dict.js';
import { readStateDict } from '../../../learn/parameters/dicts/read-state-dict.js';
import { findModelFile, MODEL_HELP, type CommonFlags } from '../../flags/find-model.js';
import { addSaveFlags, readSaveFlags, type SaveFlags } from '../../flags/save-flags.js';
import { printJson, type Terminal } from '../../terminal/terminal.js';

interface LoadFlags extends CommonFlags, SaveFlags {
  readonly weights: string;
  readonly out: string;
  readonly reference?: string;
  readonly prefix?: string;
  readonly epsilon?: number;
  readonly strict: boolean;
}

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('load')
    .description('load a state dict into a model, and save the model')
    .argument('<model>', MODEL_HELP)
    .option('--yes', 'download a model of a repository (hf:ORG/REPO) without asking', false)
    .requiredOption('--weights <file>', '.pth, .safetensors or model.safetensors.index.json')
    .requiredOption('-o, --out <file>', 'ONNX file to write')
    .option(
      '--reference <file>',
      'state dict of the model’s present weights: proves what was folded into what',
    )
    .option('--prefix <text>', 'what all keys begin with, such as "model."')
    .option(
      '--epsilon <x>',
      'of folded norms, if neither the file nor --reference proves it (torch’s default is 1e-5)',
      Number,
    )
    .option('--no-strict', 'load what fits, although keys are missing or unexpected');
  addSaveFlags(command)
    .option('--json', 'print the report as JSON', false)
    .action((model: string, flags: LoadFlags) => runLoad(terminal, model, flags));
}

async function runLoad(terminal: Terminal, path: string, flags: LoadFlags): Promise<void> {
  const { weights, out, prefix, epsilon, strict, json, yes } = flags;
  const saving = readSaveFlags(flags);
  const file = await findModelFile(path, terminal, yes);
  const reference = flags.reference === undefined ? undefined : await readStateDict(flags.reference);
  const { model, report } = await loadStateDict(file, await readStateDict(weights), {
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
