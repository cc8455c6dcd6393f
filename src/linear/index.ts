/** The door of this room: rows of numbers times weights, on any device. */
export {
  columnsOf,
  distanceGraph,
  gramGraph,
  matrixGraph,
  momentGraph,
  objectiveGraph,
  pairGraph,
  queryGraph,
  scoreGraph,
  type BlockObjective,
  type PairProducts,
  type QueryScores,
} from './row-graphs.js';
export { openRowSession, rowsTensor, vectorTensor, type Feeds, type RowSession } from './row-session.js';
