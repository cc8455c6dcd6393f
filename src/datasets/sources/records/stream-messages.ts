/**
 * Arrow's stream format, cut into messages. The reader of apache-arrow trusts lengths and counts, so that a damaged stream can keep
 * it busy forever (docs/decisions/019-arrow-streams.md).
 */
import { reasonOf } from '../../../base/errors.js';
import { FlatTable } from '../../formats/flatbuffers.js';
import type { ByteReader } from '../items/byte-reader.js';
import { SourceFault } from '../items/source-errors.js';

/** Ids of the fields of Message, from Arrow's Message.fbs. */
const MESSAGE = { version: 0, headerType: 1, header: 2, bodyLength: 3 } as const;
/** Kinds of messages, in the order of Message.fbs. */
const KINDS = ['none', 'schema', 'dictionary', 'batch', 'tensor', 'sparse tensor'] as const;
/** The first bytes of each message since Arrow 0.15. */
export const CONTINUATION = 0xffffffff;
/** Versions V4 and V5 of the metadata. Older versions have another layout. */
const OLDEST_VERSION = 3;
const NEWEST_VERSION = 4;

/** The most bytes of a message's metadata: a schema of some hundred thousand columns. */
const MAX_METADATA_BYTES = 16 * 1024 ** 2;
/** The most bytes of a message's body, which is held in memory. */
const MAX_BODY_BYTES: number = 256 * 1024 ** 2;

/** A message whose parts are not checked yet. */
export interface ArrowMessage {
  readonly kind: (typeof KINDS)[number];
  readonly header: FlatTable;
  /** Size in bytes of the metadata with the header. */
  readonly metadataBytes: number;
  /** Its buffers. Nothing else shares this memory; it begins at a multiple of eight. */
  readonly body: Uint8Array;
  /** From 1; the schema is number 1. */
  readonly number: number;
}

/**
 * Reads the messages of a stream, up to its end mark or its end.
 *
 * @throws {@link SourceFault} where the stream is cut off or damaged, or a message is too large.
 */
export async function* readMessages(reader: ByteReader): AsyncGenerator<ArrowMessage> {
  for (let number = 1; ; number++) {
    const fail = (reason: string): Error => broken(number, reason);
    const start = reader.position;
    const head = await reader.read(8);
    // Writers may leave out the end mark.
    if (!head && reader.position === start) return;
    if (!head) throw fail('it ends before its length');
    if (head.readUInt32LE(0) !== CONTINUATION)
      throw fail('it does not begin like Arrow’s stream format (is it the file format?)');
    const metadataBytes = head.readInt32LE(4);
    if (metadataBytes === 0) return;
    if (metadataBytes < 0 || metadataBytes > MAX_METADATA_BYTES)
      throw fail(`its metadata has ${metadataBytes} bytes; the limit is ${MAX_METADATA_BYTES}`);
    const metadata = await reader.read(metadataBytes);
    if (!metadata) throw fail('it ends within its metadata');
    const { kind, header, bodyBytes } = readChecked(number, () => readHeader(metadata));
    if (bodyBytes < 0 || bodyBytes > MAX_BODY_BYTES)
      throw fail(
        `its body has ${bodyBytes} bytes; the limit is ${MAX_BODY_BYTES}: write smaller record batches`,
      );
    const body = await reader.read(bodyBytes);
    if (!body) throw fail('it ends within its body');
    yield { kind, header, metadataBytes, body, number };
  }
}

function readHeader(metadata: Uint8Array): {
  readonly kind: ArrowMessage['kind'];
  readonly header: FlatTable;
  readonly bodyBytes: number;
} {
  const message = FlatTable.root(metadata);
  const version = message.int16(MESSAGE.version);
  if (version < OLDEST_VERSION || version > NEWEST_VERSION)
    throw new RangeError(`it is of version V${version + 1}; only V4 and V5 are supported`);
  const kind = KINDS[message.uint8(MESSAGE.headerType)] ?? 'none';
  const header = message.table(MESSAGE.header);
  if (kind === 'none' || !header) throw new RangeError('it has no header');
  return { kind, header, bodyBytes: message.int64(MESSAGE.bodyLength) };
}

/** Reads a part of a message. Turns the RangeError of a failed check into a fault of the source. */
export function readChecked<Value>(number: number, read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    if (error instanceof RangeError) throw broken(number, reasonOf(error), error);
    throw error;
  }
}

/** Makes the fault of a damaged message. */
export function broken(number: number, reason: string, cause?: unknown): SourceFault {
  return new SourceFault(`message ${number} of the Arrow stream: ${reason}`, { cause });
}
