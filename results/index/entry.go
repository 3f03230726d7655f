package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"harness.invalid/core/bounded"
	"harness.invalid/core/recipe"
	"harness.invalid/results"
)

// Entry is what an index knows about a run.
type Entry struct {
	ID   string `json:"id"`
	Host string `json:"host"`
	Dir  string `json:"dir"`
	results.Identity
	Status          results.Status  `json:"status"`
	Error           string          `json:"error,omitempty"`    // why a run stands that is not complete
	Started         string          `json:"started"`            // RFC 3339, UTC
	Finished        string          `json:"finished,omitempty"` // "" while the run goes on
	Version         string          `json:"version,omitempty"`  // of the program
	CPU             string          `json:"cpu,omitempty"`
	Steps           int             `json:"steps"`
	Skipped         int             `json:"skipped"`
	MeasuredSeconds float64         `json:"measured_seconds"`
	Metrics         results.Metrics `json:"metrics"` // NAME of the last phase that measures it, and PHASE.NAME
	Tags            []string        `json:"tags"`
}

// columns are those of the table runs, in the order of values, with what a filter may ask of them.
var columns = []struct {
	name   string
	number bool
}{
	{"id", false}, {"host", false}, {"dir", false}, {"recipe", false}, {"fingerprint", false}, {"data_digest", false},
	{"spec", false}, {"backend", false}, {"precision", false}, {"optimizer", false}, {"seed", true}, {"status", false},
	{"error", false}, {"started", false}, {"finished", false}, {"version", false}, {"cpu", false}, {"steps", true},
	{"skipped", true}, {"measured_seconds", true},
}

// values are the values of the columns.
func (e *Entry) values() []any {
	name := recipe.PluginName(e.Backend)
	return []any{e.ID, e.Host, e.Dir, e.Recipe, e.Fingerprint, e.DataDigest, e.Backend, name, e.Precision, e.Optimizer,
		ordered(e.Seed), string(e.Status), e.Error,
		e.Started, e.Finished, e.Version, e.CPU, e.Steps, e.Skipped, e.MeasuredSeconds}
}

// ordered is a seed minus 2⁶³: a signed number that sorts as the seed does.
func ordered(seed uint64) int64 { return int64(seed ^ 1<<63) }

// entryOf summarizes a run.
func entryOf(r *results.Run, host string) (*Entry, error) {
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return nil, err
	}
	tags, err := r.Tags()
	if err != nil {
		return nil, err
	}
	env := r.Environment
	e := &Entry{ID: r.ID, Host: host, Dir: dir, Identity: r.Identity, Started: timeText(env.Time),
		Version: env.Version, CPU: env.CPU, Metrics: results.Metrics{}, Tags: tags}
	if env.Revision != "" {
		e.Version = env.Revision
	}
	e.Status, e.Error = r.State()
	res := r.Result
	if res == nil {
		return e, nil
	}
	e.Finished, e.Steps, e.Skipped = timeText(res.Finished), res.Steps, res.Skipped
	e.MeasuredSeconds = res.MeasuredSeconds[results.TotalSeconds]
	for name, v := range res.Metrics {
		e.Metrics[name] = v
	}
	// What a phase took, by the names of tables.
	for _, p := range res.Phases {
		e.Metrics[p.Name+".measured_seconds"] = p.MeasuredSeconds[results.TotalSeconds]
		if v := p.SequencesPerSecond(); v > 0 {
			e.Metrics[p.Name+".measured_sequences_per_second"] = v
		}
		if t := p.Target; t != nil && t.Step > 0 {
			e.Metrics[p.Name+".steps_to_target"] = float64(t.Step)
			e.Metrics[p.Name+".measured_seconds_to_target"] = t.MeasuredSeconds
		}
	}
	return e, nil
}

// timeText has a fixed length, so that texts sort as the times do.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// List returns the runs that pass a filter, by start time. The empty filter passes all. What is known of runs that had no
// result is read again where their folders are on this machine: a process that was killed did not say so.
func (x *Index) List(ctx context.Context, where string) ([]Entry, error) {
	err := x.look(ctx)
	var list []Entry
	if err == nil {
		list, err = x.list(ctx, where)
	}
	if err != nil {
		return nil, x.fail(err)
	}
	return list, nil
}

// look enters the runs without a result whose state has changed. A folder that is gone or damaged stays as it was entered.
func (x *Index) look(ctx context.Context) (err error) {
	tx, err := x.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	known := map[string]Entry{}
	err = scan(ctx, tx, `SELECT r.dir, r.status, r.error FROM runs r WHERE r.finished = '' AND r.host = $1`, []any{x.host},
		func(rows *sql.Rows) error {
			var e Entry
			err := rows.Scan(&e.Dir, &e.Status, &e.Error)
			known[e.Dir] = e
			return err
		})
	if err = errors.Join(err, tx.Rollback()); err != nil {
		return err
	}
	for dir, was := range known {
		r, err := results.Open(dir)
		if err != nil {
			continue
		}
		if state, why := r.State(); state != was.Status || why != was.Error {
			if err := x.change(ctx, func(tx *sql.Tx) error { return x.put(ctx, tx, r) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *Index) list(ctx context.Context, where string) (list []Entry, err error) {
	condition, args, err := x.condition(ctx, where)
	if err != nil {
		return nil, err
	}
	// One transaction, so that metrics and tags belong to the runs that were listed. On PostgreSQL each query may
	// see more; what belongs to other runs is skipped.
	tx, err := x.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := tx.Rollback(); e != nil && !errors.Is(e, sql.ErrTxDone) {
			err = errors.Join(err, e)
		}
	}()
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = "r." + c.name
	}
	at := map[string]int{}
	err = scan(ctx, tx, fmt.Sprintf(`SELECT %s FROM runs r WHERE %s ORDER BY r.started, r.id`, strings.Join(names, ", "), condition),
		args, func(rows *sql.Rows) error {
			e := Entry{Metrics: results.Metrics{}, Tags: []string{}}
			var name string
			var seed int64
			if err := rows.Scan(&e.ID, &e.Host, &e.Dir, &e.Recipe, &e.Fingerprint, &e.DataDigest, &e.Backend, &name, &e.Precision,
				&e.Optimizer, &seed, &e.Status, &e.Error,
				&e.Started, &e.Finished, &e.Version, &e.CPU, &e.Steps, &e.Skipped, &e.MeasuredSeconds); err != nil {
				return err
			}
			e.Seed = uint64(seed) ^ 1<<63
			at[e.ID] = len(list)
			list = append(list, e)
			return nil
		})
	if err != nil || len(list) == 0 {
		return list, err
	}
	some := fmt.Sprintf(`IN (SELECT r.id FROM runs r WHERE %s)`, condition)
	err = scan(ctx, tx, `SELECT m.run, m.name, m.value FROM metrics m WHERE m.run `+some, args, func(rows *sql.Rows) error {
		var run, name string
		var value sql.NullFloat64
		if err := rows.Scan(&run, &name, &value); err != nil {
			return err
		}
		if i, ok := at[run]; ok {
			if !value.Valid {
				value.Float64 = math.NaN()
			}
			list[i].Metrics[name] = value.Float64
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = scan(ctx, tx, `SELECT t.run, t.tag FROM tags t WHERE t.run `+some+` ORDER BY t.tag`, args, func(rows *sql.Rows) error {
		var run, tag string
		if err := rows.Scan(&run, &tag); err != nil {
			return err
		}
		if i, ok := at[run]; ok {
			list[i].Tags = append(list[i].Tags, tag)
		}
		return nil
	})
	return list, err
}

// scan calls each for every row of a query.
func scan(ctx context.Context, tx *sql.Tx, query string, args []any, each func(*sql.Rows) error) (err error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Find returns the one run that a reference means: the beginning of an id, or a folder.
func (x *Index) Find(ctx context.Context, ref string) (Entry, error) {
	list, err := x.list(ctx, "")
	if err != nil {
		return Entry{}, x.fail(err)
	}
	dir, err := filepath.Abs(ref)
	if err != nil {
		return Entry{}, err
	}
	i := slices.IndexFunc(list, func(e Entry) bool { return e.Host == x.host && e.Dir == dir })
	if i >= 0 {
		return list[i], nil
	}
	var found []Entry
	for _, e := range list {
		if ref != "" && strings.HasPrefix(e.ID, ref) {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Entry{}, bounded.As(os.ErrNotExist, "index %s: %q is neither the beginning of a run's id nor its folder", x.location, ref)
	}
	return Entry{}, fmt.Errorf("index %s: %d runs have an id that begins with %s: give more digits", x.location, len(found), ref)
}

// Here reports whether the folder of a run is on this machine.
func (x *Index) Here(e Entry) bool { return e.Host == x.host }

// Folders lists the folders of the runs on this machine by start time, and how many runs there are on others.
func (x *Index) Folders(ctx context.Context) (dirs []string, elsewhere map[string]int, err error) {
	rows, err := x.db.QueryContext(ctx, `SELECT host, dir FROM runs ORDER BY started, id`)
	if err != nil {
		return nil, nil, x.fail(err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	elsewhere = map[string]int{}
	for rows.Next() {
		var host, dir string
		if err := rows.Scan(&host, &dir); err != nil {
			return nil, nil, err
		}
		if host == x.host {
			dirs = append(dirs, dir)
		} else {
			elsewhere[host]++
		}
	}
	return dirs, elsewhere, rows.Err()
}

// known are the names that a filter may use.
func (x *Index) known(ctx context.Context) (names []string, err error) {
	for _, c := range columns {
		names = append(names, c.name)
	}
	names = append(names, "tag")
	for _, m := range recipe.Metrics() {
		names = append(names, m.Name)
	}
	rows, err := x.db.QueryContext(ctx, `SELECT DISTINCT name FROM metrics`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var n string
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		names = append(names, n)
	}
	return names, rows.Err()
}
