/** What a name in the module tree denotes: a value, or why it denotes none. */
import type { Held } from '../float-view/view.js';
import type { Node, Value } from '../graph.js';
import { otherForm } from './other-form.js';

/** What a module path denotes. */
export type ModuleReading =
  | { readonly kind: 'value'; readonly value: Value; readonly why: string }
  /** The value is not in the file. */
  | { readonly kind: 'folded'; readonly why: string; readonly instead?: string | undefined }
  /** It may be one of several nodes, and the file does not say which. */
  | { readonly kind: 'unsure'; readonly why: string; readonly candidates: readonly Node[] }
  | { readonly kind: 'clash'; readonly readings: readonly { readonly path: string; readonly value: Value }[] }
  | { readonly kind: 'outputs'; readonly node: Node };

/** The same, in the tensors of the file. */
export type PathReading =
  | ({ readonly kind: 'value'; readonly why: string } & Held)
  | Extract<ModuleReading, { readonly kind: 'folded' | 'outputs' }>
  | { readonly kind: 'unsure'; readonly why: string; readonly candidates: readonly Held[] }
  | { readonly kind: 'clash'; readonly readings: readonly { readonly path: string; readonly held: Held }[] };

/** The tensor that a node denotes: its only used output, unless that has another form than torch's. */
export function readNode(node: Node, why: string): ModuleReading {
  const form = otherForm(node);
  if (form !== undefined) return { kind: 'folded', why: form };
  const outputs = node.outputs.filter((value) => value !== undefined);
  const used = outputs.filter((value) => value.uses.length > 0);
  const value = outputs.length === 1 ? outputs[0] : used.length === 1 ? used[0] : undefined;
  return value ? { kind: 'value', value, why } : { kind: 'outputs', node };
}

/** The refusal for a module that vanished into another one. */
export function foldedBehind(path: string, instead: string | undefined): ModuleReading {
  const why = `the exporter folded module "${path}" into what follows; its own value is not in the file`;
  return { kind: 'folded', why, instead };
}
