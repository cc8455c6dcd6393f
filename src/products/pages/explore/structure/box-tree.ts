/** Nodes and the modules around them → nested boxes, in the order in which data passes them. */
import type { StructureNode } from './model-structure.js';
import { groupRuns, type Box } from './group-runs.js';

/** Builds the tree. The first box is the model. */
export function buildTree(nodes: readonly StructureNode[], containers: readonly (readonly string[])[]): Box {
  const root: Box = { kind: 'module', name: '', about: '', children: [] };
  const boxes = new Map<string, Box>();
  nodes.forEach((_, index) => {
    let parent = root;
    for (const path of containers[index]!) {
      let box = boxes.get(path);
      if (!box) {
        boxes.set(path, (box = { kind: 'module', name: path, about: '', children: [] }));
        parent.children.push(box);
      }
      parent = box;
    }
    parent.children.push(index);
  });
  const parents = parentsOf(root);
  for (const box of [root, ...boxes.values()]) {
    unwrapSingles(box, nodes);
    box.children = inOrder(box, nodes, parents);
    box.children = groupRuns(box.children, nodes);
  }
  return root;
}

/** A box around a single node of the same name says nothing that the node does not say. */
function unwrapSingles(box: Box, nodes: readonly StructureNode[]): void {
  box.children = box.children.map((child) => {
    if (typeof child === 'number' || child.children.length !== 1) return child;
    const [only] = child.children;
    return typeof only === 'number' && nodes[only]!.name === child.name ? only : child;
  });
}

type Parents = ReadonlyMap<number | Box, Box>;

function parentsOf(root: Box): Parents {
  const parents = new Map<number | Box, Box>();
  const open = [root];
  for (let box = open.pop(); box; box = open.pop())
    for (const child of box.children) {
      parents.set(child, box);
      if (typeof child !== 'number') open.push(child);
    }
  return parents;
}

/** The children of a box, each after those whose data it reads; else in execution order. */
function inOrder(box: Box, nodes: readonly StructureNode[], parents: Parents): (number | Box)[] {
  if (box.children.every((child) => typeof child === 'number')) return box.children;
  const childOf = childFinder(box, parents);
  const before = new Map<number | Box, Set<number | Box>>(box.children.map((child) => [child, new Set()]));
  for (const index of nodesIn(box)) {
    const { role, reads } = nodes[index]!;
    if (role !== 'data') continue;
    const child = childOf(index)!;
    for (const [read] of reads) {
      const source = childOf(read);
      if (source !== undefined && source !== child) before.get(child)!.add(source);
    }
  }
  const ordered = new Set<number | Box>();
  const seen = new Set<number | Box>();
  const visit = (child: number | Box): void => {
    if (seen.has(child)) return;
    seen.add(child);
    for (const source of before.get(child)!) visit(source);
    ordered.add(child);
  };
  box.children.forEach(visit);
  return [...ordered];
}

/** All nodes in a box. */
function* nodesIn(box: Box): Generator<number> {
  for (const child of box.children)
    if (typeof child === 'number') yield child;
    else yield* nodesIn(child);
}

/** Finds the child of a box that a node is in; undefined for nodes outside of the box. */
function childFinder(box: Box, parents: Parents): (index: number) => number | Box | undefined {
  const known = new Map<number | Box, number | Box | undefined>(box.children.map((child) => [child, child]));
  return (index) => {
    const path: (number | Box)[] = [];
    let at: number | Box | undefined = index;
    while (at !== undefined && !known.has(at)) {
      path.push(at);
      at = parents.get(at);
    }
    const child = at === undefined ? undefined : known.get(at);
    for (const one of path) known.set(one, child);
    return child;
  };
}
