const HERE = /^(?:(?:.+\.)?localhost\.?|127(?:\.\d+){3}|0\.0\.0\.0|\[::1?\]|\[::ffff:7f[0-9a-f]{2}:[0-9a-f]{1,4}\])$/;

/** Whether an address is this machine's own, as URL writes it. */
export function isLoopback({ hostname }: Pick<URL, "hostname">): boolean {
  return HERE.test(hostname);
}
