/**
 * A model's own file, `MODEL.onnx.tapir.json`: what is true of the model in every call and command. This file alone reads and writes it.
 * docs/decisions/064-models-own-file.md
 */
import { fileURLToPath } from 'node:url';
import { isPlainObject } from '../../../base/checks.js';
import { TapirError } from '../../../base/errors.js';
import { nearestOrAll } from '../../../base/nearest-names.js';
import { readJson } from '../../../base/read-json.js';
import {
  ENGINES,
  PRECISIONS,
  type DeviceType,
  type EngineName,
  type Precision,
} from '../../runtime/capabilities/capabilities.js';
import { modelInternals } from './model-state.js';

/** What a model's own file states; it may leave out everything. */
export interface ModelSettings {
  /** The preprocessing of photos, as a configuration file has it; or the name of a preset or of torchvision's weights. */
  readonly transform?: string | Readonly<Record<string, unknown>>;
  /** A label per class, in the order of the first output's scores. */
  readonly labels?: readonly string[];
  /** Whether the graph is rewritten to take any batch: option `batch: 'dynamic'`. */
  readonly dynamicBatch?: boolean;
  /** The engine that was measured as the fastest on {@link ModelSettings.device}. */
  readonly engine?: EngineName;
  /** The precision that was measured with it. */
  readonly precision?: Precision;
  /** The kind of device on which both were measured, and for which they hold; `cpu` where it is left out. */
  readonly device?: Exclude<DeviceType, 'auto'>;
}

/** Kinds of device that can be measured. */
const DEVICE_TYPES: readonly Exclude<DeviceType, 'auto'>[] = [
  'cpu',
  'cuda',
  'webgpu',
  'coreml',
  'dml',
  'plugin',
];

/** The settings of a model, and the file that states them. */
export interface FoundSettings extends ModelSettings {
  readonly file: string;
}

const isOneOf =
  (words: readonly string[]) =>
  (value: unknown): boolean =>
    words.includes(value as string);
const isTextList = (value: unknown): boolean =>
  Array.isArray(value) && value.length > 0 && value.every((label) => typeof label === 'string');

/** What each key holds, in the order of the written file. */
const KEYS: Readonly<
  Record<keyof ModelSettings, readonly [isValid: (value: unknown) => boolean, expected: string]>
> = {
  transform: [
    (value) => typeof value === 'string' || isPlainObject(value),
    'an object of transform options, or the name of a preset or of weights',
  ],
  labels: [isTextList, 'a list of strings, one per class'],
  dynamicBatch: [(value) => typeof value === 'boolean', 'true or false'],
  engine: [isOneOf(ENGINES), `one of ${ENGINES.join(', ')}`],
  precision: [isOneOf(PRECISIONS), `one of ${PRECISIONS.join(', ')}`],
  device: [isOneOf(DEVICE_TYPES), `one of ${DEVICE_TYPES.join(', ')}`],
};

/** Labels of a hundred thousand classes take less. */
const MOST_BYTES = 16 * 2 ** 20;

/** The path of a model's own file: beside it. */
export function settingsPath(model: string): string {
  return `${model}.tapir.json`;
}

/**
 * Reads a model's own file.
 *
 * @returns What it states; undefined for a model without such a file, or in memory (`model` is undefined then).
 * @throws {@link TapirError} `SETTINGS_INVALID` for a file that cannot be read, an unknown key, or a value that its key does not take.
 */
export function readModelSettings(model: string | undefined): FoundSettings | undefined {
  if (model === undefined) return undefined;
  const file = settingsPath(model);
  const content = readJson(file, (reason, cause) => invalid(file, null, reason, cause), MOST_BYTES);
  if (content === undefined) return undefined;
  if (!isPlainObject(content)) throw invalid(file, null, 'it holds no JSON object');
  for (const [key, value] of Object.entries(content)) {
    if (!Object.hasOwn(KEYS, key))
      throw invalid(file, key, `its keys are ${nearestOrAll(key, Object.keys(KEYS))}`);
    const [isValid, expected] = KEYS[key as keyof ModelSettings];
    if (!isValid(value)) throw invalid(file, key, `it must be ${expected}`);
  }
  return { ...(content as ModelSettings), file };
}

/** The same for a model or where to open it. A model in memory, or one that was derived of a file, has none. */
export function settingsOf(model: unknown): FoundSettings | undefined {
  if (modelInternals.has(model)) return readModelSettings(modelInternals.of(model).file?.path);
  // What is no path is refused where the model is opened.
  if (model instanceof URL)
    return model.protocol === 'file:' && /^(?:localhost)?$/.test(model.host)
      ? readModelSettings(fileURLToPath(model))
      : undefined;
  return typeof model === 'string' ? readModelSettings(model) : undefined;
}

/** The bytes of a model's own file. Keys that are undefined are left out. */
export function encodeModelSettings(settings: ModelSettings): Uint8Array {
  const known = Object.keys(KEYS).map((key) => [key, settings[key as keyof ModelSettings]]);
  return Buffer.from(`${JSON.stringify(Object.fromEntries(known), null, 2)}\n`);
}

function invalid(path: string, key: string | null, reason: string, cause?: unknown): TapirError {
  const where = key === null ? `"${path}"` : `key ${JSON.stringify(key)} of "${path}"`;
  return new TapirError('SETTINGS_INVALID', `${where} cannot be used: ${reason}; mend or remove it`, {
    details: { path, key, reason },
    cause,
  });
}
