/** Writes the table in src/learn/hub/wheels/engine-wheels.ts: the wheels of the pinned packages, with the checksums that the package index states. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ENGINE_PACKAGES } from '../build/modules/base/engine-packages.js';

const index = (process.env.PIP_INDEX_URL ?? 'https://pypi.org/simple').replace(/\/$/, '');

/** The end of a wheel's name on each system. */
const ENDS = {
  'linux x64': /manylinux\w+_x86_64\.whl$/,
  'linux arm64': /manylinux\w+_aarch64\.whl$/,
  'darwin arm64': /macosx_\d+_0_(?:arm64|universal2)\.whl$/,
  'win32 x64': /win_amd64\.whl$/,
};

async function wheelsOf({ project, version }) {
  const accept = 'application/vnd.pypi.simple.v1+json';
  const { files } = await (await fetch(`${index}/${project}/`, { headers: { accept } })).json();
  const start = `${project.replaceAll('-', '_')}-${version}-`;
  const wheels = files.filter(({ filename }) => filename.startsWith(start) && filename.endsWith('.whl'));
  return wheels.toSorted((a, b) => rank(b.filename) - rank(a.filename));
}

/** The newest Python first; those without a lock for all threads last. */
function rank(filename) {
  const [, minor = 0, threads] = /-cp3(\d+)-cp3\d+(t?)-/.exec(filename) ?? [];
  return Number(minor) - (threads ? 1000 : 0);
}

const lines = {};
for (const { packages, systems } of Object.values(ENGINE_PACKAGES))
  for (const one of packages)
    for (const { filename, hashes } of await wheelsOf(one))
      for (const system of Object.keys(systems))
        if (ENDS[system].test(filename)) (lines[system] ??= []).push(`${hashes.sha256}  ${filename}\n`);

const path = fileURLToPath(new URL('../src/learn/hub/wheels/engine-wheels.ts', import.meta.url));
const table = Object.entries(lines).map(([system, all]) => `  '${system}': \`\n${all.join('')}\`,\n`);
const source = readFileSync(path, 'utf8').replace(/(?<=SUMS.* = \{\n).*?(?=^\};$)/ms, table.join(''));
writeFileSync(path, source);
