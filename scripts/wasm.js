/**
 * Compiles `wasm/` (AssemblyScript) into `src/photos/images/simd/simd-binary.ts`. Base64 in a TypeScript file needs no configuration of tsc
 * or of a bundler. With `--check` it writes nothing, and fails unless the file is what the sources give.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import asc from 'assemblyscript/asc';

const project = fileURLToPath(new URL('..', import.meta.url));
const sources = ['wasm/resample.ts', 'wasm/jpeg.ts'];
const target = 'src/photos/images/simd/simd-binary.ts';
/** No runtime and no imports: `use abort=` leaves out the one that assertions would need. */
const flags = ['-O3', '--noAssert', '--runtime', 'stub', '--use', 'abort=', '--enable', 'simd'];
/** Pages of 64 KiB; `src/photos/images/simd/simd-module.ts` grows it. */
const memory = ['--initialMemory', '1', '--maximumMemory', '256'];

async function compile() {
  let binary;
  let messages = '';
  const { error } = await asc.main([...sources, ...flags, ...memory, '--outFile', 'module.wasm'], {
    readFile: (name) => {
      try {
        return readFileSync(join(project, name), 'utf8');
      } catch {
        return null;
      }
    },
    writeFile: (_name, contents) => {
      binary = contents;
    },
    listFiles: () => [],
    stderr: {
      write: (chunk) => {
        messages += chunk;
      },
    },
  });
  if (error) throw new Error(`${sources.join(', ')} does not compile\n${messages}`, { cause: error });
  return Buffer.from(binary);
}

const binary = await compile();
const text = `/** Made by \`npm run wasm\` from ${sources.join(', ')}: do not edit. */
export const SIMD_BINARY: string =
  '${binary.toString('base64')}';
`;

if (!process.argv.includes('--check')) {
  writeFileSync(join(project, target), text);
  console.log(`${target}: a module of ${binary.length} bytes`);
} else if (readFileSync(join(project, target), 'utf8').replaceAll('\r\n', '\n') !== text) {
  console.error(
    `${target} is not what ${sources.join(', ')} and the pinned assemblyscript give: run "npm run wasm" and commit the result ` +
      '(after "npm ci", which installs the compiler of package-lock.json)',
  );
  process.exitCode = 1;
} else {
  console.log(`ok  ${target} is what ${sources.join(', ')} give (${binary.length} bytes)`);
}
