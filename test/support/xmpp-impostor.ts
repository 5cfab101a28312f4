import { once } from "node:events";
import { createServer, type Socket } from "node:net";

/**
 * A server that speaks just enough XMPP to let an account in, without encryption, and then does what a test wants: the bad and the
 * big, which no real server does to order.
 */
export interface XmppImpostor {
  readonly service: string;
  /** What clients have sent, per connection, as text. */
  readonly heard: readonly string[];
  /** Says something to the newest connection. */
  says(text: string): void;
  /** Answers for a part of the stream, instead of the usual: return null for the usual. */
  answer: (heard: string) => string | null;
  stop(): Promise<void>;
}

export const IMPOSTOR_DOMAIN = "impostor.test";
const HEADER = `<?xml version='1.0'?><stream:stream from='${IMPOSTOR_DOMAIN}' id='1' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>`;
const SASL = "urn:ietf:params:xml:ns:xmpp-sasl";
const BIND = "urn:ietf:params:xml:ns:xmpp-bind";
const SM = "urn:xmpp:sm:3";

export async function startImpostor({ hasManagement = false } = {}): Promise<XmppImpostor> {
  const heard: string[] = [];
  const sockets = new Set<Socket>();
  let newest: Socket | null = null;
  const server = createServer((socket) => {
    const at = heard.push("") - 1;
    let isIn = false;
    newest = socket;
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("close", () => sockets.delete(socket));
    socket.on("data", (data) => {
      const text = data.toString("utf8");
      heard[at] += text;
      for (const part of text.match(
        /<(?:\?xml[^>]*>\s*<stream:stream[^>]*>|auth[\s\S]*?<\/auth>|iq[\s\S]*?<\/iq>|enable[^>]*>|presence[\s\S]*?(?:\/>|<\/presence>)|message[\s\S]*?<\/message>|r xmlns[^>]*>|\/stream:stream>)/g,
      ) ?? []) {
        const answered = impostor.answer(part) ?? usual(part, isIn, hasManagement);
        if (part.startsWith("<auth")) isIn = true;
        if (answered !== "") socket.write(answered);
        if (part.startsWith("</stream")) socket.end();
      }
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const impostor: XmppImpostor = {
    service: `xmpp://127.0.0.1:${port}`,
    heard,
    says: (text) => newest?.write(text),
    answer: () => null,
    async stop() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return impostor;
}

function usual(part: string, isIn: boolean, hasManagement: boolean): string {
  if (part.startsWith("</stream")) return "</stream:stream>";
  const id = /\sid=["']([^"']+)["']/.exec(part)?.[1] ?? "";
  const to = /\sto=["']([^"']+)["']/.exec(part)?.[1];
  if (part.startsWith("<?xml")) {
    const login = `<mechanisms xmlns='${SASL}'><mechanism>PLAIN</mechanism></mechanisms>`;
    const session = `<bind xmlns='${BIND}'/>${hasManagement ? `<sm xmlns='${SM}'/>` : ""}`;
    return `${HEADER}<stream:features>${isIn ? session : login}</stream:features>`;
  }
  if (part.startsWith("<auth")) return `<success xmlns='${SASL}'/>`;
  if (part.startsWith("<enable")) return `<enabled xmlns='${SM}' id='s1' resume='true'/>`;
  if (part.startsWith("<iq") && part.includes(BIND))
    return `<iq type='result' id='${id}'><bind xmlns='${BIND}'><jid>mohe@${IMPOSTOR_DOMAIN}/tertulia</jid></bind></iq>`;
  if (part.startsWith("<iq") && /type=["'](?:get|set)/.test(part))
    return `<iq type='error' id='${id}'${to === undefined ? "" : ` from='${to}'`}><error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>`;
  return "";
}
