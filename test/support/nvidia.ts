/** Texts of nvidia-smi, and a script that plays it. */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';

export const UUIDS = [
  'GPU-11111111-aaaa-bbbb-cccc-000000000001',
  'GPU-12222222-aaaa-bbbb-cccc-000000000002',
  'GPU-33333333-aaaa-bbbb-cccc-000000000003',
] as const;
export const SLICES = [
  'MIG-aaaa1111-2222-5333-8444-555555555555',
  'MIG-bbbb1111-2222-5333-8444-555555555555',
];

/** What the query prints; not in the order of the bus, as no version promises it. */
export const QUERY = `${UUIDS[1]}, 00000000:3B:00.0, NVIDIA A100-SXM4-40GB, 40960, 40000, 580.65.06, Disabled, 8.0
${UUIDS[0]}, 00000000:04:00.0, NVIDIA H100 80GB HBM3, 81559, 81000, 580.65.06, Disabled, 9.0
${UUIDS[2]}, 00000001:01:00.0, NVIDIA GB10, [N/A], [N/A], 580.65.06, [N/A], 12.1
`;

export const DIVIDED = QUERY.replace('580.65.06, Disabled, 8.0', '580.65.06, Enabled, 8.0');

export const LIST = `GPU 0: NVIDIA H100 80GB HBM3 (UUID: ${UUIDS[0]})
GPU 1: NVIDIA A100-SXM4-40GB (UUID: ${UUIDS[1]})
  MIG 3g.20gb     Device  0: (UUID: ${SLICES[0]})
  MIG 1g.5gb      Device  1: (UUID: ${SLICES[1]})
GPU 2: NVIDIA GB10 (UUID: ${UUIDS[2]})
`;

export const HEAD = `Sat Nov 21 15:00:00 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.65.06              Driver Version: 580.65.06      CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
`;

/**
 * Puts a script named nvidia-smi into a folder.
 *
 * @param script - What it does, in sh.
 * @returns The search path on which it comes first.
 */
export function playNvidiaSmi(folder: string, script: string): string {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, 'nvidia-smi');
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return `${folder}${delimiter}${process.env['PATH'] ?? ''}`;
}

/** A script that answers each kind of question. */
export function answering(query: string, list: string = LIST): string {
  return `case "$1" in
--query-gpu=*) cat <<'END'
${query}END
;;
-L) cat <<'END'
${list}END
;;
*) cat <<'END'
${HEAD}END
;;
esac`;
}
