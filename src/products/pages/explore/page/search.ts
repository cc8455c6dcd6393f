/** Finding names: those that hold the text, else those nearest to it. This file uses no part of the browser. */
import { editDistance } from '../../../../base/nearest-names.js';
import type { Id, ModelGraph } from './graph.js';

/** A name that was found. */
export interface Hit {
  readonly name: string;
  /** What has the name; undefined for a name that is refused. */
  readonly id: Id | undefined;
  /** The operator, `module`, or why the name is refused. */
  readonly about: string;
}

/** Lists all names that can be found. */
export function listNames(graph: ModelGraph): Hit[] {
  const { nodes, values, boxes, refusals, aliases } = graph.model;
  const hits = new Map<string, Hit>();
  const add = (hit: Hit): void => {
    if (hit.name !== '' && !hits.has(hit.name)) hits.set(hit.name, hit);
  };
  boxes.forEach(({ kind, name }, i) => {
    if (kind === 'module') add({ name, id: -1 - i, about: 'module' });
  });
  nodes.forEach(({ name, op }, i) => add({ name, id: i, about: op }));
  const further = values.map((_, i) => nodes.length + i);
  for (const id of further) add({ name: graph.nameOf(id), id, about: graph.kindOf(id) });
  for (const { name, why } of refusals) add({ name, id: undefined, about: why });
  for (const [name, place] of aliases) {
    const id = graph.idAt(place);
    add({ name, id, about: graph.kindOf(id) });
  }
  for (const id of [...nodes.keys(), ...further])
    add({ name: graph.tensorOf(id)?.tensor ?? '', id, about: 'tensor' });
  return [...hits.values()];
}

/** The best hits: names that begin with the text, names that hold it, names with its letters in order, then the nearest ones. */
export function findNames(names: readonly Hit[], text: string, most: number): Hit[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === '') return [];
  const ranked = names.flatMap((hit) => {
    const rank = rankOf(hit.name.toLowerCase(), wanted);
    return rank === undefined ? [] : [{ hit, rank }];
  });
  if (ranked.length > 0)
    return ranked
      .toSorted((a, b) => a.rank - b.rank || a.hit.name.length - b.hit.name.length)
      .slice(0, most)
      .map(({ hit }) => hit);
  const limit = Math.ceil(wanted.length / 2);
  return names
    .slice(0, 20_000)
    .map((hit) => ({
      hit,
      far: editDistance(hit.name.toLowerCase().slice(-wanted.length - 2), wanted, limit),
    }))
    .filter(({ far }) => far <= limit)
    .toSorted((a, b) => a.far - b.far)
    .slice(0, most)
    .map(({ hit }) => hit);
}

function rankOf(name: string, wanted: string): number | undefined {
  if (name === wanted) return 0;
  if (name.startsWith(wanted)) return 1;
  const at = name.indexOf(wanted);
  if (at > 0) return /[./:_]/.test(name[at - 1]!) ? 2 : 3;
  let place = -1;
  for (const letter of wanted) {
    place = name.indexOf(letter, place + 1);
    if (place < 0) return undefined;
  }
  return 4;
}
