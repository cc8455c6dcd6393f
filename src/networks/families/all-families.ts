/** The networks of all families. */
import { ALEXNETS } from './alexnet.js';
import { CONVNEXTS } from './convnext.js';
import { DENSENETS } from './densenet.js';
import { EFFICIENTNETS } from './efficientnet.js';
import { INCEPTIONS } from './inception.js';
import { MAXVITS } from './maxvit.js';
import { MNASNETS } from './mnasnet.js';
import { MOBILENETS } from './mobilenet.js';
import { REGNETS } from './regnet.js';
import { RESNETS } from './resnet.js';
import { SHUFFLENETS } from './shufflenet.js';
import { SQUEEZENETS } from './squeezenet.js';
import { SWINS } from './swin.js';
import { VGGS } from './vgg.js';
import { VITS } from './vit.js';
import type { Architecture } from '../architecture.js';

/** All networks by torchvision's names. */
export const ARCHITECTURES: ReadonlyMap<string, Architecture> = new Map(
  Object.entries({
    ...ALEXNETS,
    ...CONVNEXTS,
    ...DENSENETS,
    ...EFFICIENTNETS,
    ...INCEPTIONS,
    ...MAXVITS,
    ...MNASNETS,
    ...MOBILENETS,
    ...REGNETS,
    ...RESNETS,
    ...SHUFFLENETS,
    ...SQUEEZENETS,
    ...SWINS,
    ...VGGS,
    ...VITS,
  }),
);
