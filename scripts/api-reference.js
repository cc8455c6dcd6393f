/**
 * Writes docs/api/ from the docblocks of the public API, as the emitted declarations carry them (dist/types): a page per entry of the
 * package. Types that an export is made of stand on the page too, after the exports. With `--check` it compares instead.
 */
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const project = fileURLToPath(new URL('..', import.meta.url));
const TYPES = join(project, 'dist/types');
const PAGES = join(project, 'docs/api');

/** The entries of the package: name and declaration file. */
const ENTRIES = Object.entries(JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')).exports)
  .filter(([name]) => name !== './package.json')
  .map(([name, { types }]) => ({
    name: posix.join('onnx-tapir', name),
    page: name === '.' ? 'onnx-tapir.md' : `${name.slice(2)}.md`,
    file: types.replace('./dist/types/', ''),
  }));

const source = new Map();

function read(file) {
  if (!source.has(file)) source.set(file, readFileSync(join(TYPES, file), 'utf8'));
  return source.get(file);
}

/** The exports of an entry: name, and the file that the name comes from. */
function exportsOf(entry) {
  const exported = [];
  for (const [, names, from] of read(entry).matchAll(/export (?:type )?\{([^}]*)\} from '([^']+)\.js'/g))
    for (const name of namesIn(names))
      exported.push({ name, file: `${posix.join(dirname(entry), from)}.d.ts` });
  return exported;
}

const namesIn = (list) =>
  list
    .split(',')
    .map((item) => item.replace(/^\s*type\s+/, '').trim())
    .filter((name) => name !== '');

/** A declaration and the docblock above it; looks through re-exports. */
function findDeclaration(name, file) {
  const text = read(file);
  const pattern = new RegExp(
    `^(?:export )?(?:declare )?(?:abstract )?(function|interface|type|class|const) ${name.replace('$', '\\$')}\\b`,
    'gm',
  );
  const found = [...text.matchAll(pattern)];
  if (found.length > 0) {
    const [first] = found;
    return {
      name,
      file,
      kind: first[1],
      // One of several forms says what all of them are.
      doc: found.map(({ index }) => docAbove(text, index)).reduce((a, b) => (b.length > a.length ? b : a)),
      code: found.map(({ index }) => declarationAt(text, index)).join('\n'),
    };
  }
  for (const [, names, from] of text.matchAll(/export (?:type )?\{([^}]*)\} from '([^']+)\.js'/g))
    if (namesIn(names).includes(name))
      return findDeclaration(name, `${posix.join(dirname(file), from)}.d.ts`);
  throw new Error(`no declaration of ${name} in ${file}`);
}

/** A declaration in full: it starts in the first column, and only its last line closes it there. */
function declarationAt(text, start) {
  const rest = text.slice(start);
  const isBlock = /^[^\n]*\{\n/.test(rest);
  const end = isBlock ? rest.search(/^\}/m) : rest.search(/;\n(?! )/);
  return rest.slice(0, rest.indexOf('\n', end));
}

function docAbove(text, index) {
  const match = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*$/.exec(text.slice(0, index));
  return match ? linesOf(match[1]) : '';
}

function linesOf(comment) {
  return comment
    .split('\n')
    .map((line) => line.replace(/^\s*\* ?/, '').trimEnd())
    .join('\n')
    .trim();
}

/** A docblock as its parts. */
function readDoc(doc) {
  const [summary = '', ...tags] = doc.split(/^@/m);
  const parts = {
    summary: summary.trim(),
    remarks: [],
    params: [],
    returns: [],
    throws: [],
    examples: [],
    defaults: [],
  };
  for (const tag of tags) {
    const [, word, rest] = /^(\w+)\s*([\s\S]*)$/.exec(tag.trim());
    if (word === 'param') parts.params.push(rest.replace(/^(\S+)\s+-\s+/, '`$1`: '));
    else if (word === 'returns') parts.returns.push(rest);
    else if (word === 'throws') parts.throws.push(rest);
    else if (word === 'example') parts.examples.push(rest);
    else if (word === 'remarks') parts.remarks.push(rest);
    else if (word === 'default') parts.defaults.push(rest);
  }
  return parts;
}

/** The members of a class or interface: their docblock and their line. */
function membersOf(code) {
  const body = code.slice(code.indexOf('{') + 1, code.lastIndexOf('}'));
  const members = [];
  for (const [, comment, line] of body.matchAll(
    /^ {4}(?:\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n {4})?((?!\/\*\*|\}|#|private|constructor)\S[^\n]*(?:\n {5,}[^\n]*|\n {4}\}[^\n]*)*)/gm,
  ))
    members.push({
      doc: comment ? linesOf(comment) : '',
      code: line.replace(/;$/, '').replace(/\s*\n\s*/g, ' '),
    });
  return members;
}

const withoutComments = (code) => code.replace(/^\s*\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n/gm, '');

/** Where a name is described: page and anchor. */
const places = new Map();

function linked(text, page) {
  return text.replace(/\{@link ([\w.]+)\}/g, (_, target) => {
    const place = places.get(target.split('.')[0]);
    if (!place) return `\`${target}\``;
    return `[\`${target}\`](${place.page === page ? '' : place.page}#${place.anchor})`;
  });
}

const inCell = (text) =>
  text
    .replace(/\/\*\*.*?\*\/\s*/gs, '')
    .replace(/\s*\n\s*/g, ' ')
    .replaceAll('|', '\\|');

function renderMembers(code, page) {
  const rows = membersOf(code).map(({ doc, code: line }) => {
    const { summary, defaults } = readDoc(doc);
    const preset = defaults.length > 0 ? ` Default: \`${inCell(defaults[0]).replace(/^`|`$/g, '')}\`.` : '';
    return `| \`${inCell(line.replace(/^readonly /, ''))}\` | ${linked(inCell(summary), page)}${preset} |`;
  });
  return rows.length === 0 ? '' : `\n| member | |\n| --- | --- |\n${rows.join('\n')}\n`;
}

function renderMethods({ name, code }, page) {
  return membersOf(code)
    .map(({ doc, code: line }) => Object.assign(readDoc(doc), { line }))
    .filter(
      ({ line, params, returns }) =>
        /^(?:static )?\w+(?:<.*>)?\(/.test(line) && params.length + returns.length > 0,
    )
    .map(
      (parts) =>
        `\n#### ${name}.${/^(?:static )?(\w+)/.exec(parts.line)[1]}\n\n\`\`\`ts\n${parts.line}\n\`\`\`\n${renderParts(parts, page)}`,
    )
    .join('');
}

function renderParts({ summary, remarks, params, returns, throws, examples }, page) {
  const line = (text) => linked(text.replace(/\s*\n\s*/g, ' '), page);
  const blocks = [
    linked(summary, page),
    ...remarks.map((text) => linked(text, page)),
    params.map((text) => `- ${line(text)}`).join('\n'),
    ...returns.map((text) => `**Returns** ${line(text)}`),
    ...throws.map((text) => `**Throws** ${line(text)}`),
    ...examples.map((text) =>
      text.startsWith('```') ? `**Example**\n\n${text}` : `**Example.** ${text.replace('\n```', '\n\n```')}`,
    ),
  ];
  return `\n${blocks.filter((block) => block !== '').join('\n\n')}\n`;
}

function render(declaration, page) {
  const { name, kind, doc, code } = declaration;
  const parts = readDoc(doc);
  const isListed = kind === 'interface' || kind === 'class';
  const head = isListed
    ? withoutComments(code)
        .split('\n')[0]
        .replace(/\s*\{$/, '')
    : withoutComments(code);
  const signature = head.replace(/^export (?:declare )?/, '').replace(/^declare /, '');
  const members = isListed
    ? renderMembers(code, page) + (kind === 'class' ? renderMethods(declaration, page) : '')
    : '';
  return `\n### ${name}\n\n\`\`\`ts\n${signature}\n\`\`\`\n${renderParts(parts, page)}${members}`;
}

/** Types of this package that a declaration names: name, and the file that states it. */
function typesOf({ file, code, name: own }) {
  const text = read(file);
  const imported = [...text.matchAll(/import (?:type )?\{([^}]*)\} from '(\.[^']*)\.js'/g)].flatMap(
    ([, list, from]) =>
      namesIn(list).map((name) => ({ name, file: `${posix.join(dirname(file), from)}.d.ts` })),
  );
  const local = [...text.matchAll(/^(?:export )?(?:declare )?(?:interface|type|class) (\w+)/gm)].map(
    ([, name]) => ({ name, file }),
  );
  const shown = withoutComments(code)
    .replace(/^ {4}constructor\([^;]*;$/gm, '')
    .replace(/'[^']*'/g, '');
  return [...imported, ...local].filter(
    ({ name }) => name !== own && new RegExp(`\\b${name}\\b`).test(shown),
  );
}

const ORDER = ['function', 'class', 'const', 'type', 'interface'];
const rank = ({ kind }) => (kind === 'function' || kind === 'class' ? 0 : ORDER.indexOf(kind));
const sorted = (list) => list.toSorted((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name, 'en'));

/** The jobs that the names of an entry are grouped by, and the folders of the source that belong to each. */
const JOBS = [
  ['Models', ['run/model', 'onnx/graph', 'onnx/file']],
  ['Extractors and devices', ['extract', 'run/runtime', 'onnx/tensor']],
  ['Photos', ['photos']],
  ['Datasets', ['datasets']],
  ['Search', ['products/features/search']],
  ['Near-duplicates', ['products/features/dedupe']],
  ['Probes', ['products/features/probe']],
  ['Words', ['products/features/text']],
  ['Errors and progress', ['base']],
];

/** Declarations by job; all of them under no heading where an entry has one job, or the table does not know all of its folders. */
function byJob(list) {
  const isOf = (folders) => (one) => folders.some((folder) => one.file.startsWith(`${folder}/`));
  const groups = JOBS.map(([job, folders]) => [job, list.filter(isOf(folders))]);
  const used = groups.filter(([, members]) => members.length > 0);
  const known = used.reduce((sum, [, members]) => sum + members.length, 0);
  return used.length > 1 && known === list.length ? used : [['', list]];
}

const pages = ENTRIES.map(({ name, page, file }) => {
  const exported = exportsOf(file).map((one) => findDeclaration(one.name, one.file));
  for (const one of exported) places.set(one.name, { page, anchor: one.name.toLowerCase() });
  return { name, page, about: /^\/\*\* ([\s\S]*?) \*\//.exec(read(file))?.[1] ?? '', exported, parts: [] };
});
// What exports are made of is described where it comes up first.
for (const { page, exported, parts } of pages) {
  const open = [...exported];
  for (let next = open.pop(); next; next = open.pop())
    for (const { name, file } of typesOf(next)) {
      if (places.has(name)) continue;
      const part = findDeclaration(name, file);
      places.set(name, { page, anchor: name.toLowerCase() });
      parts.push(part);
      open.push(part);
    }
}

const options =
  'Every function takes its options as a plain object; a field that is left out or `undefined` has its default.';
const isCalled = ({ kind }) => kind === 'function' || kind === 'class' || kind === 'const';

/** The first sentence of a docblock. */
const firstSentence = (doc) =>
  /^[\s\S]*?[.!?](?=\s|$)/.exec(readDoc(doc).summary)?.[0] ?? readDoc(doc).summary;

/** What can be called: a name and a sentence each. */
function tableOf(list, page, from) {
  const rows = sorted(list.filter(isCalled)).map(
    ({ name, doc }) =>
      `| [${name}](${from === page ? '' : page}#${name.toLowerCase()}) | ${linked(inCell(firstSentence(doc)), from)} |`,
  );
  return rows.length === 0 ? '' : `| name | what it does |\n| --- | --- |\n${rows.join('\n')}`;
}

const written = new Map(
  pages.map(({ name, page, about, exported, parts }) => {
    const bodies = (list) =>
      sorted(list)
        .map((one) => render(one, page))
        .join('');
    const more =
      parts.length === 0
        ? ''
        : `\n## Types that these are made of\n\nThey are not exported.\n${bodies(parts)}`;
    const groups = byJob(exported);
    const list = groups.map(([job, members]) => {
      const types = sorted(members.filter((one) => !isCalled(one))).map(
        (one) => `[${one.name}](#${one.name.toLowerCase()})`,
      );
      const blocks = [
        job === '' ? '' : `**${job}**`,
        tableOf(members, page, page),
        types.length === 0 ? '' : `Types: ${types.join(' · ')}`,
      ];
      return blocks.filter((block) => block !== '').join('\n\n');
    });
    const text = groups.map(([job, members]) => `${job === '' ? '' : `\n## ${job}\n`}${bodies(members)}`);
    return [page, `# ${name}\n\n${about} ${options}\n\n${list.join('\n\n')}\n${text.join('')}${more}`];
  }),
);
const contents = pages.map(({ name, page, about, exported }) => {
  const groups = byJob(exported).map(([job, members]) =>
    [job === '' ? '' : `**${job}**`, tableOf(members, page, 'README.md')]
      .filter((block) => block !== '')
      .join('\n\n'),
  );
  return `## [\`${name}\`](${page})\n\n${about}\n\n${groups.filter((group) => group !== '').join('\n\n')}`;
});
written.set(
  'README.md',
  `# API reference\n\nThe functions and classes of each entry of the package. ${options} Types stand on the page of their entry.\n\n${contents.join('\n\n')}\n`,
);

if (process.argv.includes('--check')) {
  const present = existsSync(PAGES) ? readdirSync(PAGES) : [];
  const stale =
    present.some((page) => !written.has(page)) ||
    [...written].some(
      ([page, text]) => !present.includes(page) || readFileSync(join(PAGES, page), 'utf8') !== text,
    );
  if (stale) {
    console.error('docs/api/ is not what the docblocks say: run "npm run api" and commit it');
    process.exitCode = 1;
  }
} else {
  rmSync(PAGES, { recursive: true, force: true });
  mkdirSync(PAGES);
  for (const [page, text] of written) writeFileSync(join(PAGES, page), text);
}
