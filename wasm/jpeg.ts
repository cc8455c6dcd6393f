/**
 * Decoder of baseline JPEG: the entropy-coded data of one scan, a row of MCUs at a time. AssemblyScript; `npm run wasm` builds it.
 * Standard: ITU-T T.81 (ISO/IEC 10918-1). The arithmetic is the documented one of libjpeg-turbo: `jpeg-idct.ts` and `jpeg-colour.ts`.
 *
 * Anything that a sound encoder does not write gives `BAD`: the caller then uses another decoder, which finds the error. Every address comes
 * from the caller, from the sizes in the header, or from a masked index, so damaged data cannot reach outside the layout.
 */
import { BAD, dc, decodeBlock } from './jpeg-block';
import { clearOverflow, hasOverflow, putAllFactors, transform, transformFlat } from './jpeg-idct';
import {
  BLOCK,
  COMPONENTS,
  COMPONENT_BYTES,
  QUANT,
  QUANT_BYTES,
  at,
  count,
  end,
  fake,
  resetReader,
  setInput,
} from './jpeg-state';

export { upsample } from './jpeg-colour';

const DONE: i32 = 0;
const NEEDS_INPUT: i32 = 1;
/** More than an MCU of 6 blocks can need: 384 times 27 bits, with a stuffed byte after each byte. */
const MCU_BYTES: i32 = 4096;
/** Fields of a component (i32): tables for DC and AC, target of its rows and their pitch, blocks of an MCU, the previous DC. */
const DC_TABLE: usize = 0;
const AC_TABLE: usize = 4;
const PLANE: usize = 8;
const PITCH: usize = 12;
const ACROSS: usize = 16;
const DOWN: usize = 20;
const PREDICTED: usize = 24;

let componentsEnd: usize = 0;
let mcusPerRow: i32 = 0;
let restartInterval: i32 = 0;
let untilRestart: i32 = 0;
let restarts: i32 = 0;
/** The next MCU of the row. */
let column: i32 = 0;

/** Begins a scan. Tables, components and input must be in place. */
export function startScan(components: i32, mcus: i32, interval: i32): void {
  componentsEnd = COMPONENTS + <usize>components * COMPONENT_BYTES;
  mcusPerRow = mcus;
  restartInterval = interval;
  untilRestart = interval;
  restarts = 0;
  column = 0;
  memory.fill(BLOCK, 0, 192);
  clearOverflow();
  putAllFactors();
  beginStretch();
}

/** Sets the range of the file's next bytes in memory. */
export function setScanInput(from: usize, to: usize): void {
  setInput(from, to);
}

/** Address of the first byte that has not been read. */
export function scanPosition(): usize {
  return at;
}

function beginStretch(): void {
  resetReader();
  for (let component = COMPONENTS; component < componentsEnd; component += COMPONENT_BYTES) {
    store<i32>(component, 0, PREDICTED);
  }
}

/** Whether only padding bits are left before the marker at `at`, and it is this one. Skips it. */
function passMarker(marker: i32): bool {
  const left = count - fake;
  if (left < 0 || left > 7 || at + 2 > end) return false;
  if (load<u8>(at) !== 0xff || load<u8>(at, 1) !== <u8>marker) return false;
  setInput(at + 2, end);
  return true;
}

/** Whether the scan ends here with the end mark, and no number in it was out of range. */
export function endsWell(): bool {
  return passMarker(0xd9) && !hasOverflow();
}

function decodeMcu(): bool {
  let quant = QUANT;
  for (let component = COMPONENTS; component < componentsEnd; component += COMPONENT_BYTES) {
    const dcTable = load<u32>(component, DC_TABLE);
    const acTable = load<u32>(component, AC_TABLE);
    const pitch = <usize>load<u32>(component, PITCH);
    const across = load<i32>(component, ACROSS);
    const down = load<i32>(component, DOWN);
    let predicted = load<i32>(component, PREDICTED);
    let row = <usize>load<u32>(component, PLANE) + ((<usize>(column * across)) << 3);
    for (let y = 0; y < down; y++) {
      for (let x = 0; x < across; x++) {
        const reach = decodeBlock(dcTable, acTable, predicted);
        if (reach === BAD) return false;
        predicted = dc;
        const target = row + ((<usize>x) << 3);
        if (reach === 1) transformFlat(quant, predicted, target, pitch);
        else transform(quant, target, pitch);
      }
      row += pitch << 3;
    }
    store<i32>(component, predicted, PREDICTED);
    quant += QUANT_BYTES;
  }
  return true;
}

/**
 * Decodes a row of MCUs into the planes of the components, or continues a row that needed input.
 *
 * @param isAll - Whether the input reaches the end of the file.
 * @returns `DONE`, `NEEDS_INPUT` or `BAD`.
 */
export function decodeMcuRow(isAll: bool): i32 {
  while (column < mcusPerRow) {
    if (!isAll && <i32>(end - at) < MCU_BYTES) return NEEDS_INPUT;
    if (restartInterval > 0) {
      if (untilRestart === 0) {
        if (!passMarker(0xd0 + (restarts & 7))) return BAD;
        restarts++;
        untilRestart = restartInterval;
        beginStretch();
      }
      untilRestart--;
    }
    if (!decodeMcu() || count < fake) return BAD;
    column++;
  }
  column = 0;
  return DONE;
}
