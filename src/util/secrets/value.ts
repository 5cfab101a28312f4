import { isMasked } from "./mask.ts";

/** Whether what stands behind a name, or in a place, looks like a secret: and not like a word, a placeholder or a piece of code. */

/** Without what belongs to the sentence, the code or the list around it. */
export function valueIn(found: string): string {
  const listed = /^[^;,&|]{3,}(?=[;,&|][\w ]{0,40}[=:])/.exec(found)?.[0] ?? found;
  return withoutEnd(listed, ".,;:!?)]}>*\\");
}

/** Without the signs at its end: a pattern would look for the end from each of them anew. */
export function withoutEnd(text: string, signs: string): string {
  let end = text.length;
  while (end > 0 && signs.includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}

interface Named {
  readonly name: string;
  readonly sign: string;
  readonly isPassword: boolean;
}

/** Names that end like a secret's and are none. */
const HARMLESS_NAME =
  /(?<![a-z])(?:max|min|num|total|prompt|completion|input|output|cached|count|limit|next|page|cursor|continuation|sync|pad|eos|bos|unk|mask|sep|cls|stop|special|by|per|no|has|is|show|hide|forgot|reset|change|use|require|invalid|wrong|missing|expired|primary|foreign|partition|sort|public|cache|hot|short|arrow)[\s_-]?(?:key|token|password|secret|pass)$/i;

export function namedValue(value: string, named: Named): string {
  return isNamedValue(value, named) ? value : "";
}

function isNamedValue(value: string, { name, sign, isPassword }: Named): boolean {
  if (value.length < (isPassword ? 4 : 8) || !isNoPlaceholder(value) || isCode(value)) return false;
  if (HARMLESS_NAME.test(name)) return false;
  // "pass: timeout=30s": a verb, and an argument.
  if (/^pass$/i.test(name) && /^\s*:/.test(sign) && /^[a-z_]+=/i.test(value)) return false;
  if (/^\d+(?:[.,]\d+)?[a-z%]{0,3}$/i.test(value)) return isPassword && /^\d{4,}$/.test(value);
  if (isHarmlessValue(value)) return false;
  if (/^\p{L}+$/u.test(value)) {
    // One word: a value only where it cannot be the sentence's, and does not say what the value is.
    if (isMixed(value) && value.length >= 8) return true;
    const isAssigned = /^=$/.test(sign.trim()) || /["']/.test(sign);
    return isPassword && isAssigned && value.length >= 5 && !isSentenceWord(value);
  }
  if (/^[a-z]+(?:[-_][a-z]+)+$/i.test(value)) return isPassword ? value.length >= 12 && /[=]/.test(sign) : false;
  return isPassword || isTokenLike(value);
}

/** Behind a verb or nothing stands mostly a word of the sentence. */
export function spokenValue(found: string): string {
  const value = valueIn(found);
  return isSpokenValue(value) ? value : "";
}

export function isSpokenValue(value: string): boolean {
  if (value.length < 4 || !isNoPlaceholder(value) || isCode(value) || isHarmlessValue(value)) return false;
  if (/^\d+$/.test(value)) return value.length >= 4;
  if (
    /^\d+(?:[.,:/-]\d+)*(?:st|nd|rd|th|s|ms|min|h|d|kb|mb|gb|k|%|-?(?:bit|char(?:acter)?s?|digits?|days?|hours?|minutes?))?$/i.test(
      value,
    )
  )
    return false;
  if (/^[a-z]+(?:['’-][a-z]+)*$/i.test(value)) return isMixed(value) && value.length >= 8;
  return /\d/.test(value) ? /[a-z\p{P}\p{S}]/iu.test(value) : /[^\w\s.,;:!?()'"`/-]/.test(value) && value.length >= 6;
}

function isMixed(value: string): boolean {
  return (
    /[a-z][A-Z]/.test(value) &&
    /[A-Z][a-zA-Z]*[A-Z]|[a-z][A-Z]{2}/.test(value) &&
    !/^(?:[A-Z]?[a-z]+)(?:[A-Z][a-z]+)+$/.test(value)
  );
}

export function isTokenLike(value: string): boolean {
  if (value.length >= 16) return /\d/.test(value) || /[a-z][A-Z]|[+/=]/.test(value);
  return value.length >= 8 && /\d/.test(value) && /[a-z]/i.test(value);
}

const PLACEHOLDER =
  /^(?:<.*|[})\]].*|![a-z_]+|\[.*|\{.*|\(.*|%.*%|\$.*|@.*|#\{?.*|_+|-+|\.+|…|\*+|x{3,}.*|X{3,}.*|your[-_\s]?.*|my[-_].*|the[-_].*|some[-_].*|insert.*|replace.*|change[-_]?me.*|example.*|sample.*|dummy.*|placeholder.*|redacted.*|hidden.*|masked.*|todo.*|tbd|n\/?a|null|nil|none|undefined|true|false|yes|no|on|off|empty|optional|required|string|number|boolean|text|bool|int|any|void|value|secret|password|token|bearer|xxx+|foo|bar|baz|test|\/.*|~\/.*|\.\.?\/.*|https?:\/\/.*|file:.*|vault:.*|arn:.*|env\(.*)$/i;

export function isNoPlaceholder(value: string): boolean {
  return !PLACEHOLDER.test(value) && !/<[\w -]+>/.test(value) && !isMasked(value) && !/^(.)\1+$/.test(value);
}

/** os.environ["X"], getToken(), config.password, ${X}, String, "a" + b */
export function isCode(value: string): boolean {
  return (
    /^\w+(?:\??\.\w+)*\(/.test(value) ||
    /^_[a-z_]+$/.test(value) ||
    /^(?:null|void 0|undefined|true|false)[,;)]/.test(value) ||
    /^[a-zA-Z_$][\w$]*(?:\??\.[a-zA-Z_$][\w$]*)+[\])};,]*$/.test(value) ||
    /^(?:process|import|os|env|self|this|config|settings|secrets|ctx|req|request|ENV|System|Deno|Bun)(?:\.|\[|->|::)/.test(
      value,
    ) ||
    /^\w+\[["'\w]/.test(value) ||
    /^(?:str|int|bool|String|Optional|Option|Vec|list|dict|Array|Map|Buffer|Uint8Array|Promise)\b[<[|]?/.test(value) ||
    /\$\{|\{\{|^%[sdv]$|%\(/.test(value)
  );
}

/** A version, a date, a path, a file, an address: it says where something is, or when. */
export function isHarmlessValue(value: string): boolean {
  return (
    /^v?\d+(?:\.\d+){1,3}(?:[-+][\w.]+)?$/.test(value) ||
    /^\d{4}-\d{2}-\d{2}/.test(value) ||
    /^(?:aes[-_]?\d{3}[\w-]*|rsa[-_]?\d{3,4}|sha-?\d{1,3}(?:[-_]\w+)?|md5|ecdsa[\w-]*|ed25519|(?:curve|x)25519[\w-]*|hmac-[\w-]*|chacha20[\w-]*|bcrypt|argon2\w*|pbkdf2[\w-]*|scrypt|[hre]s(?:256|384|512))$/i.test(
      value,
    ) ||
    /^[\w.+-]+@[\w-]+\.[\w.]+$/.test(value) ||
    /^\d{8}_\d{6}_[0-9a-f]+$/.test(value) ||
    /^agent:[\w-]+:/.test(value)
  );
}

const SENTENCE_WORDS = new Set(
  "about above after again against allowed also always and another any are auth based basic because been before bearer being below between both but can cannot correct could default did different does done email empty encrypted enabled disabled every expired failed false field fields first for from generated given gone had has have header headers here how however incorrect input inside into invalid its just kept known last length less like login long lost made managed manager match matches may missing more most must name need needed needs never new not nothing now null one only optional other our outside over own page part pending please policy protected provided provider public read rejected removed required reset rotated same saved security send sent set should short some something soon still stored string such sure text than that the their them then there these they this those through too true type under undefined unknown until unset update updated used user username uses value valid variable verified very was weak were what when where which while who will with without word wrong yes you your".split(
    " ",
  ),
);

export function isSentenceWord(value: string): boolean {
  return SENTENCE_WORDS.has(valueIn(value).toLowerCase());
}
