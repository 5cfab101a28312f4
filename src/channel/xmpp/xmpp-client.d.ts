/** What the driver uses of @xmpp/client 0.14, which has no types of its own; the published ones lack stream management. */
declare module "@xmpp/client" {
  import type { EventEmitter } from "node:events";

  export interface Element {
    name: string;
    attrs: Record<string, string | undefined>;
    children: (Element | string)[];
    parent: Element | null;
    is(name: string, xmlns?: string): boolean;
    getName(): string;
    getNS(): string | undefined;
    getChild(name: string, xmlns?: string): Element | undefined;
    getChildren(name: string, xmlns?: string): Element[];
    getChildElements(): Element[];
    getChildText(name: string, xmlns?: string): string | null;
    getText(): string;
    append(...nodes: (Element | string)[]): void;
    toString(): string;
  }

  export type Xml = (
    name: string,
    attrs?: Record<string, string | undefined>,
    ...children: (Element | string | null)[]
  ) => Element;

  /** A class whose prototype says which services it serves, and by which socket. */
  export interface Transport {
    prototype: { Socket: new () => object; socketParameters(service: string): unknown };
  }

  export interface StreamManagement extends EventEmitter {
    enabled: boolean;
    timeout: number;
    requestAckInterval: number;
  }

  export interface Client extends EventEmitter {
    status: string;
    timeout: number;
    socket: (EventEmitter & { end(): void }) | null;
    parser: { write(text: string): void } | null;
    transports: Transport[];
    reconnect: { stop(): void };
    streamManagement: StreamManagement;
    iqCaller: { request(stanza: Element, timeoutMs?: number): Promise<Element> };
    iqCallee: {
      get(xmlns: string, name: string, handler: (context: { element: Element }) => Element): void;
    };
    connect(service: string): Promise<void>;
    open(options: { domain: string }): Promise<unknown>;
    send(stanza: Element): Promise<void>;
    stop(): Promise<unknown>;
    disconnect(): Promise<unknown>;
    _onData(data: Buffer | string): void;
    _closeStream(timeoutMs?: number): Promise<unknown>;
  }

  export const xml: Xml;
  export function client(options: {
    service: string;
    domain: string;
    resource: string;
    username: string;
    password: string;
  }): Client;
}
