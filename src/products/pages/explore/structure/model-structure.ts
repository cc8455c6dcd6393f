/** What a model is made of: plain data, which a page carries as JSON. */
import type { Figures } from '../../../../onnx/tensor/measure-figures.js';

/** Sizes of a tensor: a number, a symbolic name, or null for an open one. */
export type StatedDims = readonly (number | string | null)[];

/** An output of a node by their numbers, or an input of the model: −1 − its index, and 0. */
export type ValuePlace = readonly [source: number, output: number];

/** An output of a node, or an input of the model. */
export interface StatedTensor {
  /** Name in the file. */
  readonly tensor: string;
  /** The name to request it by. */
  readonly request: string;
  readonly dtype: string | null;
  /** As the file states them; null where it does not. */
  readonly dims: StatedDims | null;
}

/** What is special about a node. */
export type NodeMark = 'folded' | 'quantized' | 'constant' | 'sizes';

/** A node, in execution order. */
export interface StructureNode {
  /** Its name in torchvision's spelling, where it has one; else that of its tensor. */
  readonly name: string;
  readonly op: string;
  readonly role: 'data' | 'shape' | 'constant';
  readonly marks: readonly NodeMark[];
  readonly outputs: readonly StatedTensor[];
  /** The tensors that it needs. */
  readonly reads: readonly ValuePlace[];
  /** Indices into {@link ModelStructure.weights}. */
  readonly weights: readonly number[];
}

/** A module, or a run of nodes that belong to no module. */
export interface StructureBox {
  readonly kind: 'module' | 'run';
  /** The path of the module, or what the run spans. */
  readonly name: string;
  /** The operators of a run; empty for a module. */
  readonly about: string;
  /** In the order in which they are drawn: nodes by their index, {@link ModelStructure.values} after the nodes, boxes by −1 − their index. */
  readonly children: readonly number[];
  /** What its name denotes; null for a run, and for a name that is refused. */
  readonly value: ValuePlace | null;
  /** Why its name is refused. */
  readonly refusal: string | null;
}

/** A name of the source network that denotes nothing in the file. */
export interface RefusedName {
  readonly name: string;
  readonly why: string;
  /** The name to request instead. */
  readonly instead: string | null;
}

/** What is in a model file, known without running it. */
export interface ModelStructure {
  /** Name of the file. */
  readonly title: string;
  /** The file as commands and code name it. */
  readonly path: string;
  readonly sizeBytes: number;
  readonly inputs: readonly StatedTensor[];
  readonly outputs: readonly ValuePlace[];
  readonly nodes: readonly StructureNode[];
  /** What stands for itself beside the nodes: the inputs of the model, and all outputs of nodes after the first. */
  readonly values: readonly ValuePlace[];
  /** The types of its parameters, those of most elements first. */
  readonly parameterTypes: readonly string[];
  /** Parameters and bytes of each initializer, and of what the bodies and the function of a node hold. */
  readonly weights: readonly (readonly [elements: number, bytes: number])[];
  /** The first one is the model. */
  readonly boxes: readonly StructureBox[];
  readonly refusals: readonly RefusedName[];
  /** Further names of modules, and what they denote. */
  readonly aliases: readonly (readonly [name: string, value: ValuePlace])[];
  /** What the exporter did, in sentences. */
  readonly facts: readonly string[];
}

/** Sizes and costs of one run. Lists have an entry per node. */
export interface ModelMeasure {
  /** Sizes of each input as it was fed; null for one that nothing reads. */
  readonly inputs: readonly (StatedDims | null)[];
  /** Sizes of each output. */
  readonly dims: readonly (readonly (readonly number[] | null)[])[];
  /** Bytes of each output. */
  readonly bytes: readonly (readonly number[])[];
  /** Multiply-accumulates; null where they cannot be counted. */
  readonly macs: readonly (number | null)[];
  /** Milliseconds; null where nothing was timed. */
  readonly milliseconds: readonly (number | null)[] | null;
}

/** A tensor that the file holds for a node. */
export interface WeightDetail {
  readonly name: string;
  readonly dtype: string;
  readonly dims: readonly number[];
  /** Why there are no figures; null where there are. */
  readonly problem: string | null;
  readonly figures: Figures | null;
  /** How many values fall into equal steps from the least to the largest. */
  readonly counts: readonly number[];
}

/** What the file holds for a node. */
export interface NodeDetail {
  /** Names and values. */
  readonly attributes: readonly (readonly [name: string, text: string])[];
  readonly weights: readonly WeightDetail[];
}
