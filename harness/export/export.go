// Package export writes runs in the formats that other tools read.
//
//	tensorboard  event files, a folder for each run
//	mllog        MLPerf's :::MLLOG lines, a file for each phase of each run
//	dllogger     NVIDIA's DLLogger lines, a file for each run
//	mlflow       an MLflow file store, or a tracking server
//	parquet      one table of all values of all runs
//	gobench      Go's benchmark format, one file for benchstat
//
// Measured times are exported as measured; nothing is converted into what a device would do.
package export

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/durable"
	"harness.invalid/core/filename"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/series"
)

// Format is the format of another tool.
type Format struct {
	Name, Doc string
	// Folder is set for formats that fill a folder; the others put all runs into one file.
	Folder bool
	file   func(w io.Writer, records []*series.Record) error
	folder func(dir string, r *series.Record) error // of one run
}

// Formats are all formats.
var Formats = []Format{
	{Name: "tensorboard", Doc: "event files for TensorBoard, a folder for each run", Folder: true, folder: tensorboard},
	{Name: "mllog", Doc: "MLPerf's :::MLLOG lines, a file for each phase of each run", Folder: true, folder: mllog},
	{Name: "dllogger", Doc: "NVIDIA DLLogger's JSON lines, a file for each run", Folder: true, folder: dllogger},
	{Name: "mlflow", Doc: "an MLflow file store in a folder, or a tracking server at an http address", Folder: true, folder: mlflowStore},
	{Name: "parquet", Doc: "one Parquet table with a row for each value", file: parquetTable},
	{Name: "gobench", Doc: "Go's benchmark format, for benchstat", file: benchmarks},
}

// Names lists the formats.
func Names() []string {
	var names []string
	for _, f := range Formats {
		names = append(names, f.Name)
	}
	return names
}

// Named finds a format by its name.
func Named(name string) (Format, error) {
	i := slices.IndexFunc(Formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return Format{}, fmt.Errorf("no export format is named %q%s (known: %s)", name, spelling.Hint(name, Names()), strings.Join(Names(), ", "))
	}
	return Formats[i], nil
}

// To writes runs to a file or a folder, or, for MLflow, to a server.
func (f Format) To(ctx context.Context, path string, records []*series.Record) error {
	switch {
	case f.Name == "mlflow" && (strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://")):
		return mlflowServer(ctx, path, records)
	case !f.Folder:
		return durable.WriteFile(path, func(w io.Writer) error { return f.file(w, records) })
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is a file, want a folder for %s", path, f.Doc)
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	names := map[string]string{}
	for _, r := range records {
		if other, ok := names[r.Name()]; ok && f.Name != "mlflow" {
			return fmt.Errorf("%s and %s are both named %s: export them into folders of their own", other, r.Dir, r.Name())
		}
		names[r.Name()] = r.Dir
		if err := f.folder(path, r); err != nil {
			return fmt.Errorf("run %s: %w", r.Dir, err)
		}
	}
	return nil
}

// Write writes the runs in a format that takes one file.
func (f Format) Write(w io.Writer, records []*series.Record) error {
	if f.Folder {
		return fmt.Errorf("%s: want a folder", f.Doc)
	}
	return f.file(w, records)
}

// put writes a file in a folder, and creates the folders between. Its name, which has words of a record that may come
// from anybody, cannot lead elsewhere.
func put(dir, name string, write func(w io.Writer) error) error {
	path, err := filename.Join(dir, name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return durable.WriteFile(path, write)
}
