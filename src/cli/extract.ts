/** `tapir extract`: a pruned ONNX file, and what became of the model. */
import { pruneModel } from '../extract/prune-model.js';
import { readReturnFlags } from './return-flags.js';
import { formatBytes, formatTable } from './table.js';
import type { Terminal } from './terminal.js';

export interface ExtractFlags {
  readonly return: readonly string[];
  readonly out: string;
  readonly keepTensorNames: boolean;
  readonly json: boolean;
}

/** Prunes, saves and reports. */
export async function runExtract(terminal: Terminal, model: string, flags: ExtractFlags): Promise<void> {
  const { keepTensorNames } = flags;
  const pruned = await pruneModel(model, readReturnFlags(flags.return), { keepTensorNames });
  await pruned.save(flags.out);
  const { kept, dropped, resolved, notes } = pruned.plan;
  if (flags.json) {
    terminal.out(`${JSON.stringify(pruned.plan, null, 2)}\n`);
    return;
  }
  const outputs = resolved.map(({ request, key, tensor, why }) => [key, request, tensor, why]);
  const counts = [
    ['', 'kept', 'dropped'],
    ['nodes', String(kept.nodes.length), String(dropped.nodes.length)],
    ['weights', String(kept.initializers.length), String(dropped.initializers.length)],
    ['inputs', kept.inputs.join(', '), dropped.inputs.join(', ')],
    ['bytes', formatBytes(kept.bytes), formatBytes(dropped.bytes)],
  ];
  terminal.out(formatTable([['output', 'asked for', 'tensor', 'read as'], ...outputs]));
  terminal.out(`\n${formatTable(counts)}`);
  if (kept.externalFiles.length > 0) terminal.out(`\nweights stay in: ${kept.externalFiles.join(', ')}\n`);
  for (const note of notes) terminal.out(`\nnote: ${note}\n`);
  terminal.out(`\nwritten: ${flags.out}\n`);
}
