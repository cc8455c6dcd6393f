/** The documentation as a site: pages are the repository's own Markdown files, in reading order. */
import { readFileSync, readdirSync } from 'node:fs';
import { posix } from 'node:path';
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

const sidebar = [
  { text: 'Start', items: [page('README.md'), ...guides('tutorial', 'where-it-runs', 'recipes')] },
  {
    text: 'Models',
    items: [
      ...guides('extraction', 'check', 'explore', 'stages', 'parameters'),
      page('docs/names-sidecar.md'),
      page('models/README.md'),
    ],
  },
  {
    text: 'Photos to vectors',
    items: guides('batch-runs', 'embedding-models', 'pipes', 'vector-databases', 'slurm-kubernetes', 'ray'),
  },
  { text: 'Speed', items: [...guides('devices', 'engines', 'int8'), page('docs/engines.md')] },
  { text: 'Vectors', items: guides('words', 'probes') },
  { text: 'Learning', items: guides('gradients', 'attribution', 'training', 'statistics') },
  { text: 'Service', items: [page('docs/serve.md')] },
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
  { text: 'API', collapsed: false, items: [page('docs/api/README.md'), ...pagesOf('docs/api')] },
  { text: 'Decisions', collapsed: true, items: pagesOf('docs/decisions') },
];

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

export default defineConfig({
  title: 'onnx-tapir',
  description: 'Tap the intermediate representation of any ONNX vision model.',
  lang: 'en',
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  srcDir: '..',
  srcExclude: ['test/**', 'site/**', 'build/**', 'dist/**', 'wasm/**', 'node_modules/**'],
  outDir: '../build/site',
  cacheDir: '../build/site-cache',
  vite: { plugins: [findVue] },
  rewrites: placeOf,
  markdown: { html: false, anchor: { slugify }, config: followLinks },
  themeConfig: {
    sidebar,
    search: { provider: 'local' },
    outline: [2, 3],
    docFooter: { prev: 'Before', next: 'Next' },
  },
});
