/** The door of this room: features at places, and their colours. */
export { blendHeatmap, rgbOf, type DrawnImage } from './blend-heatmap.js';
export { classColour, classMask, MOST_CLASSES } from './class-mask.js';
export { colourOf, HEATMAP_OPACITY, INFERNO, type Colour } from './colour-map.js';
export { findMaps, readMaps, rowOf, toImage, type Maps, type Size } from './maps.js';
export { COLOUR_CLIP, principalColours, toBytes } from './principal-colours.js';
