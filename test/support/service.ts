/** A service over a small model, and requests to it. */
import { readFileSync } from 'node:fs';
import { createFeatureExtractor, createTransform, type Extractor } from 'onnx-tapir';
import { createService, type ServiceOptions } from 'onnx-tapir/serve';
import { afterAll } from 'vitest';
import { projectPath, tinyResNet } from './fixtures.js';

export const SMALL = createTransform({ resize: 64, crop: 64 });

const cleanUps: (() => Promise<void>)[] = [];

/** Ends what a test file has started. */
export function cleanUpServices(): void {
  afterAll(async () => {
    for (const cleanUp of cleanUps.reverse()) await cleanUp();
  });
}

/** The small model: vectors of 128. */
export async function openSmall() {
  const extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'v' });
  cleanUps.push(() => extractor.close());
  return extractor;
}

/** The small model with two outputs: vectors and maps. */
export async function openSmallWithMap() {
  const extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'v', layer1: 'map' });
  cleanUps.push(() => extractor.close());
  return extractor;
}

/** A service of an extractor, listening. */
export async function serve(extractor: Extractor, options: Partial<ServiceOptions> = {}) {
  const service = createService(extractor, { transform: SMALL, name: 'tiny', ...options });
  cleanUps.push(() => service.close());
  const url = await service.listen({ port: 0 });
  return { service, url };
}

/** A service of an extractor of its own. */
export async function startService(options: Partial<ServiceOptions> = {}) {
  const extractor = await openSmall();
  return { extractor, ...(await serve(extractor, options)) };
}

/** Bytes of a photo of the examples. */
export function photo(name: string): Buffer<ArrayBuffer> {
  return Buffer.from(readFileSync(projectPath(`examples/photos/${name}`)));
}

/** Sends an image to `/embed`. */
export function postImage(
  url: string,
  image: Uint8Array<ArrayBuffer>,
  init: RequestInit = {},
): Promise<Response> {
  const headers = { 'content-type': 'image/jpeg', ...(init.headers as Record<string, string>) };
  return fetch(`${url}/embed`, { method: 'POST', body: image, ...init, headers });
}

/** What `/embed` answers. */
export interface EmbedReply {
  readonly model: string;
  readonly outputs: readonly { readonly name: string; readonly dtype: string; readonly dims: number[] }[];
  readonly results: readonly {
    readonly index: number;
    readonly name?: string;
    readonly features?: Record<string, number[]>;
    readonly error?: { readonly code: string; readonly message: string };
  }[];
}

/** Status and code of a refusal. */
export async function refusalOf(response: Response): Promise<readonly [number, string]> {
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  return [response.status, error.code];
}
