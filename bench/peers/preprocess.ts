/** A JPEG → a normalised tensor: what it costs a core here, and with Pillow and the library that defines the pixels. */
import { fileURLToPath } from 'node:url';
import { format, ratios, spreadOf, type Spread } from '../measure.js';
import { inspectPython, needsPython } from './python.js';
import { runCommand, waitForQuiet, type Command } from './processes.js';

/** Each process goes over the photos so often, besides once before. */
const PASSES = 2;
const LEAST = 1.3;

/** What the scripts print. */
interface Loop {
  readonly images: number;
  readonly loopCpuS: number;
  readonly loopS: number;
  /** SHA-256 of each photo's tensor. */
  readonly digests: readonly string[];
}

export interface PreprocessReport {
  /** The library. */
  readonly peer: string;
  /** Images per CPU second of one thread. */
  readonly tapir: Spread;
  readonly theirs: Spread | null;
  /** Ours over theirs, round by round. */
  readonly ratio: Spread | null;
  /** Tensors that are the same bit for bit. */
  readonly identical: number | null;
  readonly images: number;
  /** Why there is nothing to compare with. */
  readonly skipped: string | null;
  /** Per round, the most of the cores that others used. */
  readonly othersShare: readonly number[];
}

const script = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/** The libraries, and the packages that each needs; NaFlex is transformers' processor of SigLIP 2. */
const PEERS = {
  torchvision: ['torch', 'torchvision'],
  transformers: ['torch', 'transformers'],
  naflex: ['torch', 'transformers'],
} as const;
export const PREPROCESS_PEERS = Object.keys(PEERS) as readonly (keyof typeof PEERS)[];

/** Runs both in turn; Python may be missing. */
export async function benchPreprocess(
  peer: keyof typeof PEERS,
  photos: string,
  python: string,
  rounds: number,
  waitS: number,
): Promise<PreprocessReport> {
  const skipped = needsPython(inspectPython(python), ['numpy', 'PIL', ...PEERS[peer]]) ?? null;
  const work = [photos, String(PASSES), peer];
  const ours: Command = {
    file: process.execPath,
    args: [script('preprocess_tapir.js'), ...work],
    // One thread for files and pixels: what Python has.
    env: { UV_THREADPOOL_SIZE: '1', VIPS_CONCURRENCY: '1' },
  };
  const theirs: Command = {
    file: python,
    args: [script('preprocess_python.py'), ...work],
    env: { PYTHONDONTWRITEBYTECODE: '1' },
  };
  const commands = { tapir: ours, ...(skipped === null ? { [peer]: theirs } : {}) };
  const loops: Record<string, Loop[]> = { tapir: [], [peer]: [] };
  const othersShare: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const shares: number[] = [];
    for (const [name, command] of Object.entries(commands)) {
      await waitForQuiet(waitS);
      const run = await runCommand(command);
      loops[name]!.push(run.printed as unknown as Loop);
      shares.push(run.othersShare);
    }
    othersShare.push(Math.max(...shares));
  }
  const rates = (name: string): number[] => loops[name]!.map(({ images, loopCpuS }) => images / loopCpuS);
  const [a, b] = [loops['tapir']![0]!.digests, loops[peer]![0]?.digests];
  return {
    peer,
    tapir: spreadOf(rates('tapir')),
    theirs: b ? spreadOf(rates(peer)) : null,
    ratio: b ? ratios(rates('tapir'), rates(peer)) : null,
    identical: b ? a.filter((digest, i) => digest === b[i]).length : null,
    images: a.length,
    skipped,
    othersShare,
  };
}

export function printPreprocess(report: PreprocessReport): void {
  const { peer, tapir, theirs, ratio, identical, images, skipped, othersShare } = report;
  console.log(`\nJPEG → tensor, images per CPU second of one thread\n  tapir        ${format(tapir, 0)}`);
  if (theirs === null || ratio === null) console.log(`SKIPPED ${peer}: ${skipped}`);
  else {
    console.log(`  ${peer.padEnd(12)} ${format(theirs, 0)}`);
    const verdict = `${ratio.median >= LEAST ? 'ok' : 'MISSED'}: >= ${LEAST}`;
    console.log(`  ratio        ${format(ratio)}   ${verdict}`);
    console.log(`  the same bit for bit: ${identical} of ${images} tensors`);
  }
  const shares = othersShare.map((share) => `${(100 * share).toFixed(0)} %`).join(', ');
  console.log(`  others used at most, per round: ${shares} of the cores`);
}
