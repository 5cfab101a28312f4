-- Sessions that were brought in from another program (H13): what of each is here, so that bringing it in again adds only what is new.
CREATE TABLE foreign_session(runtime TEXT NOT NULL, id TEXT NOT NULL, session_id TEXT NOT NULL REFERENCES session,
  through_id INT NOT NULL,   -- the other program's number of the last message that is here
  entries INT NOT NULL,      -- as many entries came from there; the session has more once it was gone on with here
  at INT NOT NULL, PRIMARY KEY(runtime, id)) STRICT, WITHOUT ROWID;
CREATE INDEX foreign_session_here ON foreign_session(session_id);
