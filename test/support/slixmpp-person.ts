import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { until } from "./until.ts";

interface PlatformEvent {
  readonly kind: string;
  readonly sender?: string;
  readonly body?: string;
}

/** Somebody with slixmpp, a client that is not of the make of ours (scripts/xmpp-setup.sh installs it). */
export class SlixmppPerson {
  readonly heard: PlatformEvent[] = [];
  readonly #child: ChildProcess;
  #said = "";

  constructor(account: { jid: string; password: string; port: number; ca: string; room: string; nick: string }) {
    const { jid, password, port, ca, room, nick } = account;
    const script = join(import.meta.dirname, "slixmpp-person.py");
    // Debian's own Python, where its package is.
    this.#child = spawn("/usr/bin/python3", [script, jid, password, "127.0.0.1", String(port), ca, room, nick]);
    createInterface({ input: this.#child.stdout! }).on("line", (line) =>
      this.heard.push(JSON.parse(line) as PlatformEvent),
    );
    this.#child.stderr!.on("data", (text) => {
      this.#said += text;
    });
  }

  async joined(): Promise<this> {
    await this.#waits("is in the room", ({ kind }) => kind === "joined");
    return this;
  }

  says(to: string, body: string, { corrects = false } = {}): void {
    this.#child.stdin!.write(`${JSON.stringify({ to, body, corrects })}\n`);
  }

  hears(words: string): Promise<PlatformEvent> {
    return this.#waits(`hears ${words}`, ({ body }) => body === words);
  }

  async leaves(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await gone;
  }

  #waits(what: string, isIt: (heard: PlatformEvent) => boolean): Promise<PlatformEvent> {
    return until(`slixmpp ${what}`, () => {
      if (this.#child.exitCode !== null) throw new Error(`slixmpp has ended: ${this.#said.slice(-2_000)}`);
      return this.heard.find(isIt);
    });
  }
}
