/** The forms in which a model can run here: an engine, a precision and a device. */
import { oneOf, type Fields } from '../../../base/options.js';
import type { Options } from '../../../base/checks.js';
import { createFeatureExtractor } from '../../../extract/create-feature-extractor.js';
import type { Extractor } from '../../../extract/extractor.js';
import type { FeatureExtractorOptions } from '../../../extract/extractor-options.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import { precisionOf, prunedInternals, type PrunedModel } from '../../../run/model/prune/pruned-model.js';
import {
  CAPABILITIES,
  checkPrecision,
  ENGINE_PRECISIONS,
  enginePrecision,
  ENGINES,
  isLowered,
  PRECISIONS,
  type EngineName,
  type EnginePrecision,
  type Precision,
} from '../../../run/runtime/capabilities/capabilities.js';
import { listWorkingDevices } from '../../../run/runtime/devices/working-devices.js';
import { deviceName, readDevice, type Device } from '../../../run/runtime/lanes/device.js';
import { inPrecision } from './lower-precision.js';

/** What runs a model, where, and how it computes. */
export interface ModelForm {
  readonly engine: EngineName;
  readonly precision: Precision;
  readonly device: Device;
}

/** Which forms are asked for; `auto` for any that can be had here. */
export interface AskedForms {
  readonly engine: EngineName | 'auto';
  readonly precision: Precision | 'auto';
  readonly device: Device;
}

/** The options that ask for forms. */
export const FORM_FIELDS: Fields<Pick<AskedForms, 'engine' | 'precision'>> = {
  engine: oneOf([...ENGINES, 'auto'], 'auto'),
  precision: oneOf([...PRECISIONS, 'auto'], 'auto'),
};

/** The devices that are asked for: for `auto` all that work here. */
export async function askedDevices(device: Device, signal?: AbortSignal): Promise<readonly Device[]> {
  const { type, threads } = readDevice('device', device);
  if (type !== 'auto') return [device];
  const working = await listWorkingDevices(signal);
  return working.map((one) => (one === 'cpu' && threads > 0 ? { type: 'cpu', threads } : one));
}

/** Lists the forms that may run a model. Float16 on the CPU is float32 with conversions, and counts only if asked for: docs/decisions/034. */
export function listForms(
  model: PrunedModel,
  devices: readonly Device[],
  { engine, precision }: Pick<AskedForms, 'engine' | 'precision'>,
): readonly ModelForm[] {
  const own = precisionOf(model);
  return devices.flatMap((device) => {
    const { type } = readDevice('device', device);
    const isPossible = (one: EngineName, how: Precision): boolean => {
      const { precisions } = CAPABILITIES[one];
      if (precision === 'auto' && isLowered(how) && (own || (how === 'float16' && type === 'cpu')))
        return false;
      return precisions[own === how ? 'float32' : how]?.includes(type) === true;
    };
    return (engine === 'auto' ? ENGINES : [engine]).flatMap((one) =>
      (precision === 'auto' ? PRECISIONS : [precision])
        .filter((how) => isPossible(one, how))
        .map((how): ModelForm => ({ engine: one, precision: how, device })),
    );
  });
}

/** Throws `PRECISION_UNSUPPORTED` or `DEVICE_UNAVAILABLE`: why no form on a device is what is asked for. */
export function refuseForms(
  device: Device,
  { engine, precision }: Pick<AskedForms, 'engine' | 'precision'>,
): void {
  const resolved = readDevice('device', device);
  const place = { type: resolved.type, name: deviceName(resolved) };
  for (const one of engine === 'auto' ? ENGINES : [engine])
    for (const how of precision === 'auto' ? PRECISIONS : [precision]) checkPrecision(how, one, place);
}

/** The form in float32 that others on the device are compared with. */
export function exactForm(device: Device): ModelForm {
  const { type } = readDevice('device', device);
  const engine = ENGINES.find((one) => CAPABILITIES[one].precisions.float32.includes(type)) ?? ENGINES[0];
  return { engine, precision: 'float32', device };
}

/** A device as messages name it. */
export function nameDevice(device: Device): string {
  return deviceName(readDevice('device', device));
}

/** What every engine computes in on the CPU, whether it is installed or not. */
export const CPU_FORMS: readonly { readonly engine: EngineName; readonly precision: EnginePrecision }[] =
  ENGINES.flatMap((engine) =>
    ENGINE_PRECISIONS.filter((one) => CAPABILITIES[engine].precisions[one]?.includes('cpu')).map(
      (precision) => ({ engine, precision }),
    ),
  );

/** Opens a model in a form. */
export async function openModelForm(
  model: PrunedModel,
  { engine, precision, device }: ModelForm,
): Promise<Extractor> {
  const options = { engine, precision: enginePrecision(precision), device, outputDtype: 'keep' } as const;
  return createFeatureExtractor(await inPrecision(model, precision, engine), undefined, options);
}

/** Opens all outputs of a model, whole or cut. */
export function openOutputs(
  model: OnnxModel | PrunedModel,
  options: Options<FeatureExtractorOptions>,
): Promise<Extractor> {
  if (prunedInternals.has(model)) return createFeatureExtractor(model, undefined, options);
  const names = model.outputs.map(({ name }) => name);
  return createFeatureExtractor(model, names, options);
}
