-- The log and what is written with it. Pragmas that cannot run inside a transaction are in store/connection.rs.

-- primary ---------------------------------------------------------------------------------------------

CREATE TABLE sessions (
    session_no    INTEGER PRIMARY KEY,
    session_id    TEXT    NOT NULL UNIQUE,
    root          BLOB    NOT NULL,             -- the workspace: what usage_daily calls the project
    parent_no     INTEGER REFERENCES sessions,
    fork_seq      INTEGER,
    created_at_ms INTEGER NOT NULL,
    hidden_at_ms  INTEGER
) STRICT;

-- A rowid table with a unique index, not WITHOUT ROWID: rows are large, and interleaved sessions would split
-- the pages of an index tree in the middle. event_no is the order of commits over all sessions.
CREATE TABLE events (
    event_no   INTEGER PRIMARY KEY,
    session_no INTEGER NOT NULL REFERENCES sessions,
    seq        INTEGER NOT NULL,
    at_ms      INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    turn_no    INTEGER,
    origin     TEXT    NOT NULL,                -- JSON of who caused it
    body       TEXT    NOT NULL CHECK (octet_length(body) <= 65536)
) STRICT;
CREATE UNIQUE INDEX events_by_session ON events (session_no, seq);

CREATE TABLE requests (
    request_id   TEXT PRIMARY KEY,
    method       TEXT    NOT NULL,
    content_hash BLOB    NOT NULL,
    session_no   INTEGER REFERENCES sessions,
    first_seq    INTEGER,                       -- of the events the request caused; absent when none
    last_seq     INTEGER,
    answer       BLOB    NOT NULL,
    at_ms        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_by_time ON requests (at_ms);

CREATE TABLE grants (
    grant_id      TEXT PRIMARY KEY,
    scope         TEXT    NOT NULL,
    project       TEXT,
    matcher       TEXT    NOT NULL,
    decision      TEXT    NOT NULL,
    origin        TEXT    NOT NULL,
    granted_by    TEXT    NOT NULL,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER,
    revoked_at_ms INTEGER
) STRICT;

CREATE TABLE trust (
    path         BLOB PRIMARY KEY,
    content_hash BLOB    NOT NULL,
    at_ms        INTEGER NOT NULL,
    by           TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Each row's hash covers all of its fields and the hash before it. No foreign key: the trail survives the
-- deletion of its session.
CREATE TABLE audit (
    audit_no      INTEGER PRIMARY KEY,
    at_ms         INTEGER NOT NULL,
    session_id    TEXT    NOT NULL,
    call_id       TEXT,
    actor         TEXT    NOT NULL,
    action        TEXT    NOT NULL,
    tool          TEXT,
    decision      TEXT,
    rule          TEXT,
    args_hash     TEXT,
    args_redacted TEXT,
    outcome       TEXT,
    prev_hash     BLOB    NOT NULL,
    hash          BLOB    NOT NULL UNIQUE
) STRICT;
CREATE INDEX audit_by_session ON audit (session_id, audit_no);

-- projections: a function of the log, dropped and rebuilt by a test -----------------------------------------

CREATE TABLE session_summaries (
    session_no         INTEGER PRIMARY KEY REFERENCES sessions,
    name               TEXT,
    cwd                BLOB    NOT NULL,
    model              TEXT    NOT NULL,
    mode               TEXT    NOT NULL,
    state              TEXT    NOT NULL,
    last_seq           INTEGER NOT NULL,
    revision           INTEGER NOT NULL,        -- event_no of its last event
    turn_no            INTEGER NOT NULL,
    open_calls         INTEGER NOT NULL,
    open_requests      INTEGER NOT NULL,
    calls_ok           INTEGER NOT NULL,
    calls_error        INTEGER NOT NULL,
    calls_denied       INTEGER NOT NULL,
    calls_invalid      INTEGER NOT NULL,
    calls_timed_out    INTEGER NOT NULL,
    calls_cancelled    INTEGER NOT NULL,
    calls_unknown      INTEGER NOT NULL,
    tokens_in          INTEGER NOT NULL,
    tokens_out         INTEGER NOT NULL,
    tokens_cache_read  INTEGER NOT NULL,
    tokens_cache_write INTEGER NOT NULL,
    cost_micro_usd     INTEGER NOT NULL,
    created_at_ms      INTEGER NOT NULL,
    updated_at_ms      INTEGER NOT NULL
) STRICT;
CREATE INDEX session_summaries_by_revision ON session_summaries (revision);
CREATE INDEX session_summaries_by_state ON session_summaries (state) WHERE state NOT IN ('idle', 'closed');
CREATE INDEX session_summaries_by_cwd ON session_summaries (cwd, updated_at_ms);
CREATE INDEX session_summaries_by_name ON session_summaries (name) WHERE name IS NOT NULL;

-- All that a starting daemon must look at.
CREATE TABLE open_work (
    session_no INTEGER NOT NULL REFERENCES sessions,
    kind       TEXT    NOT NULL CHECK (kind IN ('turn', 'call', 'job', 'request', 'input')),
    id         TEXT    NOT NULL,
    detail     TEXT    NOT NULL,
    PRIMARY KEY (session_no, kind, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX open_work_requests ON open_work (id) WHERE kind = 'request';

-- Where a request is or was asked: an answer names only the request.
CREATE TABLE request_sessions (
    request_id TEXT PRIMARY KEY,
    session_no INTEGER NOT NULL REFERENCES sessions
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (
    session_no         INTEGER NOT NULL REFERENCES sessions,
    turn_no            INTEGER NOT NULL,
    first_seq          INTEGER NOT NULL,
    last_seq           INTEGER,                 -- absent while the turn is open
    status             TEXT,
    steps              INTEGER,
    tokens_in          INTEGER,
    tokens_out         INTEGER,
    tokens_cache_read  INTEGER,
    tokens_cache_write INTEGER,
    cost_micro_usd     INTEGER,
    PRIMARY KEY (session_no, turn_no)
) STRICT, WITHOUT ROWID;

CREATE TABLE epochs (
    session_no    INTEGER NOT NULL REFERENCES sessions,
    epoch_no      INTEGER NOT NULL,
    start_seq     INTEGER NOT NULL,
    reason        TEXT    NOT NULL,
    model         TEXT    NOT NULL,
    system_hash   TEXT    NOT NULL,
    tools_hash    TEXT    NOT NULL,
    plan_hash     TEXT,
    thinking      TEXT    NOT NULL,             -- keep or strip_all
    tokens_before INTEGER NOT NULL,
    tokens_after  INTEGER NOT NULL,
    reverted_seq  INTEGER,
    PRIMARY KEY (session_no, epoch_no)
) STRICT, WITHOUT ROWID;

CREATE TABLE artifacts (
    artifact_id   TEXT PRIMARY KEY,
    session_no    INTEGER NOT NULL REFERENCES sessions,
    seq           INTEGER NOT NULL,
    call_id       TEXT,
    kind          TEXT    NOT NULL,             -- tool_output, file, input, partial_answer
    mime          TEXT    NOT NULL,
    blob_hash     TEXT    NOT NULL,
    size_bytes    INTEGER NOT NULL,
    line_count    INTEGER NOT NULL,
    redactions    INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER
) STRICT;
CREATE INDEX artifacts_by_session ON artifacts (session_no, seq);
CREATE INDEX artifacts_by_expiry ON artifacts (expires_at_ms) WHERE expires_at_ms IS NOT NULL;
CREATE INDEX artifacts_by_blob ON artifacts (blob_hash);

CREATE TABLE file_changes (
    session_no  INTEGER NOT NULL REFERENCES sessions,
    seq         INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    turn_no     INTEGER,
    call_id     TEXT    NOT NULL,
    path        BLOB    NOT NULL,
    before_hash TEXT,
    after_hash  TEXT,
    before_mode INTEGER,
    after_mode  INTEGER,
    coverage    TEXT    NOT NULL,
    PRIMARY KEY (session_no, seq, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX file_changes_by_turn ON file_changes (session_no, turn_no);

-- Model calls that have not ended: a finished one names only its id.
CREATE TABLE model_calls_open (
    model_call_id TEXT PRIMARY KEY,
    session_no    INTEGER NOT NULL REFERENCES sessions,
    model         TEXT    NOT NULL,
    purpose       TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_daily (
    day                INTEGER NOT NULL,        -- days since 1970-01-01 in UTC
    project            BLOB    NOT NULL,
    model              TEXT    NOT NULL,
    purpose            TEXT    NOT NULL,
    model_calls        INTEGER NOT NULL,
    tokens_in          INTEGER NOT NULL,
    tokens_out         INTEGER NOT NULL,
    tokens_cache_read  INTEGER NOT NULL,
    tokens_cache_write INTEGER NOT NULL,
    cost_micro_usd     INTEGER NOT NULL,
    PRIMARY KEY (day, project, model, purpose)
) STRICT, WITHOUT ROWID;

-- Which sessions hold on to which content of blobs.db, whatever event says so.
CREATE TABLE blob_refs (
    hash       TEXT    NOT NULL,
    session_no INTEGER NOT NULL REFERENCES sessions,
    PRIMARY KEY (hash, session_no)
) STRICT, WITHOUT ROWID;

-- caches: may be deleted at any time ------------------------------------------------------------------------

CREATE TABLE snapshots (
    session_no   INTEGER NOT NULL REFERENCES sessions,
    seq          INTEGER NOT NULL,
    fold_version INTEGER NOT NULL,              -- one that differs from the build's is ignored
    state        BLOB    NOT NULL,
    PRIMARY KEY (session_no, seq)
) STRICT;

CREATE TABLE drafts (
    session_no INTEGER PRIMARY KEY REFERENCES sessions,
    turn_no    INTEGER NOT NULL,
    block      INTEGER NOT NULL,
    text       TEXT    NOT NULL
) STRICT;

CREATE TABLE workspaces (
    workspace_no INTEGER PRIMARY KEY,
    root         BLOB    NOT NULL UNIQUE,
    at_ms        INTEGER NOT NULL
) STRICT;

CREATE TABLE workspace_files (
    workspace_no INTEGER NOT NULL REFERENCES workspaces,
    path         BLOB    NOT NULL,
    size         INTEGER NOT NULL,
    mtime_ns     INTEGER NOT NULL,
    inode        INTEGER NOT NULL,
    mode         INTEGER NOT NULL,
    hash         TEXT    NOT NULL,
    PRIMARY KEY (workspace_no, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE mcp_cache (
    config_hash TEXT PRIMARY KEY,
    tools       BLOB    NOT NULL,
    at_ms       INTEGER NOT NULL
) STRICT;
