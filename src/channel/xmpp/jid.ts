import { normalized } from "../../util/normalized.ts";

/** Addresses. The bare part is compared in lower case, a resource (a nick) as it is, in one Unicode form. */

export function bareOf(jid: string): string {
  const slash = jid.indexOf("/");
  return (slash < 0 ? jid : jid.slice(0, slash)).toLowerCase();
}

export function resourceOf(jid: string): string {
  const slash = jid.indexOf("/");
  return slash < 0 ? "" : normalized(jid.slice(slash + 1), "NFC");
}

export function domainOf(jid: string): string {
  const bare = bareOf(jid);
  return bare.slice(bare.indexOf("@") + 1);
}

export function localOf(jid: string): string {
  const bare = bareOf(jid);
  const at = bare.indexOf("@");
  return at < 0 ? "" : bare.slice(0, at);
}
