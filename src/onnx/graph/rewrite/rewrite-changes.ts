/** The changes of one step to the nodes of a rewrite. */
import type { NewNode, NewTensor } from '../../file/wire/write-model.js';
import type { Node } from '../graph.js';
import { editOf, type NodeEdit, type Rewrite } from './rewrite.js';

/** A {@link NodeEdit} while it is made. */
interface EditDraft extends NodeEdit {
  readonly before: NewNode[];
  instead?: readonly NewNode[];
  readonly inputs: Map<number, string>;
  readonly outputs: Map<number, string>;
  name?: string;
}

/** Collects what happens to nodes of the source, on top of what earlier steps did, and tensors. */
export class RewriteChanges {
  readonly tensors: NewTensor[] = [];
  readonly #rewrite: Rewrite;
  readonly #drafts = new Map<Node, EditDraft>();

  constructor(rewrite: Rewrite) {
    this.#rewrite = rewrite;
  }

  /** The edit of a node, to be changed. */
  editOf(node: Node): EditDraft {
    let draft = this.#drafts.get(node);
    if (draft) return draft;
    const { before, inputs, outputs, ...others } = editOf(this.#rewrite, node);
    draft = { ...others, before: [...before], inputs: new Map(inputs), outputs: new Map(outputs) };
    this.#drafts.set(node, draft);
    return draft;
  }

  /** The rewrite with the changes. */
  get rewrite(): Rewrite {
    const { edits, tensors } = this.#rewrite;
    return {
      ...this.#rewrite,
      edits: new Map([...edits, ...this.#drafts]),
      tensors: [...tensors, ...this.tensors],
    };
  }
}
