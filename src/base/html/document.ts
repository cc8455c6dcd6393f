/** A page in one file: text, style, script and data. It loads nothing from elsewhere, and its policy forbids it to. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { packageFile, packageVersion } from '../package.js';
import { markup, Markup, toScriptJson } from './html.js';

/** The pages that the package writes; also the names of their script and style. */
export type PageKind = 'report' | 'compare' | 'train' | 'explore' | 'check';

/** The parts of a page. */
export interface PageParts {
  readonly kind: PageKind;
  readonly title: string;
  readonly subtitle: Markup;
  /** Stands beside the title, before the button for light and dark. */
  readonly controls?: Markup | null;
  /** Target and text of the first link, which skips to the main part. */
  readonly skip: { readonly target: string; readonly text: string };
  readonly main: Markup;
  /** Sentences for the foot of the page. */
  readonly notes?: readonly string[];
  /** What the script reads. */
  readonly data?: unknown;
  /** Whether the page asks the server that it comes from; else it loads nothing. */
  readonly isServed?: boolean;
}

/** How every page of a kind begins, so that one page may replace another and no other file is lost. */
export function markOf(kind: PageKind): string {
  return `<!doctype html>\n<!-- onnx-tapir ${kind} -->\n`;
}

/** Writes the page, with its script and its style, which the build has bundled. */
export async function renderPage(parts: PageParts): Promise<Uint8Array> {
  const {
    kind,
    title,
    subtitle,
    controls = null,
    skip,
    main,
    notes = [],
    data = {},
    isServed = false,
  } = parts;
  const version = packageVersion();
  const [script, style] = await Promise.all(
    ['js', 'css'].map((ending) => readFile(packageFile(`dist/lib/page/${kind}.${ending}`), 'utf8')),
  );
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(script!)}`,
    `style-src ${hashOf(style!)}`,
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
<style>${new Markup(style!)}</style>
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
<script>${new Markup(script!)}</script>
</body>
</html>
`;
  return Buffer.from(markOf(kind) + page.text);
}

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}
