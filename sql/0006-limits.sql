-- How often guests began turns of late (A10), and when it was last said that there were too many; a guest's answers within a second (G5).
CREATE TABLE pace(id TEXT PRIMARY KEY, begun TEXT NOT NULL, told_at INT, at INT NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX pace_at ON pace(at);
ALTER TABLE loop_guard ADD COLUMN quick INT NOT NULL DEFAULT 0;      -- such answers in a row
ALTER TABLE loop_guard ADD COLUMN answered INT NOT NULL DEFAULT 0;   -- the delivery that the last of them answered
