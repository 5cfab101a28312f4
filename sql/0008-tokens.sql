-- What of a session's tokens came from a cache and went into one, and how long its last prompt was.
ALTER TABLE session ADD COLUMN tokens_cache_read INT NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN tokens_cache_write INT NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN tokens_last_prompt INT NOT NULL DEFAULT 0;
