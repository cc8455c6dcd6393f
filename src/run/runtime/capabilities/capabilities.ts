/**
 * What the engines can do, known before one is loaded. Nothing else is decided by an engine's name. A further engine is an entry here,
 * a module in engines/ and its line in engines/load-engine.ts; and where npm does not install it, a file here that finds its libraries.
 */
import { isTapirError, TapirError, type ErrorCode } from '../../../base/errors.js';
import { findOpenVino } from './openvino-libraries.js';

/** The libraries that run graphs. */
export const ENGINES = ['onnxruntime', 'openvino'] as const;
/** A library that runs graphs. */
export type EngineName = (typeof ENGINES)[number];

/** The ways to call an engine's library. `auto` is the best one that works here. */
export const BINDINGS = ['auto', 'node', 'c'] as const;
/** A way to call an engine's library. */
export type BindingName = (typeof BINDINGS)[number];

/** Kinds of device. `coreml` is for macOS, `dml` (DirectML) for Windows, `plugin` a provider that is loaded at run time. `auto` uses CUDA if it works, otherwise the CPU with a warning. */
export type DeviceType = 'cpu' | 'cuda' | 'webgpu' | 'coreml' | 'dml' | 'plugin' | 'auto';

/** How engines compute float32 operators. */
export const ENGINE_PRECISIONS = ['float32', 'bfloat16'] as const;
/** How an engine computes float32 operators. */
export type EnginePrecision = (typeof ENGINE_PRECISIONS)[number];

/** The arithmetic of sessions: what an engine does, and what a rewrite of the model gives. Inputs and outputs keep their types. */
export const PRECISIONS = ['float32', 'bfloat16', 'float16', 'int8'] as const;
/** How sessions compute. */
export type Precision = (typeof PRECISIONS)[number];
/** The precisions that a rewrite of the model gives. */
export type LoweredPrecision = Exclude<Precision, EnginePrecision>;

/** What an engine can do. */
export interface Capabilities {
  /** Its name in messages. */
  readonly title: string;
  /** The precisions that it computes in, and on which devices. On those with float32, it runs. */
  readonly precisions: Readonly<Partial<Record<Precision, readonly DeviceType[]>>> & {
    readonly float32: readonly DeviceType[];
  };
  /** The devices on which runs can share one model, so that the sessions of a device are streams of one lane, if the lane can. */
  readonly streamsOn: readonly DeviceType[];
  /** The ways to call its library. */
  readonly bindings: readonly BindingName[];
  /** Whether it takes the session options of onnxruntime. */
  readonly takesSessionOptions: boolean;
  /** What it can keep of a model in the cache: the optimised graph for ONNX Runtime to open, or the compiled model. */
  readonly keeps: 'graph' | 'compiled' | 'nothing';
  /**
   * The rules by which a model is refused that the engine would compute otherwise than ONNX says, by name: `describe-compiled.ts` has
   * them. Left out for an engine that needs no such rules.
   */
  readonly refuses?: 'openvino';
  /** Finds its libraries; left out for a dependency of the package. Throws `DEPENDENCY_MISSING`. */
  readonly findLibraries?: () => EngineLibraries;
}

/** Where the libraries of an engine are. */
export interface EngineLibraries {
  readonly folder: string;
  /** A text that differs if the libraries do. */
  readonly identity: string;
}

const EVERYWHERE: readonly DeviceType[] = ['cpu', 'cuda', 'webgpu', 'coreml', 'dml', 'plugin', 'auto'];
const ON_CPU: readonly DeviceType[] = ['cpu'];

export const CAPABILITIES: Readonly<Record<EngineName, Capabilities>> = {
  onnxruntime: {
    title: 'ONNX Runtime',
    // Its kernels for bfloat16 on the CPU are few, and those for products of 8 bits are for CPUs.
    precisions: { float32: EVERYWHERE, float16: EVERYWHERE, int8: ON_CPU },
    streamsOn: ON_CPU,
    bindings: BINDINGS,
    takesSessionOptions: true,
    keeps: 'graph',
  },
  openvino: {
    title: 'OpenVINO',
    // Its plugin for CPUs computes lowered models in float32.
    precisions: { float32: ON_CPU, bfloat16: ON_CPU },
    streamsOn: ON_CPU,
    bindings: ['auto'],
    takesSessionOptions: false,
    keeps: 'compiled',
    refuses: 'openvino',
    findLibraries: findOpenVino,
  },
};

/** A binding for an engine that was not asked for by name: the one that was asked for, if the engine has it. */
export function bindingFor(engine: EngineName, binding: BindingName): BindingName {
  return CAPABILITIES[engine].bindings.includes(binding) ? binding : 'auto';
}

/** Whether a precision is that of a rewritten model. */
export function isLowered(precision: Precision): precision is LoweredPrecision {
  return !(ENGINE_PRECISIONS as readonly Precision[]).includes(precision);
}

/** A precision in words: `int8 and bfloat16` for a model in 8 bits whose rest the engine computes in bfloat16. */
export function describePrecision(how: {
  readonly precision: Precision;
  readonly floatPrecision: EnginePrecision;
}): string {
  const { precision, floatPrecision } = how;
  return precision === floatPrecision || floatPrecision === 'float32'
    ? precision
    : `${precision} and ${floatPrecision}`;
}

/** What is asked of the engine: it computes the rest of a lowered model in float32. */
export function enginePrecision(precision: Precision): EnginePrecision {
  return isLowered(precision) ? 'float32' : precision;
}

/**
 * Checks that an engine computes in a precision, on a kind of device.
 *
 * @param device - The device, and its name for messages; left out to accept a precision that any device has.
 * @throws {@link TapirError} `ENGINE_UNSUPPORTED` if the engine does not run on the device; `PRECISION_UNSUPPORTED`.
 */
export function checkPrecision(
  precision: Precision,
  engine: EngineName,
  device?: { readonly type: DeviceType; readonly name: string },
): void {
  const { title, precisions } = CAPABILITIES[engine];
  const devices = precisions[precision];
  if (device && !precisions.float32.includes(device.type)) {
    const reason = `it runs on ${precisions.float32.join(', ')} here, not on ${device.name}`;
    const others = ENGINES.filter((name) => CAPABILITIES[name].precisions.float32.includes(device.type));
    throw new TapirError(
      'ENGINE_UNSUPPORTED',
      `engine "${engine}" cannot be used: ${reason}; choose ${either('device', precisions.float32)}, or ${either('engine', others)}`,
      { details: { engine, operators: [], reason } },
    );
  }
  if (devices === undefined) {
    const possible = PRECISIONS.filter((one) => precisions[one]);
    const reason = `${title} computes in ${possible.join(', ')}`;
    const others = ENGINES.filter((name) => CAPABILITIES[name].precisions[precision]);
    throw new TapirError(
      'PRECISION_UNSUPPORTED',
      `precision "${precision}" is not possible with engine "${engine}": ${reason}; choose ${either('engine', others)}, or ${either('precision', possible)}`,
      { details: { precision, engine, reason } },
    );
  }
  if (!device || devices.includes(device.type)) return;
  const possible = PRECISIONS.filter((one) => precisions[one]?.includes(device.type));
  const reason = `${title} computes in it on ${devices.join(', ')}, not on ${device.name}`;
  throw new TapirError(
    'PRECISION_UNSUPPORTED',
    `precision "${precision}" cannot be used: ${reason}; choose ${either('device', devices)}, or ${either('precision', possible)}`,
    { details: { precision, engine, reason } },
  );
}

function either(option: string, words: readonly string[]): string {
  return `${option} ${words.map((word) => `"${word}"`).join(' or ')}`;
}

const LACKS: ReadonlyMap<ErrorCode, string> = new Map([
  ['DEPENDENCY_MISSING', 'not installed'],
  ['DEVICE_UNAVAILABLE', 'not available'],
  ['ENGINE_UNSUPPORTED', 'cannot run the model'],
  ['PRECISION_UNSUPPORTED', 'not possible here'],
  ['SESSION_FAILED', 'refuses the model'],
  ['RUN_FAILED', 'does not run it'],
]);

/** What an engine or a device lacks, if that is why it does not run a model that another one runs. Other errors concern the request, whatever runs it. */
export function lackOf(error: unknown): string | undefined {
  return isTapirError(error) ? LACKS.get(error.code) : undefined;
}
