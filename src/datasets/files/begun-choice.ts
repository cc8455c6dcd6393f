/** The engine and precision that a dataset was begun with. */
import { precisionOf, type PrunedModel } from '../../run/model/prune/pruned-model.js';
import type { EngineName, Precision } from '../../run/runtime/capabilities/capabilities.js';
import { readDevice, type Device } from '../../run/runtime/lanes/device.js';
import type { EngineChoice } from '../records/engine-choice.js';
import { isEmpty, readJournal } from './journal.js';

/** What a dataset was begun with; undefined if it holds nothing. The run itself compares the dataset with what is opened. */
export async function readBegunChoice(
  model: PrunedModel,
  out: string,
  device: Device,
): Promise<EngineChoice | undefined> {
  const journal = await readJournal(out);
  if (!journal || isEmpty(journal)) return undefined;
  const { engine, precision, floatPrecision = 'float32' } = journal.identity;
  const isOfFile = precisionOf(model) === precision;
  // Several devices are written with commas.
  const last = journal.runs.at(-1)?.device.split(',')[0] ?? 'cpu';
  return {
    engine: engine as EngineName,
    precision: (isOfFile ? floatPrecision : precision) as Precision,
    device: readDevice('device', device).type === 'auto' ? (last as Device) : device,
    candidates: [],
    againstFloat32: null,
  };
}
