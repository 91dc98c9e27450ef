-- Content by its hash, in chunks. Pragmas that cannot run inside a transaction are in store/connection.rs.

-- While a blob is being written its content is not known to the end, and its hash is a placeholder of nine
-- bytes that no content can have.
CREATE TABLE blobs (
    blob_no       INTEGER PRIMARY KEY,
    hash          BLOB    NOT NULL UNIQUE,
    size_bytes    INTEGER NOT NULL,
    stored_bytes  INTEGER NOT NULL,
    line_count    INTEGER NOT NULL,
    coding        INTEGER NOT NULL DEFAULT 0,   -- 0 raw, 1 zstd
    state         INTEGER NOT NULL,             -- 0 writing, 1 whole
    created_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX blobs_writing ON blobs (blob_no) WHERE state = 0;

-- chunk_no = blob_no << 20 | index; every chunk but the last holds 256 KiB of plain bytes, so a range of a
-- blob is found without reading what is before it.
CREATE TABLE blob_chunks (
    chunk_no INTEGER PRIMARY KEY,
    bytes    BLOB NOT NULL
) STRICT;
