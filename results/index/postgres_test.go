package index

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// postgres is the location of an empty database: on the server that HARNESS_TEST_POSTGRES names, or on one that is
// started for the test from the programs on this machine. Without either the test is skipped.
func postgres(t *testing.T) string {
	t.Helper()
	if location := os.Getenv("HARNESS_TEST_POSTGRES"); location != "" {
		return emptySchema(t, location)
	}
	if testing.Short() {
		t.Skip("starts a PostgreSQL server")
	}
	bin := postgresPrograms()
	if bin == "" {
		t.Skip("no PostgreSQL on this machine, and HARNESS_TEST_POSTGRES is not set")
	}
	// A socket's path has at most 107 characters, which the test's own folder may not leave.
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	user, ok := serverUser(dir)
	if !ok {
		t.Skip("PostgreSQL does not run as root, and there is no user to run it as")
	}
	run := func(name string, args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), filepath.Join(bin, name), args...)
		c.Dir, c.SysProcAttr = dir, user
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	data := filepath.Join(dir, "data")
	run("initdb", "-D", data, "-U", "harness", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=127.0.0.1", "-c",
		fmt.Sprintf("port=%d", port), "-c", "fsync=off")
	server.Dir, server.SysProcAttr = dir, user
	var log strings.Builder
	server.Stderr = &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt) // fast shutdown
		_ = server.Wait()
	})
	location := fmt.Sprintf("postgres://harness@127.0.0.1:%d/postgres", port)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			c.Close()
			x, err := Open(t.Context(), location)
			if err == nil {
				x.db.ExecContext(t.Context(), `DROP SCHEMA public CASCADE; CREATE SCHEMA public`)
				x.Close()
				return location
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not answer: %v\n%s", err, &log)
		}
	}
}

// emptySchema creates a schema in a database that others use as well.
func emptySchema(t *testing.T, location string) string {
	t.Helper()
	u, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("test_%d", time.Now().UnixNano())
	x, err := Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.db.ExecContext(t.Context(), "CREATE SCHEMA "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := x.db.Exec("DROP SCHEMA " + name + " CASCADE"); err != nil {
			t.Error(err)
		}
		x.Close()
	})
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return u.String()
}

// postgresPrograms is the folder of initdb and postgres; "" if there is none.
func postgresPrograms() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}
