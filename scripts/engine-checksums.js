/** Writes docs/engines.md: the checksum of every file that `tapir engines install` may download, as the Python package index states it. */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ENGINE_PACKAGES } from '../build/modules/base/engine-packages.js';

const index = (process.env.PIP_INDEX_URL ?? 'https://pypi.org/simple').replace(/\/$/, '');

async function wheelsOf({ project, version }) {
  const accept = 'application/vnd.pypi.simple.v1+json';
  const { files } = await (await fetch(`${index}/${project}/`, { headers: { accept } })).json();
  const start = `${project.replaceAll('-', '_')}-${version}-`;
  return files.filter(({ filename }) => filename.startsWith(start) && filename.endsWith('.whl'));
}

const rows = await Promise.all(
  Object.entries(ENGINE_PACKAGES).map(async ([engine, { packages }]) => {
    const wheels = (await Promise.all(packages.map(wheelsOf))).flat();
    const lines = wheels.map(({ filename, hashes }) => `| ${filename} | ${hashes.sha256} |`);
    return `## ${engine}\n\n| file | SHA-256 |\n| --- | --- |\n${lines.join('\n')}\n`;
  }),
);
const path = fileURLToPath(new URL('../docs/engines.md', import.meta.url));
writeFileSync(
  path,
  `# Files of engines\n\n\`tapir engines install\` downloads these files, and checks each against the checksum that the package index states. Compare them here if the\nindex is a mirror. \`node scripts/engine-checksums.js\` writes this page.\n\n${rows.join('\n')}`,
);
execFileSync('npx', ['prettier', '--write', '--log-level', 'warn', path]);
