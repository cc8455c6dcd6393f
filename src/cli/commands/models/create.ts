/** `tapir models create`: writes one of torchvision's networks as an ONNX file, or lists them. */
import { statSync } from 'node:fs';
import type { Command } from 'commander';
import { invalidOption } from '../../../base/checks.js';
import { TASKS, listModels } from '../../../learn/zoo/architectures.js';
import { CREATE_FIELDS, createWithNotes, type CreateOptions } from '../../../learn/zoo/create-model.js';
import { isWebAddress, pullWeights } from '../../../learn/zoo/pull-weights.js';
import { DOWNLOAD_FIELDS } from '../../../learn/hub/download-file.js';
import { checkAbsent } from '../../../base/atomic-file.js';
import { formatBytes } from '../../../base/html/numbers.js';
import { withProgress } from '../../flags/pull-model.js';
import { addFlags, readFlags } from '../../flags/option-flags.js';
import { addSettings } from '../../flags/settings.js';
import type { Terminal } from '../../terminal/terminal.js';

interface CreateFlags extends Pick<
  CreateOptions,
  'numClasses' | 'imageSize' | 'seed' | 'opset' | 'auxLoss' | 'normEps'
> {
  readonly list?: string | true;
  readonly weights?: string;
  readonly allowHttp: boolean;
  readonly out?: string;
  readonly overwrite: boolean;
}

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('create')
    .description('write one of torchvision’s networks as an ONNX file, without Python')
    .argument('[name]', 'torchvision’s name of the network, such as resnet50')
    .option('--list [pattern]', 'list the networks by task instead; a pattern such as "resnet*" limits them')
    .option(
      '--weights <file|url>',
      'its weights: .pth, .safetensors or model.safetensors.index.json; an address is downloaded into the cache',
    )
    .option('-o, --out <file>', 'ONNX file to write')
    .option('--overwrite', 'replace a file that exists', false)
    .action((name: string | undefined, flags: CreateFlags) => runCreate(terminal, name, flags));
  addFlags(command, DOWNLOAD_FIELDS, { allowHttp: '--allow-http' });
  addFlags(command, CREATE_FIELDS, {
    numClasses: '--num-classes <n>',
  });
  addSettings(command, CREATE_FIELDS, ['imageSize', 'seed', 'opset', 'auxLoss', 'normEps']);
}

async function runCreate(terminal: Terminal, name: string | undefined, flags: CreateFlags): Promise<void> {
  const { list, out, overwrite, weights } = flags;
  if (list !== undefined) return listNetworks(terminal, list === true ? '*' : list);
  if (name === undefined) throw invalidOption('name', 'given, or --list', name);
  if (out === undefined) throw invalidOption('--out', 'given: the ONNX file to write', out);
  if (!overwrite) checkAbsent(out);
  const file =
    weights !== undefined && isWebAddress(weights)
      ? await withProgress(terminal, flags.allowHttp, ({ signal, onProgress }) =>
          pullWeights(weights, { allowHttp: flags.allowHttp, signal, onProgress }),
        )
      : weights;
  const { model, notes } = await createWithNotes(name, { ...readFlags(CREATE_FIELDS, flags), weights: file });
  terminal.signal.throwIfAborted();
  await model.save(out, { overwrite });
  for (const note of notes) terminal.err(`${note}\n`);
  if (weights === undefined)
    terminal.err('untrained: the weights are seeded random numbers (--weights gives trained ones)\n');
  terminal.out(`written: ${out} (${formatBytes(statSync(out).size)})\n`);
}

function listNetworks(terminal: Terminal, pattern: string): void {
  const found = TASKS.map((task) => [task, listModels(pattern, { task })] as const).filter(
    ([, names]) => names.length > 0,
  );
  if (found.length === 0)
    throw invalidOption(
      '--list',
      'a pattern that fits a network ("tapir models create --list" lists all)',
      pattern,
    );
  for (const [task, names] of found) terminal.out(`${task}:\n${names.map((name) => `  ${name}\n`).join('')}`);
}
