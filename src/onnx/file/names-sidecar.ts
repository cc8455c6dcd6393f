/**
 * The names of the source network beside a model (`MODEL.onnx.names.json`), written where the network is at hand:
 * docs/names-sidecar.md is the format.
 */
import { createHash } from 'node:crypto';
import { isPlainObject } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import { readJson } from '../../base/read-json.js';
import type { ScannedModel } from './scan/scan.js';
import { encodeText } from './wire/wire.js';

/** Names of a source network, and the tensors that hold their values. */
export interface NamesSidecar {
  readonly path: string;
  /** Tensor by name. */
  readonly names: ReadonlyMap<string, string>;
  /** Names whose value is in no tensor, and the name that exists instead, if any. */
  readonly absent: ReadonlyMap<string, string | null>;
}

const FORMAT = 'onnx-tapir-names';

/** The place of a model's names: beside it. */
export function sidecarPath(model: string): string {
  return `${model}.names.json`;
}

/** Reads the names beside a model, if there are any. Throws `NAMES_INVALID` if the file is damaged, or belongs to another graph. */
export function readNamesSidecar(path: string, model: ScannedModel): NamesSidecar | undefined {
  const invalid = (reason: string, cause?: unknown): TapirError =>
    new TapirError(
      'NAMES_INVALID',
      `the names in "${path}" cannot be used: ${reason}; write them again (models/export_torchvision.py), or remove the file`,
      { details: { path, reason }, cause },
    );
  const content = readJson(path, invalid);
  if (content === undefined) return undefined;
  if (!isPlainObject(content) || content['format'] !== FORMAT || content['version'] !== 1)
    throw invalid(`it is not of format "${FORMAT}", version 1`);
  const { names, absent = {}, model: stated } = content;
  if (!isPlainObject(names) || !isPlainObject(absent) || !isPlainObject(stated))
    throw invalid('"model", "names" and "absent" must be objects');
  if (stated['fingerprint'] !== fingerprintOf(model))
    throw invalid('its fingerprint is that of another graph, so the model was written again since');
  const tensors = Object.entries(names);
  const instead = Object.entries(absent);
  if (tensors.some(([, tensor]) => typeof tensor !== 'string'))
    throw invalid('"names" must map names to tensors');
  const known = tensorNames(model);
  const missing = tensors.find(([, tensor]) => !known.has(tensor as string));
  if (missing)
    throw invalid(`it gives "${missing[0]}" a tensor that the model does not compute: ${String(missing[1])}`);
  if (instead.some(([, name]) => typeof name !== 'string' && name !== null))
    throw invalid('"absent" must map names to names or null');
  return {
    path,
    // Checked above.
    names: new Map(tensors as [string, string][]),
    absent: new Map(instead as [string, string | null][]),
  };
}

/** What names can denote: graph inputs, and what nodes compute. */
function tensorNames({ graph }: ScannedModel): Set<string> {
  const names = new Set(graph.inputs.map((input) => input.name));
  for (const node of graph.nodes) for (const output of node.outputs) if (output !== '') names.add(output);
  return names;
}

/** Tells graphs apart: SHA-256 of the names of all node outputs in file order, a line each. */
export function fingerprintOf({ graph }: ScannedModel): string {
  const hash = createHash('sha256');
  for (const node of graph.nodes) {
    for (const output of node.outputs) {
      hash.update(encodeText(output));
      hash.update('\n');
    }
  }
  return hash.digest('hex');
}
