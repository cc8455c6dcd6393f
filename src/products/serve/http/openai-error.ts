/** Errors in the shape of OpenAI's API, for the routes below `/v1`. */
import { HttpError, replyOf, type HttpCode } from './http-error.js';

/** Whether the errors of a path have this shape. */
export function isOpenAiPath(url: string): boolean {
  return /^\/v1(?:[/?]|$)/.test(url);
}

/** The refusal of a request because of one of its fields. */
export class FieldError extends HttpError {
  /** The field, such as `input.3`. */
  readonly param: string;

  /** @param cause - The error of the image that the field holds. Its code is the one that clients see. */
  constructor(param: string, message: string, code: HttpCode = 'REQUEST_INVALID', cause?: unknown) {
    super(code, message, cause === undefined ? {} : { cause });
    this.param = param;
  }
}

/** Codes that OpenAI's API has for the same refusals. The others are ours, in lower case. */
const CODES: Readonly<Partial<Record<string, string>>> = {
  UNAUTHORIZED: 'invalid_api_key',
  TOO_MANY_REQUESTS: 'rate_limit_exceeded',
};

/** The body of an error, as OpenAI's clients read it. */
export function openAiErrorOf(error: unknown): { readonly error: Readonly<Record<string, string | null>> } {
  const { status, code, message } = replyOf(error);
  const param = error instanceof FieldError ? error.param : null;
  const type = status >= 500 ? 'server_error' : status === 429 ? 'rate_limit_error' : 'invalid_request_error';
  return { error: { message, type, param, code: openAiCode(error, param, code) } };
}

function openAiCode(error: unknown, param: string | null, code: string): string {
  if (param === 'model' && code === 'NOT_FOUND') return 'model_not_found';
  const known = error instanceof FieldError && error.cause !== undefined ? replyOf(error.cause).code : code;
  return CODES[known] ?? known.toLowerCase();
}
