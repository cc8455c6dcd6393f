/** The documentation as a site: pages are the repository's own Markdown files, in reading order. */
import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  writeFileSync,
} from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';

const project = fileURLToPath(new URL('../..', import.meta.url));

/** A page in the sidebar, under its own heading. */
function page(path) {
  const [, title] = /^# (.+)$/m.exec(readFileSync(project + path, 'utf8'));
  return { text: title.replaceAll('`', ''), link: `/${placeOf(path)}` };
}

function pagesOf(folder) {
  return readdirSync(project + folder)
    .filter((name) => name.endsWith('.md') && name !== 'README.md')
    .map((name) => page(`${folder}/${name}`));
}

const guides = (...names) => names.map((name) => page(`docs/guides/${name}.md`));

const { version } = JSON.parse(readFileSync(`${project}package.json`, 'utf8'));

/** Chapters of the reference, by name. */
const chapters = (...names) => names.map((name) => page(`docs/api/${name}.md`));

const sidebar = [
  {
    text: 'Start',
    items: [
      page('README.md'),
      page('docs/guides/README.md'),
      ...guides('tutorial', 'coming-from-torchvision', 'where-it-runs', 'recipes'),
    ],
  },
  {
    text: 'Models',
    items: [
      ...guides('extraction', 'check', 'explore', 'networks', 'stages', 'parameters'),
      page('docs/names-sidecar.md'),
      page('models/README.md'),
    ],
  },
  {
    text: 'Photos to vectors',
    items: guides(
      'batch-runs',
      'embedding-models',
      'any-size',
      'tiles',
      'clips',
      'pipes',
      'vector-databases',
      'many-machines',
      'slurm-kubernetes',
    ),
  },
  { text: 'Speed', items: guides('devices', 'engines', 'int8') },
  { text: 'Vectors', items: guides('words', 'probes') },
  { text: 'Learning', items: guides('gradients', 'attribution', 'training', 'statistics') },
  { text: 'Service', items: [page('docs/serve.md'), ...guides('one-file-everywhere', 'other-servers')] },
  {
    text: 'Reference',
    items: [
      page('docs/errors.md'),
      page('docs/limits.md'),
      page('SECURITY.md'),
      page('conformance/README.md'),
      page('docs/compared.md'),
      page('bench/peers/README.md'),
      page('CHANGELOG.md'),
      page('CONTRIBUTING.md'),
    ],
  },
  {
    text: 'API',
    collapsed: false,
    items: [
      page('docs/api/README.md'),
      { text: 'Extract and embed', items: chapters('onnx-tapir', 'stages') },
      { text: 'Make and change models', items: chapters('zoo', 'parameters', 'precision') },
      { text: 'Use vectors, look, serve', items: chapters('features', 'explain', 'pages', 'serve') },
      { text: 'Learn', items: chapters('gradients', 'train') },
    ],
  },
  { text: 'Decisions', collapsed: true, items: pagesOf('docs/decisions') },
];

/** A tapir's head, drawn here: the icon of the tab and of the navigation bar. */
const icon = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path d="M8 6c2-3 6-2 6 1 7 0 12 4 12 10 0 3 2 4 2 7 0 4-5 4-6 0-1 3-4 5-8 5C8 29 4 24 4 17c0-4 1-7 4-8z" fill="#3b4252"/><path d="M4 17c0 7 4 12 10 12V9C8 8 4 11 4 17z" fill="#88c0d0"/><circle cx="18" cy="14" r="1.8" fill="#fff"/></svg>',
)}`;

/** Long lines of code wrap, and wide screens give text and code more of their width. */
const style = `
.vp-doc [class*='language-'] code { width: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
.vp-doc img { border-radius: 8px; }
.vp-doc table { display: table; width: 100%; }
.vp-doc td code { overflow-wrap: anywhere; white-space: normal; }
@media (min-width: 1280px) {
  .VPDoc.has-aside .content-container { max-width: 820px !important; }
}
@media (max-width: 640px) {
  .vp-doc table { display: block; overflow-x: auto; }
  .vp-doc [class*='language-'] code { padding: 0 16px; font-size: 13px; }
}
`;

/** Where a page of the repository stands on the site. */
function placeOf(path) {
  return path.replace(/(^|\/)README\.md$/, '$1index.md');
}

/** The name of a heading in a link, as GitHub makes it. */
function slugify(heading) {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M}\p{Pc}\- ]/gu, '')
    .replaceAll(' ', '-');
}

/** Links lead to pages of the site; those to other files of the repository become text. */
function followLinks(md) {
  md.core.ruler.push('follow-links', ({ tokens, env }) => {
    // The page's own path: links are relative to it.
    const folder = posix.dirname(posix.relative(project, env.realPath ?? env.path));
    for (const { children } of tokens)
      for (const token of children ?? []) {
        if (token.type !== 'link_open') continue;
        const href = token.attrGet('href');
        if (/^(?:[a-z]+:|#)/.test(href)) continue;
        const [path, anchor] = href.split('#');
        const target = posix.join(folder, path);
        if (target.endsWith('.md'))
          token.attrSet('href', `/${placeOf(target)}${anchor === undefined ? '' : `#${anchor}`}`);
        else unlink(children, token);
      }
  });
}

function unlink(children, token) {
  const end = children.slice(children.indexOf(token)).find(({ type }) => type === 'link_close');
  token.type = end.type = 'text';
  token.content = end.content = '';
}

/** Pages lie above the folder that has the packages. */
const findVue = {
  name: 'find-vue',
  enforce: 'pre',
  resolveId(id, from, { ssr }) {
    if (!/^vue(?:\/|$)/.test(id)) return null;
    return ssr
      ? { id, external: true }
      : this.resolve(id, fileURLToPath(import.meta.url), { skipSelf: true });
  },
};

/** Shiki gives up on a line after half a second, so that colours would depend on how busy the machine is that builds the site. */
const withoutTimeLimit = {
  name: 'without-time-limit',
  preprocess(_, options) {
    options.tokenizeTimeLimit = 0;
  },
};

/** The page of examples/browser, with onnxruntime-web and the model beside it: what it needs is on the site. */
function buildTryPage({ outDir }) {
  if (!existsSync(join(project, 'dist/lib/bin.cjs'))) throw new Error('dist/ is missing: npm run build');
  const [from, to] = [join(project, 'examples/browser'), join(outDir, 'try')];
  mkdirSync(join(to, 'ort'), { recursive: true });
  for (const name of readdirSync(from))
    if (/\.(?:html|js|css)$/.test(name)) copyFileSync(join(from, name), join(to, name));
  for (const name of ['ort.wasm.min.mjs', 'ort-wasm-simd-threaded.mjs', 'ort-wasm-simd-threaded.wasm'])
    copyFileSync(join(project, 'node_modules/onnxruntime-web/dist', name), join(to, 'ort', name));
  const opened = join(to, 'index.html');
  const home = '<main>\n      <p><a href="../index.html">← onnx-tapir</a></p>';
  writeFileSync(opened, readFileSync(opened, 'utf8').replace('<main>', home));
  cpSync(join(project, 'examples/photos'), join(to, 'photos'), {
    recursive: true,
    filter: (path) => !path.endsWith('.ts'),
  });
  const cut = ['extract', 'models/demo.onnx', '--return', 'embedding', '--input', 'photo', '--overwrite'];
  execFileSync(process.execPath, ['dist/lib/bin.cjs', ...cut, '--out', join(to, 'model.onnx')], {
    cwd: project,
  });
}

/** Outside of the site's router: `target` makes browsers load it. */
const tryIt = { text: 'Try it here', link: '/try/index.html', target: '_self' };

export default defineConfig({
  title: 'onnx-tapir',
  description: 'The output of any layer of any ONNX vision model, with exactly the pixels it was trained on.',
  lang: 'en',
  head: [
    ['link', { rel: 'icon', href: icon }],
    ['style', {}, style],
  ],
  srcDir: '..',
  srcExclude: ['test/**', 'site/**', 'build/**', 'dist/**', 'wasm/**', 'node_modules/**'],
  outDir: '../build/site',
  cacheDir: '../build/site-cache',
  vite: { plugins: [findVue] },
  buildEnd: buildTryPage,
  rewrites: placeOf,
  markdown: { html: false, anchor: { slugify }, config: followLinks, codeTransformers: [withoutTimeLimit] },
  themeConfig: {
    logo: icon,
    nav: [
      { text: 'Tutorial', link: '/docs/guides/tutorial' },
      tryIt,
      { text: 'Guides', link: '/docs/guides/', activeMatch: '^/docs/guides/(?!tutorial)' },
      { text: 'API', link: '/docs/api/', activeMatch: '^/docs/api/' },
      {
        text: version,
        items: [
          { text: 'Changelog', link: '/CHANGELOG' },
          { text: 'Contributing', link: '/CONTRIBUTING' },
          { text: 'npm', link: 'https://www.npmjs.com/package/onnx-tapir' },
        ],
      },
    ],
    sidebar,
    search: { provider: 'local' },
    outline: [2, 3],
    docFooter: { prev: 'Before', next: 'Next' },
  },
});
