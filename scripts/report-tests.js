/**
 * Prints, from the JSON report of the last `npm run test:all`, the ten test files that took longest and each test that passed at its
 * second try only: a machine under load may explain one, a test that stands here often is to be mended.
 */
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
for (const { name, assertionResults } of testResults)
  for (const { status, failureMessages, fullName } of assertionResults)
    if (status === 'passed' && failureMessages.length > 0)
      console.log(
        `second try: ${name.slice(project.length)} > ${fullName}: ${failureMessages[0].split('\n')[0]}`,
      );
