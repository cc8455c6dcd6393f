/** Where model bytes come from: memory, or a file read at offsets so that weights need not be loaded. */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { TapirError, reasonOf } from '../../../base/errors.js';
import { checkMachine } from '../../../base/machine-failure.js';
import { describeModels } from './list-models.js';
import { modelChanged, stampOf, type StampedFile } from '../../../base/file-stamp.js';

/**
 * Bytes that can be read at an offset. `read` returns a view that the next call may overwrite, or reads into an array of the
 * caller's and returns what it has filled of it.
 */
export interface ByteSource {
  /** How messages name it: a path, or "model bytes". */
  readonly label: string;
  readonly sizeBytes: number;
  read(offset: number, length: number, into?: Uint8Array): Uint8Array;
}

/** A file that is open for reading; close it after use. */
export interface FileSource extends ByteSource, StampedFile, Disposable {
  close(): void;
}

/** Bytes in memory as a source; reads are views, nothing is copied. */
export function memorySource(bytes: Uint8Array): ByteSource {
  return {
    label: 'model bytes',
    sizeBytes: bytes.byteLength,
    read(offset, length, into) {
      const view = bytes.subarray(offset, offset + length);
      into?.set(view);
      return into ? into.subarray(0, view.length) : view;
    },
  };
}

/**
 * Opens a file as a source. Reads are synchronous: an index pass reads a few kilobytes around the weights, which
 * takes less time than the thread-pool round trips of as many asynchronous reads.
 *
 * @throws {@link TapirError} `MODEL_UNREADABLE` if it cannot be opened or is no regular file; `TOO_MANY_OPEN_FILES`.
 */
export function openFileSource(path: string): FileSource {
  let descriptor: number;
  try {
    // Without NONBLOCK, opening a named pipe would wait for its writer, for ever.
    descriptor = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (error) {
    checkMachine(error);
    throw new TapirError('MODEL_UNREADABLE', `cannot open the model "${path}": ${reasonOf(error)}`, {
      details: { source: path, reason: reasonOf(error) },
      cause: error,
    });
  }
  const stats = fstatSync(descriptor);
  if (!stats.isFile()) {
    closeSync(descriptor);
    const reason = stats.isDirectory() ? 'it is a folder' : 'it is not a regular file';
    const advice = stats.isDirectory() ? describeModels(path) : 'give the .onnx file itself';
    const message = `cannot read the model "${path}": ${reason}; ${advice}`;
    throw new TapirError('MODEL_UNREADABLE', message, { details: { source: path, reason } });
  }
  let scratch = new Uint8Array(0);
  const close = (): void => closeSync(descriptor);
  return {
    label: path,
    path,
    sizeBytes: stats.size,
    stamp: stampOf(stats),
    read(offset, length, into) {
      if (!into && scratch.byteLength < length) scratch = new Uint8Array(length);
      const target = into ?? scratch;
      let filled = 0;
      while (filled < length) {
        const got = readSync(descriptor, target, filled, length - filled, offset + filled);
        if (got === 0) break;
        filled += got;
      }
      return target.subarray(0, filled);
    },
    close,
    [Symbol.dispose]: close,
  };
}

/** Opens the file again for copying. Throws `MODEL_CHANGED` if it was replaced or written to since it was indexed. */
export function reopenFileSource({ path, stamp }: StampedFile): FileSource {
  const source = openFileSource(path);
  if (source.stamp === stamp) return source;
  source.close();
  throw modelChanged(path);
}
