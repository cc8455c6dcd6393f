/** Pages to look at. */
export type { ReportOptions } from './report/report-options.js';
export { writeReport, type ReportSummary } from './report/write-report.js';
export type { ReportHeatmaps } from './report/sections/heatmaps.js';
export { writeExplorer, type ExplorerOptions, type ExplorerSummary } from './explore/write-explorer.js';
