-- The life cycle of sessions: the chat's own reset policy (R1), homes (C1), background jobs (R2), and entries that were taken back (R6).
ALTER TABLE conversation ADD COLUMN reset_override TEXT;   -- /autoreset: a whole policy, the highest layer

CREATE TABLE home(agent TEXT NOT NULL, platform TEXT NOT NULL, conversation_id INT NOT NULL REFERENCES conversation, set_by TEXT NOT NULL, at INT NOT NULL,
  PRIMARY KEY(agent, platform)) STRICT, WITHOUT ROWID;
CREATE INDEX home_conversation ON home(conversation_id);

CREATE TABLE job(session_id TEXT NOT NULL REFERENCES session, id TEXT NOT NULL, title TEXT NOT NULL, opened_at INT NOT NULL, closed_at INT,
  PRIMARY KEY(session_id, id)) STRICT, WITHOUT ROWID;
CREATE INDEX job_open ON job(session_id, opened_at) WHERE closed_at IS NULL;

CREATE INDEX entry_undone ON entry(session_id, seq) WHERE mark = 'undone';
