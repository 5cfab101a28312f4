-- Which runtime a conversation was switched to (B7), and the state that others keep with it (B6).
ALTER TABLE conversation ADD COLUMN runtime TEXT;          -- by /runtime; NULL: the configured one
ALTER TABLE conversation ADD COLUMN runtime_before TEXT;   -- the way back
ALTER TABLE conversation ADD COLUMN runtime_trial INT NOT NULL DEFAULT 0;   -- switched to, and not answered yet
ALTER TABLE conversation ADD COLUMN agent_state TEXT;      -- keys that are not ours, as JSON
