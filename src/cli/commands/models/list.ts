/** `tapir models list`: the known models, and the weights that can be built. */
import type { Command } from 'commander';
import type { KnownModel } from '../../../learn/hub/known-models.js';
import { KNOWN_MODELS_FIELDS, listKnownModels } from '../../../learn/hub/list-known-models.js';
import { formatBytes } from '../../../base/html/numbers.js';
import { transformFromConfig } from '../../../photos/images/configs/transform-from-config.js';
import { listTaskWeights, type ListedWeights } from '../../../learn/zoo/pull-torchvision.js';
import { addFlags } from '../../flags/option-flags.js';
import { formatTable } from '../../terminal/table.js';
import { printJson, type Terminal } from '../../terminal/terminal.js';

interface ListFlags {
  readonly manifest?: string;
  readonly json: boolean;
}

export function addCommand(models: Command, terminal: Terminal): void {
  const list = models
    .command('list')
    .description('list the known models')
    .option('--json', 'print JSON', false)
    .action((flags: ListFlags) => runList(terminal, flags));
  addFlags(list, KNOWN_MODELS_FIELDS, { manifest: '--manifest <file>' });
}

async function runList(terminal: Terminal, { manifest, json }: ListFlags): Promise<void> {
  const models = await listKnownModels({ manifest });
  const weights = manifest === undefined ? listTaskWeights() : [];
  if (json) return printJson(terminal, [...models, ...weights.map(describeListed)]);
  const rows = models.map((model) => [
    model.name,
    sizeText(model),
    model.licence.spdx,
    transformText(model),
    model.nodes.map(({ name }) => name).join(', '),
    model.cached === null ? '' : 'cached',
  ]);
  for (const { reference, licence, transform, isBuilt } of weights)
    rows.push([
      reference,
      '?',
      licence.spdx,
      transform === null ? '' : transformText({ transform }),
      '',
      isBuilt ? UNVERIFIED : NOT_BUILT,
    ]);
  const layout = { columns: terminal.columns, right: [1], names: [4], spare: [3, 2, 4] };
  terminal.out(formatTable([['name', 'size', 'licence', 'transform', 'ask for', ''], ...rows], layout));
}

/** Of weights that were never downloaded here, so that only the first digits of their SHA-256 are known. */
const UNVERIFIED = 'unverified';
/** Of weights whose network is not among those that are built. */
const NOT_BUILT = 'no network';

function describeListed({ reference, task, transform, licence, isBuilt }: ListedWeights): object {
  return { name: reference, task, transform, licence, verified: false, built: isBuilt };
}

/** A transform in a table: a name, or the class of a configuration, with the number of tensors that it gives if there are several. */
export function transformText({ transform }: Pick<KnownModel, 'transform'>): string {
  if (typeof transform === 'string') return transform;
  if (transform === null) return '(not stated)';
  const type = transform['image_processor_type'];
  const { length } = transformFromConfig(transform).tensors;
  return `${typeof type === 'string' ? type : 'its own'}${length > 1 ? ` (${length} tensors)` : ''}`;
}

function sizeText({ files }: KnownModel): string {
  const sizes = files.map(({ sizeBytes }) => sizeBytes);
  return sizes.includes(null) ? '?' : formatBytes(sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0));
}
