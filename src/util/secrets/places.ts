/** Secrets that their place gives away: the user part of an address, a header, a cookie, a flag of a command, a column. */

import { isMasked, maskOf } from "./mask.ts";
import { looksRandom } from "./provider-forms.ts";
import { type Rule, rule, when } from "./rule.ts";
import {
  isCode,
  isHarmlessValue,
  isNoPlaceholder,
  isSentenceWord,
  isSpokenValue,
  isTokenLike,
  withoutEnd,
} from "./value.ts";

const QUERY_NAMES =
  "access[_-]?token|refresh[_-]?token|id[_-]?token|auth(?:[_-]?token)?|token|sign(?:ature)?|sig|api[_-]?key|app[_-]?key|key|secret|client[_-]?secret|app[_-]?secret|password|passwd|pwd|pass|x-amz-signature|x-amz-security-token|x-goog-signature|code|ticket|sessionid|session|sid|jwt|otp|private[_-]?token|awsaccesskeyid|credential";

export const placeRules: readonly Rule[] = [
  rule(
    /\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s/:?#@"'<>]{0,100}:(?<secret>[^\s/"'<>]{1,200})@(?=[\w[{-])/gi,
    when(isNoPlaceholder),
  ),
  // A user part without a password is a token where it is long and random.
  rule(
    /\b(?:https?|git|ssh|wss?):\/\/(?<secret>[\w.~%!$&*+=-]{20,200})@(?=[\w[])(?!o\d+\.ingest\.)/gi,
    when(looksRandom),
  ),
  rule(
    new RegExp(`[?&#;](?:${QUERY_NAMES})=(?<secret>[^\\s&#"'<>)\\]，。；、]{6,2000})`, "gi"),
    when((secret) => isNoPlaceholder(secret) && !isCode(secret) && /[\d%+/=_-]|[a-z][A-Z]/.test(secret)),
  ),
  rule(
    /\b(?:proxy-)?authorization["']?\s{0,3}[:=]\s{0,3}["']?(?:(?:bearer|basic|token|digest|apikey|api-key|key|bot|negotiate|aws4-hmac-sha256)\s+)?(?<secret>[^\s"'\x60,;<>]{6,4000})/gi,
    when((secret) => isNoPlaceholder(secret) && !isCode(secret) && !isSentenceWord(secret)),
  ),
  rule(
    /\b(?:bearer|basic)\s{1,3}(?<secret>[A-Za-z0-9._~+/=-]{8,4000})/gi,
    when((secret) => isNoPlaceholder(secret) && !isCode(secret) && isTokenLike(secret)),
  ),
  rule(
    /\b(?:x-(?:[a-z]{1,20}-){0,4}(?:api-key|auth-token|access-token|token|secret|key|signature|authorization)|api-key|ocp-apim-subscription-key|private-token|x-vault-token|x-auth-key)["']?\s{0,3}:\s{0,3}["']?(?<secret>[^\s"'\x60,;<>]{6,4000})/gi,
    when((secret) => isNoPlaceholder(secret) && !isCode(secret) && !isSentenceWord(secret)),
  ),
  cookies,
  // auth=("user", "X")
  rule(
    /(?:\bauth\s{0,3}[=:]\s{0,3}|\bHTTP(?:Basic|Digest|Proxy)Auth)\(\s{0,3}["'][^"'\n]{1,100}["']\s{0,3},\s{0,3}["'](?<secret>[^"'\n]{3,200})["']/g,
    when((secret) => isNoPlaceholder(secret) && !isCode(secret)),
  ),
  // An account of Twilio's, and its token beside it.
  rule(/\bAC[a-f0-9]{32}["']?\s{0,3}[,:/]\s{0,3}["']?(?<secret>[a-f0-9]{32})(?![A-Za-z0-9])/g),
  // curl -u user:password
  rule(/(?<=\s)(?:-u|--user|--proxy-user)[\s=]["']?[^\s:"']{1,100}:(?<secret>[^\s"']{3,200})/g, when(isNoPlaceholder)),
  rule(/\b(?:mysql|mysqldump|mysqladmin)\b[^\n]{0,200}?\s-p(?<secret>[^\s'"-][^\s'"]{3,100})/g, when(isNoPlaceholder)),
  rule(
    /\b(?:sshpass\s+-p|redis-cli\b[^\n]{0,200}?\s-a|docker\s+login\b[^\n]{0,200}?\s-p)\s{1,3}["']?(?<secret>[^\s"']{3,200})/g,
    when(isNoPlaceholder),
  ),
  // --token X, --account-key="X"
  rule(
    /(?<=\s)--?[\w-]{0,40}(?:token|key|password|passwd|pass|secret|pwd)(?:\s{1,3}|=)["']?(?<secret>[^\s"'<>]{4,4000})/gi,
    when(
      (secret) =>
        isNoPlaceholder(secret) &&
        !isCode(secret) &&
        !isHarmlessValue(secret) &&
        (isTokenLike(secret) || isSpokenValue(secret)),
    ),
  ),
  rule(/\bjdbc:[\w:]{3,40}:[\w.$-]{1,60}\/(?<secret>[^\s/@"']{3,100})@/g, when(isNoPlaceholder)),
  rule(/\bnet\s+use\b[^\n]{0,200}?\/user:\S{1,100}\s{1,3}(?<secret>[^\s/]{4,100})/gi, when(isNoPlaceholder)),
  rule(/\bhtpasswd\s+-\w{0,9}b\w{0,9}\s+\S{1,200}\s+\S{1,100}\s+(?<secret>\S{4,100})/g, when(isNoPlaceholder)),
  rule(
    /\becho\s+(?:-n\s+)?["']?(?<secret>[^\s"']{4,200})["']?\s*(?:\|\s*(?:sudo\s+-S|docker\s+login|gh\s+auth|openssl\s+enc|su\b|passwd|vault)|>{1,2}\s*\S{0,100}(?:pass|secret|token|key))/g,
    when((secret) => isNoPlaceholder(secret) && isSpokenValue(secret)),
  ),
  rule(/\bConvertTo-SecureString\s+(?:-String\s+)?["'](?<secret>[^"'\n]{4,200})["']/gi, when(isNoPlaceholder)),
  rule(
    /\bidentified\s+(?:with\s+\S{1,40}\s+)?by\s+(?:password\s+)?["'](?<secret>[^"'\n]{3,200})["']/gi,
    when(isNoPlaceholder),
  ),
  rule(
    /(?:private|preshared|pre-shared)[\s_-]?key[^\n]{0,40}?(?<![A-Za-z0-9+/])(?<secret>[A-Za-z0-9+/]{43}=)(?![A-Za-z0-9+/=])/gi,
  ),
  rule(/"auth"\s{0,3}:\s{0,3}"(?<secret>[A-Za-z0-9+/]{8,2000}={0,2})"/g),
  rule(
    /<(?:[\w:.-]{0,40}(?:password|passwd|secret|token|api-?key|passphrase))>(?<secret>[^<\s]{4,2000})<\//gi,
    when(isNoPlaceholder),
  ),
  // name: X_TOKEN, and the value on the next line
  rule(
    /\bname:\s{1,3}["']?\w{0,60}(?:PASSWORD|PASSWD|SECRET|TOKEN|KEY|PWD)["']?\s{1,20}value:\s{1,3}["']?(?<secret>[^\s"']{4,4000})/gi,
    when((secret) => isNoPlaceholder(secret) && !isCode(secret)),
  ),
  // variable "db_password" { default = "X" }
  rule(
    /"\w{0,60}(?:password|passwd|secret|token|key)"\s{0,5}\{[^}]{0,300}?\b(?:default|value)\s{0,20}=\s{0,3}"(?<secret>[^"\n]{4,2000})"/gi,
    when((secret) => isNoPlaceholder(secret) && !isCode(secret)),
  ),
  // define('DB_PASSWORD', 'X'), setenv("TOKEN", "X")
  rule(
    /(["'])\w{0,60}(?:password|passwd|secret|token|key|salt)\1\s{0,3},\s{0,20}(["'])(?<secret>(?:(?!\2)[^\n]){4,2000})\2/gi,
    when(
      (secret) =>
        isNoPlaceholder(secret) &&
        !isCode(secret) &&
        // A phrase is what a form shows beside the name.
        (!/\s/.test(secret) || secret.length > 40) &&
        (isTokenLike(secret) || isSpokenValue(secret)),
    ),
  ),
  kubernetesSecrets,
  tables,
  // .netrc
  rule(/\bmachine\s+\S{1,200}\s+login\s+\S{1,200}\s+password\s+(?<secret>\S{3,200})/g, when(isNoPlaceholder)),
  // .npmrc
  rule(
    /_(?:authToken|auth|password)\s{0,3}=\s{0,3}"?(?<secret>[^\s"]{6,2000})/g,
    when((secret) => isNoPlaceholder(secret) && !isCode(secret) && isTokenLike(secret)),
  ),
  // .pgpass
  rule(
    /(?<![^\s"'])(?=[\d.]*[a-z*])[\w.*-]{1,100}:(?:\d{2,5}|\*):[\w*-]{1,60}:[\w*-]{1,60}:(?<secret>[^\s"']{4,200})(?![^\s"'])/g,
    when(isNoPlaceholder),
  ),
  // A hashed password, as in shadow and htpasswd files.
  rule(/(?<=[\w-]:)(?<secret>\$(?:1|2[aby]|5|6|y|apr1|argon2\w{1,2})\$[^\s:]{16,200})/g),
];

/** The values of a manifest of kind Secret, whatever their names. */
function kubernetesSecrets(text: string): string {
  if (!/\bkind:\s{0,3}["']?Secret\b/.test(text)) return text;
  return text.replace(
    /^(\s{1,20}[\w.-]{1,100}:\s{1,3}["']?)([A-Za-z0-9+/]{8,8000}={0,2})(?=["']?\s*$)/gm,
    (line, head: string, value: string) => (isTokenLike(value) ? head + maskOf(value) : line),
  );
}

const SECRET_HEADING = /^(?:pass(?:word|wd|phrase|wort)?|pwd|secret|token|api[\s_-]?key|pin|key|密码|口令|密钥|令牌)$/i;

/** A column of a table under a heading that says so. */
function tables(text: string): string {
  if (!text.includes("|")) return text;
  let columns: readonly number[] = [];
  return text
    .split("\n")
    .map((line) => {
      const cells = line.split("|");
      if (cells.length < 3) {
        columns = [];
        return line;
      }
      const headings = cells.flatMap((cell, i) => (SECRET_HEADING.test(cell.replace(/[*_`]/g, "").trim()) ? [i] : []));
      if (headings.length > 0) columns = headings;
      else if (columns.length > 0)
        return cells.map((cell, i) => (columns.includes(i) ? maskedCell(cell) : cell)).join("|");
      return line;
    })
    .join("\n");
}

function maskedCell(cell: string): string {
  const value = withoutEnd(cell.trim(), "`*").replace(/^[`*]+/, "");
  const isSecret = value.length >= 4 && isNoPlaceholder(value) && !/^[:\s-]+$/.test(value) && isSpokenValue(value);
  return isSecret ? cell.replace(value, () => maskOf(value)) : cell;
}

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
