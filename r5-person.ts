import { createInterface } from "node:readline";
import { client, xml } from "@xmpp/client";

const [user, nick, room] = process.argv.slice(2) as [string, string, string];
const c = client({
  service: "xmpp://127.0.0.1:25922",
  domain: "home.test",
  resource: "pc",
  username: user,
  password: `pw-${user}`,
});
c.on("error", (e) => console.log("error", e.message));
c.on("stanza", (s) => {
  if (s.is("message") && s.getChildText("body"))
    console.log(`<${s.attrs.type} ${s.attrs.from}> ${s.getChildText("body")}`);
  if (s.is("presence")) console.log(`(${s.attrs.type ?? "here"} ${s.attrs.from})`);
});
await c.start();
await new Promise((r) => setTimeout(r, 300));
await c.send(xml("presence"));
await c.send(
  xml(
    "presence",
    { to: `${room}/${nick}` },
    xml("x", { xmlns: "http://jabber.org/protocol/muc" }, xml("history", { maxstanzas: "0" })),
  ),
);
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "!open")
    await c.iqCaller
      .request(
        xml(
          "iq",
          { type: "set", to: room },
          xml(
            "query",
            { xmlns: "http://jabber.org/protocol/muc#owner" },
            xml(
              "x",
              { xmlns: "jabber:x:data", type: "submit" },
              xml("field", { var: "FORM_TYPE" }, xml("value", {}, "http://jabber.org/protocol/muc#roomconfig")),
              xml("field", { var: "muc#roomconfig_whois" }, xml("value", {}, "anyone")),
            ),
          ),
        ),
      )
      .then(
        () => console.log("opened"),
        (e) => console.log("open failed", e.message),
      );
  else if (line.startsWith("!dm ")) {
    const [, to, ...t] = line.split(" ");
    await c.send(xml("message", { to, type: "chat" }, xml("body", {}, t.join(" "))));
  } else if (line.startsWith("!nick ")) await c.send(xml("presence", { to: `${room}/${line.slice(6)}` }));
  else if (line.startsWith("!subject "))
    await c.send(xml("message", { to: room, type: "groupchat" }, xml("subject", {}, line.slice(9))));
  else await c.send(xml("message", { to: room, type: "groupchat" }, xml("body", {}, line)));
}
