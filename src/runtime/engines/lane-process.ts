/**
 * Entry file of a lane in a child process. lane-start.ts says when a lane is one. The process ends when its channel closes, so also
 * when its owner is killed.
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
