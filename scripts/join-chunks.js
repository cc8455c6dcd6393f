/**
 * Joins the files that a start loads. esbuild makes a file for each set of entries that share code: with 40 commands, `tapir embed` loaded
 * 104 files. Each costs about as much to find and open as 10 kB cost to compile.
 */
import { rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { build } from 'esbuild';

/**
 * Joins chunks of a bundle that was split. Chunks keep their names: those that are joined become short files that hand out what others import
 * from them, so that each module still exists once.
 *
 * @param metafile - Of the bundle.
 * @param main - The name of the entry, which runs as it is loaded, so nothing may import it.
 * @param starts - Modules that are imported at once after it, one list for each further file, in the order of loading.
 */
export async function joinChunks(options, metafile, main, starts) {
  const folder = options.outdir;
  const outputs = new Map(Object.entries(metafile.outputs).map(([path, output]) => [basename(path), output]));
  const chunkOf = (module) => [...outputs].find(([, { entryPoint }]) => entryPoint === module)[0];
  const joined = new Set([main]);
  const groups = [[main], ...starts.map((modules) => modules.map(chunkOf))].map((entries) =>
    closureOf(entries, outputs, joined),
  );
  const files = groups.map((chunks, i) => {
    const lines = chunks.map((chunk) => `export { ${namesOf(outputs, chunk, i).inner} } from './${chunk}';`);
    const file = `start-${i}.js`;
    writeFileSync(join(folder, file), lines.join('\n'));
    return file;
  });
  const inside = [main, ...files].map((file) => join(folder, file));
  const { outputFiles } = await build({
    ...options,
    entryPoints: inside,
    chunkNames: 'start-[hash]',
    write: false,
    // The package has no side effects: such an import only orders what others import by name.
    logOverride: { 'ignored-bare-import': 'silent' },
    plugins: [leaveDynamic],
  });
  for (const { path, contents } of outputFiles) writeFileSync(path, contents);
  groups.forEach((chunks, i) => {
    for (const chunk of chunks) {
      const { outer } = namesOf(outputs, chunk, i);
      writeFileSync(join(folder, chunk), `export { ${outer} } from './${files[i]}';\n`);
    }
  });
  // A group can be empty.
  files.forEach((file, i) => groups[i].length === 0 && rmSync(join(folder, file), { force: true }));
}

/** The chunks that entries import, directly or not, without those of groups before. */
function closureOf(entries, outputs, joined) {
  const found = [];
  const open = [...entries];
  const seen = new Set(entries);
  while (open.length > 0) {
    const chunk = open.pop();
    if (!joined.has(chunk)) found.push(chunk);
    joined.add(chunk);
    for (const { kind, path, external } of outputs.get(chunk).imports) {
      const name = basename(path);
      if (external || kind !== 'import-statement' || seen.has(name)) continue;
      seen.add(name);
      open.push(name);
    }
  }
  return found;
}

/** What a chunk exports, under names that are distinct in a joined file: as that file takes it, and as the short file hands it out. */
function namesOf(outputs, chunk, group) {
  const mark = `s${group}_${/-(\w+)\.js$/.exec(chunk)[1]}_`;
  const { exports: names } = outputs.get(chunk);
  return {
    inner: names.map((name) => `${name} as ${mark}${name}`).join(', '),
    outer: names.map((name) => `${mark}${name} as ${name}`).join(', '),
  };
}

/** What is imported when it is needed stays a file. */
const leaveDynamic = {
  name: 'leave-dynamic',
  setup: ({ onResolve }) =>
    onResolve({ filter: /^\./ }, ({ kind, path }) =>
      kind === 'dynamic-import' ? { path, external: true } : undefined,
    ),
};
