#!/usr/bin/env node
/**
 * Starts the command. Node's thread pool decodes images. It has four threads unless the environment sets another number before its
 * first use, and loading an ES module already uses it. So this CommonJS file sets the number.
 */
const { availableParallelism } = process.getBuiltinModule('node:os');
process.env['UV_THREADPOOL_SIZE'] ??= String(Math.max(4, availableParallelism() + 2));
void import('./main.js');
