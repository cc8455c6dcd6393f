/**
 * What of a URL names a photo, and what only fetches it. Signatures, tokens and passwords are credentials, and each signature of one object is
 * another text: a name has none of them.
 */

/** Which part of a URL is the name of its photo. */
export type UrlName = 'auto' | 'url' | 'path';

/**
 * Parameters of the signatures of S3, Google, Azure, CloudFront, Alibaba, Tencent, Huawei, Volcengine, Swift and Akamai, in lower case. What such a
 * service does to a photo (`x-oss-process`) is not one of them.
 */
const SIGNATURE =
  /^(?:x-(?:amz|goog|obs|cos)-.+|x-(?:oss|tos)-(?!process$).+|q-(?:sign|ak|key|header|url|signature).*|(?:aws|google|oss)?access(?:key)?id|key-pair-id|sig|signature|temp_url_(?:sig|expires)|hdn(?:ea|ts|tl)|__token__)$/;
/** Parameters that are secrets by their name. They could also number photos, which `'url'` is for. */
const SECRET =
  /^(?:(?:[a-z0-9]+[-_.])*(?:token|secret|password|passwd|pwd|jwt|auth|authorization|credentials?|hmac|sas|sign|expires)|(?:[a-z0-9]+[-_.])*(?:api|access|secret|private|subscription|auth)[-_.]?key|(?:access|auth|session|id|security)token|tempauth|pub_secret|rlkey|hm|oh)$/;
/** What only a signature goes with: alone, it may be a name. The short ones are Azure's. */
const COMPANION =
  /^(?:expires?|expiry|exp|ex|is|e|oe|policy|ttl|security-token|hash-algorithm|x-id|s[eprsvi]|st|spr|srt|sip|sdd|scid|s[ak]oid|suoid|skoid|sktid|sk[estv]|rsc[cdelt])$/;
/** JSON Web Tokens and Google's keys, whatever they are called. */
const SECRET_VALUE = /^(?:eyJ[\w-]{8,}\.[\w-]+\.[\w-]*|AIza[\w-]{35})$/;

const URL_START = /^[a-z][a-z0-9+.-]*:\/\//i;
/** A URL and nothing behind it. Its path may have spaces. */
const URL_ALONE = /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#]*(?:\/[^?#]*)?(?:[?#]\S*)?$/i;
/** The length of a scheme is bounded: a text of a megabyte may hold none. */
const URL_INSIDE = /[a-z][a-z0-9+.-]{0,30}:\/\/[^\s"<>]+/gi;
/** URLs in parameters of URLs; the query of one that lies deeper is left out. */
const MOST_NESTED = 4;
const USER = /(:\/\/)[^/?#]*@/g;

/**
 * Returns the name that a URL gives its photo: parts of the URL as they are written. Any other text stays as it is.
 *
 * @param rule - `auto`: without user, password and credentials of the query. `url`: without user and password, and without the signatures of clouds.
 * `path`: its path alone.
 */
export function nameOfUrl(text: string, rule: UrlName = 'auto'): string {
  return nameOf(text, rule, 0);
}

function nameOf(text: string, rule: UrlName, depth: number): string {
  if (!URL_START.test(text)) return text;
  const end = text.search(/[?#]/);
  const address = (end < 0 ? text : text.slice(0, end)).replaceAll(USER, '$1');
  if (rule === 'path') return address.replace(/^[^:]+:\/\/[^/]*\/?/, '') || address;
  return end < 0 || depth > MOST_NESTED
    ? address
    : address + text.slice(end).replaceAll(/\?[^#]*|#[\s\S]*/g, (part) => withoutSecrets(part, rule, depth));
}

/** A query or a fragment, with its mark, without its credentials; nothing if it had nothing else. */
function withoutSecrets(part: string, rule: UrlName, depth: number): string {
  const given = part.slice(1).split('&');
  const isSecret = (text: string): boolean => {
    const [name, value] = readParameter(text);
    return SIGNATURE.test(name) || SECRET_VALUE.test(value) || (rule === 'auto' && SECRET.test(name));
  };
  const isSigned = given.some((one) => one.split(';').some(isSecret));
  const kept = given.flatMap((one) => {
    if (isSecret(one) || (isSigned && COMPANION.test(readParameter(one)[0]))) return [];
    // Some servers separate parameters with semicolons.
    const left = isSigned
      ? one
          .split(';')
          .filter((piece) => !isSecret(piece))
          .join(';')
      : one;
    return [nestedName(left, rule, depth + 1)];
  });
  if (kept.length === given.length && kept.every((one, at) => one === given[at])) return part;
  const left = kept.filter((one) => one !== '').join('&');
  return left === '' ? '' : part[0]! + left;
}

/** A URL as the value of a parameter, as proxies of photos take it. */
function nestedName(parameter: string, rule: UrlName, depth: number): string {
  const [, value, start] = readParameter(parameter);
  const name = nameOf(value, rule, depth);
  return name === value ? parameter : start + encodeURIComponent(name);
}

/** The name of a parameter in lower case, its value, and the text before the value. */
function readParameter(text: string): readonly [name: string, value: string, start: string] {
  const end = text.indexOf('=');
  const name = end < 0 ? text : text.slice(0, end);
  return [
    decoded(name).trim().toLowerCase(),
    decoded(text.slice(name.length + 1)),
    text.slice(0, name.length + 1),
  ];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A text for people or for a file, in which URLs have no credentials. */
export function hideSecrets(text: string): string {
  if (URL_ALONE.test(text)) return nameOfUrl(text);
  return text.includes('://') ? text.replaceAll(URL_INSIDE, (url) => nameOfUrl(url)) : text;
}

/** A text of JSON, in whose texts URLs have no credentials. Everything else stays as it is written. */
export function hideSecretsOfJson(json: string): string {
  // Some writers escape slashes.
  if (!/:(?:\\?\/|\\u002f){2}/i.test(json)) return json;
  return json.replaceAll(/"[^"\\]*(?:\\.[^"\\]*)*"/gs, (literal) => {
    const text = JSON.parse(literal) as string;
    const hidden = hideSecrets(text);
    return hidden === text ? literal : JSON.stringify(hidden);
  });
}
