/** The networks of all families. */
import { ALEXNETS } from './alexnet.js';
import { CONVNEXTS } from './convnext.js';
import { DENSENETS } from './densenet.js';
import { DETECTIONS } from './detection.js';
import { EFFICIENTNETS } from './efficientnet.js';
import { INCEPTIONS } from './inception.js';
import { MAXVITS } from './maxvit.js';
import { MNASNETS } from './mnasnet.js';
import { MOBILENETS } from './mobilenet.js';
import { MVITS } from './mvit.js';
import { REGNETS } from './regnet.js';
import { RESNETS } from './resnet.js';
import { S3DS } from './s3d.js';
import { SEGMENTATIONS } from './segmentation.js';
import { SHUFFLENETS } from './shufflenet.js';
import { SQUEEZENETS } from './squeezenet.js';
import { SSDS } from './ssd.js';
import { SWINS } from './swin.js';
import { VGGS } from './vgg.js';
import { VIDEO_RESNETS } from './video-resnet.js';
import { VITS } from './vit.js';
import type { Architecture } from '../architecture.js';

/** All networks by torchvision's names. */
export const ARCHITECTURES: ReadonlyMap<string, Architecture> = new Map(
  Object.entries({
    ...ALEXNETS,
    ...CONVNEXTS,
    ...DENSENETS,
    ...DETECTIONS,
    ...EFFICIENTNETS,
    ...INCEPTIONS,
    ...MAXVITS,
    ...MNASNETS,
    ...MOBILENETS,
    ...MVITS,
    ...REGNETS,
    ...RESNETS,
    ...S3DS,
    ...SEGMENTATIONS,
    ...SHUFFLENETS,
    ...SQUEEZENETS,
    ...SSDS,
    ...SWINS,
    ...VGGS,
    ...VIDEO_RESNETS,
    ...VITS,
  }),
);
