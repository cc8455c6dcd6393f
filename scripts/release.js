/**
 * Makes what a release publishes, in build/release: the tarball, the wheel of the Python package, the tarball's bill of materials
 * (CycloneDX and SPDX) and checksums. Refuses a dependency under a licence that nobody here has read, and a tarball or a wheel that a
 * second build of the same commit does not repeat. Without the Python package index there is no wheel, and it says so.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const project = fileURLToPath(new URL('..', import.meta.url));
const release = join(project, 'build/release');
/** Licences of what is installed with the package. libvips inside sharp is a shared library of the user, as the LGPL asks. */
const LICENCES = new Set([
  'MIT',
  'Apache-2.0',
  'BSD-3-Clause',
  'ISC',
  '0BSD',
  '(MIT OR CC0-1.0)',
  'LGPL-3.0-or-later',
  'Apache-2.0 AND LGPL-3.0-or-later',
  'Apache-2.0 AND LGPL-3.0-or-later AND MIT',
]);

const run = (cwd, command, ...args) =>
  execFileSync(command, args, {
    cwd,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

const tools = mkdtempSync(join(tmpdir(), 'tapir-wheel-'));
/** Whether the index has what builds a wheel. The two builds use the same. */
const hasIndex = (() => {
  const words = ['download', '--quiet', '--no-deps', '--retries', '1', '--dest', tools, 'setuptools>=77'];
  try {
    execFileSync('python3', ['-m', 'pip', ...words], { stdio: 'ignore', timeout: 120_000 });
    return true;
  } catch {
    console.log('NOT BUILT: the wheel of the Python package: pip finds no package index');
    return false;
  }
})();

function buildWheel(clone, into) {
  const env = { ...process.env, SOURCE_DATE_EPOCH: run(clone, 'git', 'log', '-1', '--format=%ct').trim() };
  const words = ['wheel', '--quiet', '--no-deps', '--no-index', '--find-links', tools, '--wheel-dir', into];
  execFileSync('python3', ['-m', 'pip', ...words, join(clone, 'integrations/python')], {
    env,
    stdio: 'inherit',
  });
  const { version } = JSON.parse(readFileSync(join(clone, 'package.json'), 'utf8'));
  const wheel = `onnx_tapir-${version}-py3-none-any.whl`;
  if (!readdirSync(into).includes(wheel))
    throw new Error(`the Python package has another version than ${version}`);
}

/** Builds and packs the commit that is checked out, without what git does not know. Returns the checksums. */
function packCommit(into) {
  const folder = mkdtempSync(join(tmpdir(), 'tapir-release-'));
  try {
    run(folder, 'git', 'clone', '--quiet', '--shared', project, 'clone');
    const clone = join(folder, 'clone');
    symlinkSync(join(project, 'node_modules'), join(clone, 'node_modules'));
    run(clone, 'npm', 'run', '--silent', 'build');
    mkdirSync(into, { recursive: true });
    run(clone, 'npm', 'pack', '--silent', '--pack-destination', into);
    if (hasIndex) buildWheel(clone, into);
    return readdirSync(into).map((file) => [file, sha256(readFileSync(join(into, file)))]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function checkLicences() {
  const { packages } = JSON.parse(readFileSync(join(project, 'package-lock.json'), 'utf8'));
  const unread = Object.entries(packages)
    .filter(([path, { dev, license }]) => path !== '' && !dev && !LICENCES.has(license))
    .map(([path, { license }]) => `${path}: ${license ?? 'no licence'}`);
  if (unread.length > 0) throw new Error(`licences to read first:\n${unread.join('\n')}`);
}

function listParts(format) {
  return JSON.parse(
    run(project, 'npm', 'sbom', '--package-lock-only', '--omit', 'dev', '--sbom-format', format),
  );
}

checkLicences();
rmSync(release, { recursive: true, force: true });
const built = packCommit(release);
const again = join(release, 'again');
if (JSON.stringify(packCommit(again)) !== JSON.stringify(built))
  throw new Error('two builds of this commit give other bytes');
for (const folder of [again, tools]) rmSync(folder, { recursive: true });
const [tarball, first] = built.find(([file]) => file.endsWith('.tgz'));
// npm writes the moment and a random identity into each: here they follow from the commit, so that these files repeat as well.
const created = new Date(run(project, 'git', 'log', '-1', '--format=%cI').trim())
  .toISOString()
  .replace(/\.\d+/, '');
const cyclonedx = listParts('cyclonedx');
cyclonedx.metadata.timestamp = created;
delete cyclonedx.serialNumber;
const spdx = listParts('spdx');
spdx.creationInfo.created = created;
spdx.documentNamespace = `https://spdx.org/spdxdocs/${tarball}-${first}`;
for (const [name, parts] of [
  ['sbom.cdx.json', cyclonedx],
  ['sbom.spdx.json', spdx],
])
  writeFileSync(join(release, name), `${JSON.stringify(parts, null, 2)}\n`);
const sums = readdirSync(release).map((file) => `${sha256(readFileSync(join(release, file)))}  ${file}\n`);
writeFileSync(join(release, 'SHA256SUMS'), sums.join(''));
console.log(`${sums.join('')}two builds of this commit give the same bytes`);
