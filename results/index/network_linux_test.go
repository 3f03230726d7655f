//go:build !portable

package index

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNetworkFileSystem: a file of SQLite on NFS is refused before it is touched, with the reason and what to do.
func TestNetworkFileSystem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	for kind, refused := range map[int64]string{0x6969: "NFS", 0xff534d42: "CIFS", -0x00acb2be: "CIFS", 0xef53: "", 0x794c7630: ""} {
		statfs = func(_ string, s *unix.Statfs_t) error {
			s.Type = kind
			return nil
		}
		x, err := Open(t.Context(), path)
		if refused == "" {
			if err != nil {
				t.Fatalf("type %#x: %v", kind, err)
			}
			if err := errors.Join(x.Close(), os.Remove(path)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if !errors.Is(err, ErrShared) || !strings.Contains(err.Error(), "("+refused+")") || !strings.Contains(err.Error(), "postgres://") {
			t.Errorf("type %#x: error %v, want one about %s", kind, err, refused)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("type %#x: a file was made", kind)
		}
	}
	statfs = unix.Statfs
	if name := networkFileSystem(t.TempDir()); name != "" {
		t.Logf("temporary files lie on %s here", name)
	}
}
