package export

import (
	"io"
	"maps"
	"slices"

	"github.com/parquet-go/parquet-go"

	"harness.invalid/harness/series"
)

// Row is a row of the Parquet table: one value of one run. The table is long and narrow, so that no quantity needs
// a column that others leave empty.
type Row struct {
	Run         string  `parquet:"run,dict"` // folder
	Recipe      string  `parquet:"recipe,dict"`
	Fingerprint string  `parquet:"fingerprint,dict"`
	DataDigest  string  `parquet:"data_digest,dict"`
	Backend     string  `parquet:"backend,dict"`
	Precision   string  `parquet:"precision,dict"`
	Optimizer   string  `parquet:"optimizer,dict"`
	Seed        int64   `parquet:"seed,dict"`
	Phase       string  `parquet:"phase,dict"`
	Kind        string  `parquet:"kind,dict"` // trained or evaluated
	Step        int32   `parquet:"step,delta"`
	TotalStep   int32   `parquet:"total_step,delta"`
	Samples     int64   `parquet:"samples,delta"`
	Measured    float64 `parquet:"measured_seconds"` // of training up to here
	Modelled    float64 `parquet:"modelled_seconds"` // the same on the system that is modelled; NaN: none is
	Name        string  `parquet:"name,dict"`
	Value       float64 `parquet:"value"`
}

// parquetTable writes all values of all runs.
func parquetTable(w io.Writer, records []*series.Record) error {
	out := parquet.NewGenericWriter[Row](w, parquet.Compression(&parquet.Zstd))
	var rows []Row
	for _, r := range records {
		for _, p := range merge(r.Steps, r.Evaluations) {
			row := Row{
				Run: r.Dir, Recipe: r.Identity.Recipe, Fingerprint: r.Fingerprint, DataDigest: r.DataDigest, Backend: r.Backend,
				Precision: r.Precision, Optimizer: r.Optimizer,
				Seed: int64(r.Seed), Phase: p.Phase, Kind: "trained", Step: int32(p.Step), TotalStep: int32(p.Total), Samples: p.Samples,
				Measured: p.Measured, Modelled: p.Modelled,
			}
			if p.evaluated {
				row.Kind = "evaluated"
			}
			for _, name := range slices.Sorted(maps.Keys(p.Values)) {
				row.Name, row.Value = name, p.Values[name]
				rows = append(rows, row)
			}
			if len(rows) > 10000 {
				if _, err := out.Write(rows); err != nil {
					return err
				}
				rows = rows[:0]
			}
		}
	}
	if _, err := out.Write(rows); err != nil {
		return err
	}
	return out.Close()
}
