/** The words that model servers and agents have for a conversation that is too long for the model. */
const OVERFLOW = new RegExp(
  [
    "context[_ ](?:length|size|window|limit)|context_exceeded|maximum (?:prompt|context)|range of input length",
    "(?:prompt|input|conversation) is too (?:long|large)|too many (?:input |prompt )?tokens|reduce the length|too large for model with",
    "token limit|(?:input )?token count|max_(?:total|input|model)_(?:tokens|length|len)\\b|`?inputs`? tokens \\+",
    "(?:prompt|input|conversation)[^.]{0,60}exceed[^.]{0,60}(?:length|tokens|maximum|limit)",
  ].join("|"),
  "i",
);

export function saysOverflow(text: string): boolean {
  return OVERFLOW.test(text);
}
