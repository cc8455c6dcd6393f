/** Puts the report's style sheet beside its compiled script: tsc copies no CSS. */
import { copyFileSync } from 'node:fs';

const from = new URL('../src/report/page/page.css', import.meta.url);
copyFileSync(from, new URL('../dist/report/page/page.css', import.meta.url));
