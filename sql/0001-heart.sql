-- The store behind docs/contract.md. Times are epoch ms. '' stands for absent in unique places, NULL elsewhere.
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;   -- boot: the local epoch
INSERT INTO meta(key, value) VALUES('boot', '0');

CREATE TABLE person(id TEXT PRIMARY KEY, name TEXT, role TEXT NOT NULL CHECK(role IN('owner','member','guest'))) STRICT, WITHOUT ROWID;
CREATE TABLE identity(platform TEXT NOT NULL, scope TEXT NOT NULL, user_id TEXT NOT NULL, person_id TEXT NOT NULL REFERENCES person, linked_at INT NOT NULL,
  PRIMARY KEY(platform, scope, user_id)) STRICT, WITHOUT ROWID;

CREATE TABLE account(id TEXT PRIMARY KEY, platform TEXT NOT NULL, cursor TEXT) STRICT, WITHOUT ROWID;
CREATE TABLE event_seen(account_id TEXT NOT NULL, event_id TEXT NOT NULL, message_id INT, at INT NOT NULL, PRIMARY KEY(account_id, event_id)) STRICT, WITHOUT ROWID;
CREATE INDEX event_seen_at ON event_seen(at);
CREATE TABLE refused_event(id INTEGER PRIMARY KEY, account_id TEXT NOT NULL, event_id TEXT NOT NULL, at INT NOT NULL, code TEXT NOT NULL, sentence TEXT NOT NULL, raw TEXT) STRICT;
CREATE INDEX refused_event_account ON refused_event(account_id, id);

CREATE TABLE place(id INTEGER PRIMARY KEY, platform TEXT NOT NULL, scope TEXT NOT NULL, chat_id TEXT NOT NULL, thread_id TEXT NOT NULL,
  chat_type TEXT NOT NULL, name TEXT, seq INT NOT NULL DEFAULT 0, UNIQUE(platform, scope, chat_id, thread_id)) STRICT;

CREATE TABLE message(id INTEGER PRIMARY KEY, place_id INT NOT NULL REFERENCES place, place_seq INT NOT NULL,
  author_kind TEXT NOT NULL CHECK(author_kind IN('person','agent','bot','gateway')), author_id TEXT NOT NULL, author_name TEXT,
  ext_id TEXT, said_at INT NOT NULL, admitted_at INT NOT NULL, body TEXT NOT NULL, source TEXT) STRICT;
CREATE UNIQUE INDEX message_place ON message(place_id, place_seq);
CREATE UNIQUE INDEX message_ext ON message(place_id, ext_id) WHERE ext_id IS NOT NULL;

CREATE TABLE conversation(id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, person_id TEXT, place_id INT NOT NULL REFERENCES place,
  kind TEXT NOT NULL DEFAULT 'kept' CHECK(kind IN('kept','once')), current_session TEXT, target TEXT NOT NULL, reset_policy TEXT, at INT NOT NULL,
  FOREIGN KEY(current_session, id) REFERENCES session(id, home) DEFERRABLE INITIALLY DEFERRED) STRICT;   -- a current session is always one of its own (H9)
CREATE INDEX conversation_person ON conversation(person_id);
CREATE INDEX conversation_place ON conversation(place_id);
CREATE INDEX conversation_once ON conversation(at) WHERE kind = 'once';

CREATE TABLE session(id TEXT PRIMARY KEY, home INT NOT NULL REFERENCES conversation, agent TEXT NOT NULL, owner_person TEXT, parent_id TEXT,
  stable_part TEXT, seq INT NOT NULL DEFAULT 0, last_human_at INT, ended_at INT, failures INT NOT NULL DEFAULT 0, suspended TEXT, title TEXT,
  tokens_input INT NOT NULL DEFAULT 0, tokens_output INT NOT NULL DEFAULT 0, UNIQUE(id, home)) STRICT;
CREATE INDEX session_home ON session(home);
CREATE INDEX session_owner ON session(owner_person);
CREATE TABLE span(session_id TEXT NOT NULL REFERENCES session, n INT NOT NULL, opened_at INT NOT NULL, opened_by TEXT NOT NULL, ended_at INT, end_reason TEXT,
  PRIMARY KEY(session_id, n)) STRICT, WITHOUT ROWID;
CREATE TABLE note(session_id TEXT NOT NULL REFERENCES session, n INT NOT NULL, code TEXT NOT NULL, args TEXT NOT NULL, turn_id INT, PRIMARY KEY(session_id, n)) STRICT, WITHOUT ROWID;

CREATE TABLE turn(id INTEGER PRIMARY KEY, session_id TEXT NOT NULL REFERENCES session, conversation_id INT NOT NULL REFERENCES conversation,
  state TEXT NOT NULL CHECK(state IN('queued','running','answered','failed','interrupted','withdrawn')), reason TEXT,
  epoch INT, attempt INT NOT NULL DEFAULT 0, effects TEXT NOT NULL DEFAULT 'none' CHECK(effects IN('none','possible','shown')), prompted INT NOT NULL DEFAULT 0,
  ready_at INT NOT NULL, messages INT NOT NULL DEFAULT 1, target TEXT NOT NULL, audience TEXT NOT NULL, authority TEXT NOT NULL, bound TEXT CHECK(bound IN('live','pinned','default')),
  prompt TEXT, seen_bound TEXT, partial TEXT, usage TEXT, reply_entry INT, admitted_at INT NOT NULL, begun_at INT, settled_at INT) STRICT;
CREATE UNIQUE INDEX turn_one_running ON turn(session_id) WHERE state = 'running';   -- T1
-- With the state as a column and not as a condition: SQLite does not infer a partial index from `state = 'queued'`, and prefers a full one for ORDER BY id.
CREATE INDEX turn_session ON turn(session_id, state);
CREATE INDEX turn_conversation ON turn(conversation_id, state);
CREATE INDEX turn_queued ON turn(session_id) WHERE state = 'queued';   -- with turn_one_running: the few that a start looks for

CREATE TABLE intake(conversation_id INT NOT NULL REFERENCES conversation, message_id INT NOT NULL REFERENCES message, turn_id INT REFERENCES turn,
  fate TEXT CHECK(fate IN('answered','recorded','failed','interrupted','withdrawn','refused')), reason TEXT,   -- fate only when final (T10)
  PRIMARY KEY(conversation_id, message_id)) STRICT, WITHOUT ROWID;
CREATE INDEX intake_turn ON intake(turn_id, message_id) WHERE turn_id IS NOT NULL;
CREATE INDEX intake_message ON intake(message_id);
CREATE TABLE idempotency(person_id TEXT NOT NULL, conversation_id INT NOT NULL, key TEXT NOT NULL, body_hash TEXT NOT NULL, message_id INT NOT NULL, at INT NOT NULL,
  PRIMARY KEY(person_id, conversation_id, key)) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_at ON idempotency(at);

CREATE TABLE entry(session_id TEXT NOT NULL REFERENCES session, seq INT NOT NULL, turn_id INT, message_id INT REFERENCES message,
  role TEXT NOT NULL CHECK(role IN('user','assistant','mark')), mark TEXT, body TEXT, PRIMARY KEY(session_id, seq)) STRICT, WITHOUT ROWID;
CREATE INDEX entry_message ON entry(message_id) WHERE message_id IS NOT NULL;

CREATE TABLE binding(conversation_id INT NOT NULL REFERENCES conversation, kind TEXT NOT NULL CHECK(kind IN('live','pinned')), session_id TEXT NOT NULL REFERENCES session,
  sent_at INT NOT NULL, ttl_ms INT, set_by TEXT NOT NULL, shared INT NOT NULL DEFAULT 0, PRIMARY KEY(conversation_id, kind)) STRICT, WITHOUT ROWID;
CREATE INDEX binding_session ON binding(session_id);
CREATE TABLE seen(session_id TEXT NOT NULL REFERENCES session, place_id INT NOT NULL REFERENCES place, through_seq INT NOT NULL, PRIMARY KEY(session_id, place_id)) STRICT, WITHOUT ROWID;   -- H11
CREATE INDEX seen_place ON seen(place_id);
CREATE TABLE runtime_state(session_id TEXT NOT NULL REFERENCES session, runtime TEXT NOT NULL, ref TEXT, seen_through INT NOT NULL DEFAULT 0,
  status TEXT NOT NULL DEFAULT 'healthy' CHECK(status IN('healthy','degraded','broken')), restarts INT NOT NULL DEFAULT 0, last_used_at INT, PRIMARY KEY(session_id, runtime)) STRICT, WITHOUT ROWID;

CREATE TABLE delivery(id INTEGER PRIMARY KEY, lane TEXT NOT NULL, turn_id INT REFERENCES turn, message_id INT REFERENCES message, part INT NOT NULL,
  kind TEXT NOT NULL CHECK(kind IN('reply','notice','send')), target TEXT NOT NULL, body TEXT NOT NULL,
  state TEXT NOT NULL CHECK(state IN('queued','sending','streaming','delivered','unknown','failed')), attempt INT NOT NULL DEFAULT 0, epoch INT,
  due_at INT NOT NULL, created_at INT NOT NULL, ext_id TEXT, reason TEXT) STRICT;
CREATE INDEX delivery_open ON delivery(lane, id) WHERE state IN('queued','sending','streaming');
CREATE INDEX delivery_turn ON delivery(turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX delivery_message ON delivery(message_id) WHERE message_id IS NOT NULL;
