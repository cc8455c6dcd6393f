/** What a model's own file states, for a call that leaves it open: batch, engine and precision. */
import { isTapirError, TapirError } from '../base/errors.js';
import type { Options } from '../base/checks.js';
import { settingsOf, type FoundSettings } from '../run/model/open/model-settings.js';
import { prunedInternals } from '../run/model/prune/pruned-model.js';
import type { RewriteOptions } from '../run/model/prune/rewrite-options.js';
import { CAPABILITIES, isLowered, type EnginePrecision } from '../run/runtime/capabilities/capabilities.js';
import { readDevice } from '../run/runtime/lanes/device.js';
import { LANE_DEFAULTS, type LaneOptions } from '../run/runtime/lanes/lane-options.js';
import { extractorInternals } from './extractor.js';
import type { OwnSettings } from './replicas/feature-model.js';

/** Options that a model's own file can state, and those that keep it from that. */
type Asked = Options<Pick<RewriteOptions, 'batch'> & LaneOptions> & { readonly session?: unknown };

/**
 * The options of a call, over those of the model's own file.
 *
 * @param hasNodes - Whether the call cuts the model. A model that runs as it is has its batch.
 * @param devices - Where it runs, as the call names them.
 * @throws {@link TapirError} `SETTINGS_INVALID`; `PRECISION_UNSUPPORTED` for a precision that is a rewrite of the model;
 * `DEPENDENCY_MISSING` for an engine that is not installed here.
 */
export function withOwnSettings<Given extends Asked>(
  model: unknown,
  asked: Given,
  hasNodes: boolean,
  devices: readonly unknown[],
): { readonly options: Given; readonly own: OwnSettings | null } {
  const pruned = extractorInternals.has(model) ? model.model : prunedInternals.has(model) ? model : undefined;
  const settings = settingsOf(pruned ? pruned.source : model);
  if (!settings) return { options: asked, own: null };
  const isCut = hasNodes || pruned === undefined;
  const batch = isCut && settings.dynamicBatch === true ? ({ batch: 'dynamic' } as const) : {};
  const isLoweredModel = pruned !== undefined && prunedInternals.of(pruned).lowered !== undefined;
  const form = extractorInternals.has(model) ? {} : ownForm(settings, asked, devices, isLoweredModel);
  const taken = { ...batch, ...form };
  const keys = Object.keys(taken).filter((key) => asked[key as keyof Asked] === undefined);
  const own = {
    file: settings.file,
    keys: keys.map((key) => (key === 'batch' ? 'dynamicBatch' : (key as 'engine' | 'precision'))),
  };
  return { options: { ...taken, ...asked }, own: keys.length === 0 ? null : own };
}

const { binding: USUAL } = LANE_DEFAULTS;

/** The engine and the precision belong together: a call that states one of them, or how the engine works, states both. */
function ownForm(
  settings: FoundSettings,
  asked: Asked,
  devices: readonly unknown[],
  isLoweredModel: boolean,
): Options<Pick<LaneOptions, 'engine' | 'precision'>> {
  const { engine, precision, binding = USUAL, session = {} } = asked;
  const isStated =
    engine !== undefined ||
    precision !== undefined ||
    binding !== USUAL ||
    (typeof session === 'object' && session !== null && Object.keys(session).length > 0);
  if (isStated || !holdsOn(settings, devices)) return {};
  const { file, engine: ownEngine, precision: ownPrecision } = settings;
  checkInstalled(settings);
  if (isLoweredModel || ownPrecision === undefined)
    return ownEngine === undefined ? {} : { engine: ownEngine };
  if (!isLowered(ownPrecision))
    return {
      ...(ownEngine === undefined ? {} : { engine: ownEngine }),
      precision: ownPrecision as EnginePrecision,
    };
  const reason = `"${file}" states it, and it is a rewrite of the model, not how an engine computes`;
  throw new TapirError(
    'PRECISION_UNSUPPORTED',
    `precision "${ownPrecision}" is not an option of sessions: ${reason}; pass what lowerPrecision of "onnx-tapir/precision" makes of the pruned model, or state option "precision", such as "float32"`,
    { details: { precision: ownPrecision, engine: ownEngine ?? LANE_DEFAULTS.engine, reason } },
  );
}

/** Whether engine and precision of a model's own file hold on the devices of a call: they were measured on one kind. */
export function holdsOn({ device = 'cpu' }: FoundSettings, devices: readonly unknown[]): boolean {
  return devices.every((one) => readDevice('device', one).type === device);
}

/** Throws `DEPENDENCY_MISSING` for an engine that is not installed here. */
function checkInstalled({ engine, file }: FoundSettings): void {
  try {
    if (engine !== undefined) CAPABILITIES[engine].findLibraries?.();
  } catch (error) {
    if (!isTapirError(error, 'DEPENDENCY_MISSING')) throw error;
    const hint = `; "${file}" states engine "${engine}": another one needs option "engine"`;
    throw new TapirError('DEPENDENCY_MISSING', `${error.message}${hint}`, {
      details: error.details,
      cause: error,
    });
  }
}
