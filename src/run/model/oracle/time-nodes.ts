/** Times every node of a model on the CPU, with ONNX Runtime's profiler. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { medianOf } from '../../../base/median.js';
import { TemporaryFolder } from '../../../base/temporary-folder.js';
import type { Node } from '../../../onnx/graph/graph.js';
import { editOf, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { wholePart } from '../../../onnx/tensor/tensor-part.js';
import type { OnnxModel } from '../open/open-model.js';
import type { ModelCosts } from './model-costs.js';
import { seededFeeds } from './seeded-feeds.js';
import { SessionHolder } from './session-holder.js';

/** Runs that count, after one that warms up. */
const RUNS = 7;
/** What the profiler adds to the name of a node. */
const SUFFIX = '_kernel_time';
/** How the profiler's file begins. */
const PROFILE = 'run';

/**
 * Times the nodes without optimisation, because each of them runs by itself then. Returns the median milliseconds of each node that ONNX
 * Runtime ran under its name: constants, and calls of functions, are missing. Throws `RUN_FAILED`, `SESSION_FAILED`, `INPUT_MISMATCH`.
 */
export async function timeNodes(
  model: OnnxModel,
  { rewrite, inputs }: ModelCosts,
  threads: number,
): Promise<ReadonlyMap<Node, number>> {
  const names = new Map([...rewrite.cut.nodes].map((node) => [`tapir/node/${node.index}`, node]));
  await using folder = await TemporaryFolder.create();
  const sessions = new SessionHolder(model);
  try {
    const form = { rewrite: renameNodes(rewrite, names), threads, profileTo: join(folder.path, PROFILE) };
    const replica = await sessions.open(form);
    const fetches = replica.facts.outputs.flatMap(({ name, isTensor }) => (isTensor ? [name] : []));
    const fed = inputs.map(({ dims }) => ({ dims: dims as readonly number[] }));
    const feeds = seededFeeds(inputs, fed, 0);
    // oxlint-disable-next-line no-await-in-loop -- one after the other: runs at once would slow each other down
    for (let run = 0; run <= RUNS; run++) await replica.run(feeds.map(wholePart), fetches);
    // The profile is written when the session ends.
    await sessions.close();
    const file = (await readdir(folder.path)).find((name) => name.startsWith(PROFILE));
    return readTimes(await readFile(join(folder.path, file!), 'utf8'), names);
  } finally {
    await sessions.close();
  }
}

/** Gives each node its own name, by which the profile can be read. */
function renameNodes(rewrite: Rewrite, names: ReadonlyMap<string, Node>): Rewrite {
  const edits = new Map(rewrite.edits);
  for (const [name, node] of names) edits.set(node, { ...editOf(rewrite, node), name });
  return { ...rewrite, edits };
}

/** An event of a profile (Chrome's trace format). */
interface ProfileEvent {
  readonly name: string;
  /** Microseconds. */
  readonly dur: number;
}

function readTimes(profile: string, names: ReadonlyMap<string, Node>): ReadonlyMap<Node, number> {
  const runs = new Map<Node, number[]>();
  for (const { name, dur } of JSON.parse(profile) as ProfileEvent[]) {
    const node = name.endsWith(SUFFIX) ? names.get(name.slice(0, -SUFFIX.length)) : undefined;
    if (!node) continue;
    const before = runs.get(node);
    if (before) before.push(dur / 1000);
    else runs.set(node, [dur / 1000]);
  }
  return new Map([...runs].map(([node, [, ...times]]) => [node, medianOf(times)]));
}
