/**
 * Kills its process in the middle of a change to a folder, as a power failure would: preload it with `--import`. It counts the
 * changes that this process makes to files in the folder TORN_DIR. At change number TORN_AT, it kills the process before the change,
 * after it, or (for a write) after a part of the bytes. Whatever was not synced is then lost at random: the ends of files are cut or
 * zero, and the latest creations, renames and removals are undone. Metadata reaches the disk in order, as on ext4 and XFS: a sync
 * of any file or folder makes all earlier names permanent.
 *
 * With TORN_COUNT, it kills nothing, and writes the number of changes to that file.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { basename, resolve, sep } from 'node:path';
import { isMainThread } from 'node:worker_threads';

const { TORN_DIR, TORN_AT, TORN_SEED, TORN_COUNT } = process.env;
const root = resolve(TORN_DIR ?? '.') + sep;
const { promises } = fs;
const original = { ...promises };
const sync = { ...fs };

let state = Number(TORN_SEED ?? 0) >>> 0;
/** mulberry32, as in src/base/random.ts. */
function random() {
  state = (state + 0x6d2b79f5) >>> 0;
  let mixed = Math.imul(state ^ (state >>> 15), state | 1);
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
}

let changes = 0;
/** Functions that undo the changes of names since the latest sync, oldest first. */
let unsynced = [];
/** The number of synced bytes of each file that was opened for writing. */
const synced = new Map();

/** The lock must survive: after a power failure, nobody can tell whether the lock of another machine is held. */
const isWatched = (path) =>
  typeof path === 'string' && resolve(path).startsWith(root) && !basename(path).startsWith('.tapir-lock');

function fail() {
  for (const [path, length] of synced) {
    if (!sync.existsSync(path)) continue;
    const { size } = sync.statSync(path);
    const kept = length + Math.floor(random() * (size - length + 1));
    if (kept >= size) continue;
    sync.truncateSync(path, kept);
    // The file system may have made room for bytes that it has not written.
    if (random() < 0.5) sync.truncateSync(path, size);
  }
  const lost = Math.floor(random() * (unsynced.length + 1));
  for (const undo of unsynced.slice(unsynced.length - lost).reverse()) {
    try {
      undo();
    } catch {
      // A folder that holds the lock stays.
    }
  }
  process.kill(process.pid, 'SIGKILL');
  // SIGKILL ends the process before the next turn, but not always at once.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10_000);
}

/** Runs a change, or fails in the middle of it. */
async function change(work, undoOf = () => undefined, tear = () => undefined) {
  const isLast = ++changes === Number(TORN_AT ?? Infinity);
  const how = isLast ? Math.floor(3 * random()) : undefined;
  if (how === 0) fail();
  if (how === 1) {
    tear();
    fail();
  }
  const undo = undoOf();
  const result = await work();
  if (undo) unsynced.push(undo);
  if (isLast) fail();
  return result;
}

/** Returns a function that restores a path to what it is now. */
function restorer(path) {
  const stats = sync.lstatSync(path, { throwIfNoEntry: false });
  if (stats?.isFile()) {
    const bytes = sync.readFileSync(path);
    return () => sync.writeFileSync(path, bytes);
  }
  return stats ? undefined : () => sync.rmSync(path, { force: true });
}

function watch(handle, path) {
  const write = handle.write.bind(handle);
  const toDisk = handle.sync.bind(handle);
  const truncate = handle.truncate.bind(handle);
  handle.write = (bytes, offset, length, position) => {
    const tear = () => sync.writeSync(handle.fd, bytes, offset, Math.floor(random() * length), position);
    synced.set(path, Math.min(synced.get(path) ?? 0, position));
    return change(() => write(bytes, offset, length, position), undefined, tear);
  };
  handle.truncate = (length) => change(() => truncate(length));
  handle.sync = async () => {
    const result = await change(toDisk);
    unsynced = [];
    const stats = sync.fstatSync(handle.fd);
    if (stats.isFile()) synced.set(path, stats.size);
    return result;
  };
}

if (isMainThread && TORN_DIR !== undefined) {
  promises.open = async (path, flags = 'r', mode) => {
    if (!isWatched(path) && resolve(String(path)) + sep !== root) return original.open(path, flags, mode);
    if (flags === 'r') {
      const handle = await original.open(path, flags, mode);
      watch(handle, path);
      return handle;
    }
    const handle = await change(
      () => original.open(path, flags, mode),
      () => (sync.existsSync(path) ? undefined : () => sync.rmSync(path, { force: true })),
    );
    synced.set(path, flags === 'w' ? 0 : (await handle.stat()).size);
    watch(handle, path);
    return handle;
  };
  promises.rename = (from, to) => {
    if (!isWatched(to)) return original.rename(from, to);
    return change(
      async () => {
        await original.rename(from, to);
        // The bytes are as unsynced as before, under the new name.
        if (synced.has(from)) synced.set(to, synced.get(from));
        else synced.delete(to);
        synced.delete(from);
      },
      () => {
        const [before, after] = [restorer(from), restorer(to)];
        return () => {
          before?.();
          after?.();
        };
      },
    );
  };
  for (const name of ['rm', 'rmdir', 'mkdir', 'truncate']) {
    promises[name] = (path, options) => {
      if (!isWatched(path)) return original[name](path, options);
      const undo = () => {
        if (name === 'mkdir') return sync.existsSync(path) ? undefined : () => sync.rmdirSync(path);
        if (name === 'rmdir') return sync.existsSync(path) ? () => sync.mkdirSync(path) : undefined;
        return sync.existsSync(path) ? restorer(path) : undefined;
      };
      return change(() => original[name](path, options), undo);
    };
  }
  syncBuiltinESMExports();
  if (TORN_COUNT !== undefined) process.on('exit', () => sync.writeFileSync(TORN_COUNT, String(changes)));
}
