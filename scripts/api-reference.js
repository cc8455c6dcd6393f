/**
 * Writes docs/api.md from the docblocks of the public API, as the emitted declarations carry them (dist/types). With `--check` it
 * compares instead. Fails for a type that a signature names and that no export gives.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const project = fileURLToPath(new URL('..', import.meta.url));
const TYPES = join(project, 'dist/types');
const PAGE = join(project, 'docs/api.md');

/**
 * Chapters, by the room that a declaration lies in; of several that fit, the longest counts.
 *
 * @type {[title: string, rooms: string[]][]}
 */
const CHAPTERS = [
  ['Models', ['model/', 'graph/', 'onnx/', 'hub/', 'parameters/', 'zoo/', 'gradients/']],
  ['Feature extractors', ['extract/', 'runtime/', 'tensor/', 'stages/', 'explain/', 'train/statistics/']],
  ['Training', ['train/']],
  ['Images', ['images/']],
  ['Batch runs', ['datasets/', 'cli/']],
  ['Search, reports, services', ['features/', 'precision/', 'pages/', 'serve/']],
  ['Errors and options', ['base/']],
];

const source = new Map();

function read(file) {
  if (!source.has(file)) source.set(file, readFileSync(join(TYPES, file), 'utf8'));
  return source.get(file);
}

/** The exports of a file, those of files that it exports as a whole included: name, and the file that the name comes from. */
function publicNames(entry = 'index.d.ts') {
  const exported = [];
  for (const [, whole] of read(entry).matchAll(/export \* from '\.\/([^']+)\.js'/g))
    exported.push(...publicNames(`${whole}.d.ts`));
  for (const [, names, from] of read(entry).matchAll(/export (?:type )?\{([^}]*)\} from '\.\/([^']+)\.js'/g))
    for (const item of names.split(',')) {
      const name = item.replace(/^\s*type\s+/, '').trim();
      if (name !== '') exported.push({ name, file: `${from}.d.ts` });
    }
  return exported;
}

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
      doc: docAbove(text, first.index),
      code: found.map(({ index }) => declarationAt(text, index)).join('\n'),
    };
  }
  for (const [, names, from] of text.matchAll(/export (?:type )?\{([^}]*)\} from '([^']+)\.js'/g))
    if (names.split(',').some((item) => item.replace(/^\s*type\s+/, '').trim() === name))
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

/** GitHub's anchors: lower case, with a number behind the second of two equal ones. */
const anchors = new Map();

function anchorOf(name) {
  return anchors.get(name) ?? name.toLowerCase();
}

function setAnchors(names) {
  const seen = new Map();
  for (const name of names) {
    const anchor = name.toLowerCase();
    const count = seen.get(anchor) ?? 0;
    anchors.set(name, count === 0 ? anchor : `${anchor}-${count}`);
    seen.set(anchor, count + 1);
  }
}

function linked(text, names) {
  return text.replace(/\{@link ([\w.]+)\}/g, (_, target) => {
    const [owner] = target.split('.');
    return names.has(owner) ? `[\`${target}\`](#${anchorOf(owner)})` : `\`${target}\``;
  });
}

const inCell = (text) =>
  text
    .replace(/\/\*\*.*?\*\/\s*/gs, '')
    .replace(/\s*\n\s*/g, ' ')
    .replaceAll('|', '\\|');

function renderMembers(code, names) {
  const rows = membersOf(code).map(({ doc, code: line }) => {
    const { summary, defaults } = readDoc(doc);
    const preset = defaults.length > 0 ? ` Default: \`${inCell(defaults[0]).replace(/^`|`$/g, '')}\`.` : '';
    return `| \`${inCell(line.replace(/^readonly /, ''))}\` | ${linked(inCell(summary), names)}${preset} |`;
  });
  return rows.length === 0 ? '' : `\n| member | |\n| --- | --- |\n${rows.join('\n')}\n`;
}

function renderMethods({ name, code }, names) {
  return membersOf(code)
    .map(({ doc, code: line }) => Object.assign(readDoc(doc), { line }))
    .filter(
      ({ line, params, returns }) =>
        /^(?:static )?\w+(?:<.*>)?\(/.test(line) && params.length + returns.length > 0,
    )
    .map(
      (parts) =>
        `\n#### ${name}.${/^(?:static )?(\w+)/.exec(parts.line)[1]}\n\n\`\`\`ts\n${parts.line}\n\`\`\`\n${renderParts(parts, names)}`,
    )
    .join('');
}

function renderParts({ summary, remarks, params, returns, throws, examples }, names) {
  const line = (text) => linked(text.replace(/\s*\n\s*/g, ' '), names);
  const blocks = [
    linked(summary, names),
    ...remarks.map((text) => linked(text, names)),
    params.map((text) => `- ${line(text)}`).join('\n'),
    ...returns.map((text) => `**Returns** ${line(text)}`),
    ...throws.map((text) => `**Throws** ${line(text)}`),
    ...examples.map((text) =>
      text.startsWith('```') ? `**Example**\n\n${text}` : `**Example.** ${text.replace('\n```', '\n\n```')}`,
    ),
  ];
  return `\n${blocks.filter((block) => block !== '').join('\n\n')}\n`;
}

function render(declaration, names) {
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
    ? renderMembers(code, names) + (kind === 'class' ? renderMethods(declaration, names) : '')
    : '';
  return `\n### ${name}\n\n\`\`\`ts\n${signature}\n\`\`\`\n${renderParts(parts, names)}${members}`;
}

/** Types that declarations name, that this package declares, and that it does not export. */
function missingExports(declarations, names) {
  const missing = new Map();
  for (const { name, file, code } of declarations) {
    const imported = [...read(file).matchAll(/import (?:type )?\{([^}]*)\} from '\.[^']*'/g)]
      .flatMap(([, list]) => list.split(','))
      .map((item) => item.replace(/^\s*type\s+/, '').trim());
    const local = [...read(file).matchAll(/^(?:export )?(?:declare )?(?:interface|type|class) (\w+)/gm)].map(
      (match) => match[1],
    );
    const shown = withoutComments(code)
      .replace(/^ {4}constructor\([^;]*;$/gm, '')
      .replace(/'[^']*'/g, '');
    for (const type of new Set([...imported, ...local]))
      if (type !== '' && !names.has(type) && new RegExp(`\\b${type}\\b`).test(shown)) missing.set(type, name);
  }
  return missing;
}

const declarations = publicNames().map(({ name, file }) => findDeclaration(name, file));
const names = new Set(declarations.map(({ name }) => name));
const ORDER = ['function', 'class', 'const', 'type', 'interface'];
const rank = ({ kind }) => (kind === 'function' || kind === 'class' ? 0 : ORDER.indexOf(kind));

const rooms = CHAPTERS.flatMap((chapter) => chapter[1]).toSorted((a, b) => b.length - a.length);
const roomOf = (file) => rooms.find((room) => file.startsWith(room));

const chapters = CHAPTERS.map(([title, own]) => {
  const all = declarations
    .filter(({ file }) => own.includes(roomOf(file)))
    .toSorted((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name, 'en'));
  return { title, own: all };
});
setAnchors(chapters.flatMap(({ own }) => own.map(({ name }) => name)));
const contents = chapters
  .map(
    ({ title, own }) =>
      `- **${title}**: ${own.map(({ name }) => `[${name}](#${anchorOf(name)})`).join(' · ')}`,
  )
  .join('\n');
const page = `# API reference

Made from the docblocks of the source by \`npm run api\`; do not edit. Every function takes its options as a plain object; a field that is
left out or \`undefined\` has its default.

${contents}
${chapters.map(({ title, own }) => `\n## ${title}\n${own.map((one) => render(one, names)).join('')}`).join('')}`;

const missing = missingExports(declarations, names);
if (missing.size > 0) {
  console.error(
    `types that signatures name and index.ts does not export: ${[...missing].map(([type, by]) => `${type} (${by})`).join(', ')}`,
  );
  process.exitCode = 1;
}
if (process.argv.includes('--check')) {
  if (!existsSync(PAGE) || readFileSync(PAGE, 'utf8') !== page) {
    console.error('docs/api.md is not what the docblocks say: run "npm run api" and commit it');
    process.exitCode = 1;
  }
} else {
  writeFileSync(PAGE, page);
}
