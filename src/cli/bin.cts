#!/usr/bin/env node
/**
 * Starts the command. Node's thread pool decodes images. It has four threads unless the environment sets another number before its
 * first use, and loading an ES module already uses it. So this CommonJS file sets the number.
 */
const { availableParallelism } = process.getBuiltinModule('node:os');
process.env['UV_THREADPOOL_SIZE'] ??= String(Math.max(4, availableParallelism() + 2));
void import('./main.js').catch((error: NodeJS.ErrnoException) => {
  if (error.code !== 'EMFILE') throw error;
  // Its own modules cannot be opened, so that nothing else can say it.
  process.stderr.write(
    'tapir: this process has too many files open; raise its limit ("ulimit -n 4096" in the shell that starts it) and run again (EMFILE) [TOO_MANY_OPEN_FILES]\n',
  );
  process.exitCode = 4;
});
