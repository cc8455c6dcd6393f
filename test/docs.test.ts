/** The documentation: its code compiles, its links lead somewhere, and it knows every error code. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ERROR_CODES } from './support/error-codes.js';
import { projectPath } from './support/fixtures.js';

// Below the project, so that the package resolves by its own name.
const folder = projectPath('.docs-test');
mkdirSync(folder, { recursive: true });
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Fence {
  readonly where: string;
  readonly code: string;
}

function read(file: string): string {
  return readFileSync(projectPath(file), 'utf8');
}

function fencesOf(file: string): Fence[] {
  const isMarkdown = file.endsWith('.md');
  const pattern = isMarkdown ? /^```ts\n([\s\S]*?)^```/gm : /^ \* ```ts\n([\s\S]*?)^ \* ```/gm;
  return [...read(file).matchAll(pattern)].map((match, i) => ({
    where: `${file} #${i + 1}`,
    code: isMarkdown ? match[1]! : match[1]!.replace(/^ \* ?/gm, ''),
  }));
}

const listed = execFileSync('git', ['ls-files', '*.md', 'src/*.ts'], {
  cwd: projectPath('.'),
  encoding: 'utf8',
});
const files = listed
  .trim()
  .split('\n')
  .filter((file) => existsSync(projectPath(file)));
const pages = files.filter((file) => file.endsWith('.md'));
const sources = files.filter((file) => file.endsWith('.ts'));
// The reference repeats the fences of the sources.
const fences = [...sources, ...pages.filter((page) => !page.startsWith('docs/api/'))].flatMap(fencesOf);

function compile(given: readonly Fence[]): string {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  given.forEach(({ where, code }, i) =>
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
    const { exports } = JSON.parse(read('package.json')) as { exports: Record<string, { types?: string }> };
    const entries = Object.values(exports).flatMap(
      ({ types }) => types?.replace('./dist/types', 'src').replace(/\.d\.ts$/, '.ts') ?? [],
    );
    const texts = entries.map((file) => read(file).replace(/\/\*[\s\S]*?\*\//g, '')).join('\n');
    const functions = [...texts.matchAll(/export \{([^}]*)\}/g)]
      .flatMap(([, names]) => names!.split(','))
      .map((name) => name.trim())
      .filter((name) => /^[a-z]\w+$/.test(name));
    expect(functions).toContain('createFeatureExtractor');
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

/** Type assertions in code. Names in imports and exports may be changed, and constants may be stated as such. */
function castsOf(code: string): string[] {
  const plain = code
    .replace(/\/\*[\s\S]*?\*\/|(?<![:'"])\/\/.*/g, '')
    .replace(/'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"/g, "''")
    .replace(/^(?:import|export)\b[^;]*?\bfrom ''/gm, '');
  return [...plain.matchAll(/[\w)\]}!>'] as (?!const\b)[^;\n]{1,30}/g)].map(([cast]) => cast);
}

describe('casts', () => {
  const examples = execFileSync('git', ['ls-files', 'examples/*.ts'], {
    cwd: projectPath('.'),
    encoding: 'utf8',
  });
  const programs = examples
    .trim()
    .split('\n')
    .filter((file) => existsSync(projectPath(file)));

  it('are in no example, guide or docblock', () => {
    const examplesRead = programs.map((where) => ({ where, code: read(where) }));
    const found = [...fences, ...examplesRead].flatMap(({ where, code }) =>
      castsOf(code).map((cast) => `${where}: ${cast}`),
    );
    expect(found).toEqual([]);
  });

  it('would be found', () => {
    const code =
      "import { a as b } from 'c'; // as Wanted\nconst d = ['as x'] as const;\nf(features.e.data as Float32Array);";
    expect(castsOf(code)).toEqual(['a as Float32Array)']);
  });
});

/** Anchors of a page's headings, as GitHub makes them. */
function anchorsOf(page: string): Set<string> {
  const anchors = new Set<string>();
  const text = read(page).replace(/^```[\s\S]*?^```/gm, '');
  for (const [, heading] of text.matchAll(/^#{1,6} (.+)$/gm)) {
    const plain = heading!.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const anchor = plain.replace(/[^\p{L}\p{N}\p{M}\p{Pc}\- ]/gu, '').replaceAll(' ', '-');
    let name = anchor;
    for (let i = 1; anchors.has(name); i++) name = `${anchor}-${i}`;
    anchors.add(name);
  }
  return anchors;
}

/** Links of a page that lead to files here; code is left out. */
function linksOf(page: string): string[] {
  const text = read(page)
    .replace(/^```[\s\S]*?^```/gm, '')
    .replace(/`[^`\n]*`/g, '');
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)]
    .map((match) => match[1]!)
    .filter((link) => !/^[a-z]+:/.test(link));
}

function brokenLinks(page: string): string[] {
  return linksOf(page).filter((link) => {
    const [path = '', anchor] = link.split('#');
    const target = path === '' ? page : join(dirname(page), path);
    if (!existsSync(projectPath(target))) return true;
    return anchor !== undefined && !(target.endsWith('.md') && anchorsOf(target).has(anchor));
  });
}

describe('links', () => {
  it.each(pages)('%s leads to files and headings that exist', (page) => {
    expect(brokenLinks(page)).toEqual([]);
  });

  it('would be found broken', () => {
    const page = join(folder, 'page.md');
    mkdirSync(folder, { recursive: true });
    writeFileSync(page, '# A b\n\n[right](#a-b) [wrong](#a-c) [gone](gone.md)\n');
    expect(brokenLinks('.docs-test/page.md')).toEqual(['#a-c', 'gone.md']);
  });
});

it('links of the package lead to files of the package', () => {
  const packed = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: projectPath('.'),
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  // An array, or from npm 12 on an object.
  const [{ files: contents }] = Object.values(JSON.parse(packed) as object) as [
    { readonly files: readonly { readonly path: string }[] },
  ];
  const paths = contents.map(({ path }) => path);
  const dead = paths
    .filter((path) => path.endsWith('.md'))
    .flatMap((page) => linksOf(page).map((link) => ({ page, to: join(dirname(page), link.split('#')[0]!) })))
    .filter(({ page, to }) => to !== dirname(page) && !paths.some((path) => `${path}/`.startsWith(`${to}/`)));
  expect(paths).toContain('docs/neighbours.webp');
  expect(dead).toEqual([]);
});

describe('docs/errors.md', () => {
  it('lists every code once', () => {
    const codes = [...read('docs/errors.md').matchAll(/^\| `([A-Z_]+)`/gm)].map((match) => match[1]!);
    expect(codes.toSorted()).toEqual([...ERROR_CODES].toSorted());
  });
});

describe('CONTRIBUTING.md', () => {
  it('names files that exist', () => {
    const named = [...read('CONTRIBUTING.md').matchAll(/`((?:src|test|docs|bench|wasm)\/[\w./-]+)`/g)].map(
      (match) => match[1]!,
    );
    expect(named.length).toBeGreaterThan(30);
    expect(named.filter((path) => !existsSync(projectPath(path)))).toEqual([]);
  });
});
