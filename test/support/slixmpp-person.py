"""Somebody with a client of another make: says what comes in on its standard input, and writes what it hears, a JSON object a line."""

import asyncio
import json
import sys

import slixmpp


class Person(slixmpp.ClientXMPP):
    def __init__(self, jid, password, room, nick):
        super().__init__(jid, password)
        self.room, self.nick = room, nick
        self.last = None
        for plugin in ("xep_0045", "xep_0308", "xep_0198", "xep_0359", "xep_0461"):
            try:
                self.register_plugin(plugin)
            except slixmpp.plugins.base.PluginNotFound:
                pass
        self.add_event_handler("session_start", self.begin)
        self.add_event_handler("message", self.hear)

    async def begin(self, _):
        self.send_presence()
        await self.get_roster()
        self.add_event_handler(f"muc::{self.room}::got_online", self.seen)
        self.plugin["xep_0045"].join_muc(self.room, self.nick)

    def seen(self, presence):
        if presence["muc"]["nick"] == self.nick:
            self.tell(kind="joined")

    def hear(self, message):
        self.tell(kind=message["type"], sender=str(message["from"]), body=message["body"])

    def tell(self, **what):
        print(json.dumps(what), flush=True)

    def say(self, to, body, corrects):
        message = self.make_message(mto=to, mbody=body, mtype="groupchat" if to == self.room else "chat")
        if corrects and self.last is not None:
            message["replace"]["id"] = self.last
        else:
            self.last = message["id"]
        message.send()


async def follow(person):
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        order = json.loads(line)
        person.say(order["to"], order["body"], order.get("corrects", False))
    person.disconnect()


def main():
    jid, password, host, port, ca, room, nick = sys.argv[1:]
    person = Person(jid, password, room, nick)
    person.ca_certs = ca
    person.connect(address=(host, int(port)))
    loop = asyncio.get_event_loop()
    following = loop.create_task(follow(person))
    loop.run_until_complete(person.disconnected)
    following.cancel()


main()
