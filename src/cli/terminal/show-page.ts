/** A page that a command serves until it is stopped. */
import { spawn } from 'node:child_process';
import type { ServedPage } from '../../base/html/serve-page.js';
import { EXIT } from './exit-code.js';
import { aborted, type Terminal } from './terminal.js';

/** Prints the page's address, opens it, and waits until the command is stopped, which is a success. */
export async function showPage(
  terminal: Terminal,
  page: ServedPage,
  { open, json }: { readonly open: boolean; readonly json: boolean },
): Promise<void> {
  try {
    terminal.out(json ? `${JSON.stringify({ url: page.url })}\n` : `${page.url}\n`);
    terminal.err('this page is for this machine only; stop it with Ctrl+C\n');
    if (open) openInBrowser(page.url);
    await aborted(terminal.signal);
  } finally {
    await page.close();
  }
  terminal.exitCode = EXIT.done;
}

/** Opens an address or a file in the system's browser. On a system without a browser, the user opens what is printed. */
export function openInBrowser(url: string): void {
  const [command, ...words] =
    process.platform === 'darwin'
      ? ['open']
      : process.platform === 'win32'
        ? ['rundll32', 'url.dll,FileProtocolHandler']
        : ['xdg-open'];
  const child = spawn(command!, [...words, url], { stdio: 'ignore', detached: true });
  child.on('error', () => undefined);
  child.unref();
}
