/**
 * Entry of a lane's child process: used where a thread would not do (see lane-start.ts). It ends by itself when the
 * channel closes, so also when its owner is killed.
 */
import { serveLane } from '../lane-server.js';
import type { LaneRequest } from '../protocol.js';

const handle = serveLane(
  {
    send: (reply) => process.send!(reply),
    enter: (step) => step(),
    closed: () => process.disconnect(),
  },
  () => import('./onnxruntime.js'),
);

process.on('message', (request: LaneRequest) => handle(request));
