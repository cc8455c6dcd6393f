/** `tapir check --save`: what a check found best goes into the model's own file. */
import { writeAtomically } from '../../base/atomic-file.js';
import { chooseModelTransform } from '../../photos/feeds/model-transform.js';
import type { TransformRequest } from '../../photos/feeds/choose-transform.js';
import { fastestOf } from '../../products/precision/judge/choose-engine.js';
import {
  encodeModelSettings,
  readModelSettings,
  settingsPath,
  type FoundSettings,
  type ModelSettings,
} from '../../run/model/open/model-settings.js';
import { openModel } from '../../run/model/open/open-model.js';
import { pruneToRun } from '../../run/model/oracle/prune-model.js';
import { readDevice } from '../../run/runtime/lanes/device.js';
import type { ModelCheck } from './check-model.js';

/**
 * Writes the fastest engine and precision that are near enough to float32, with their kind of device. It writes `dynamicBatch` if the graph
 * takes more than one row only when it is rewritten, and a transform if one was stated. What else the file states stays.
 *
 * @param found - A check that found nothing wrong.
 * @returns What the file states now. Throws `OUTPUT_UNWRITABLE`, `SETTINGS_INVALID`.
 */
export async function saveCheck(
  path: string,
  found: ModelCheck,
  transform: TransformRequest,
  minCosine: number,
): Promise<FoundSettings> {
  const model = await openModel(path);
  // What 8 bits cost is judged when a file is made: docs/decisions/040
  const fastest = fastestOf(
    found.engines.filter(({ precision }) => precision !== 'int8'),
    minCosine,
  );
  const form: ModelSettings = fastest
    ? {
        engine: fastest.engine,
        precision: fastest.precision,
        device: readDevice('device', fastest.device).type as NonNullable<ModelSettings['device']>,
      }
    : {};
  const outputs = model.outputs.map(({ name }): [string, string] => [`tensor:${name}`, name]);
  const { batch } = (await pruneToRun(model, outputs, { batch: 'dynamic' })).plan;
  const settings: ModelSettings = {
    ...readModelSettings(path),
    ...form,
    ...(batch?.mode === 'dynamic' ? { dynamicBatch: true } : {}),
    ...(transform === 'auto' ? {} : { transform: { ...chooseModelTransform(transform, model).options } }),
  };
  await writeAtomically(settingsPath(path), encodeModelSettings(settings));
  return { ...settings, file: settingsPath(path) };
}
