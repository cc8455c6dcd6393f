/**
 * One pass over a ModelProto: names and byte ranges of everything that a rewrite decides about. It seeks past the payloads
 * of tensors; whatever the index does not name is copied as bytes.
 */
import { TapirError } from '../../base/errors.js';
import { BodyScanner, type ScannedBodies } from './scan-body.js';
import { scanGraph, type ScannedGraph } from './scan-graph.js';
import { FUNCTION, MODEL, normalDomain, OPSET } from '../wire/schema.js';
import { sniffFormat } from '../wire/sniff.js';
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
  return new TapirError(
    'MODEL_MALFORMED',
    `${source.label} is not an ONNX file; it looks like ${looksLike} (at byte 0)`,
    {
      details: { source: source.label, byteOffset: 0, looksLike },
      ...(cause === undefined ? {} : { cause }),
    },
  );
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
