/** A module of a network: the place where its nodes, parameters and children get their names. */
import type { NewAttribute } from '../file/wire/write-model.js';
import { pathOf, type Network, type Start, type Value } from './network.js';

type Attributes = Readonly<Record<string, NewAttribute>>;

export class Module {
  readonly network: Network;
  /** Its path, as in the keys of the state dict. */
  readonly path: string;
  /** The path with the number of the call: a module that runs twice is `relu`, then `relu_1`. */
  readonly #call: string;

  constructor(network: Network, path = '', call: string = path) {
    this.network = network;
    this.path = path;
    this.#call = call;
  }

  /** A module in this one. */
  child(name: string): Module {
    return new Module(this.network, pathOf(this.path, name), pathOf(this.#call, name));
  }

  /** Opens a module in this one. It may run several times: each call adds its own nodes. */
  call(name: string): Module {
    const path = pathOf(this.path, name);
    const before = this.network.count(`call ${path}`);
    return new Module(this.network, path, before === 0 ? path : `${path}_${before}`);
  }

  /** Calls a module that torchvision lists as a whole. The last node that `write` adds computes its value. */
  layer(name: string, channels: number, write: (layer: Module) => unknown): Value {
    const layer = this.call(name);
    write(layer);
    const listed = this.network.listedName(layer.path);
    this.network.rename(listed);
    return { name: listed, channels };
  }

  /** Calls a function that torchvision lists: `add`, `flatten`. */
  operation(
    name: string,
    channels: number,
    opType: string,
    inputs: readonly string[],
    attributes: Attributes = {},
  ): Value {
    return this.function(name, channels, () => this.node(opType, inputs, attributes));
  }

  /** Calls a function that takes several nodes. The last node that `write` adds computes its value. */
  function(name: string, channels: number, write: () => unknown): Value {
    write();
    const listed = this.network.listedName(pathOf(this.path, name));
    this.network.rename(listed);
    return { name: listed, channels };
  }

  /** Splits channels into equal parts along an axis. torchvision lists the parts as `getitem`. */
  chunk({ name, channels }: Value, count: number, axis = 1): Value[] {
    const width = channels / count;
    this.split(name, axis, Array<number>(count).fill(width));
    const parts = Array.from({ length: count }, () => this.network.listedName(pathOf(this.path, 'getitem')));
    this.network.rename(...parts);
    return parts.map((part) => ({ name: part, channels: width }));
  }

  /** Counts operations that torchvision lists as `getitem` and that have no tensor, so that later ones get the right numbers. */
  skip(times: number): void {
    for (let k = 0; k < times; k++) this.network.listedName(pathOf(this.path, 'getitem'));
  }

  /** Adds a node that torchvision does not list. Returns its tensor. */
  node(opType: string, inputs: readonly string[], attributes: Attributes = {}): string {
    return this.network.node(this.#call, opType, inputs, attributes)[0]!;
  }

  /** Splits a tensor into parts of the given sizes. Returns the parts. */
  split(tensor: string, axis: number, sizes: readonly number[]): string[] {
    const inputs = [tensor, this.network.constant(sizes)];
    return this.network.node(this.#call, 'Split', inputs, { axis }, sizes.length);
  }

  /** Adds a parameter of this module. Returns its key, which is the name of the tensor. */
  parameter(name: string, dims: readonly number[], start: Start): string {
    return this.network.parameter(pathOf(this.path, name), dims, start);
  }

  /** Puts the parameters of modules in this one at the end of the state dict, in this order: torchvision registers them so, and runs them otherwise. */
  arrange(names: readonly string[]): void {
    for (const name of names) this.network.moveToEnd(`${pathOf(this.path, name)}.`);
  }

  /**
   * Reads a parameter where torchvision lists that as a step, under the whole key with `_` for `.`: beside the network, an Identity gives
   * it that name. Returns the key.
   */
  read(key: string): string {
    const listed = this.network.listedName(pathOf(this.path, key.replaceAll('.', '_')));
    if (listed === key) return key;
    this.node('Identity', [key]);
    this.network.rename(listed);
    return key;
  }

  constant(value: Exclude<NewAttribute, string>): string {
    return this.network.constant(value);
  }

  /** Writes a part whose parameters belong to the classifier. */
  inHead<Written>(write: () => Written): Written {
    const { network } = this;
    network.isHead = true;
    const written = write();
    network.isHead = false;
    return written;
  }

  /** Parameters that are added from now on belong to the classifier. */
  startHead(): void {
    this.network.isHead = true;
  }
}
