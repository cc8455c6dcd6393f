/** Code in the documentation compiles: every `ts` fence of the sources and of the Markdown files. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { projectPath } from './support/fixtures.js';

// Below the project, so that the package resolves by its own name.
const folder = projectPath('.docs-test');
mkdirSync(folder, { recursive: true });
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Fence {
  readonly where: string;
  readonly code: string;
}

function fencesOf(file: string): Fence[] {
  const text = readFileSync(projectPath(file), 'utf8');
  const isMarkdown = file.endsWith('.md');
  const pattern = isMarkdown ? /^```ts\n([\s\S]*?)^```/gm : /^ \* ```ts\n([\s\S]*?)^ \* ```/gm;
  return [...text.matchAll(pattern)].map((match, i) => ({
    where: `${file} #${i + 1}`,
    code: isMarkdown ? match[1]! : match[1]!.replace(/^ \* ?/gm, ''),
  }));
}

const sources = readdirSync(projectPath('src'), { recursive: true, encoding: 'utf8' }).filter((file) =>
  file.endsWith('.ts'),
);
const fences = [
  ...sources.map((file) => `src/${file}`),
  'README.md',
  'CONTRIBUTING.md',
  'models/README.md',
  'docs/guides/slurm-kubernetes.md',
].flatMap(fencesOf);

function compile(files: readonly Fence[]): string {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  files.forEach(({ where, code }, i) =>
    writeFileSync(join(folder, `fence-${i}.ts`), `// ${where}\n${code}\nexport {};\n`),
  );
  const config = {
    extends: '../tsconfig.json',
    compilerOptions: { noUnusedLocals: false },
    include: ['*.ts'],
  };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
  try {
    execFileSync(process.execPath, [projectPath('node_modules/typescript/bin/tsc'), '-p', folder], {
      encoding: 'utf8',
    });
    return '';
  } catch (error) {
    return (error as { stdout: string }).stdout;
  }
}

describe('code in the documentation', () => {
  it('is there: every exported function has an example', () => {
    const functions = [
      'openModel',
      'getGraphNodeNames',
      'pruneModel',
      'createFeatureExtractor',
      'createTransform',
      'loadImage',
      'embedImages',
      'embedFolder',
      'embedStream',
      'embedTransformStream',
      'chunkSizes',
      'DataParallel.create',
      'listDevices',
      'mergeDataset',
      'distributedSampler',
    ];
    for (const name of functions)
      expect(
        fences.some(({ code }) => code.includes(`${name}(`)),
        name,
      ).toBe(true);
  });

  it('compiles', () => expect(compile(fences)).toBe(''));

  it('would not compile if it were wrong', () => {
    const wrong = { where: 'seeded', code: "import { noSuchThing } from 'onnx-tapir';" };
    expect(compile([wrong])).toContain('noSuchThing');
  });
});
