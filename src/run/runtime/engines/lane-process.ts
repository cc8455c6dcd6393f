/**
 * Entry file of a lane in a child process. lane-start.ts says when a lane is one. The process ends when its channel closes, so also
 * when its owner is killed.
 */
import { serveLane } from '../lanes/lane-server.js';
import type { BindingName, EngineName } from '../capabilities/capabilities.js';
import { BINDING_VARIABLE, ENGINE_VARIABLE, type LaneRequest } from '../lanes/protocol.js';
import { loadEngine } from './load-engine.js';

const handle = serveLane(
  {
    send: (reply) => process.send!(reply),
    enter: (step) => step(),
    closed: () => process.disconnect(),
  },
  () => loadEngine(process.env[ENGINE_VARIABLE] as EngineName, process.env[BINDING_VARIABLE] as BindingName),
);

process.on('message', (request: LaneRequest) => handle(request));
