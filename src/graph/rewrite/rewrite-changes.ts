/** The changes of one step to the kept nodes of a rewrite. */
import type { NewNode, NewTensor } from '../../onnx/wire/write-model.js';
import type { Node } from '../graph.js';
import type { Rewrite } from './rewrite.js';

/** A {@link NodePatch} while it is made. */
interface PatchDraft {
  readonly inputs: Map<number, string>;
  readonly outputs: Map<number, string>;
  name?: string;
}

/** Collects new names for what kept nodes read and give, nodes that run before them, and tensors. */
export class RewriteChanges {
  readonly tensors: NewTensor[] = [];
  readonly #rewrite: Rewrite;
  readonly #patches: Map<Node, PatchDraft>;
  readonly #before: Map<Node, readonly NewNode[]>;

  constructor(rewrite: Rewrite) {
    this.#rewrite = rewrite;
    this.#patches = new Map(
      Array.from(rewrite.patches, ([node, { inputs, outputs, ...name }]) => [
        node,
        { ...name, inputs: new Map(inputs), outputs: new Map(outputs) },
      ]),
    );
    this.#before = new Map(rewrite.before);
  }

  /** The patch of a node, to be changed. */
  patchOf(node: Node): PatchDraft {
    let patch = this.#patches.get(node);
    if (!patch) this.#patches.set(node, (patch = { inputs: new Map(), outputs: new Map() }));
    return patch;
  }

  /** Adds nodes that run before a node, after those that do already. */
  insert(before: Node, nodes: readonly NewNode[]): void {
    if (nodes.length > 0) this.#before.set(before, [...(this.#before.get(before) ?? []), ...nodes]);
  }

  /** The rewrite with the changes. */
  get rewrite(): Rewrite {
    const tensors = [...this.#rewrite.tensors, ...this.tensors];
    return { ...this.#rewrite, patches: this.#patches, before: this.#before, tensors };
  }
}
