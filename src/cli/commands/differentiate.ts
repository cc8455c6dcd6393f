/** `tapir differentiate`: writes the gradients of a model as an ONNX file. */
import type { Command } from 'commander';
import { differentiate } from '../../model/oracle/differentiate.js';
import { collect } from '../flags/flag-values.js';
import { findModelFile } from '../flags/find-model.js';
import { readSizeFlags, type SizeFlags } from '../flags/size-flags.js';
import { formatTable } from '../terminal/table.js';
import type { Terminal } from '../terminal/terminal.js';

interface DifferentiateFlags extends SizeFlags {
  readonly of: readonly string[];
  readonly wrt: readonly string[];
  readonly return?: readonly string[];
  readonly out: string;
  readonly inline: boolean;
  readonly repack: boolean;
  readonly overwrite: boolean;
  readonly json: boolean;
  readonly yes: boolean;
}

/** Adds `tapir differentiate`. */
export function addDifferentiateCommand(program: Command, terminal: Terminal): void {
  program
    .command('differentiate')
    .description('write the gradients of a model as an ONNX file of ordinary operators')
    .argument('<model>', 'ONNX file, a name of "tapir models list", or hf:ORG/REPO[@REVISION][#FILE]')
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
    .option('--return <name>', 'value of the model to return as well; repeatable', collect)
    .option('--inline', 'put external weights into the file', false)
    .option('--repack', 'put external weights into FILE.data', false)
    .option('--overwrite', 'replace a file that exists; the model itself is never replaced', false)
    .option(
      '--size <[axis=]n>',
      'size of an open axis on made-up inputs; N alone for height and width of images; repeatable',
      collect,
    )
    .option('--input-shape <input=n,n,…>', 'shape of a made-up input; repeatable', collect)
    .option('--json', 'print the plan as JSON', false)
    .action((model: string, flags: DifferentiateFlags) => runDifferentiate(terminal, model, flags));
}

async function runDifferentiate(terminal: Terminal, path: string, flags: DifferentiateFlags): Promise<void> {
  const { of, wrt, out, inline, repack, overwrite, json, yes } = flags;
  const file = await findModelFile(path, terminal, yes);
  const inputSizes = readSizeFlags(flags);
  const returnNodes = flags.return ?? [];
  const gradients = await differentiate(file, { of, withRespectTo: wrt, returnNodes, inputSizes });
  await gradients.save(out, { overwrite, weights: inline ? 'inline' : repack ? 'repack' : 'keep' });
  const { kept, added, resolved, notes } = gradients.plan;
  if (json) {
    terminal.out(`${JSON.stringify(gradients.plan, null, 2)}\n`);
    return;
  }
  const rows = resolved.map(({ key, request, tensor, why }) => [key, request, tensor, why]);
  terminal.out(formatTable([['output', 'asked for', 'tensor', 'read as'], ...rows]));
  terminal.out(`\ninputs: ${[...added.inputs, ...kept.inputs].join(', ')}\n`);
  terminal.out(`nodes: ${kept.nodes.length} of the model, ${added.nodes.length} for the way back\n`);
  for (const note of notes) terminal.out(`note: ${note}\n`);
  terminal.out(`\nwritten: ${out}\n`);
}
