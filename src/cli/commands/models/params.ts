/** `tapir models params`: lists the parameters of a model, and saves them as a state dict. */
import { counted } from '../../../base/printable.js';
import type { Command } from 'commander';
import { writeStateDict } from '../../../learn/parameters/dicts/write-state-dict.js';
import type { Graph } from '../../../onnx/graph/graph.js';
import { quantisedWeights } from '../../../onnx/graph/quantised-weights.js';
import { contentsOf } from '../../../onnx/graph/scopes.js';
import { modelInternals } from '../../../run/model/open/model-state.js';
import { countElements, parameterTypes, sum } from '../../../run/model/oracle/model-costs.js';
import { elementCount, type Tensor } from '../../../onnx/tensor/tensor.js';
import { invalidOption } from '../../../base/checks.js';
import { openModel } from '../../../run/model/open/open-model.js';
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
  const inside = sum([...contentsOf(graph, graph.nodes)], ({ held }) => held.floats);
  if (inside > 0)
    terminal.err(
      `note: ${inside.toLocaleString('en')} more numbers lie inside functions and the bodies of If, Loop and Scan: they are not listed, loaded or trained\n`,
    );
  const listed = new Set(parameters.flatMap(({ initializers }) => initializers));
  const levels = [...quantisedWeights(graph)];
  const unlisted = levels.filter(({ name }) => !listed.has(name));
  const more = countElements(graph, unlisted).parameters;
  if (more > 0)
    terminal.err(
      `note: ${more.toLocaleString('en')} parameters are weights of a quantised model: they are not listed, loaded or trained; the file in floats that they were made from has them\n`,
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
  else if (save === undefined) terminal.out(parameterTable(graph, parameters, more, terminal));
}

/** State dicts hold what a network learns and its buffers. */
function isSaved({ kind, origin }: Parameter): boolean {
  return kind !== 'constant' && origin.kind !== 'folded';
}

/** @param unlisted - Parameters that are not in the list. */
function parameterTable(
  graph: Graph,
  parameters: readonly Parameter[],
  unlisted: number,
  terminal: Terminal,
): string {
  const levels = new Set([...quantisedWeights(graph)].map(({ name }) => name));
  const kindOf = ({ initializers, kind }: Parameter): Parameter['kind'] =>
    initializers.some((name) => levels.has(name)) ? 'parameter' : kind;
  const rows = parameters.map((parameter) => {
    const { name, dtype, dims, origin, initializers, mergedWith } = parameter;
    return [
      name,
      dtype,
      formatDims(dims),
      kindOf(parameter),
      origin.kind === 'folded' && origin.norm !== null ? `folded with ${origin.norm}` : origin.kind,
      initializers.join(', '),
      mergedWith.join(', '),
    ];
  });
  const header = ['name', 'dtype', 'dims', 'kind', 'origin', 'in the file', 'shared with'];
  const totals = (['parameter', 'buffer', 'constant'] as const).flatMap((wanted) => {
    const ofKind = parameters.filter((parameter) => kindOf(parameter) === wanted);
    const isParameter = wanted === 'parameter';
    const count = sum(ofKind, ({ dims }) => elementCount(dims)) + (isParameter ? unlisted : 0);
    const types = parameterTypes(graph).join(' and ');
    const what = isParameter ? `parameters${types && `, ${types}`}` : `elements of ${wanted}s`;
    return count === 0 && !isParameter ? [] : [`${count.toLocaleString('en')} ${what}`];
  });
  const layout = { columns: terminal.columns, names: [0, 5], spare: [6, 5, 3, 1] };
  const table = formatTable([header, ...rows], layout);
  return `${table}\n${counted(parameters.length, 'tensor')}: ${totals.join('; ')}\n`;
}
