/**
 * Runs the second stage of the Dockerfile without a container engine: its RUN step in an empty folder, then its ENTRYPOINT as an
 * ordinary user with the whole file system read-only but /tmp, and its HEALTHCHECK. What the base image brings is not tried. Needs root
 * on Linux, for mounts that only the process sees.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createModel } from '../dist/lib/zoo.js';
import { check, pack, photos, project } from './packed.js';

const dockerfile = readFileSync(join(project, 'Dockerfile'), 'utf8').replaceAll(/\\\n(?:\s*#.*\n)*/g, ' ');
const [, second] = dockerfile.split(/^FROM .*$/m).slice(1);
const instruction = (name) => new RegExp(`^${name} (.*)$`, 'm').exec(second)[1];
const words = (name) => JSON.parse(instruction(name).replace(/^[^[]*/, ''));

const { tarball, remove } = pack();
// Outside of /tmp, which the service has for itself.
let service;
const app = mkdtempSync('/var/tmp/tapir-container-');
try {
  writeFileSync(join(app, 'package.json'), '{}');
  const step = instruction('RUN').replaceAll('/tmp/onnx-tapir-*.tgz', tarball).replace(' /root/.npm', '');
  execFileSync('sh', ['-ec', step], { cwd: app, stdio: ['ignore', 'ignore', 'inherit'] });
  const model = join(app, 'model.onnx');
  await (await createModel('squeezenet1_1', { seed: 1 })).save(model);
  execFileSync('chmod', ['-R', 'a+rX', app]);
  const size = execFileSync('du', ['-sm', join(app, 'node_modules')], { encoding: 'utf8' }).split('\t')[0];
  check(Number(size) < 200, `the RUN step leaves ${size} MB of packages, at most 200`);

  const [node, ...entry] = words('ENTRYPOINT');
  const root = join(app, 'root');
  mkdirSync(root);
  const isolate = `mount --make-rprivate / && mount --rbind / "${root}" && mount -t tmpfs none "${root}/tmp" && mount -o remount,ro,bind "${root}" && exec chroot --userspec=65534:65534 "${root}" env -i HOME=/nonexistent NODE_ENV=production sh -c 'cd "$0" && exec "$@"' "${app}" "$@"`;
  const program = [
    node === 'node' ? process.execPath : node,
    ...entry,
    '--model',
    model,
    '--return',
    'features=v',
    '--json',
  ];
  service = spawn('unshare', ['--mount', 'sh', '-ec', isolate, 'sh', ...program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => service.once('exit', (code, signal) => resolve(code ?? signal)));
  const [line] = await Promise.race([once(service.stdout, 'data'), ended.then((code) => [`ended: ${code}`])]);
  check(
    String(line).startsWith('{'),
    `it starts as another user on a read-only disk: ${String(line).trim()}`,
  );
  const [, ...probe] = words('HEALTHCHECK');
  execFileSync(process.execPath, probe);
  check(true, 'the service answers its health check');
  const answer = await fetch('http://127.0.0.1:8000/embed', {
    method: 'POST',
    headers: { 'content-type': 'image/jpeg' },
    body: readFileSync(join(photos, 'sea/sea-0.jpg')),
  });
  check(answer.status === 200, `a photo is embedded: ${answer.status}`);
  service.kill('SIGTERM');
  const code = await ended;
  check(code === 0, `SIGTERM ends it: ${code}`);
} finally {
  service?.kill('SIGKILL');
  rmSync(app, { recursive: true, force: true });
  remove();
}
