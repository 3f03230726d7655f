package train

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/recipe"
)

// CheckFiles reports files of a recipe that were not given or that can't be read, by the names that --data has for them,
// before anything is made. What the files hold is checked when they are opened.
func CheckFiles(r *recipe.Recipe) error {
	if r.Data.Kind == recipe.GeneratedData {
		return nil
	}
	f := r.Data.Files
	if err := missingFiles(r, f); err != nil {
		return err
	}
	errs := []error{checkFiles("text", f.Text...), checkFolders("prepared", f.Prepared...)}
	if f.Vocab != "" {
		errs = append(errs, checkFiles("vocab", f.Vocab))
	}
	var checked []string
	for _, p := range r.AllPhases() {
		if t := p.FineTuning(); t != nil && !slices.Contains(checked, t.Name) {
			checked = append(checked, t.Name)
			errs = append(errs, checkFiles(t.Name+".train", f.Of(t.Name).Train...), checkFiles(t.Name+".dev", f.Of(t.Name).Dev...))
		}
	}
	return errors.Join(errs...)
}

func checkFiles(name string, paths ...string) error {
	return check(name, paths, func(info fs.FileInfo) string {
		switch {
		case info.IsDir():
			return "is a folder, want a file"
		case !info.Mode().IsRegular():
			return "is no file that can be read again: want a regular file"
		case info.Size() == 0:
			return "is empty"
		}
		return ""
	})
}

func checkFolders(name string, paths ...string) error {
	return check(name, paths, func(info fs.FileInfo) string {
		if !info.IsDir() {
			return "is a file, want a folder that harness data prepare made"
		}
		return ""
	})
}

func check(name string, paths []string, wrong func(fs.FileInfo) string) error {
	var errs []error
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			errs = append(errs, fmt.Errorf("%s %s: there is no such file", name, path))
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		default:
			if what := wrong(info); what != "" {
				errs = append(errs, fmt.Errorf("%s %s %s", name, path, what))
			}
		}
	}
	return errors.Join(errs...)
}

// missingFiles returns an error that names all files that a recipe needs and that were not given.
func missingFiles(r *recipe.Recipe, f recipe.Files) error {
	var missing []string
	need := func(name string, given bool) {
		if !given && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	for _, p := range r.AllPhases() {
		if p.Task == bert.Pretraining {
			if r.Data.Kind == recipe.PreparedData {
				need("prepared", len(f.Prepared) > 0)
			} else {
				need("text", len(f.Text) > 0)
			}
		} else if t := p.FineTuning(); t != nil {
			need(t.Name+".train", len(f.Of(t.Name).Train) > 0)
			need(t.Name+".dev", len(f.Of(t.Name).Dev) > 0)
		}
	}
	if f.Vocab == "" && f.Model == "" && len(f.Prepared) == 0 {
		need("text", len(f.Text) > 0)
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("recipe %s needs files that were not given: %s (--data %s=FILE)",
		r.Name, strings.Join(missing, ", "), missing[0])
}
