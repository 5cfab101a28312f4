import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";

/** Programs that pass connections on: tunnels, reverse proxies, the far ends of published ports. */
const ALWAYS = new Set(
  [
    [
      "cloudflared",
      "ngrok",
      "frpc",
      "bore",
      "rathole",
      "chisel",
      "localtunnel",
      "lt",
      "zrok",
      "inlets",
      "pinggy",
      "devtunnel",
      "sish",
    ],
    ["caddy", "nginx", "haproxy", "traefik", "envoy", "socat", "varnishd", "httpd", "apache2", "mitmproxy", "vite"],
    ["slirp4netns", "pasta", "rootlesskit", "rootlessport", "gvproxy", "docker-proxy", "kubectl"],
  ].flat(),
);

/** Names of such programs that run as this user, each once; of everybody's where `uid` is `any`. Empty where there is no /proc. */
export function forwardersOf(uid: number | "any", proc = "/proc"): readonly string[] {
  const names = pids(proc).flatMap((pid) => {
    try {
      if (uid !== "any" && statSync(join(proc, pid)).uid !== uid) return [];
      const name = forwarderIn(readFileSync(join(proc, pid, "cmdline"), "utf8").split("\0"));
      return name === null ? [] : [name];
    } catch {
      // It has ended meanwhile, or is nobody's business.
      return [];
    }
  });
  return [...new Set(names)].sort();
}

function pids(proc: string): readonly string[] {
  try {
    return readdirSync(proc).filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

/** A script is called by its interpreter: its own name is the second word. */
function forwarderIn(words: readonly string[]): string | null {
  // A process can write over its words: `nginx: master process`.
  const named = words.map((word) => basename(word.split(/:? /, 1)[0]!).replace(/\.(?:js|mjs|cjs|py)$/, ""));
  const [program = "", script = ""] = named;
  if (program === "ssh" || program === "autossh")
    return words.some((word) => /^-\w*R/.test(word)) ? `${program} -R` : null;
  if (ALWAYS.has(program)) return program;
  return /^(?:node|bun|python3?|deno)$/.test(program) && ALWAYS.has(script) ? script : null;
}
