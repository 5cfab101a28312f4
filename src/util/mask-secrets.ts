/**
 * Secrets in a text, made unreadable: `sk-p…abcd` for a long one, `…` for one so short that its ends would tell too much. Knows shapes
 * of text and nothing else, so that whatever leaves a session can use it. Pure, and safe to repeat: a mask is no secret.
 *
 * Three kinds of rule, in this order: what a provider's own form gives away (prefixes, JWT, PEM), what a place gives away (the
 * user part of an address, a header, a cookie), and what a name gives away (`password=…`, `密码是…`). A name alone is no secret: behind
 * it must stand something that looks like a value, not a word of the sentence, a placeholder or a piece of code.
 *
 * Where a rule needs context, the secret is its group `secret`; where it has none, the whole match is the secret.
 */

const LONG = 20;

/** What stands in place of a secret. */
export function maskOf(secret: string): string {
  const points = Array.from(secret);
  if (points.length < LONG) return "…";
  return `${points.slice(0, 4).join("")}…${points.slice(-4).join("")}`;
}

export function maskSecrets(text: string): string {
  // Nothing shorter than four characters is a secret, and most lines hold none of the signs.
  if (text.length < 4) return text;
  const kept: string[] = [];
  // A picture is long, holds any letters, and is no secret: it is laid aside.
  let masked = text.includes("base64,") ? text.replace(DATA_URL, (url) => `\u0000${kept.push(url) - 1}\u0000`) : text;
  for (const rule of RULES) masked = rule(masked);
  return kept.length === 0 ? masked : masked.replace(/\u0000(\d+)\u0000/g, (_, n: string) => kept[Number(n)] ?? "");
}

/**
 * Where a text may be cut, at `at` code points or before: never inside a mask, whose two ends belong together.
 * `points` are the code points of a masked text.
 */
export function cutBefore(points: readonly string[], at: number): number {
  if (at >= points.length) return points.length;
  const from = Math.max(0, at - 5);
  // A mask is four characters, the ellipsis, four characters.
  for (let i = from; i < Math.min(points.length, at + 4); i++) {
    if (points[i] !== "…") continue;
    let start = i;
    while (start > 0 && i - start < 4 && isInMask(points[start - 1])) start--;
    let end = i + 1;
    while (end < points.length && end - i <= 4 && isInMask(points[end])) end++;
    if (start < at && at < end) return start;
  }
  return at;
}

function isInMask(point: string | undefined): boolean {
  return point !== undefined && /^[\x21-\x7e]$/.test(point);
}

type Rule = (text: string) => string;

const DATA_URL =
  /data:(?:image|audio|video|font)\/[\w.+-]{1,40}(?:;[\w=.-]{1,40}){0,4};base64,[A-Za-z0-9+/=\s]*[A-Za-z0-9+/=]/g;

/** Replaces what `pick` finds in the group `secret` of every match, or in the whole of it. `pick` gives `""` where there is no secret. */
function rule(pattern: RegExp, pick: (found: string, groups: Groups) => string = (found) => found): Rule {
  return (text) =>
    text.replace(pattern, (...found) => {
      const match = found[0] as string;
      const last: unknown = found.at(-1);
      const hasGroups = typeof last === "object" && last !== null;
      const groups = (hasGroups ? last : {}) as Groups;
      const offset = found.at(hasGroups ? -3 : -2) as number;
      const where = groups.secret ?? match;
      // The first half of a mask is no new secret.
      if (isMasked(where) || text.charAt(offset + match.length) === "…") return match;
      const secret = pick(where, groups);
      if (secret === "") return match;
      const at = match.lastIndexOf(where) + where.indexOf(secret);
      return match.slice(0, at) + maskOf(secret) + match.slice(at + secret.length);
    });
}

type Groups = Readonly<Record<string, string | undefined>>;

function when(isSecret: (secret: string) => boolean): (found: string) => string {
  return (found) => (isSecret(found) ? found : "");
}

function isMasked(text: string): boolean {
  return text.includes("…") || /^[*•x.]+$/i.test(text) || text.includes("\u0000");
}

// ---- what a provider's form gives away

/** Left of a token nothing of a longer word, a path or another token. */
const FREE = "(?<![A-Za-z0-9_/+=.-])";
const W = "[A-Za-z0-9_-]";
const A = "[A-Za-z0-9]";

const PREFIXED = [
  // models
  `sk-(?!(?:learn|icon|color|fade|chase|cube|circle)\\b)(?:[a-z0-9]{2,12}-)*${W}{16,}`,
  `(?:gsk|xai|pplx|r8|fw|tgp_v1|csk|nvapi|jina|together|cohere|voyage|pa|rpa|hf|tvly|fc|pcsk|lsv2_(?:pt|sk)|ls__|wsk|ctx7sk|esecret|r2|fal|sk_[a-z]+|key-[a-z]+)[_-]${W}{20,}`,
  `AIza${W}{30,}`,
  `[a-f0-9]{32}\\.[A-Za-z0-9]{16}(?![A-Za-z0-9])`,
  `sess-${W}{24,}`,
  // code hosts and registries
  `gh[pousr]_${A}{20,}`,
  `github_pat_${W}{20,}`,
  `gl(?:pat|dt|rt|ptt|cbt|agent|soat|ft|imt|rtr|ffct|oas)-${W}{16,}(?:\\.${W}+)*`,
  `(?:npm|pnpm)_${A}{30,}`,
  `pypi-${W}{30,}`,
  `(?:rubygems|cio|crates)_?${A}{32,}`,
  `dckr_(?:pat|oat)_${W}{20,}`,
  `ATBB${A}{20,}`,
  `ATATT3${W}{20,}[=A-F0-9]*`,
  `(?:bkua|buildkite|bb|ccipat|CCIPRJ|circle|atlasv1|tfe?)_${W}{20,}`,
  `${A}{14}\\.atlasv1\\.${W}{40,}`,
  // clouds
  `(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])`,
  `(?:LTAI|AKID|AKLT|JDC_)${A}{12,}`,
  `ya29\\.${W}{20,}(?:\\.${W}+)*`,
  `1//0${W}{20,}`,
  `GOCSPX-${W}{16,}`,
  `do[oprs]_v1_[a-f0-9]{40,}`,
  `dp\\.(?:pt|st|ct|sa|scim|audit)\\.${W}{16,}(?:\\.${W}+)*`,
  `(?:hv[sbr]|s)\\.${W}{20,}`,
  `(?:fo1|fm[12]|FlyV1)[_ ]${W}{20,}(?:[,=+/.A-Za-z0-9_-]*)`,
  `tskey-[a-z]+-${W}{12,}`,
  `dapi[a-f0-9]{32}(?:-\\d)?`,
  `(?:sbp|sb_secret|sb_publishable_secret)_${W}{20,}`,
  `(?:v1\\.0-[a-f0-9]{24}-|cf(?:ut|at|pat)[_-])${W}{20,}`,
  `PMAK-[a-f0-9]{20,}-[a-f0-9]{20,}`,
  `(?:rnd|nfp|vercel|vc[pkiar])_${A}{20,}`,
  `ops_eyJ${W}{20,}`,
  `A3-[A-Z0-9]{6}-[A-Z0-9]{6,}(?:-[A-Z0-9]{5}){3,}`,
  `AGE-SECRET-KEY-1[A-Z0-9]{40,}`,
  `(?:pul|pscale_(?:tkn|pw|oauth)|dnkey|sentry|snyk|linear|fig[duo]|figma|glsa|glc|nrak|NRAK|NRJS|sntr[yu]s|sntry[us]|phx|phs|lin_(?:api|oauth)|ntn|secret|ntn|asana|duffel_(?:test|live)|EZ[AT]K|shippo_(?:live|test)|ion|frs|op|clojars|CLOJARS|airtable|zpka|nb|kaggle|KGAT|mx|ubi|intercom|typeform|tfp|shp(?:at|ca|pa|ss)|whsec|rk_(?:live|test)|sk_(?:live|test|prod)|rk|sq0(?:atp|csp|idp)|pat|ptr|hubspot|AstraCS|dt0[a-z]01|xkeysib|xsmtpsib)[_.:-]${W}{16,}(?:[.:-]${W}+)*`,
  `pat-(?:na|eu|ap)\\d-[a-f0-9-]{36}`,
  `key-[a-f0-9]{32}`,
  `SG\\.${W}{16,}\\.${W}{16,}`,
  `EAA[A-Z]${A}{30,}`,
  `(?:EAAA|sq0)${W}{40,}`,
  // chats
  `xox[abeoprs](?:\\.xox[bp])?-${W}{10,}(?:\\.${W}+)*`,
  `xapp-\\d-${W}{10,}`,
  `\\d{8,10}:AA${W}{20,}`,
  `\\d{8,10}:${W}{35}(?!${W})`,
  `[MNO]${W}{22,27}\\.${W}{6}\\.${W}{25,}`,
  `mfa\\.${W}{60,}`,
  `syt_${W}{5,}_${W}{10,}_${W}{4,}`,
];

/** A random tail has a digit or changes its case; a word behind a dash does not. */
function looksRandom(secret: string): boolean {
  const tail = secret.replace(/^[a-z]+[_-]/, "");
  return /\d/.test(tail) || (/[a-z]/.test(tail) && /[A-Z]/.test(tail)) || /^(?:AK|AS|AB|AC)I?[A-Z]+$/.test(secret);
}

const providerRules: readonly Rule[] = [
  privateKeys,
  rule(
    /PuTTY-User-Key-File-\d:(?:(?!Private-Lines:)[\s\S]){0,4000}Private-Lines: \d+\s+(?<secret>[A-Za-z0-9+/=\s]{16,})/g,
  ),
  rule(new RegExp(`${FREE}(?:${PREFIXED.join("|")})`, "g"), when(looksRandom)),
  // The third part may be cut away.
  rule(/(?<![\w-])eyJ[\w-]{4,4000}\.[\w-]{4,8000}(?:\.[\w-]{0,4000}){0,3}/g, (found) => found.replace(/\.+$/, "")),
  rule(/https:\/\/hooks\.slack(?:-gov)?\.com\/(?:services|workflows|triggers)\/(?<secret>[\w/-]{20,200})/g),
  rule(/https:\/\/(?:\w{1,20}\.)?discord(?:app)?\.com\/api\/(?:v\d+\/)?webhooks\/\d+\/(?<secret>[\w-]{20,200})/g),
  rule(/https:\/\/open\.(?:feishu\.cn|larksuite\.com)\/open-apis\/bot\/v2\/hook\/(?<secret>[\w-]{16,200})/g),
  rule(/https:\/\/[\w.-]{1,80}\.webhook\.office\.com\/webhookb2\/(?<secret>[\w@/-]{20,400})/g),
  rule(/\/bot(?<secret>\d{6,20}:[\w-]{16,100})/g),
];

const PEM_BEGIN = /-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----/g;

/** All between the two lines of a private key; where the second is missing, all that could be of the key. */
function privateKeys(text: string): string {
  if (!text.includes("PRIVATE KEY")) return text;
  let result = "";
  let from = 0;
  for (const begin of text.matchAll(PEM_BEGIN)) {
    const start = begin.index + begin[0].length;
    if (start <= from) continue;
    const end = text.indexOf("-----END", start);
    const rest = text.slice(start, end < 0 ? undefined : end);
    const body = end < 0 ? (/^(?:\\[nr]|[A-Za-z0-9+/=\s:,-])*/.exec(rest)?.[0] ?? "") : rest;
    result += text.slice(from, start);
    from = start + body.length;
    const key = body.trim();
    const isDone = key === "" || isMasked(key) || text.charAt(from) === "…";
    result += isDone ? body : body.replace(key, () => maskOf(key.replace(/\\[nr]|\s/g, "")));
  }
  return result + text.slice(from);
}

// ---- what a place gives away

const QUERY_NAMES =
  "access[_-]?token|refresh[_-]?token|id[_-]?token|auth(?:[_-]?token)?|token|sign(?:ature)?|sig|api[_-]?key|app[_-]?key|key|secret|client[_-]?secret|app[_-]?secret|password|passwd|pwd|pass|x-amz-signature|x-amz-security-token|x-goog-signature|code|ticket|sessionid|session|sid|jwt|otp|private[_-]?token|awsaccesskeyid|credential";

const placeRules: readonly Rule[] = [
  rule(
    /\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s/:?#@"'<>]{0,100}:(?<secret>[^\s/"'<>]{1,200})@(?=[\w[{-])/gi,
    when(isNoPlaceholder),
  ),
  // A user part without a password is a token where it is long and random.
  rule(/\b(?:https?|git|ssh|wss?):\/\/(?<secret>[\w.~%!$&*+=-]{20,200})@(?=[\w[])/gi, when(looksRandom)),
  rule(
    new RegExp(`[?&#;](?:${QUERY_NAMES})=(?<secret>[^\\s&#"'<>)\\]，。；、]{6,2000})`, "gi"),
    when((secret) => isNoPlaceholder(secret) && !isCode(secret) && /[\d%+/=_-]|[a-z][A-Z]/.test(secret)),
  ),
  rule(
    /\b(?:proxy-)?authorization["']?\s{0,3}[:=]\s{0,3}["']?(?:(?:bearer|basic|token|digest|apikey|api-key|key|bot|negotiate|aws4-hmac-sha256)\s+)?(?<secret>[^\s"',;<>]{6,4000})/gi,
    when((secret) => isNoPlaceholder(secret) && !isCode(secret) && !isSentenceWord(secret)),
  ),
  rule(
    /\b(?:bearer|basic)\s{1,3}(?<secret>[A-Za-z0-9._~+/=-]{8,4000})/gi,
    when((secret) => isNoPlaceholder(secret) && !isCode(secret) && isTokenLike(secret)),
  ),
  rule(
    /\b(?:x-(?:[a-z]{1,20}-){0,4}(?:api-key|auth-token|access-token|token|secret|key|signature|authorization)|api-key|ocp-apim-subscription-key|private-token|x-vault-token|x-auth-key)["']?\s{0,3}:\s{0,3}["']?(?<secret>[^\s"',;<>]{6,4000})/gi,
    when((secret) => isNoPlaceholder(secret) && !isCode(secret) && !isSentenceWord(secret)),
  ),
  cookies,
  // curl -u user:password
  rule(/(?<=\s)(?:-u|--user|--proxy-user)[\s=]["']?[^\s:"']{1,100}:(?<secret>[^\s"']{3,200})/g, when(isNoPlaceholder)),
  rule(/\b(?:mysql|mysqldump|mysqladmin)\b[^\n]{0,200}?\s-p(?<secret>[^\s'"-][^\s'"]{3,100})/g, when(isNoPlaceholder)),
  rule(
    /\b(?:sshpass\s+-p|redis-cli\b[^\n]{0,200}?\s-a|docker\s+login\b[^\n]{0,200}?\s-p)\s{1,3}["']?(?<secret>[^\s"']{3,200})/g,
    when(isNoPlaceholder),
  ),
  // .netrc
  rule(/\bmachine\s+\S{1,200}\s+login\s+\S{1,200}\s+password\s+(?<secret>\S{3,200})/g, when(isNoPlaceholder)),
  // .npmrc
  rule(/_(?:authToken|auth|password)\s{0,3}=\s{0,3}"?(?<secret>[^\s"]{6,2000})/g, when(isNoPlaceholder)),
  // .pgpass
  rule(/^[\w.*-]{1,100}:(?:\d{2,5}|\*):[\w*-]{1,60}:[\w*-]{1,60}:(?<secret>\S{4,200})$/gm, when(isNoPlaceholder)),
  // A hashed password, as in shadow and htpasswd files.
  rule(/(?<=[\w-]:)(?<secret>\$(?:1|2[aby]|5|6|y|apr1|argon2\w{1,2})\$[^\s:]{16,200})/g),
];

const COOKIE_ATTRIBUTE =
  /^(?:path|domain|expires|max-age|samesite|secure|httponly|priority|partitioned|version|comment)$/i;

/** Every value of a Cookie or Set-Cookie header that could open a session. */
function cookies(text: string): string {
  return text.replace(
    /((?:set-)?cookie["']?\s{0,3}[:=]\s{0,3}["']?)([^\n"']{3,8000})/gi,
    (all, head: string, line: string) => {
      if (!line.includes("=")) return all;
      return (
        head +
        line.replace(/([\w.$%-]{1,100})=([^;\s,"'…]{6,})(?!…)/g, (pair, name: string, value: string) => {
          const isHarmless =
            COOKIE_ATTRIBUTE.test(name) || isMasked(value) || isCode(value) || !/[\d%._-]|[a-z][A-Z]/.test(value);
          return isHarmless ? pair : `${name}=${maskOf(value)}`;
        })
      );
    },
  );
}

// ---- what a name gives away

const PASSWORD_NAMES = `pass(?:word|wd|phrase|code|wort)?|pwd|psw|passwort|kennwort|contraseña|mot de passe|senha|пароль|パスワード|비밀번호`;
const KEY_NAMES = String.raw`(?:api|app|access|auth|secret|private|account|master|encryption|encrypt|signing|sign|license|licence|service|storage|shared[_-]?access|subscription|consumer|client|session|webhook|deploy|ssh|aes|hmac|jwt|cookie|bot|admin|root|user|server|write|read|project|push|openai|anthropic|deepseek|azure|aws|gcp|google|aliyun|tencent|stripe|github)[\s_-]?(?:secret[\s_-]?)?key|apikey|secret[\s_-]?access[\s_-]?key|secret|client[\s_-]?secret|app[\s_-]?secret|credentials?|token|(?:access|auth|refresh|bearer|bot|id|session|api|csrf|xsrf|personal[\s_-]access|deploy|device|push)[\s_-]?token|authtoken|session[\s_-]?id|sessid|sid|connection[\s_-]?string|recovery[\s_-]?code|backup[\s_-]?code|seed[\s_-]?phrase|mnemonic|salt`;
const CHINESE_NAMES = String.raw`密\s*码|口令|密钥|秘钥|密匙|令牌|私钥|凭证|凭据|验证码|动态码|授权码|校验码|激活码|提取码|支付密码|登录密码|开机密码|暗号|パスワード|密碼|金鑰`;
const NUMBER_NAMES = String.raw`pin(?:\s?code)?|otp|one[- ]time (?:code|password)|verification code|security code|2fa code|mfa code|cvv|cvc|验证码|动态码|校验码|支付密码|密码|取件码|密\s*码|密碼|口令`;

/** What stands between name and value: a sign, or a verb; quotes of JSON and code around it. */
const SIGN = String.raw`["'\x60*_]{0,3}\s{0,3}(?:=>|:=|==?|:|：|＝|→|->)\s{0,3}["'\x60*“「『]{0,3}`;
const VERB = String.raw`["'\x60]?\s{0,3}(?:is|was|are|equals|set to|changed to|reset to|will be|ist|lautet|es|est|为|為|是|就是|改成了?|改为|换成了?|设为|设成了?|设置为|用的是|叫|はです|は)(?:\s(?:now|still|again|just)|现在)?\s{0,3}[:：]?\s{0,3}["'\x60“「『*]{0,3}`;
/** Up to a quote, a space, or a sign that closes; ASCII only, for Chinese has no space behind a value. */
const VALUE = String.raw`(?<secret>[\x21\x23-\x26\x28-\x5f\x61-\x7e]{3,4000})`;
/** The beginning of a longer name: AWS_, db., my- */
const STEM = String.raw`(?<![\w.-])[\w.-]{0,40}?`;

const nameRules: readonly Rule[] = [
  // A quoted password may hold spaces.
  rule(
    new RegExp(String.raw`(?:${PASSWORD_NAMES})["']?\s{0,3}(?:=|:|：|is)\s{0,3}"(?<secret>[^"\n]{4,80})"`, "gi"),
    when(
      (secret) =>
        isNoPlaceholder(secret) && !isCode(secret) && /[\d\p{P}\p{S}]|\p{Ll}\p{Lu}|\s\S+\s\S+\s/u.test(secret),
    ),
  ),
  rule(new RegExp(`(?<name>${STEM}(?:${PASSWORD_NAMES}))(?<sign>${SIGN})${VALUE}`, "gi"), (found, { name, sign }) =>
    namedValue(valueIn(found), { name: name ?? "", sign: sign ?? "", isPassword: true }),
  ),
  rule(new RegExp(`(?<name>${STEM}(?:${KEY_NAMES}))(?<sign>${SIGN})${VALUE}`, "gi"), (found, { name, sign }) =>
    namedValue(valueIn(found), { name: name ?? "", sign: sign ?? "", isPassword: false }),
  ),
  rule(
    new RegExp(
      String.raw`(?:${CHINESE_NAMES})[^\x00-\x7f，。；！？]{0,6}?(?:${SIGN}|${VERB}|\s{1,3}|(?=[A-Za-z0-9]))${VALUE}`,
      "gi",
    ),
    spokenValue,
  ),
  rule(
    new RegExp(
      String.raw`(?:${NUMBER_NAMES})[^\x00-\x7f，。；！？]{0,6}?(?:${SIGN}|${VERB}|\s{0,3})(?<secret>\d[\d -]{2,10}\d)(?![\w.])`,
      "gi",
    ),
  ),
  // In a sentence: "the password for the router is Sommer2024!"
  rule(
    new RegExp(
      String.raw`\b(?:${PASSWORD_NAMES}|token|secret|api[\s_-]?key|access[\s_-]?key|key|credentials?)(?:\s(?:for|of|to|on|at|from|in|für|vom|von|des|der|zum)(?:\s[^\s.,;:!?]{1,40}){1,4}?)?${VERB}${VALUE}`,
      "gi",
    ),
    spokenValue,
  ),
  // "log in with user admin and password Tr0ub4dor&3"
  rule(
    new RegExp(String.raw`\b(?:${PASSWORD_NAMES}|pw)(?:\s{0,3}[:=]\s{0,3}|\s{1,3})["'\x60“]?${VALUE}`, "gi"),
    spokenValue,
  ),
  // "login: admin / hunter2", "账号 admin:hunter2"
  rule(
    /\b(?:login|log in|credentials?|creds|account|账号|账户|帐号|用户名)(?:\s{0,3}(?:is|are|with|:|：|=|为|是))?\s{0,3}["'`]?[\w.@+-]{2,60}\s{0,3}[/:]\s{0,3}(?<secret>[\x21-\x2b\x2d\x2e\x30-\x7e]{5,200})/gi,
    spokenValue,
  ),
];

/** Without what belongs to the sentence, the code or the list around it. */
function valueIn(found: string): string {
  const listed = /^[^;,&|]{3,}(?=[;,&|][\w ]{0,40}[=:])/.exec(found)?.[0] ?? found;
  return listed.replace(/[.,;:!?)\]}>*]+$/, "");
}

interface Named {
  readonly name: string;
  readonly sign: string;
  readonly isPassword: boolean;
}

/** Names that end like a secret's and are none. */
const HARMLESS_NAME =
  /(?<![a-z])(?:max|min|num|total|prompt|completion|input|output|cached|count|limit|next|page|cursor|continuation|sync|pad|eos|bos|unk|mask|sep|cls|stop|special|by|per|no|has|is|show|hide|forgot|reset|change|use|require|invalid|wrong|missing|expired|primary|foreign|partition|sort|public|cache|hot|short|arrow)[\s_-]?(?:key|token|password|secret|pass)$/i;

function namedValue(value: string, named: Named): string {
  return isNamedValue(value, named) ? value : "";
}

function isNamedValue(value: string, { name, sign, isPassword }: Named): boolean {
  if (value.length < (isPassword ? 4 : 8) || !isNoPlaceholder(value) || isCode(value)) return false;
  if (HARMLESS_NAME.test(name)) return false;
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
function spokenValue(found: string): string {
  const value = valueIn(found);
  return isSpokenValue(value) ? value : "";
}

function isSpokenValue(value: string): boolean {
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

function isTokenLike(value: string): boolean {
  if (value.length >= 16) return /\d/.test(value) || /[a-z][A-Z]|[+/=]/.test(value);
  return value.length >= 8 && /\d/.test(value) && /[a-z]/i.test(value);
}

const PLACEHOLDER =
  /^(?:<.*|\[.*|\{.*|\(.*|%.*%|\$.*|@.*|#\{?.*|_+|-+|\.+|…|\*+|x{3,}.*|X{3,}.*|your[-_\s]?.*|my[-_].*|the[-_].*|some[-_].*|insert.*|replace.*|change[-_]?me.*|example.*|sample.*|dummy.*|placeholder.*|redacted.*|hidden.*|masked.*|todo.*|tbd|n\/?a|null|nil|none|undefined|true|false|yes|no|on|off|empty|optional|required|string|number|boolean|text|bool|int|any|void|value|secret|password|token|bearer|xxx+|foo|bar|baz|test|\/.*|~\/.*|\.\.?\/.*|https?:\/\/.*|file:.*|vault:.*|arn:.*|env\(.*)$/i;

function isNoPlaceholder(value: string): boolean {
  return !PLACEHOLDER.test(value) && !isMasked(value) && !/^(.)\1+$/.test(value);
}

/** os.environ["X"], getToken(), config.password, ${X}, String, "a" + b */
function isCode(value: string): boolean {
  return (
    /^\w+(?:\??\.\w+)*\(/.test(value) ||
    /^[a-zA-Z_$][\w$]*(?:\??\.[a-zA-Z_$][\w$]*)+[\])};,]*$/.test(value) ||
    /^(?:process|import|os|env|self|this|config|settings|secrets|ctx|req|request|ENV|System|Deno|Bun)(?:\.|\[|->|::)/.test(
      value,
    ) ||
    /^\w+\[["'\w]/.test(value) ||
    /^(?:str|int|bool|String|Optional|Option|Vec|list|dict|Array|Map|Buffer|Uint8Array|Promise)\b[<[|]?/.test(value) ||
    /\$\{|\{\{|%s|%\(/.test(value)
  );
}

/** A version, a date, a path, a file, an address: it says where something is, or when. */
function isHarmlessValue(value: string): boolean {
  return (
    /^v?\d+(?:\.\d+){1,3}(?:[-+][\w.]+)?$/.test(value) ||
    /^\d{4}-\d{2}-\d{2}/.test(value) ||
    /^[\w.-]+\.(?:json|ya?ml|toml|env|txt|md|ts|js|py|go|rs|pem|crt|cfg|ini|conf|log|html?|sh)$/i.test(value) ||
    /^[\w.+-]+@[\w-]+\.[\w.]+$/.test(value) ||
    /^\d{8}_\d{6}_[0-9a-f]+$/.test(value)
  );
}

const SENTENCE_WORDS = new Set(
  "about above after again against allowed also always and another any are auth based basic because been before bearer being below between both but can cannot correct could default did different does done email empty encrypted enabled disabled every expired failed false field fields first for from generated given gone had has have header headers here how however incorrect input inside into invalid its just kept known last length less like login long lost made managed manager match matches may missing more most must name need needed needs never new not nothing now null one only optional other our outside over own page part pending please policy protected provided provider public read rejected removed required reset rotated same saved security send sent set should short some something soon still stored string such sure text than that the their them then there these they this those through too true type under undefined unknown until unset update updated used user username uses value valid variable verified very was weak were what when where which while who will with without word wrong yes you your".split(
    " ",
  ),
);

function isSentenceWord(value: string): boolean {
  return SENTENCE_WORDS.has(valueIn(value).toLowerCase());
}

const RULES: readonly Rule[] = [...providerRules, ...placeRules, ...nameRules];
