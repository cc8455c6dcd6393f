/** `tapir models params`: lists the parameters of a model, and saves them as a state dict. */
import { counted } from '../../../base/printable.js';
import type { Command } from 'commander';
import { writeStateDict } from '../../../learn/parameters/dicts/write-state-dict.js';
import { contentsOf } from '../../../onnx/graph/scopes.js';
import { modelInternals } from '../../../run/model/open/model-state.js';
import { ELEMENT_BITS, ELEMENT_TYPE } from '../../../onnx/file/wire/schema.js';
import { elementCount, type Tensor } from '../../../onnx/tensor/tensor.js';
import { invalidOption } from '../../../base/checks.js';
import { openModel, type OnnxModel } from '../../../run/model/open/open-model.js';
import type { Parameter } from '../../../run/model/open/named-parameters.js';
import { findModelFile, MODEL_HELP, type CommonFlags } from '../../flags/find-model.js';
import { formatDims, formatTable } from '../../terminal/table.js';
import { printJson, type Terminal } from '../../terminal/terminal.js';

interface ParamsFlags extends CommonFlags {
  readonly save?: string;
  readonly overwrite: boolean;
}

export function addCommand(program: Command, terminal: Terminal): void {
  program
    .command('params')
    .description('list the parameters of a model under torch’s names, and how each lies in the file')
    .argument('<model>', MODEL_HELP)
    .option('--yes', 'download a model of a repository (hf:ORG/REPO) without asking', false)
    .option('--save <file>', 'write them as a .safetensors file; folded ones are left out')
    .option('--overwrite', 'replace a file that exists', false)
    .option('--json', 'print JSON', false)
    .action((model: string, flags: ParamsFlags) => runParams(terminal, model, flags));
}

async function runParams(terminal: Terminal, path: string, flags: ParamsFlags): Promise<void> {
  const { save, overwrite, json, yes } = flags;
  const model = await openModel(await findModelFile(path, terminal, yes));
  const parameters = model.namedParameters();
  const { graph } = modelInternals.of(model);
  const inside = [...contentsOf(graph, graph.nodes)].reduce((sum, { held }) => sum + held.floats, 0);
  if (inside > 0)
    terminal.err(
      `note: ${inside.toLocaleString('en')} more numbers lie inside functions and the bodies of If, Loop and Scan: they are not listed, loaded or trained\n`,
    );
  const small = countSmall(model, parameters);
  if (small > 0)
    terminal.err(
      `note: ${small.toLocaleString('en')} more numbers are weights of 8 bits or fewer: they are not listed, loaded or trained; the file in floats that they were made from has them\n`,
    );
  if (save !== undefined) {
    const stored = parameters.filter(isSaved);
    if (stored.length === 0)
      throw invalidOption('--save', 'left out: the file has no parameter in floats', save);
    const state = new Map<string, Tensor>();
    for (const parameter of stored) state.set(parameter.name, await parameter.read());
    await writeStateDict(save, state, { overwrite });
    const constants = parameters.filter(({ kind }) => kind === 'constant').length;
    const folded = parameters.length - stored.length - constants;
    const note = [
      ...(folded === 0 ? [] : [`; ${folded} are folded into others, and left out`]),
      ...(constants === 0 ? [] : [`; ${constants} are constants, and left out`]),
    ].join('');
    terminal.err(`written: ${save} (${counted(stored.length, 'tensor')}${note})\n`);
  }
  if (json) printJson(terminal, parameters);
  else if (save === undefined) terminal.out(parameterTable(parameters, terminal));
}

/** Elements of tensors of 8 bits or fewer that are no listed buffers. Truths are no weights. */
function countSmall(model: OnnxModel, parameters: readonly Parameter[]): number {
  const listed = new Set(parameters.flatMap(({ initializers }) => initializers));
  const { graph } = modelInternals.of(model);
  let count = 0;
  for (const { name, initializer } of graph.values.values()) {
    if (!initializer || listed.has(name) || initializer.elemType === ELEMENT_TYPE.bool) continue;
    const isSmall = (ELEMENT_BITS.get(initializer.elemType) ?? Infinity) <= 8;
    const elements = elementCount(initializer.dims);
    // Zero points are small, too.
    if (isSmall && elements > 1) count += elements;
  }
  return count;
}

/** State dicts hold what a network learns and its buffers. */
function isSaved({ kind, origin }: Parameter): boolean {
  return kind !== 'constant' && origin.kind !== 'folded';
}

function parameterTable(parameters: readonly Parameter[], terminal: Terminal): string {
  const rows = parameters.map(({ name, dtype, dims, kind, origin, initializers, mergedWith }) => [
    name,
    dtype,
    formatDims(dims),
    kind,
    origin.kind === 'folded' && origin.norm !== null ? `folded with ${origin.norm}` : origin.kind,
    initializers.join(', '),
    mergedWith.join(', '),
  ]);
  const header = ['name', 'dtype', 'dims', 'kind', 'origin', 'in the file', 'shared with'];
  const totals = (['parameter', 'buffer', 'constant'] as const).flatMap((wanted) => {
    const ofKind = parameters.filter(({ kind }) => kind === wanted);
    const count = ofKind.reduce(
      (sum, { dims }) => sum + dims.reduce((product, size) => product * size, 1),
      0,
    );
    const what = wanted === 'parameter' ? 'parameters' : `elements of ${wanted}s`;
    return count === 0 && wanted !== 'parameter' ? [] : [`${count.toLocaleString('en')} ${what}`];
  });
  const layout = { columns: terminal.columns, names: [0, 5], spare: [6, 5, 3, 1] };
  const table = formatTable([header, ...rows], layout);
  return `${table}\n${counted(parameters.length, 'tensor')}: ${totals.join(', ')}\n`;
}
