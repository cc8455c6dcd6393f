/** libheif-js, an optional package that decodes HEIC in WebAssembly. The only import of it. */
import { readFileSync } from 'node:fs';
import { reasonOf } from '../../../base/errors.js';
import { packageRequire } from '../../../base/package.js';
import { ownWebAssembly, type WebAssemblyApi } from '../simd/simd-module.js';

/** The version whose pixels are compared with pillow-heif's. Another one is refused: see {@link keepLoopFilters}. */
export const LIBHEIF_VERSION = '1.23.2';

export const LIBHEIF_ADVICE: string = `install the package libheif-js beside onnx-tapir (npm install libheif-js@${LIBHEIF_VERSION})`;

/** An object of the C++ side; only passed on. */
export type Handle = object & { readonly __handle?: never };

/** What a call of libheif returns if it fails. `code` is one of {@link Libheif.heif_error_code}. */
export interface LibheifError {
  readonly code: unknown;
  readonly message: string;
}

/** Decoded pixels: a view of WebAssembly's memory, which the next call may move. */
export interface LibheifImage {
  readonly code?: undefined;
  readonly image: Handle;
  readonly channels: readonly {
    readonly width: number;
    readonly height: number;
    /** Bytes from row to row. */
    readonly stride: number;
    readonly data: Uint8Array;
  }[];
}

/** The functions of libheif-js that this package calls. */
export interface Libheif {
  /** All of WebAssembly's memory. */
  readonly HEAPU8: Uint8Array;
  readonly heif_error_code: { readonly heif_error_Ok: unknown };
  readonly heif_colorspace: { readonly heif_colorspace_RGB: unknown };
  readonly heif_chroma: { readonly heif_chroma_interleaved_RGB: unknown };
  heif_context_alloc(): Handle;
  heif_context_free(context: Handle): void;
  heif_context_read_from_memory(context: Handle, bytes: Uint8Array): LibheifError;
  heif_js_context_get_primary_image_handle(context: Handle): Handle | LibheifError;
  heif_image_handle_get_width(image: Handle): number;
  heif_image_handle_get_height(image: Handle): number;
  heif_image_handle_release(image: Handle): void;
  heif_js_decode_image2(
    image: Handle,
    colorspace: unknown,
    chroma: unknown,
  ): LibheifImage | (LibheifError & { readonly code: object });
  heif_image_release(image: Handle): void;
}

/** The parts of the module by which the decoder's settings are reached. */
interface Internals extends Pick<Libheif, 'HEAPU8'> {
  readonly HEAPU32: Uint32Array;
  _malloc(bytes: number): number;
  _free(pointer: number): void;
  _heif_get_decoder_descriptors(format: number, list: number, most: number): number;
  _de265_set_parameter_bool(context: number, parameter: number, value: number): void;
}

type Instance = InstanceType<WebAssemblyApi['Instance']>;
type Exports = Instance['exports'];

type Factory = (options: {
  print(text: string): void;
  printErr(text: string): void;
  instantiateWasm(imports: object, receive: (instance: Instance) => unknown): Exports;
}) => Libheif & Internals;

let isInstalled: boolean | undefined;
let opened: Libheif | undefined;

/** Whether libheif-js is installed where this package finds it. Loads nothing. */
export function isLibheifInstalled(): boolean {
  if (isInstalled === undefined) {
    try {
      packageRequire.resolve('libheif-js/package.json');
      isInstalled = true;
    } catch {
      isInstalled = false;
    }
  }
  return isInstalled;
}

/** Loads libheif-js, once. It takes about 100 ms. Throws an error that says what to install. */
export function openLibheif(): Libheif {
  opened ??= load();
  return opened;
}

/** Forgets the loaded module, so that its memory is freed; needed after it has crashed, too. */
export function dropLibheif(): void {
  opened = undefined;
}

function load(): Libheif {
  if (!isLibheifInstalled()) throw new Error(`it is HEIC; to read it, ${LIBHEIF_ADVICE}`);
  const { version } = packageRequire('libheif-js/package.json') as { readonly version: string };
  if (version !== LIBHEIF_VERSION)
    throw new Error(`it is HEIC, and libheif-js ${version} is installed; to read it, ${LIBHEIF_ADVICE}`);
  try {
    const api = ownWebAssembly();
    if (!api) throw new Error('this process has no WebAssembly');
    const factory = packageRequire('libheif-js/libheif-wasm/libheif.js') as Factory;
    const binary = readFileSync(packageRequire.resolve('libheif-js/libheif-wasm/libheif.wasm'));
    let exports: Exports = {};
    const libheif = factory({
      // Standard output may carry rows. What matters is in the errors.
      print: () => undefined,
      printErr: () => undefined,
      instantiateWasm(imports, receive) {
        const instance = new api.Instance(new api.Module(binary), imports);
        exports = instance.exports;
        receive(instance);
        return exports;
      },
    });
    keepLoopFilters(libheif, exports, api);
    return libheif;
  } catch (error) {
    throw new Error(`it is HEIC, and libheif-js does not load: ${reasonOf(error)}`, { cause: error });
  }
}

const HEVC = 1;
/** Offsets in a `heif_decoder_plugin` of version 5. */
const [ID_NAME, NEW_DECODER_2] = [40, 56];
const PLUGIN_VERSION = 5;
/** Parameters of libde265. */
const [DISABLE_DEBLOCKING, DISABLE_SAO] = [7, 8];

/**
 * A module that imports a function of three integers and exports it: tables of WebAssembly take only exported functions.
 *
 * `(module (import "e" "f" (func (param i32 i32 i32))) (export "f" (func 0)))`
 */
const THREE_INTEGERS = Buffer.from(
  ['0061736d01000000', '01070160037f7f7f00', '020701016501660000', '07050101660000'].join(''),
  'hex',
);

/**
 * Turns on HEVC's deblocking and sample-adaptive-offset filters. libheif turns them off in WebAssembly to save time. The pixels then differ
 * from those of a conforming decoder by up to 9 levels. There is no option for it, so this replaces the function with which libheif creates
 * a decoder by one that also sets the two parameters.
 */
function keepLoopFilters(libheif: Internals, exports: Exports, api: WebAssemblyApi): void {
  const table = Object.values(exports).find((value) => value instanceof api.Table);
  const plugin = findPlugin(libheif);
  if (!table || plugin === undefined) throw new Error('its HEVC decoder is not the expected one');
  const wordAt = (address: number): number => libheif.HEAPU32[address / 4]!;
  const slot = wordAt(plugin + NEW_DECODER_2);
  const create = table.get(slot) as (error: number, decoder: number, options: number) => void;
  const f = (error: number, decoder: number, options: number): void => {
    create(error, decoder, options);
    const made = wordAt(decoder);
    // Without a decoder, libheif reports the error.
    if (wordAt(error) !== 0 || made === 0) return;
    // The first member of the plugin's decoder is libde265's context.
    for (const parameter of [DISABLE_DEBLOCKING, DISABLE_SAO])
      libheif._de265_set_parameter_bool(wordAt(made), parameter, 0);
  };
  const wrapped = new api.Instance(new api.Module(THREE_INTEGERS), { e: { f } });
  table.set(slot, wrapped.exports['f']);
}

/** The address of libde265's plugin. */
function findPlugin(libheif: Internals): number | undefined {
  const list = libheif._malloc(4);
  const count = libheif._heif_get_decoder_descriptors(HEVC, list, 1);
  const { HEAPU8, HEAPU32 } = libheif;
  const plugin = HEAPU32[list / 4]!;
  libheif._free(list);
  const name = HEAPU32[(plugin + ID_NAME) / 4]!;
  const isExpected =
    count > 0 &&
    HEAPU32[plugin / 4] === PLUGIN_VERSION &&
    Buffer.from(HEAPU8.subarray(name, name + 8)).toString('latin1') === 'libde265';
  return isExpected ? plugin : undefined;
}
