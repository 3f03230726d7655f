-- One schema for SQLite and PostgreSQL: types that both have, times as RFC 3339 text in UTC, which sorts by time.

-- +goose Up
CREATE TABLE runs (
    id               TEXT PRIMARY KEY,  -- results.Run.ID
    host             TEXT NOT NULL,     -- of the folder
    dir              TEXT NOT NULL,     -- absolute
    recipe           TEXT NOT NULL,
    fingerprint      TEXT NOT NULL,
    data_digest      TEXT NOT NULL,
    spec             TEXT NOT NULL,     -- the backend as it was asked for, NAME or NAME:PRECISION
    backend          TEXT NOT NULL,     -- NAME
    precision        TEXT NOT NULL,
    optimizer        TEXT NOT NULL,
    seed             BIGINT NOT NULL,   -- less 2^63, so that unsigned numbers fit and sort
    status           TEXT NOT NULL,
    error            TEXT NOT NULL,
    started          TEXT NOT NULL,
    finished         TEXT NOT NULL,     -- '' while the run goes on
    version          TEXT NOT NULL,     -- of the program: module version or revision
    cpu              TEXT NOT NULL,
    steps            BIGINT NOT NULL,
    skipped          BIGINT NOT NULL,
    measured_seconds DOUBLE PRECISION NOT NULL
);
CREATE INDEX runs_by_time ON runs (started, id);

-- What the run measured: NAME of the last phase that measures it, and PHASE.NAME. NULL: not a number.
CREATE TABLE metrics (
    run   TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name  TEXT NOT NULL,
    value DOUBLE PRECISION,
    PRIMARY KEY (run, name)
);
CREATE INDEX metrics_by_name ON metrics (name);

CREATE TABLE tags (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    tag TEXT NOT NULL,
    PRIMARY KEY (run, tag)
);

-- +goose Down
DROP TABLE tags;
DROP TABLE metrics;
DROP TABLE runs;
