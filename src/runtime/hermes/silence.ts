/** What Hermes counts as a reply that says nothing, when it is all of the reply. Ours is the last of them. */
const MARKERS: readonly string[] = ["[SILENT]", "SILENT", "NO REPLY", "NO_REPLY"];
const OURS = "NO_REPLY";

/**
 * Keeps back the beginning of a reply for as long as it could still be such a marker alone. `take` and `rest` give what may be shown; all of
 * it together is the reply, with our marker for any of Hermes'.
 */
export class SilenceGate {
  #held: string | null = "";

  take(text: string): string {
    if (this.#held === null) return text;
    const held = this.#held + text;
    const start = held.trim().toUpperCase();
    const isOpen = MARKERS.some((marker) => marker.startsWith(start));
    this.#held = isOpen ? held : null;
    return isOpen ? "" : held;
  }

  /** The reply is over. */
  rest(): string {
    const held = this.#held ?? "";
    this.#held = null;
    return MARKERS.includes(held.trim().toUpperCase()) ? OURS : held;
  }
}
