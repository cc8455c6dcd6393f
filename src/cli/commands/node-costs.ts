/** `tapir nodes --cost`: what each module and node costs, as a tree. */
import { shown } from '../../base/printable.js';
import { formatBytes, formatLarge } from '../../base/html/numbers.js';
import { openModel } from '../../run/model/open/open-model.js';
import { profileModel, type Cost, type ModelProfile } from '../../extract/stages/profile-model.js';
import { findModelFile, type CommonFlags } from '../flags/find-model.js';
import { readSizeFlags, type SizeFlags } from '../flags/size-flags.js';
import { formatDims, formatTable } from '../terminal/table.js';
import { printJson, type Terminal } from '../terminal/terminal.js';

export interface CostFlags extends CommonFlags, SizeFlags {
  readonly depth?: number;
  readonly batch?: number;
  readonly time: boolean;
  readonly threads: number;
}

/** Operators that a line of several nodes names. */
const OPS_NAMED = 3;
/** Nodes that the note about uncounted operators names. */
const NODES_NAMED = 3;

export async function runNodeCosts(terminal: Terminal, path: string, flags: CostFlags): Promise<void> {
  const model = await openModel(await findModelFile(path, terminal, flags.yes));
  const { batch, time, threads } = flags;
  const profile = await profileModel(model, { batch, time, threads, inputSizes: readSizeFlags(flags) });
  if (flags.json) return printJson(terminal, profile);
  const inputs = profile.inputs.map(({ name, dims }) => `${shown(name)} ${formatDims(dims)}`).join(', ');
  terminal.out(`one run with ${inputs}${time ? '; times without optimisation' : ''}\n\n`);
  const head = [
    'name',
    'op',
    'MACs',
    'parameters',
    'buffers',
    'constants',
    'weights',
    'activations',
    ...(time ? ['ms'] : []),
  ];
  const rows = listCosts(profile, flags.depth ?? Infinity).map(({ name, depth, op, cost }) =>
    ['  '.repeat(depth) + name, op].concat(formatCost(cost)),
  );
  const right = head.map((_, i) => i).slice(2);
  const layout = { columns: terminal.columns, right, names: [0] };
  terminal.out(formatTable([head, ...rows, ['total', '', ...formatCost(profile.total)]], layout));
  for (const { op, nodes } of profile.uncounted) {
    const more = nodes.length > NODES_NAMED ? ' …' : '';
    terminal.out(`not counted: ${shown(`${op} (${nodes.slice(0, NODES_NAMED).join(', ')}${more})`)}\n`);
  }
}

interface CostLine {
  readonly name: string;
  readonly depth: number;
  readonly op: string;
  readonly cost: Cost;
}

/** Modules, and the nodes that belong to a module with others in it, in execution order. A module without others is one line. */
export function listCosts({ nodes, modules }: ModelProfile, depth: number): CostLine[] {
  const byPath = new Map(modules.map((module) => [module.name, module]));
  const parents = new Set(modules.map(({ name }) => name.slice(0, Math.max(0, name.lastIndexOf('.')))));
  const lines: CostLine[] = [];
  const listed = new Set<string>();
  for (const node of nodes) {
    const atoms = (node.module ?? '').split('.').filter((atom) => atom !== '');
    atoms.forEach((_, at) => {
      const path = atoms.slice(0, at + 1).join('.');
      const module = byPath.get(path);
      if (!module || listed.has(path)) return;
      listed.add(path);
      const op = parents.has(path) ? '' : operatorsOf(nodes.filter((other) => other.module === path));
      lines.push({ name: path, depth: at, op, cost: module });
    });
    if (atoms.length === 0 || parents.has(node.module!))
      lines.push({ name: node.name, depth: atoms.length, op: node.op, cost: node });
  }
  return lines.filter((line) => line.depth < depth);
}

/** Names the first operators of nodes. */
export function operatorsOf(nodes: readonly { readonly op: string }[]): string {
  const ops = [...new Set(nodes.map(({ op }) => op))];
  return `${ops.slice(0, OPS_NAMED).join(', ')}${ops.length > OPS_NAMED ? ', …' : ''}`;
}

/** Zeros stay blank, so that the nodes that matter stand out. */
function formatCost(cost: Cost): string[] {
  const { macs, parameters, buffers, constants, weightBytes, activationBytes, milliseconds } = cost;
  const orBlank = (number: number, format: (number: number) => string): string =>
    number === 0 ? '' : format(number);
  return [
    macs === null ? '?' : orBlank(macs, formatLarge),
    orBlank(parameters, formatLarge),
    orBlank(buffers, formatLarge),
    orBlank(constants, formatLarge),
    orBlank(weightBytes, formatBytes),
    orBlank(activationBytes, formatBytes),
    milliseconds === null ? '' : milliseconds.toFixed(3),
  ];
}
