/**
 * The products of queries with all rows of a feature. ONNX Runtime maps the files of the features: rows are read where they lie, by all cores,
 * and stay in the memory that the system has to spare.
 */
import { realpath } from 'node:fs/promises';
import { elementBytes, elementCount } from '../../../onnx/tensor/tensor.js';
import type { Device } from '../../../run/runtime/lanes/device.js';
import type { Dataset } from '../../../datasets/files/dataset.js';
import {
  locateVectors,
  readAllVectors,
  readVectors,
  type StoredVectors,
} from '../../../datasets/files/stored-vectors.js';
import { openRowSession, rowsTensor, type RowSession } from '../../linear/row-session.js';
import { storedGraph, type QueryScores, type StoredRows } from '../../linear/row-graphs.js';

/** Consecutive rows that one session compares. */
interface Group {
  readonly firstRow: number;
  readonly rows: number;
  readonly parts: readonly StoredVectors[];
  /** Of a session that stays open. */
  session?: Promise<RowSession<QueryScores>> | undefined;
  squares?: Float32Array;
}

/** Rows compared with queries. */
export interface GroupScores extends QueryScores {
  readonly firstRow: number;
  readonly rows: number;
  /** The queries of these scores: the first, and how many. */
  readonly from: number;
  readonly count: number;
  /** Whether the products are not rounded to TF32. */
  readonly isOnCpu: boolean;
  /** Reads some of the rows as float32, by their numbers, in order. */
  readonly readRows: (wanted: readonly number[]) => AsyncGenerator<ReadRows>;
}

/** Some rows that were asked for. */
export interface ReadRows {
  readonly rows: readonly number[];
  /** `rows.length × elements` numbers. */
  readonly data: Float32Array;
}

/** Size limits of the rows of a session, of the scores of a run, and of rows that are read. */
const [GROUP_BYTES, SCORE_BYTES, READ_BYTES] = [2 ** 30, 2 ** 26, 2 ** 24];
/** Sessions that stay open; each has its threads. */
const MOST_KEPT = 16;

/** The rows of a feature. */
export class StoredScores implements AsyncDisposable {
  readonly #root: string;
  readonly #groups: readonly Group[];
  readonly #elements: number;
  readonly #device: Device;
  readonly #mayKeep: boolean;

  private constructor(
    root: string,
    groups: readonly Group[],
    elements: number,
    device: Device,
    mayKeep: boolean,
  ) {
    this.#root = root;
    this.#groups = groups;
    this.#elements = elements;
    this.#device = device;
    this.#mayKeep = mayKeep && groups.length <= MOST_KEPT;
  }

  /**
   * Finds the rows.
   *
   * @param mayKeep - Whether sessions stay open for the next question.
   */
  static async open(dataset: Dataset, key: string, device: Device, mayKeep: boolean): Promise<StoredScores> {
    const elements = elementCount(dataset.manifest.features[key]!.dims);
    const parts = await locateVectors(dataset, key);
    return new StoredScores(await realpath(dataset.folder), groupsOf(parts), elements, device, mayKeep);
  }

  /** Compares queries, `[Q, D]`, with all rows: group by group, and of each group some queries after the others. */
  async *score(queries: Float32Array, signal: AbortSignal | undefined): AsyncGenerator<GroupScores> {
    const elements = this.#elements;
    const total = queries.length / elements;
    for (const group of this.#groups) {
      const { firstRow, rows } = group;
      const session = await this.#sessionOf(group, signal);
      try {
        const most = Math.max(1, Math.floor(SCORE_BYTES / (4 * rows)));
        let { squares } = group;
        for (let from = 0; from < total; from += most) {
          const count = Math.min(most, total - from);
          const asked = queries.slice(from * elements, (from + count) * elements);
          const names = squares ? (['dots'] as const) : (['dots', 'squares'] as const);
          const found: Partial<QueryScores> & Pick<QueryScores, 'dots'> = await session.runFor(
            names,
            { queries: rowsTensor(asked, elements) },
            signal,
          );
          squares ??= found.squares!;
          const readRows = (wanted: readonly number[]) => readGroup(group, wanted, elements);
          const { dots } = found;
          yield { firstRow, rows, from, count, dots, squares, isOnCpu: session.isOnCpu, readRows };
        }
        if (this.#mayKeep) group.squares = squares!;
      } finally {
        if (!this.#mayKeep) await session[Symbol.asyncDispose]();
      }
    }
  }

  async #sessionOf(group: Group, signal: AbortSignal | undefined): Promise<RowSession<QueryScores>> {
    if (!this.#mayKeep) return this.#open(group, signal);
    group.session ??= this.#open(group, undefined).catch((error: unknown) => {
      group.session = undefined;
      throw error;
    });
    return group.session;
  }

  async #open({ parts }: Group, signal: AbortSignal | undefined): Promise<RowSession<QueryScores>> {
    const rows: StoredRows[number][] = [];
    for (const part of parts) {
      const dims = [part.rows, this.#elements];
      if (!part.at) rows.push({ dims, data: await readAllVectors(part) });
      else {
        const { dtype, offset } = part.at;
        const length = part.rows * this.#elements * elementBytes(dtype);
        rows.push({ dtype, dims, external: { location: part.location, offset, length } });
      }
    }
    const options = { device: this.#device, folder: this.#root, signal };
    return openRowSession(storedGraph(rows, this.#elements), options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const group of this.#groups) {
      const session = await group.session?.catch(() => undefined);
      group.session = undefined;
      await session?.[Symbol.asyncDispose]();
    }
  }
}

function groupsOf(parts: readonly StoredVectors[]): Group[] {
  const groups: { firstRow: number; rows: number; parts: StoredVectors[]; bytes: number }[] = [];
  for (const part of parts) {
    const { elements } = part.file;
    const bytes = part.rows * elements * elementBytes(part.at?.dtype ?? 'float32');
    const last = groups.at(-1);
    if (last && last.bytes + bytes <= GROUP_BYTES) {
      last.parts.push(part);
      last.rows += part.rows;
      last.bytes += bytes;
    } else groups.push({ firstRow: part.firstRow, rows: part.rows, parts: [part], bytes });
  }
  return groups;
}

async function* readGroup(
  { parts }: Group,
  wanted: readonly number[],
  elements: number,
): AsyncGenerator<ReadRows> {
  const most = Math.max(1, Math.floor(READ_BYTES / (4 * Math.max(1, elements))));
  let at = 0;
  for (const part of parts) {
    const end = part.firstRow + part.rows;
    while (at < wanted.length && wanted[at]! < end) {
      let to = at;
      while (to < wanted.length && wanted[to]! < end && to - at < most) to++;
      const rows = wanted.slice(at, to);
      yield { rows, data: await readVectors(part, rows) };
      at = to;
    }
  }
}
