/** Prints the ten test files that took longest, from the JSON report of the last `npm run test:all`. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const project = fileURLToPath(new URL('..', import.meta.url));
const { testResults } = JSON.parse(readFileSync(`${project}build/tests.json`, 'utf8'));
const files = testResults
  .map(({ name, startTime, endTime }) => ({
    name: name.slice(project.length),
    seconds: (endTime - startTime) / 1000,
  }))
  .toSorted((a, b) => b.seconds - a.seconds);
for (const { name, seconds } of files.slice(0, 10))
  console.log(`${seconds.toFixed(1).padStart(7)} s  ${name}`);
