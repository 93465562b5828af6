-- All content of all threads. `bytes` is what a row counts against the limit of its thread; in `threads` it is their sum.
-- `seq` numbers messages and events per thread, from 1. Numbers are never reused.

CREATE TABLE threads (
  thread       INTEGER PRIMARY KEY,
  id           TEXT    NOT NULL UNIQUE,
  created_at   INTEGER NOT NULL, -- milliseconds since 1970, here and below
  bytes        INTEGER NOT NULL DEFAULT 0,
  last_message INTEGER NOT NULL DEFAULT 0,
  last_event   INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE messages (
  thread     INTEGER NOT NULL REFERENCES threads ON DELETE CASCADE,
  seq        INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  bytes      INTEGER NOT NULL,
  role       TEXT    NOT NULL,
  content    TEXT    NOT NULL, -- JSON
  PRIMARY KEY (thread, seq)
) STRICT;

CREATE INDEX messages_by_role ON messages (thread, role, seq);

CREATE TABLE files (
  thread      INTEGER NOT NULL REFERENCES threads ON DELETE CASCADE,
  path        TEXT    NOT NULL, -- normalized
  modified_at INTEGER NOT NULL,
  bytes       INTEGER NOT NULL,
  size        INTEGER NOT NULL,
  content     BLOB    NOT NULL,
  PRIMARY KEY (thread, path)
) STRICT;

CREATE TABLE env (
  thread INTEGER NOT NULL REFERENCES threads ON DELETE CASCADE,
  name   TEXT    NOT NULL,
  bytes  INTEGER NOT NULL,
  value  TEXT    NOT NULL,
  PRIMARY KEY (thread, name)
) STRICT;

CREATE TABLE events (
  thread     INTEGER NOT NULL REFERENCES threads ON DELETE CASCADE,
  seq        INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  bytes      INTEGER NOT NULL,
  from_guest INTEGER NOT NULL, -- 0 or 1
  name       TEXT    NOT NULL,
  data       TEXT    NOT NULL, -- JSON
  PRIMARY KEY (thread, seq)
) STRICT;
