/**
 * Checks the built package: what only reads files runs beside the tests, and prints what it says when it has ended.
 *
 * `--changed [REF]` runs the tests that a change needs (changed-tests.js), and leaves the packed package to the whole check.
 */
import { spawn } from 'node:child_process';
import { changedFiles, testsOf } from './changed-tests.js';

const [flag, ref] = process.argv.slice(2);
if (flag !== undefined && flag !== '--changed') throw new Error(`unknown flag ${flag}: give --changed [REF]`);
const isChange = flag === '--changed';

const READING = ['types', 'lint', 'format:check', 'unused', isChange ? 'api -- --check' : 'package'];

/** Runs a script of package.json; false if it fails. */
function run(script, stdio, env = process.env) {
  const [name, ...words] = script.split(' ');
  const child = spawn('npm', ['run', name, ...words], { stdio, env, shell: process.platform === 'win32' });
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
  for (const script of READING) if (!(await run(script, 'pipe'))) return false;
  return true;
}

async function test() {
  if (!isChange) return run('test:all', 'inherit');
  const tests = testsOf(changedFiles(ref));
  console.log(`${tests.length} test files are needed`);
  // A guide that is needed runs whole.
  const env = { ...process.env, TAPIR_GUIDES: '1' };
  return tests.length === 0 || run(`test:all -- ${tests.join(' ')}`, 'inherit', env);
}

const passed = await Promise.all([read(), test()]);
if (passed.includes(false)) {
  console.error('check failed');
  process.exitCode = 1;
}
