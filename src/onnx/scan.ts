/**
 * One pass over a ModelProto: names and byte ranges of everything that a rewrite decides about. Payloads of
 * tensors are seeked past; whatever the index does not name stays in the file as bytes.
 */
import { TapirError } from '../base/errors.js';
import { scanGraph, scanNode, type ScannedGraph, type ScannedNode } from './scan-graph.js';
import { FUNCTION, MODEL, normalDomain, OPSET } from './schema.js';
import { sniffFormat } from './sniff.js';
import type { ByteSource } from './source.js';
import { WireReader, type Field } from './wire.js';

/** A FunctionProto: operators defined in the file itself. */
export interface ScannedFunction {
  readonly field: Field;
  readonly domain: string;
  readonly name: string;
  readonly overload: string;
  readonly nodes: readonly ScannedNode[];
}

/** The index of a model file. */
export interface ScannedModel {
  readonly label: string;
  readonly sizeBytes: number;
  readonly irVersion: number;
  readonly producer: string;
  /** Version by domain; the default domain is "". */
  readonly opsets: ReadonlyMap<string, number>;
  /** The domain of each opset import, by its field. */
  readonly imports: ReadonlyMap<Field, string>;
  /** Every top-level field in file order. */
  readonly fields: readonly Field[];
  readonly graph: ScannedGraph;
  readonly functions: readonly ScannedFunction[];
}

/**
 * Indexes a model.
 *
 * @param source - The file; read from start to end, seeking past weights.
 * @throws {@link TapirError} `MODEL_MALFORMED` with the byte offset, and what the file looks like instead.
 */
export function scanModel(source: ByteSource): ScannedModel {
  const head = source.read(0, Math.min(512, source.sizeBytes));
  const looksLike = sniffFormat(head);
  // An ONNX file can begin with bytes that read as text; only an unmistakable sign decides before parsing.
  if (looksLike !== undefined && looksLike !== 'plain text') throw notOnnx(source, looksLike);
  try {
    return scanFields(new WireReader(source));
  } catch (error) {
    if (looksLike !== undefined && error instanceof TapirError) throw notOnnx(source, looksLike, error);
    throw error;
  }
}

function notOnnx(source: ByteSource, looksLike: string, cause?: TapirError): TapirError {
  return new TapirError(
    'MODEL_MALFORMED',
    `${source.label} is no ONNX file but looks like ${looksLike} (at byte 0)`,
    {
      details: { source: source.label, byteOffset: 0, looksLike },
      ...(cause === undefined ? {} : { cause }),
    },
  );
}

function scanFields(reader: WireReader): ScannedModel {
  const { source } = reader;
  const fields: Field[] = [];
  const opsets = new Map<string, number>();
  const imports = new Map<Field, string>();
  const functions: ScannedFunction[] = [];
  const graphFields: Field[] = [];
  let irVersion = 0;
  const producer = ['', ''];
  reader.readMessage(0, source.sizeBytes, (field) => {
    fields.push(field);
    if (field.number === MODEL.irVersion) irVersion = reader.readInt(field);
    else if (field.number === MODEL.producerName) producer[0] = reader.readText(field);
    else if (field.number === MODEL.producerVersion) producer[1] = reader.readText(field);
    else if (field.number === MODEL.graph) graphFields.push(field);
    else if (field.number === MODEL.opsetImport) {
      const { domain, version } = scanOpset(reader, field);
      opsets.set(domain, version);
      imports.set(field, domain);
    } else if (field.number === MODEL.functions) functions.push(scanFunction(reader, field));
  });
  if (graphFields.length === 0) throw reader.malformed(source.sizeBytes, 'it holds no graph');
  if (irVersion === 0) throw reader.malformed(0, 'it states no ir_version');
  return {
    label: source.label,
    sizeBytes: source.sizeBytes,
    irVersion,
    producer: producer.join(' ').trim(),
    opsets,
    imports,
    fields,
    // A message field that occurs twice is merged (protobuf's rule), here as for ONNX Runtime.
    graph: scanGraph(reader, graphFields),
    functions,
  };
}

function scanOpset(reader: WireReader, field: Field): { domain: string; version: number } {
  let domain = '';
  let version = 0;
  reader.readBody(field, (inner) => {
    if (inner.number === OPSET.domain) domain = normalDomain(reader.readText(inner));
    else if (inner.number === OPSET.version) version = reader.readInt(inner);
  });
  return { domain, version };
}

function scanFunction(reader: WireReader, field: Field): ScannedFunction {
  const nodes: ScannedNode[] = [];
  let domain = '';
  let name = '';
  let overload = '';
  reader.readBody(field, (inner) => {
    if (inner.number === FUNCTION.name) name = reader.readText(inner);
    else if (inner.number === FUNCTION.domain) domain = normalDomain(reader.readText(inner));
    else if (inner.number === FUNCTION.overload) overload = reader.readText(inner);
    else if (inner.number === FUNCTION.node) nodes.push(scanNode(reader, inner));
  });
  return { field, domain, name, overload, nodes };
}
