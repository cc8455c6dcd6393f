export function saveNpy(path: string, dims: readonly number[], chunks: readonly Float32Array[]): void;
