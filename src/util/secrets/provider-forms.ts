/** Secrets that their own form gives away: the prefixes of providers, JWT, PEM. */

import { isMasked, maskOf } from "./mask.ts";
import { type Rule, rule, when } from "./rule.ts";

/** Left of a token nothing of a longer word, a path or another token. */
const FREE = "(?<![A-Za-z0-9_/+.-])";
const W = "[A-Za-z0-9_-]";
const A = "[A-Za-z0-9]";

const PREFIXED = [
  // models
  `sk-(?!(?:learn|icon|color|fade|chase|cube|circle)\\b)(?:[a-z0-9]{2,12}-)*${W}{16,}`,
  `(?:gsk|xai|pplx|r8|fw|tgp_v1|csk|nvapi|jina|together|cohere|voyage|pa|rpa|hf|tvly|fc|pcsk|lsv2_(?:pt|sk)|ls__|wsk|ctx7sk|esecret|r2|fal|sk_[a-z]+|key-[a-z]+)[_-]${W}{20,}`,
  `AIza${W}{30,}`,
  `[a-f0-9]{32}\\.[A-Za-z0-9]{16}(?![A-Za-z0-9])`,
  `sess-${W}{24,}`,
  `sk_[a-f0-9]{32,}`,
  `apify_api_${A}{20,}`,
  // code hosts and registries
  `gh[pousr]_${A}{20,}`,
  `github_pat_${W}{20,}`,
  `gl(?:pat|dt|rt|ptt|cbt|agent|soat|ft|imt|rtr|ffct|oas)-${W}{16,}(?:\\.${W}+)*`,
  `(?:npm|pnpm)_${A}{30,}`,
  `pypi-${W}{30,}`,
  `(?:rubygems|cio|crates)_?${A}{32,}`,
  `dckr_(?:pat|oat)_${W}{20,}`,
  `ATBB${A}{20,}`,
  `AT[AC]TT3${W}{20,}[=A-F0-9]*`,
  `sq[upa]_[a-f0-9]{40}`,
  `oy2[a-z0-9]{43}`,
  `(?:bkua|buildkite|bb|ccipat|CCIPRJ|circle|atlasv1|tfe?)_${W}{20,}`,
  `${A}{14}\\.atlasv1\\.${W}{40,}`,
  // clouds
  `(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])`,
  `(?:LTAI|AKID|AKLT|JDC_)(?=[A-Za-z]*\\d)${A}{12,}`,
  `ABSK(?=[A-Za-z]*\\d)[A-Za-z0-9+/]{40,}={0,2}`,
  `SK[a-f0-9]{32}(?![a-z0-9])`,
  `pat${A}{14}\\.[a-f0-9]{64}`,
  `xprv${A}{90,}`,
  `[5KL][1-9A-HJ-NP-Za-km-z]{50,51}(?![A-Za-z0-9])`,
  `sl\\.(?:u\\.)?${W}{60,}`,
  `ya29\\.${W}{20,}(?:\\.${W}+)*`,
  `1//0${W}{20,}`,
  `GOCSPX-${W}{16,}`,
  `do[oprs]_v1_[a-f0-9]{40,}`,
  `dp\\.(?:pt|st|ct|sa|scim|audit)\\.${W}{16,}(?:\\.${W}+)*`,
  `(?:hv[sbr]|s)\\.${W}{20,}`,
  `(?:fo1|fm[12]|FlyV1)[_ ]${W}{20,}(?:[,=+/.A-Za-z0-9_-]*)`,
  `tskey-[a-z]+-${W}{12,}`,
  `HRKU-${W}{30,}`,
  `SCW[A-Z0-9]{17}`,
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
  `mlsn\\.[a-f0-9]{40,}`,
  `re_(?=\\w*\\d)${A}{6,}_${A}{16,}`,
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
export function looksRandom(secret: string): boolean {
  // sk-xxxxxxxx: the form of a key, shown to somebody.
  if (/(.)\1{7}/.test(secret)) return false;
  const tail = secret.replace(/^[a-z]+[_-]/, "");
  return (
    /\d/.test(tail) ||
    /[A-Za-z]{24}/.test(tail) ||
    (/[a-z]/.test(tail) && /[A-Z]/.test(tail)) ||
    /^(?:AK|AS|AB|AC)I?[A-Z]+$/.test(secret)
  );
}

export const providerRules: readonly Rule[] = [
  privateKeys,
  // PuTTY's.
  rule(/\bPrivate-Lines: \d{1,4}\s+(?<secret>[A-Za-z0-9+/=\s]{16,})/g),
  rule(new RegExp(`${FREE}(?:${PREFIXED.join("|")})`, "g"), when(looksRandom)),
  // The third part may be cut away.
  rule(/(?<![\w-])eyJ[\w-]{4,4000}\.[\w-]{4,8000}(?:\.[\w-]{0,4000}){0,3}/g, (found) => found.replace(/\.+$/, "")),
  rule(
    /https:\/\/hooks\.slack(?:-gov)?\.com\/(?:services|workflows|triggers)\/(?<secret>[\w/-]{20,200})/g,
    when((secret) => !/X{8}/i.test(secret)),
  ),
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
  let end = 0;
  for (const begin of text.matchAll(PEM_BEGIN)) {
    const start = begin.index + begin[0].length;
    if (start <= from) continue;
    // Where there is none behind one line, there is none behind the next.
    if (end >= 0 && end < start) end = text.indexOf("-----END", start);
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
