/** Secrets that a name in front of them gives away: `password=…`, `密码是…`. */

import { maskOf } from "./mask.ts";
import { type Rule, rule, when } from "./rule.ts";
import {
  isCode,
  isHarmlessValue,
  isNoPlaceholder,
  isSentenceWord,
  isSpokenValue,
  isTokenLike,
  namedValue,
  spokenValue,
  valueIn,
} from "./value.ts";

const PASSWORD_NAMES = `pass(?:word|wd|phrase|code|wort)?|pwd|psw|kennwort|contraseña|mot de passe|senha|hasło|wachtwoord|lösenord`;
const KEY_NAMES = String.raw`(?:api|app|access|auth|secret|private|account|master|encryption|encrypt|signing|sign|license|licence|service|storage|shared[_-]?access|subscription|consumer|client|session|webhook|deploy|ssh|aes|hmac|jwt|cookie|bot|admin|root|user|server|write|read|project|push|openai|anthropic|deepseek|azure|aws|gcp|google|aliyun|tencent|stripe|github)[\s_-]?(?:secret[\s_-]?)?key|apikey|secret[\s_-]?access[\s_-]?key|secret|client[\s_-]?secret|app[\s_-]?secret|credentials?|token|(?:access|auth|refresh|bearer|bot|id|session|api|csrf|xsrf|personal[\s_-]access|deploy|device|push)[\s_-]?token|authtoken|session[\s_-]?id|[a-z]{0,10}sess(?:id|data|ion_token)?|bduss|bili_jct|sid|(?:pre[\s_-]?)?shared[\s_-]?key|access[\s_-]?key[\s_-]?id|secret[\s_-]?id|connection[\s_-]?string|recovery[\s_-]?code|backup[\s_-]?code|seed[\s_-]?phrase|mnemonic|salt`;
const CHINESE_NAMES = String.raw`密\s*码|口令|密钥|秘钥|密匙|令牌|私钥|凭证|凭据|验证码|动态码|授权码|校验码|激活码|提取码|支付密码|登录密码|开机密码|暗号|パスワード|密碼|金鑰`;
const NUMBER_NAMES = String.raw`pin(?:\s?code)?|otp|one[- ]time (?:pass)?(?:code|word)|verification code|security code|2fa code|mfa code|cvv|cvc|验证码|动态码|校验码|支付密码|密码|取件码|密\s*码|密碼|口令`;

/** What stands between name and value: a sign, or a verb; quotes of JSON and code around it. */
const SIGN = String.raw`["'\x60*_\\]{0,4}(?:\s?\([^)\n]{0,30}\))?\s{0,3}(?:=>|:=|==?|:|：|＝|→|->)\s{0,3}(?:[>|][+-]?\s{1,20})?["'\x60*“「『\\]{0,4}`;
const VERB = String.raw`["'\x60]?(?:['’]s(?=\s)|\s{1,3}(?:is|to|was|are|equals|set to|changed to|reset to|will be|ist|lautet|es|est|c['’]est)\b|\s{1,3}é(?=\s)|\s{0,3}(?:为|為|是|就是|改成了?|改为|换成了?|设为|设成了?|设置为|用的是|叫|はです|は))(?:\s(?:now|still|again|just)|现在)?\s{0,3}[:：]?\s{0,3}["'\x60“「『*]{0,3}`;
/** Up to a quote, a space, or a sign that closes; ASCII only, for Chinese has no space behind a value. */
const VALUE = String.raw`(?<secret>[\x21\x23-\x26\x28-\x5f\x61-\x7e]{3,4000})`;
/** What it is the password of. */
const OF = String.raw`(?:\s(?:for|of|to|on|at|from|in|fürs?|fuer|vom|von|des|der|zum|pour|du|de|del|da|do|para)(?:\s[^\s.,;:!?]{1,40}){1,4}?|\s(?:there|here)(?=\s))`;
/** The beginning of a longer name: AWS_, db., my- */
const STEM = String.raw`(?<![\w.-])[\w.-]{0,40}?`;
/** Behind a name: it was no part of a resource's. Asked of names only: at every place of a text it would cost more than all else. */
const NO_RESOURCE = String.raw`(?<!\barn:[^\s]{0,120}\k<name>)`;

export const nameRules: readonly Rule[] = [
  // A quoted password may hold spaces.
  rule(
    new RegExp(String.raw`(?:${PASSWORD_NAMES})["']?\s{0,3}(?:=|:|：|is)\s{0,3}"(?<secret>[^"\n]{4,80})"`, "gi"),
    when(
      (secret) =>
        isNoPlaceholder(secret) && !isCode(secret) && /[\d\p{P}\p{S}]|\p{Ll}\p{Lu}|\s\S+\s\S+\s/u.test(secret),
    ),
  ),
  rule(
    new RegExp(`(?<name>${STEM}(?:${PASSWORD_NAMES}))${NO_RESOURCE}(?<sign>${SIGN})${VALUE}`, "gi"),
    (found, { name, sign }) => namedValue(valueIn(found), { name: name ?? "", sign: sign ?? "", isPassword: true }),
  ),
  rule(
    new RegExp(`(?<name>${STEM}(?:${KEY_NAMES}))${NO_RESOURCE}(?<sign>${SIGN})${VALUE}`, "gi"),
    (found, { name, sign }) => namedValue(valueIn(found), { name: name ?? "", sign: sign ?? "", isPassword: false }),
  ),
  rule(
    new RegExp(
      String.raw`(?:${CHINESE_NAMES})[^\x00-\x7f，。；！？]{0,6}?(?:${SIGN}|${VERB}|\s{1,3}|(?=[A-Za-z0-9]))${VALUE}`,
      "gi",
    ),
    spokenValue,
  ),
  // In languages whose letters are not ASCII, or whose names we know only a few of.
  rule(
    new RegExp(
      String.raw`(?:пароль|пароля|парола|ключ|暗証(?:番号|キー)|パスワード|パスコード|비밀번호|암호|schlüssel|kennwort|passwort|contraseña|clave|mot de passe|senha|hasło|wachtwoord|lösenord|parola|şifre)[^\x21-\x7e\n]{0,24}?(?:${SIGN}|${VERB}|[—–-]\s{0,3})?\s{0,3}${VALUE}`,
      "gi",
    ),
    spokenValue,
  ),
  // Behind a sign a Chinese name takes any word of ASCII letters for its value.
  rule(
    new RegExp(String.raw`(?:${CHINESE_NAMES})\s{0,2}[:：=＝]\s{0,2}(?<secret>[A-Za-z]{8,64})(?![\w.:/(-])`, "g"),
    when((secret) => isNoPlaceholder(secret) && !isSentenceWord(secret)),
  ),
  // The code of a shared folder, or of a message: short, and nothing but letters.
  rule(/(?:提取码|访问码|取件码|验证码|校验码)\s{0,2}[:：]\s{0,2}(?<secret>[A-Za-z0-9]{4,8})(?![\w.])/g),
  // Groups of four, as authenticators and mail providers show them.
  rule(
    /(?:totp|2fa|otp|authenticator|two-factor|app(?:[\s-]specific)?)\s{0,2}(?:secret|seed|key|password|passwords)[^\n\w]{0,3}(?:is\s)?(?<secret>[a-z0-9]{4}(?:[ -][a-z0-9]{4}){3,15})/gi,
  ),
  codeLists,
  rule(
    new RegExp(
      String.raw`(?:${NUMBER_NAMES})[^\x00-\x7f，。；！？]{0,6}?(?:${SIGN}|${VERB}|\s{0,3})(?<secret>\d[\d -]{2,10}\d)(?![\w.])`,
      "gi",
    ),
  ),
  // In a sentence: "the alarm code at home is 4471"
  rule(
    new RegExp(
      String.raw`\b(?:pin(?:\s?code)?|passcode|(?:alarm|door|gate|entry|lock|safe|access)[\s-]code|türcode|zugangscode|code\spin)(?:${OF})?(?:${VERB}|${SIGN})\s{0,3}(?<secret>\d{4,8}[#*]?)(?![\w.,]\d)(?!\w)`,
      "gi",
    ),
  ),
  rule(/\b(?:alarm|door|gate|lock|safe)[\s-]code\s{1,2}(?<secret>\d{4,8}[#*]?)(?![\w.,]\d)(?!\w)/gi),
  // "482913 is your login code"
  rule(
    /(?<![\w.,-])(?:G-)?(?<secret>\d{3,4}[ -]?\d{2,4})(?=\s(?:is|ist|est|es)\s(?:your|dein|ihr|votre|su|tu)\b[^\n]{0,60}\b(?:code|passcode|otp|pin|tan|código)\b)/gi,
  ),
  // "anna@example.com / Popcorn!Night7"
  rule(
    /\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}\s{1,3}[/|]\s{1,3}(?<secret>[\x21-\x2e\x30-\x7e]{6,80})/g,
    when((secret) => isSpokenValue(secret) && /\d/.test(secret) && /[A-Za-z]/.test(secret)),
  ),
  // "aws configure set aws_secret_access_key X"
  rule(
    /\b(?:set|setx|put|add)\s{1,3}["']?[\w.-]{0,60}(?:key|token|passwo?r?d|secret)["']?\s{1,3}["']?(?<secret>[^\s"']{8,4000})/gi,
    when((secret) => isNoPlaceholder(secret) && !isCode(secret) && !isHarmlessValue(secret) && isTokenLike(secret)),
  ),
  // "Passwort fürs NAS: Katze&Hund77"
  rule(new RegExp(String.raw`\b(?:${PASSWORD_NAMES}|pw)${OF}${SIGN}${VALUE}`, "gi"), spokenValue),
  // In a sentence: "the password for the router is Sommer2024!"
  rule(
    new RegExp(
      String.raw`\b(?:${PASSWORD_NAMES}|pw|token|secret|api[\s_-]?key|access[\s_-]?key|key|credentials?)(?:${OF})?${VERB}${VALUE}`,
      "gi",
    ),
    spokenValue,
  ),
  // "log in with user admin and password Tr0ub4dor&3"
  rule(
    new RegExp(
      String.raw`\b(?:(?!pass\b)(?:${PASSWORD_NAMES}|pw))(?:\s{0,3}[:=]\s{0,3}|\s{1,3})["'\x60“]?${VALUE}`,
      "gi",
    ),
    spokenValue,
  ),
  // AK=…, SK是…
  rule(
    /(?<![A-Za-z])(?:AK|SK|ak|sk)\s{0,2}(?:[:：=]|是|为|is)\s{0,2}["'`]?(?<secret>[A-Za-z0-9+/=_-]{16,200})/g,
    when(isTokenLike),
  ),
  // "login: admin / hunter2", "账号 admin:hunter2"
  rule(
    /\b(?:login|log in|credentials?|creds|account|账号|账户|帐号|用户名)(?:\s{0,3}(?:is|are|with|:|：|=|为|是))?\s{0,3}["'`]?[\w.@+-]{2,60}\s{0,3}[/:]\s{0,3}(?<secret>[\x21-\x2b\x2d\x2e\x30-\x7e]{5,200})/gi,
    spokenValue,
  ),
];

/** Codes for the day the phone is lost, one a line or in a row. */
function codeLists(text: string): string {
  return text.replace(
    /((?:recovery|backup|scratch|emergency)\s(?:codes?|keys?)|恢复码|备用码|恢复代码)([^\n]{0,40}?(?:[:：\n]|\s(?:are|is|sind))\s{0,5})((?:(?:[-*]|\d{1,2}[.)])?\s{0,3}[A-Za-z0-9]{4,10}(?:[ -][A-Za-z0-9]{4,10}){0,5}[\s,;]{0,4}){1,20})/gi,
    (_, name: string, between: string, list: string) =>
      name +
      between +
      list.replace(/[A-Za-z0-9]{4,10}(?:-[A-Za-z0-9]{4,10}){0,5}/g, (code) =>
        // Behind a verb may stand a sentence, with a year in it.
        /\d/.test(code) && (code.length > 4 || /[:：\n]\s*$/.test(between)) ? maskOf(code) : code,
      ),
  );
}
