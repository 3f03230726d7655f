package page

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"time"
)

// Index is an index of runs, as in results/index.
type Index interface {
	Location() string
	// Folders lists the folders of runs on this machine, and how many runs there are on each other one.
	Folders(context.Context) (dirs []string, elsewhere map[string]int, err error)
}

// InIndex is the source of the runs of an index whose folders are here.
func InIndex(x Index) Source {
	return Source{Name: "index " + x.Location(), Folders: func(ctx context.Context) (dirs, notes []string, err error) {
		known, elsewhere, err := x.Folders(ctx)
		if err != nil {
			return nil, nil, err
		}
		gone := 0
		for _, dir := range known {
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				gone++
			} else {
				dirs = append(dirs, dir)
			}
		}
		if gone > 0 {
			notes = append(notes, fmt.Sprintf("Of the index %s not shown, since the folders are gone: harness runs reindex forgets them.",
				runsAre(gone)))
		}
		for _, host := range slices.Sorted(maps.Keys(elsewhere)) {
			notes = append(notes, fmt.Sprintf("Of the index %s on %s: harness serve shows them there.", runsAre(elsewhere[host]), host))
		}
		return dirs, notes, nil
	}}
}

func runsAre(n int) string {
	if n == 1 {
		return "1 run is"
	}
	return fmt.Sprintf("%d runs are", n)
}

// Serve serves the runs of a source to a listener until ctx ends, and then lets requests under way come to their end.
func Serve(ctx context.Context, source Source, listener net.Listener) error {
	server := &http.Server{
		Handler: NewServer(source), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx }, // ends what readers who wait for news wait for
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
