/**
 * Every error a person sees has a code, a sentence and a remedy (E3). This table is the only place where the three stand;
 * the HTTP status and the command's exit code are here too. Stack traces are for the log.
 */
interface ErrorKind {
  readonly status: number;
  /** 1 the request was refused or failed; 2 the call or the configuration is wrong; 3 the state or the machine is not usable. */
  readonly exit: 1 | 2 | 3;
  readonly remedy: string;
}

const KINDS = {
  source_invalid: {
    status: 400,
    exit: 1,
    remedy: "Send the missing or corrected field; `tertulia explain` shows how a source is read.",
  },
  request_invalid: { status: 400, exit: 2, remedy: "Correct the request; docs/http.md shows each one." },
  body_too_large: { status: 413, exit: 1, remedy: "Send a smaller body." },
  content_type: { status: 415, exit: 1, remedy: "Send the body as application/json." },
  unauthorized: {
    status: 401,
    exit: 1,
    remedy: "Send `Authorization: Bearer <token>` with a token that is known; `tertulia token` prints the owner's.",
  },
  forbidden: { status: 403, exit: 1, remedy: "Use a conversation of your own, or ask the owner." },
  origin_refused: {
    status: 403,
    exit: 1,
    remedy: "Call from the same origin, or from a program that sends no Origin header.",
  },
  runtime_unknown: { status: 404, exit: 1, remedy: "`tertulia runtimes` lists the runtimes." },
  agent_unknown: { status: 404, exit: 1, remedy: "`GET /v1/models` or `tertulia doctor` lists the agents." },
  conversation_unknown: { status: 404, exit: 1, remedy: "`tertulia sessions list --json` shows the keys." },
  session_unknown: { status: 404, exit: 1, remedy: "`tertulia sessions list` shows the sessions." },
  message_unknown: { status: 404, exit: 1, remedy: "Check the id; ids of messages are numbers." },
  route_unknown: { status: 404, exit: 1, remedy: "docs/http.md lists the routes." },
  method_unknown: { status: 405, exit: 1, remedy: "Use one of the methods that the Allow header names." },
  request_late: { status: 408, exit: 1, remedy: "Send the whole request without a pause." },
  headers_too_large: { status: 431, exit: 1, remedy: "Send at most 16 KB of headers." },
  session_required: {
    status: 400,
    exit: 2,
    remedy:
      "Name the session with --session ID (TERTULIA_SESSION_ID is used when set), or say --no-session to bind nothing.",
  },
  session_ended: { status: 409, exit: 1, remedy: "Choose a live session, or `/resume` that one first." },
  not_shared: {
    status: 403,
    exit: 1,
    remedy:
      "Say --share (`share` over HTTP), or set rooms.<room>.share; or send with --no-session, which binds nothing.",
  },
  agent_mismatch: {
    status: 409,
    exit: 1,
    remedy: "Choose a session of the agent that speaks there; `tertulia sessions list` shows whose each is.",
  },
  idempotency_conflict: { status: 422, exit: 1, remedy: "Use a new Idempotency-Key for a different body." },
  queue_full: { status: 429, exit: 1, remedy: "Wait for the agent to answer, or stop its turn with /stop." },
  too_many: { status: 429, exit: 1, remedy: "Wait a moment, and send less at once." },
  busy: { status: 429, exit: 1, remedy: "Wait until the running turn has ended, or /stop it." },
  rate_limited: {
    status: 429,
    exit: 1,
    remedy: "Wait as long as it says; the owner sets how many under `limits:` (docs/access.md).",
  },
  turn_failed: {
    status: 424,
    exit: 1,
    remedy: "Ask again; what was said is kept, `tertulia sessions show` prints it.",
  },
  turn_interrupted: {
    status: 424,
    exit: 1,
    remedy: "Ask again under a new Idempotency-Key; what had been said is kept in the session.",
  },
  turn_withdrawn: {
    status: 424,
    exit: 1,
    remedy: "Send it again if it still matters.",
  },
  turn_timeout: { status: 424, exit: 1, remedy: "Ask again, or raise turn.turn_idle_timeout or turn.turn_timeout." },
  runtime_failed: { status: 502, exit: 1, remedy: "Try again; `tertulia runtimes` says what each lacks." },
  runtime_resting: {
    status: 503,
    exit: 1,
    remedy: "Wait a moment and try again; `tertulia runtimes` says what each lacks.",
  },
  runtime_died: { status: 502, exit: 1, remedy: "Try again: the agent is started anew with the conversation so far." },
  store_unavailable: {
    status: 503,
    exit: 3,
    remedy:
      "Free some disk space; nothing that was acknowledged is lost, and the next message works without a restart.",
  },
  store_corrupt: {
    status: 500,
    exit: 3,
    remedy:
      "Put the right state.db and its -wal back; or say `tertulia state set-aside --yes`, which moves what is there under a dated name, and start anew or with a copy.",
  },
  store_newer: { status: 500, exit: 3, remedy: "Install the newer Tertulia again; this one does not touch the file." },
  store_older: { status: 500, exit: 3, remedy: "Start the gateway once: it migrates the file forward." },
  stale_claim: { status: 503, exit: 3, remedy: "Another gateway has taken over this state; stop this one." },
  gateway_running: {
    status: 409,
    exit: 3,
    remedy: "Use the running gateway, stop it, or choose another folder with --home.",
  },
  gateway_down: { status: 503, exit: 3, remedy: "Start it with `tertulia start`." },
  gateway_stopping: { status: 503, exit: 3, remedy: "Try again in a moment." },
  port_taken: {
    status: 500,
    exit: 3,
    remedy: "Choose another port with --port or TERTULIA_PORT, or end the program that uses it.",
  },
  home_unwritable: {
    status: 500,
    exit: 3,
    remedy: "Give yourself the right to write there, or choose another folder with --home or TERTULIA_HOME.",
  },
  digest_home: {
    status: 500,
    exit: 2,
    remedy: "Name the folder of the digest's files with --home, or set digest.home.",
  },
  digest_damaged: {
    status: 500,
    exit: 1,
    remedy:
      "Put the two marker lines right by hand, each once and on a line of its own, or take both away; then `tertulia digest install`.",
  },
  digest_group_leak: {
    status: 403,
    exit: 1,
    remedy: "Say --i-accept-group-leak if everybody who reads there may know what the owner says at other doors.",
  },
  foreign_state: {
    status: 500,
    exit: 3,
    remedy: "Name Hermes' own file with --state, such as ~/.hermes/state.db, and try again when nobody locks it.",
  },
  disk_full: { status: 503, exit: 3, remedy: "Free some disk space, then start again; nothing was changed." },
  config_invalid: { status: 500, exit: 2, remedy: "Correct what is named; `tertulia config check` shows all of it." },
  usage: { status: 400, exit: 2, remedy: "`tertulia help` shows the commands." },
  internal: { status: 500, exit: 3, remedy: "Please report this with the lines of the log around it." },
} as const satisfies Record<string, ErrorKind>;

export type ErrorCode = keyof typeof KINDS;

export const ERROR_CODES = Object.keys(KINDS) as readonly ErrorCode[];

export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(KINDS, code);
}

/** The one error type of the project. `message` is a sentence for a person; the remedy comes from the table unless a closer one is given. */
export class TertuliaError extends Error {
  override readonly name = "TertuliaError";
  readonly code: ErrorCode;
  readonly remedy: string;
  /** Of `config_invalid`, where the file is not at hand: the key that is wrong, below what was to be built. */
  readonly setting: string | undefined;

  constructor(code: ErrorCode, sentence: string, options: { cause?: unknown; remedy?: string; setting?: string } = {}) {
    super(sentence, options.cause === undefined ? {} : { cause: options.cause });
    this.code = code;
    this.remedy = options.remedy ?? KINDS[code].remedy;
    this.setting = options.setting;
  }

  get status(): number {
    return KINDS[this.code].status;
  }

  get exitCode(): number {
    return KINDS[this.code].exit;
  }

  /** As shown on the wire and by `--json`. */
  toJSON(): { code: ErrorCode; message: string; remedy: string } {
    return { code: this.code, message: this.message, remedy: this.remedy };
  }
}

/** A bug becomes `internal`; what is already ours stays. Used at the four borders that catch. */
export function asTertuliaError(cause: unknown): TertuliaError {
  if (cause instanceof TertuliaError) return cause;
  return new TertuliaError("internal", "Something went wrong inside Tertulia.", { cause });
}
