// Package index finds runs. The truth about a run is its folder (package results); an index is a database beside
// the folders that answers which runs there are, and it can be rebuilt from them at any time.
//
// It is a SQLite file, or PostgreSQL for a team, with the same schema and the same answers. Many processes may use
// one at once.
package index

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/lib/pq" // driver "postgres"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	_ "modernc.org/sqlite" // driver "sqlite"

	"harness.invalid/core/secret"
	"harness.invalid/results"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ErrShared is wrapped by the error for a SQLite file on a network file system. SQLite's log is in memory that processes
// of one machine share, and its locks rely on those of the file system, which NFS has had wrong: two machines may damage
// the file. Sources: sqlite.org/wal.html, sqlite.org/howtocorrupt.html, 2.1.
var ErrShared = errors.New("SQLite can't be used there, since two machines that write at once may damage its file: " +
	"name a database server by postgres://, or a file on a disk of this machine, by --store or $" + Variable +
	"; harness runs reindex fills it from the runs' folders")

// Index is an open index.
type Index struct {
	db       *sql.DB
	location string // without a password
	given    string // with it
	host     string
}

// Open opens an index and brings its schema up to date. The location is postgres://USER@HOST/DATABASE, or the path
// of a SQLite file, which it creates if there is none.
func Open(ctx context.Context, location string) (_ *Index, err error) {
	x := &Index{location: secret.Location(location), given: location}
	if x.host, err = os.Hostname(); err != nil {
		return nil, err
	}
	if IsPostgres(location) {
		x.db, err = sql.Open("postgres", withSSLMode(location))
	} else {
		x.db, err = openSQLite(location)
	}
	if err == nil {
		err = x.migrate(ctx, location)
		if err != nil {
			err = errors.Join(err, x.db.Close())
		}
	}
	if err != nil {
		return nil, x.fail(err)
	}
	return x, nil
}

// fail names the index in an error, and keeps its password out of it.
func (x *Index) fail(err error) error {
	return fmt.Errorf("index %s: %w", x.location, secret.Hide(err, x.given))
}

// IsPostgres reports whether a location is a database server's.
func IsPostgres(location string) bool {
	return strings.HasPrefix(location, "postgres://") || strings.HasPrefix(location, "postgresql://")
}

// withSSLMode adds sslmode=prefer to a location that does not say, as libpq does. The driver would refuse servers
// without TLS.
func withSSLMode(location string) string {
	u, err := url.Parse(location)
	if err != nil || u.Query().Has("sslmode") || os.Getenv("PGSSLMODE") != "" {
		return location
	}
	q := u.Query()
	q.Set("sslmode", "prefer")
	u.RawQuery = q.Encode()
	return u.String()
}

// wait is how long a process waits for other writers, in milliseconds.
const wait = 20_000

func openSQLite(path string) (*sql.DB, error) {
	if strings.Contains(path, "://") {
		return nil, fmt.Errorf("want postgres://USER@HOST/DATABASE or the path of a file")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if name := networkFileSystem(filepath.Dir(path)); name != "" {
		return nil, fmt.Errorf("%s lies on a file system that machines share (%s): %w", filepath.Dir(path), name, ErrShared)
	}
	// A transaction takes the lock at its start: one that read first and then could not write would have to be repeated.
	settings := url.Values{"_txlock": {"immediate"}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", wait), "journal_mode(WAL)",
		"foreign_keys(1)", "synchronous(NORMAL)"}}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: settings.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // there is one writer anyway
	return db, nil
}

// migrate brings the schema up to date. Of several processes at once, one does the work. On PostgreSQL a session
// lock orders them; on SQLite the others find the tables there, fail, and look again.
func (x *Index) migrate(ctx context.Context, location string) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	dialect, options := goose.DialectSQLite3, []goose.ProviderOption{goose.WithDisableGlobalRegistry(true)}
	if IsPostgres(location) {
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, wait/1000)) // seconds between attempts, attempts
		if err != nil {
			return err
		}
		dialect, options = goose.DialectPostgres, append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(dialect, x.db, files, options...)
	if err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		current, target, err := provider.GetVersions(ctx)
		if err == nil && current > target {
			return fmt.Errorf("its schema has version %d, this program knows %d: use a newer one", current, target)
		}
		if err == nil && current == target {
			return nil
		}
		if err == nil {
			_, err = provider.Up(ctx)
		}
		if err == nil || attempt == 10 || ctx.Err() != nil {
			return err
		}
		if IsPostgres(location) && !strings.Contains(err.Error(), "already exists") {
			return err
		}
		time.Sleep(time.Duration(attempt+1) * 20 * time.Millisecond)
	}
}

// Close closes the index.
func (x *Index) Close() error { return x.db.Close() }

// Location is where the index is, without a password.
func (x *Index) Location() string { return x.location }

// Put adds a run, or updates what the index knows about it.
func (x *Index) Put(ctx context.Context, r *results.Run) error {
	err := x.change(ctx, func(tx *sql.Tx) error { return x.put(ctx, tx, r) })
	if err != nil {
		return x.fail(fmt.Errorf("run %s: %w", r.Dir, err))
	}
	return nil
}

// Remove forgets runs by their ids. Their folders stay.
func (x *Index) Remove(ctx context.Context, ids ...string) error {
	err := x.change(ctx, func(tx *sql.Tx) error {
		for _, id := range ids {
			if _, err := tx.ExecContext(ctx, `DELETE FROM runs WHERE id = $1`, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return x.fail(err)
	}
	return nil
}

// change runs a function in a transaction.
func (x *Index) change(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (x *Index) put(ctx context.Context, tx *sql.Tx, r *results.Run) error {
	e, err := entryOf(r, x.host)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM runs WHERE id = $1`, e.ID); err != nil {
		return err
	}
	names, marks := make([]string, len(columns)), make([]string, len(columns))
	values := e.values()
	for i, c := range columns {
		names[i], marks[i] = c.name, fmt.Sprintf("$%d", i+1)
	}
	insert := fmt.Sprintf(`INSERT INTO runs (%s) VALUES (%s)`, strings.Join(names, ", "), strings.Join(marks, ", "))
	if _, err := tx.ExecContext(ctx, insert, values...); err != nil {
		return err
	}
	for name, v := range e.Metrics {
		value := sql.NullFloat64{Float64: v, Valid: v == v}
		if _, err := tx.ExecContext(ctx, `INSERT INTO metrics (run, name, value) VALUES ($1, $2, $3)`, e.ID, name, value); err != nil {
			return err
		}
	}
	for _, tag := range e.Tags {
		if _, err := tx.ExecContext(ctx, `INSERT INTO tags (run, tag) VALUES ($1, $2)`, e.ID, tag); err != nil {
			return err
		}
	}
	return nil
}

// Rebuilt is what a rebuild found.
type Rebuilt struct {
	Runs   int
	Gone   int     // runs that were known and whose folders are not there any more
	Broken []error // folders that look like runs and can't be read
}

// Rebuild builds the index anew from the folders in and below dirs, and from those that it knows on this machine.
// Runs on other machines stay as they are. Until it is done, other processes see the old contents.
func (x *Index) Rebuild(ctx context.Context, dirs ...string) (Rebuilt, error) {
	var done Rebuilt
	err := x.change(ctx, func(tx *sql.Tx) error {
		known, err := x.folders(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM runs WHERE host = $1`, x.host); err != nil {
			return err
		}
		found := map[string]bool{}
		for _, dir := range dirs {
			list, err := results.Find(dir)
			if err != nil {
				return err
			}
			for _, d := range list {
				if d, err = filepath.Abs(d); err != nil {
					return err
				}
				found[d] = true
			}
		}
		for _, d := range known {
			switch _, err := os.Stat(d); {
			case found[d]:
			case errors.Is(err, fs.ErrNotExist):
				done.Gone++
			default:
				found[d] = true
			}
		}
		for d := range found {
			r, err := results.Open(d)
			if err != nil {
				done.Broken = append(done.Broken, err)
				continue
			}
			if err := x.put(ctx, tx, r); err != nil {
				return fmt.Errorf("run %s: %w", d, err)
			}
			done.Runs++
		}
		return nil
	})
	if err != nil {
		return done, x.fail(err)
	}
	return done, nil
}

// folders are the folders of the runs on this machine.
func (x *Index) folders(ctx context.Context, tx *sql.Tx) (dirs []string, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT dir FROM runs WHERE host = $1`, x.host)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var d string
		if err := rows.Scan(&d); err != nil {
			return nil, err
		}
		dirs = append(dirs, d)
	}
	return dirs, rows.Err()
}
