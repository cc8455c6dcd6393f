/** What a file shows of the modules of its source network. */
import type { Node } from '../graph.js';
import type { NameScheme, Place } from '../module-path.js';
import type { LostActivation } from '../float-view/view.js';

/** One module that still has nodes. */
export interface Module {
  readonly path: string;
  /** Its own nodes that carry data, not those of its children, in file order. */
  readonly own: readonly Node[];
  /** Its own nodes that carry sizes or constants only. */
  readonly aside: readonly Node[];
  /** Its own nodes, call by call; a module that runs three times has three. */
  readonly calls: readonly (readonly Node[])[];
  /** First atoms of the modules below it. */
  readonly children: ReadonlySet<string>;
  /** The first and the last node that carry data under this path. */
  readonly first: Node | undefined;
  readonly last: Node | undefined;
}

export interface ModuleTree {
  readonly scheme: NameScheme | undefined;
  readonly modules: ReadonlyMap<string, Module>;
  readonly places: ReadonlyMap<Node, Place>;
  /** Modules whose end an optimiser merged into a node of another module, with the last such node. */
  readonly takenBy: ReadonlyMap<string, Node>;
  /** Activations that a quantizer dropped, by the node before them. */
  readonly lost: ReadonlyMap<Node, LostActivation>;
  /** The nodes that stand for them. */
  readonly dropped: ReadonlySet<Node>;
  /** Whether it is the tree of a float view, so that nodes may have been written anew. */
  readonly isRewritten: boolean;
  /** Whether places of nodes were lost, and parameters tell those of layers. */
  readonly isStripped: boolean;
  /** Modules of which such an activation may have been the end, with the nodes before and after it. */
  readonly doubted: ReadonlyMap<string, readonly Node[]>;
  /** The last nodes of calls: what their modules compute. */
  readonly results: ReadonlySet<Node>;
  /**
   * The node that torchvision's list means by a leaf name. torchvision strips a trailing `_<int>` of the last atom and counts from 0 again
   * per parent. It does so for calls, and for modules that are really named so.
   */
  readonly torchvision: ReadonlyMap<string, Node>;
}
