/** A page in one file: text, style, script and data. It loads nothing from elsewhere, and its policy forbids it to. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { packageFile } from '../base/package.js';
import { markup, Markup, toScriptJson } from './html.js';

/** The pages that the package writes; also the names of their script and style. */
export type PageKind = 'report' | 'compare' | 'train' | 'explore' | 'check';

/** The parts of a page. */
export interface PageParts {
  readonly kind: PageKind;
  readonly title: string;
  readonly subtitle: Markup;
  /** Stands beside the title, before the button for light and dark. */
  readonly controls: Markup | null;
  /** Target and text of the first link, which skips to the main part. */
  readonly skip: { readonly target: string; readonly text: string };
  readonly main: Markup;
  /** Sentences for the foot of the page. */
  readonly notes: readonly string[];
  /** What the script reads. */
  readonly data: unknown;
  readonly version: string;
  readonly files: PageFiles;
  /** Whether the page asks the server that it comes from; else it loads nothing. */
  readonly isServed?: boolean;
}

/** The script and the style of a page. */
export interface PageFiles {
  readonly script: string;
  readonly style: string;
}

/** Reads a page's script and style, which the build has bundled. */
export async function readPageFiles(kind: PageKind): Promise<PageFiles> {
  const read = (ending: string): Promise<string> =>
    readFile(packageFile(`dist/lib/page/${kind}.${ending}`), 'utf8');
  const [script, style] = await Promise.all([read('js'), read('css')]);
  return { script, style };
}

/** How every page of a kind begins, so that one page may replace another and no other file is lost. */
export function markOf(kind: PageKind): string {
  return `<!doctype html>\n<!-- onnx-tapir ${kind} -->\n`;
}

/** Writes the page as text. */
export function renderPage(parts: PageParts): string {
  const {
    kind,
    title,
    subtitle,
    controls,
    skip,
    main,
    notes,
    data,
    version,
    files,
    isServed = false,
  } = parts;
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(files.script)}`,
    `style-src ${hashOf(files.style)}`,
    'img-src data:',
    ...(isServed ? ["connect-src 'self'"] : []),
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  const page = markup`<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="onnx-tapir ${version}">
<title>${title} · tapir ${kind}</title>
<style>${new Markup(files.style)}</style>
</head>
<body>
<a class="skip" href="#${skip.target}">${skip.text}</a>
<header class="top">
  <div>
    <p class="eyebrow">tapir ${kind}</p>
    <h1><bdi>${title}</bdi></h1>
    <p class="subtitle">${subtitle}</p>
  </div>
  <div class="controls line">
    ${controls}
    <button type="button" id="theme" hidden>Dark</button>
  </div>
</header>
<main>
${main}
</main>
<footer>
  ${notes.map((note) => markup`<p>${note}</p>`)}
  <p>Made by onnx-tapir ${version}. ${isServed ? 'This page talks to this machine only.' : 'This file is complete: it loads nothing and sends nothing.'}</p>
</footer>
<script type="application/json" id="data">${new Markup(toScriptJson(data))}</script>
<script>${new Markup(files.script)}</script>
</body>
</html>
`;
  return markOf(kind) + page.text;
}

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}
