/** Checks the built package: what only reads files runs beside the tests, and prints what it says when it has ended. */
import { spawn } from 'node:child_process';

const READING = ['types', 'lint', 'format:check', 'unused', 'package'];

/** Runs a script of package.json; false if it fails. */
function run(name, stdio) {
  const child = spawn('npm', ['run', name], { stdio, shell: process.platform === 'win32' });
  const printed = [];
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => printed.push(chunk));
  return new Promise((resolve) => {
    child.on('close', (code) => {
      process.stdout.write(Buffer.concat(printed));
      resolve(code === 0);
    });
  });
}

async function read() {
  for (const name of READING) if (!(await run(name, 'pipe'))) return false;
  return true;
}

const passed = await Promise.all([read(), run('test:all', 'inherit')]);
if (passed.includes(false)) {
  console.error('check failed');
  process.exitCode = 1;
}
