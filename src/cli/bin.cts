#!/usr/bin/env node
/**
 * Starts the command. Node's thread pool, in which images are decoded, has four threads unless the environment says otherwise
 * before it is first used; loading an ES module uses it, so this is said here.
 */
const { availableParallelism } = process.getBuiltinModule('node:os');
process.env['UV_THREADPOOL_SIZE'] ??= String(Math.max(4, availableParallelism() + 2));
void import('./main.js');
