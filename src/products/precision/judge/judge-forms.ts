/** The judge: the same batches through several forms of a model. How near each is to the exact one, how fast, and what it holds. */
import { lackOf } from '../../../run/runtime/capabilities/capabilities.js';
import { compareBatches } from '../../../datasets/embed/precision-check.js';
import type { Float32Comparison } from '../../../datasets/records/float32-comparison.js';
import { createBreathe } from '../../../onnx/tensor/vectors/breathe.js';
import { takeRow } from '../../../onnx/tensor/rows.js';
import type { Extractor } from '../../../extract/extractor.js';
import type { Tensor } from '../../../onnx/tensor/tensor.js';
import { OutputComparer } from '../compare/compare-outputs.js';
import { timeInTurns, type Speed } from './time-in-turns.js';

/** Rows that every form runs. */
export interface JudgedBatch {
  readonly rows: number;
  readonly run: (extractor: Extractor) => Promise<Readonly<Record<string, Tensor>>>;
}

/** An open form, and how much memory of this process opening it took. */
export interface OpenForm {
  readonly extractor: Extractor;
  readonly bytes: number;
}

/** What forms are compared with; it may be one of them, and stays open. */
export interface Reference<Form> extends OpenForm {
  readonly form: Form | undefined;
  /** How many classes the model names. */
  readonly classes: number | undefined;
}

/** How near the outputs of a form are to those of the reference. */
export interface Nearness {
  readonly compared: Float32Comparison;
  /** The least share of the ten nearest neighbours that stay, of any output; null for fewer than twelve rows. */
  readonly neighbours: number | null;
  /** The least share of rows whose highest score is at the same class, of any output that has scores; null without one. */
  readonly top1: number | null;
}

/** What was found of a form. */
export interface Judged<Form> {
  readonly form: Form;
  /** Why it does not run here; null if it does. */
  readonly reason: string | null;
  readonly speed: Speed | null;
  /** How much the memory of this process grew as it was opened and first run. On a GPU, that is the host's part. */
  readonly memoryBytes: number | null;
  /** Null without a reference. */
  readonly near: Nearness | null;
}

/** What the judge needs. */
export interface Trial<Form> {
  readonly open: (form: Form) => Promise<Extractor>;
  /** One or more; the first is timed. */
  readonly batches: readonly JudgedBatch[];
  readonly reference?: Reference<Form>;
  readonly signal?: AbortSignal | undefined;
}

const NEIGHBOURS = 10;

/** A form is given up after its first batch if that took longer than this, and so many times as long as the reference's. */
const GIVEN_UP = { ms: 5000, times: 20 } as const;

/** Opens a form. */
export async function openForm(open: () => Promise<Extractor>): Promise<OpenForm> {
  const before = process.memoryUsage.rss();
  const extractor = await open();
  return { extractor, bytes: Math.max(0, process.memoryUsage.rss() - before) };
}

/** Opens and compares one form after the other, times all in turns, and closes them. Forms that cannot run here are a result. */
export async function judgeForms<Form>(
  forms: readonly Form[],
  { open, batches, reference, signal }: Trial<Form>,
): Promise<readonly Judged<Form>[]> {
  const opened: Extractor[] = [];
  const running = new Map<Form, Extractor>();
  const truth = reference && (await runReference(reference, batches));
  const judgeForm = async (form: Form): Promise<Judged<Form>> => {
    signal?.throwIfAborted();
    if (reference && form === reference.form) {
      running.set(form, reference.extractor);
      const { bytes, outputs } = truth!;
      return { ...UNMEASURED, form, memoryBytes: bytes, near: await compare(outputs) };
    }
    try {
      const own = await openForm(() => open(form));
      opened.push(own.extractor);
      const first = await runAll(own, batches.slice(0, 1));
      // A GPU in software, for example: all batches would take minutes.
      if (truth && first.ms > Math.max(GIVEN_UP.ms, GIVEN_UP.times * truth.firstMs))
        return { ...UNMEASURED, form, reason: 'much slower' };
      const rest = await runAll(own, truth ? batches.slice(1) : []);
      running.set(form, own.extractor);
      const near = truth ? await compare([...first.outputs, ...rest.outputs]) : null;
      return { ...UNMEASURED, form, memoryBytes: own.bytes + first.bytes + rest.bytes, near };
    } catch (error) {
      const reason = lackOf(error);
      if (reason === undefined) throw error;
      return { ...UNMEASURED, form, reason };
    }
  };
  const compare = (outputs: Outputs): Promise<Nearness> =>
    compareOutputs(outputs, truth!.outputs, reference!.classes, signal);
  try {
    const judged: Judged<Form>[] = [];
    // oxlint-disable-next-line no-await-in-loop -- opening them side by side is no faster, and one after the other tells their memory
    for (const form of forms) judged.push(await judgeForm(form));
    const [{ run, rows }] = batches as readonly [JudgedBatch];
    const runs = Array.from(running.values(), (extractor) => () => run(extractor));
    const speeds = await timeInTurns(runs, rows);
    const speedOf = new Map([...running.keys()].map((form, k) => [form, speeds[k]!]));
    return judged.map((one) => Object.assign(one, { speed: speedOf.get(one.form) ?? null }));
  } finally {
    await Promise.all(opened.map((extractor) => extractor.close()));
  }
}

const UNMEASURED = { reason: null, speed: null, memoryBytes: null, near: null } as const;

type Outputs = readonly Readonly<Record<string, Tensor>>[];

async function runReference(
  open: OpenForm,
  batches: readonly JudgedBatch[],
): Promise<{ readonly outputs: Outputs; readonly bytes: number; readonly firstMs: number }> {
  const first = await runAll(open, batches.slice(0, 1));
  const rest = await runAll(open, batches.slice(1));
  const bytes = open.bytes + first.bytes + rest.bytes;
  return { outputs: [...first.outputs, ...rest.outputs], bytes, firstMs: first.ms };
}

/** Runs batches, with the time and the growth of memory. */
async function runAll(
  { extractor }: OpenForm,
  batches: readonly JudgedBatch[],
): Promise<{ readonly outputs: Outputs; readonly bytes: number; readonly ms: number }> {
  const before = process.memoryUsage.rss();
  const started = performance.now();
  const outputs: Readonly<Record<string, Tensor>>[] = [];
  // oxlint-disable-next-line no-await-in-loop -- a session runs one batch at a time
  for (const { run } of batches) outputs.push(await run(extractor));
  const bytes = Math.max(0, process.memoryUsage.rss() - before);
  return { outputs, bytes, ms: performance.now() - started };
}

async function compareOutputs(
  outputs: Outputs,
  exact: Outputs,
  classes: number | undefined,
  signal: AbortSignal | undefined,
): Promise<Nearness> {
  const comparers = new Map(Object.keys(exact[0]!).map((key) => [key, new OutputComparer(classes)]));
  let index = 0;
  for (const [k, features] of outputs.entries()) {
    const truth = exact[k]!;
    const images = Object.values(truth)[0]!.dims[0]!;
    for (let row = 0; row < images; row++, index++)
      for (const [key, comparer] of comparers)
        comparer.add(index, null, takeRow(truth[key]!, row), takeRow(features[key]!, row));
  }
  const breathe = createBreathe(signal);
  const found = await Promise.all(
    Array.from(comparers.values(), (comparer) => comparer.finish(NEIGHBOURS, breathe)),
  );
  return {
    compared: await compareBatches(outputs, exact),
    neighbours: leastOf(found.map(({ recall }) => recall && recall.mean)),
    top1: leastOf(found.map(({ top1 }) => top1)),
  };
}

function leastOf(shares: readonly (number | null)[]): number | null {
  const known = shares.filter((share) => share !== null);
  return known.length === 0 ? null : Math.min(...known);
}
