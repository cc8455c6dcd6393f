/** Writes a network without weights. */
import type { Architecture } from './architecture.js';
import { Module } from './module.js';
import { Network } from './network.js';

/** Writes a network with the classes of ImageNet. Sizes stay open where the network leaves them open. */
export function writeNetwork({ write, imageSize = 0 }: Architecture, image: string): Network {
  const network = new Network(17);
  write(new Module(network), { name: image, channels: 3 }, { classes: 1000, imageSize });
  return network;
}
