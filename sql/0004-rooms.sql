-- Rooms with several agents: what a message replies to, its edits (T6), who reads along (H7), and the loop guard (G5).
ALTER TABLE message ADD COLUMN reply_to TEXT;     -- the platform's id of another message of the place
ALTER TABLE message ADD COLUMN deleted_at INT;
CREATE TABLE message_version(message_id INT NOT NULL REFERENCES message, n INT NOT NULL, body TEXT NOT NULL, until INT NOT NULL,
  PRIMARY KEY(message_id, n)) STRICT, WITHOUT ROWID;   -- what a message said until it was edited

CREATE TABLE place_reader(place_id INT NOT NULL REFERENCES place, kind TEXT NOT NULL CHECK(kind IN('person','bot')), id TEXT NOT NULL, at INT NOT NULL,
  PRIMARY KEY(place_id, kind, id)) STRICT, WITHOUT ROWID;
CREATE TABLE loop_guard(place_id INT PRIMARY KEY REFERENCES place, in_row INT NOT NULL, recent TEXT NOT NULL, said INT NOT NULL) STRICT;

CREATE INDEX delivery_ext ON delivery(ext_id) WHERE ext_id IS NOT NULL;
