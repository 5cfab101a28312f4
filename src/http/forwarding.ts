/**
 * A11: headers that only somebody in between adds: proxies, tunnels, load balancers, content networks. One of them ends the trust in a
 * request without a token. A name too many costs a local client nothing but its token; one too few lets the Internet in.
 */

const NAMES = new Set([
  "via",
  "max-forwards",
  "remote-addr",
  "remote-host",
  "remote-user",
  "remote-name",
  "remote-email",
  "remote-groups",
  "early-data",
  "front-end-https",
  "x-host",
  "x-https",
  "x-scheme",
  "x-url-scheme",
  "x-request-start",
  "x-queue-start",
  "x-cloud-trace-context",
  "x-varnish",
  "x-iinfo",
  "x-nginx-proxy",
  "x-consumer-id",
  "x-coming-from",
  "x-bluecoat-via",
  "x-authenticated-user",
  "x-authenticated-userid",
]);

const PATTERNS: readonly RegExp[] = [
  // Forwarded, X-Forwarded-For, X-Original-Forwarded-For, X-Vercel-Forwarded-For, X-Forwarder-For …
  /forward/,
  // X-Real-IP, True-Client-IP, CF-Connecting-IPv6, X-Cluster-Client-IP, WL-Proxy-Client-IP, X-Azure-ClientIP, X-Remote-IP …
  /(?:^|-)(?:\w*(?:client|socket|connecting|remote|real|source|originating|user|peer|viewer)-?ip|ip)(?:v[46])?(?:$|-)/,
  /(?:^|-)(?:client|remote|viewer|external|peer)-(?:addr|address|port|cert|dn|verify|subject)/,
  // What a proxy has rewritten, and what it says of itself.
  /^x-(?:original|originating|rewrite|real|remote|prox|http-host|ssl|tls|tunnel|edge|lb|haproxy|gateway|webauth|auth-request)(?:-|$|y|ie)/,
  /^(?:proxy|ssl|cdn|wl-proxy|tls)-/,
  // Vendors: Cloudflare, Fastly, Fly, AWS, Azure, Google, Akamai, Envoy, Vercel, Netlify, Imperva, Linkerd, Tailscale, ngrok …
  /^(?:x-)?(?:cf|fastly|fly|amzn|azure|arr|fd|appengine|akamai|envoy|vercel|nf|sucuri|incap|bunny|cloudfront|tailscale|ngrok|railway|heroku|istio|kong|traefik|caddy|zrok|pomerium|authentik|authelia|teleport|localtunnel|serveo|do|ovh)-/,
  /^(?:x-goog-(?:iap|auth)|x-amz-cf|x-ms-client-principal|l5d|x-client-ssl)/,
];

/** The name in any case; `_` counts as `-`, as it does for some servers. */
export function isForwardingHeader(name: string): boolean {
  const plain = name.toLowerCase().replaceAll("_", "-");
  return NAMES.has(plain) || PATTERNS.some((pattern) => pattern.test(plain));
}
