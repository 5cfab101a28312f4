-- What an author's program would have the agent be, beside his message; and keys that come whole through a header (K19).
ALTER TABLE message ADD COLUMN instructions TEXT;
UPDATE conversation SET key = substr(key, 1, length(key) - 1) || '%20' WHERE key LIKE 'agent:% ';
