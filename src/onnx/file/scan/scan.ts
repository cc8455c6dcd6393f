/**
 * One pass over a ModelProto: names and byte ranges of everything that a rewrite decides about. It seeks past the payloads
 * of tensors; whatever the index does not name is copied as bytes.
 */
import { TapirError } from '../../../base/errors.js';
import { BodyScanner, type ScannedBodies } from './scan-body.js';
import { scanGraph, type ScannedGraph } from './scan-graph.js';
import { FUNCTION, MODEL, normalDomain, OPSET } from '../wire/schema.js';
import type { ByteSource } from '../wire/source.js';
import { WireReader, type Field } from '../wire/wire.js';

/** A FunctionProto: operators defined in the file itself. */
export interface ScannedFunction {
  readonly field: Field;
  readonly domain: string;
  readonly name: string;
  readonly overload: string;
  /** What its nodes contain. */
  readonly content: ScannedBodies;
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
  /** The top-level fields that a rewrite may drop or change, in file order: all others are always copied. */
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
  // An ONNX file can begin with bytes that read as text, so only an unmistakable sign decides before parsing.
  if (looksLike !== undefined && looksLike !== 'plain text') throw notOnnx(source, looksLike);
  try {
    return scanFields(new WireReader(source));
  } catch (error) {
    if (looksLike !== undefined && error instanceof TapirError) throw notOnnx(source, looksLike, error);
    throw error;
  }
}

function notOnnx(source: ByteSource, looksLike: string, cause?: TapirError): TapirError {
  const message = `${source.label} is not an ONNX file; it looks like ${looksLike}`;
  return new TapirError('MODEL_MALFORMED', message, {
    details: { source: source.label, byteOffset: 0, looksLike },
    cause,
  });
}

const EDITABLE: ReadonlySet<number> = new Set([
  MODEL.graph,
  MODEL.opsetImport,
  MODEL.functions,
  MODEL.trainingInfo,
]);

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
    if (field.number === MODEL.irVersion) irVersion = reader.readInt(field);
    else if (field.number === MODEL.producerName) producer[0] = reader.readName(field);
    else if (field.number === MODEL.producerVersion) producer[1] = reader.readName(field);
    if (!EDITABLE.has(field.number)) return;
    reader.countPart();
    fields.push(field);
    if (field.number === MODEL.graph) graphFields.push(field);
    else if (field.number === MODEL.opsetImport) {
      const { domain, version } = scanOpset(reader, field);
      opsets.set(domain, version);
      imports.set(field, domain);
    } else if (field.number === MODEL.functions) functions.push(scanFunction(reader, field));
  });
  if (graphFields.length === 0) throw reader.malformed(source.sizeBytes, 'it holds no graph');
  if (irVersion === 0) throw reader.malformed(0, 'it has no ir_version');
  return {
    label: source.label,
    sizeBytes: source.sizeBytes,
    irVersion,
    producer: producer.join(' ').trim(),
    opsets,
    imports,
    fields,
    // Protobuf merges a message field that occurs twice, and so does ONNX Runtime.
    graph: scanGraph(reader, graphFields),
    functions,
  };
}

function scanOpset(reader: WireReader, field: Field): { domain: string; version: number } {
  let domain = '';
  let version = 0;
  reader.readBody(field, (inner) => {
    if (inner.number === OPSET.domain) domain = normalDomain(reader.readName(inner));
    else if (inner.number === OPSET.version) version = reader.readInt(inner);
  });
  return { domain, version };
}

function scanFunction(reader: WireReader, field: Field): ScannedFunction {
  const content = new BodyScanner(reader);
  let domain = '';
  let name = '';
  let overload = '';
  reader.readBody(field, (inner) => {
    if (inner.number === FUNCTION.name) name = reader.readName(inner);
    else if (inner.number === FUNCTION.domain) domain = normalDomain(reader.readName(inner));
    else if (inner.number === FUNCTION.overload) overload = reader.readName(inner);
    else if (inner.number === FUNCTION.node) content.addNode(inner);
  });
  return { field, domain, name, overload, content: content.result };
}

/** What to do with weights. */
const WEIGHTS =
  'these are weights without a network: make one of torchvision’s networks of them with "tapir models create NAME --weights FILE", or load them into an ONNX file with "tapir models load MODEL --weights FILE"';

const PATTERN_SIGNS: readonly (readonly [RegExp, string])[] = [
  // A local header of a zip, and its first name.
  [/^PK[^]{28}[^/]+\/data\.pkl/, `a PyTorch file; ${WEIGHTS}`],
  // The length of a header in JSON, in 8 bytes.
  [/^[^]{4}\0{4}\{/, `a safetensors file; ${WEIGHTS}`],
  [/^version https:\/\/git-lfs/, 'a Git LFS pointer: fetch the file itself with "git lfs pull"'],
  [
    /^\s*(<!doctype html|<html|<\?xml[^>]*>\s*<html)/i,
    'an HTML page: the download probably needs a login or another link',
  ],
  [/^\s*<\?xml/i, 'an XML document'],
  [
    /^\s*(ir_version|graph|opset_import|producer_name)\s*[:{]/,
    'ONNX in text form: convert it to the binary form first',
  ],
  [/^\s*[{[]/, 'JSON text'],
];

const MAGIC_SIGNS: readonly (readonly [number, string, string])[] = [
  [4, 'ORTM', 'an ORT format file (.ort): it cannot be cut; use the .onnx file it was made from'],
  [0, 'PK\u0003\u0004', 'a zip archive: unpack it first'],
  [0, '\u0089HDF', 'an HDF5 file (Keras .h5): convert it with tf2onnx'],
  [0, '\u001f\u008b', 'a gzip archive: unpack it first'],
  [0, '\u0089PNG', 'a PNG image'],
  [0, '\u00ff\u00d8\u00ff', 'a JPEG image'],
  [4, 'TFL3', 'a TensorFlow Lite file'],
  [0, '\u0080\u0002', `an old PyTorch file; ${WEIGHTS}`],
];

/** Says what the first bytes of a file look like, or undefined if nothing is recognised. */
function sniffFormat(head: Uint8Array): string | undefined {
  if (head.byteLength === 0) return 'an empty file';
  const latin1 = Buffer.from(head.buffer, head.byteOffset, Math.min(head.byteLength, 512)).toString('latin1');
  for (const [pattern, what] of PATTERN_SIGNS) {
    if (pattern.test(latin1)) return what;
  }
  for (const [offset, magic, what] of MAGIC_SIGNS) {
    if (latin1.startsWith(magic, offset)) return what;
  }
  return /^[\t\n\r\x20-\x7e]{8,}/.test(latin1) ? 'plain text' : undefined;
}
