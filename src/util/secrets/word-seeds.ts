import { type Rule, rule, when } from "./rule.ts";

const SEED_NAMES = String.raw`(?:seed|mnemonic|recovery|backup|wallet)(?:[\s_-]?(?:phrase|words|seed|backup|mnemonic))?|助记词|助記詞|恢复短语`;
/** Words that sentences are made of, and wallets are not. */
const FUNCTION_WORDS =
  /\b(?:the|and|was|for|are|not|but|his|her|she|had|with|from|would|their|which|who|how|has|been|were|than|them|our|its|into|some|could|should|your)\b/;

/** The words of a wallet: behind a name that says so, or twelve and more that make no sentence. */
export const wordSeeds: Rule = (text) =>
  [
    rule(
      new RegExp(
        String.raw`(?:${SEED_NAMES})[^\n]{0,30}?(?:[:：=是"“]|\bis\b)\s{0,5}["“]?(?<secret>(?:\d{1,2}[.)]\s{0,2})?[a-z]{3,8}(?:[\s,]{1,3}(?:\d{1,2}[.)]\s{0,2})?[a-z]{3,8}){11,23})`,
        "gi",
      ),
    ),
    rule(
      new RegExp(
        String.raw`(?:${SEED_NAMES})[^\n]{0,10}?[:：=是"“]\s{0,5}(?<secret>[\u4e00-\u9fff](?:\s[\u4e00-\u9fff]){11,23})`,
        "g",
      ),
    ),
    rule(
      /(?<![\w'-][ ])(?<![\w'-])(?<secret>[a-z]{3,8}(?: [a-z]{3,8}){11,23})(?![ ]?[\w'-])/g,
      when((words) => [12, 15, 18, 21, 24].includes(words.split(" ").length) && !FUNCTION_WORDS.test(words)),
    ),
  ].reduce((masked, apply) => apply(masked), text);
