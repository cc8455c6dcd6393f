/** The errors of requests: a code, its status, and a message for the client. */
import { isTapirError, type ErrorCode, type TapirError } from '../../../base/errors.js';

/** The service's own codes with their status. Errors of images keep their own codes. */
const STATUS = {
  REQUEST_INVALID: 400,
  UNAUTHORIZED: 401,
  URL_REFUSED: 403,
  URLS_DISABLED: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  NOT_ACCEPTABLE: 406,
  REQUEST_TIMEOUT: 408,
  BODY_TOO_LARGE: 413,
  TOO_MANY_IMAGES: 413,
  MEDIA_TYPE_UNSUPPORTED: 415,
  URL_FAILED: 422,
  TOO_MANY_REQUESTS: 429,
  HEADERS_TOO_LARGE: 431,
  // Not sent, because nobody listens: the client left before the answer. The number is nginx's.
  CLIENT_GONE: 499,
  INTERNAL: 500,
  NOT_IMPLEMENTED: 501,
  QUEUE_FULL: 503,
  SHUTTING_DOWN: 503,
} as const;

export type HttpCode = keyof typeof STATUS;

/** Status of errors of images and models; errors that are not listed are not the request's fault and have status 500. */
const TAPIR_STATUS: Readonly<Partial<Record<ErrorCode, number>>> = {
  IMAGE_UNREADABLE: 422,
  IMAGE_TRUNCATED: 422,
  IMAGE_MISFIT: 422,
  IMAGE_EMPTY: 422,
  IMAGE_TOO_LARGE: 413,
  INPUT_MISMATCH: 400,
  BATCH_FIXED: 400,
  CLOSED: 503,
};

/** The refusal of a request, or of one of its images. */
export class HttpError extends Error {
  readonly code: HttpCode;

  constructor(code: HttpCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }

  get status(): number {
    return STATUS[this.code];
  }
}

/** An error as a reply describes it. */
export interface ErrorReply {
  readonly status: number;
  readonly code: HttpCode | ErrorCode;
  readonly message: string;
}

const BY_STATUS: Readonly<Record<number, HttpCode>> = {
  404: 'NOT_FOUND',
  408: 'REQUEST_TIMEOUT',
  413: 'BODY_TOO_LARGE',
  415: 'MEDIA_TYPE_UNSUPPORTED',
  431: 'HEADERS_TOO_LARGE',
};

/** Describes anything that was thrown. Of errors that are not the request's fault it tells at most the code. */
export function replyOf(error: unknown): ErrorReply {
  if (isTapirError(error)) {
    const status = TAPIR_STATUS[error.code] ?? 500;
    const message = status === 500 ? `the model could not be run [${error.code}]` : error.message;
    return { status, code: error.code, message };
  }
  if (error instanceof HttpError) return { status: error.status, code: error.code, message: error.message };
  // Fastify and its plugins state it.
  const { statusCode, message } = error as Error & { readonly statusCode?: unknown };
  if (error instanceof Error && typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500) {
    const code = BY_STATUS[statusCode] ?? 'REQUEST_INVALID';
    return { status: STATUS[code], code, message };
  }
  return { status: 500, code: 'INTERNAL', message: 'internal error' };
}

/** The body of a reply that describes anything that was thrown. */
export function errorBody(error: unknown): { readonly error: Omit<ErrorReply, 'status'> } {
  const { code, message } = replyOf(error);
  return { error: { code, message } };
}

/** Whether an error concerns one image of a request, so that the others can be embedded. */
export function isAboutImage(error: unknown): error is TapirError | HttpError {
  if (isTapirError(error)) return error.code.startsWith('IMAGE_');
  return error instanceof HttpError && error.code.startsWith('URL_');
}
