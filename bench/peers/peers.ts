/** The peers that take part: how each is started, and why one is left out. */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { datasetFeatures, peerFeatures, type Features } from './compare.js';
import { askForOpenvino } from './doctor.js';
import { checkpointOf, kindOf, type PeerName } from './peer-table.js';
import { writeCheckpoint, type Prepared } from './prepare.js';
import type { Command } from './processes.js';
import { inspectPython } from './python.js';
import type { Found, Setting } from './requirements.js';

export interface Peer {
  readonly name: string;
  readonly what: string;
  /** Embeds a folder of photos. */
  readonly command: (photos: string) => Command;
  /** Its vectors; null for a limit, which times its own loop and keeps nothing. */
  readonly features: Features | null;
}

/** One that cannot run here. */
interface Skipped {
  readonly name: string;
  readonly what: string;
  readonly reason: string;
}

/** Versions of the packages that a folder's peers run on. */
export function packageVersions(folder: string, names: readonly string[]): Record<string, string> {
  const versions: Record<string, string> = {};
  for (const name of names) {
    const file = join(folder, 'node_modules', name, 'package.json');
    if (existsSync(file))
      versions[name] = (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
  }
  return versions;
}

/** The peers asked for: those that can run, and those that cannot. */
export function listPeers(
  names: readonly PeerName[],
  prepared: Prepared,
  setting: Setting,
): { readonly peers: Peer[]; readonly skipped: Skipped[] } {
  const usesPython = names.some((name) => /torchvision|python|openvino/u.test(name));
  const packages = usesPython ? inspectPython(setting.python) : 'no peer asked for needs Python';
  const ofPython = typeof packages === 'string' ? undefined : (packages.openvinoLibs ?? undefined);
  const usesOpenvino = names.some((name) => name.includes('openvino'));
  const openvino = usesOpenvino ? askForOpenvino(setting.openvinoLibs ?? ofPython) : undefined;
  const found: Found = { packages, openvino, setting, prepared };
  const reasons = new Map(names.map((name) => [name, kindOf(name).needs(found)]));
  const able = names.filter((name) => reasons.get(name) === undefined);
  if (prepared.checkpoint === undefined && able.some((name) => name.startsWith('torchvision')))
    writeCheckpoint(setting.python, prepared.model, checkpointOf(setting.work));
  return {
    peers: able.map((name) => createPeer(name, found)),
    skipped: names.flatMap((name) => {
      const reason = reasons.get(name);
      return reason === undefined ? [] : [{ name, what: kindOf(name).what, reason }];
    }),
  };
}

function createPeer(name: PeerName, found: Found): Peer {
  const { setting, prepared } = found;
  const { what, command, writes } = kindOf(name);
  const out = join(setting.work, 'out', name);
  mkdirSync(out, { recursive: true });
  const featuresOf = writes === 'dataset' ? datasetFeatures : peerFeatures;
  return {
    name,
    what,
    command: (photos) => command({ ...found, photos, out }),
    features: writes === 'speed' ? null : featuresOf(out, prepared.request),
  };
}
