// Package fault is the one place where a test stands between the program and the system. Operations that change files,
// and those that take shared memory, go in with what they do; they come out done, or failed as the test wants it.
//
// Outside of tests nothing stands there, and an operation costs one atomic load more.
package fault

import "sync/atomic"

// Kind is what an operation does.
type Kind string

// The kinds of operations.
const (
	Create   Kind = "create"   // opens a file for writing, and makes it if it is missing
	Write    Kind = "write"    // of Data at Offset
	Truncate Kind = "truncate" // to Offset bytes
	Sync     Kind = "sync"     // flushes a file to the disk
	SyncDir  Kind = "syncdir"  // flushes the entries of a folder to the disk
	Rename   Kind = "rename"   // from Path to To
	Remove   Kind = "remove"   // of a file, or a folder without entries
	Prune    Kind = "prune"    // of a folder with all that is in it
	Mkdir    Kind = "mkdir"    // makes one folder
	Share    Kind = "share"    // creates shared memory
	Grow     Kind = "grow"     // of shared memory, to Offset bytes
	Map      Kind = "map"      // of shared memory into the process
)

// Op is one operation.
type Op struct {
	Kind   Kind
	Path   string
	To     string
	Offset int64
	Data   []byte // of Write; a test that cuts it off makes the write a short one
}

// Interceptor does an operation with do, or fails it. It may be called concurrently.
type Interceptor func(op *Op, do func() error) error

var interceptor atomic.Pointer[Interceptor]

// Intercept puts an interceptor in front of all operations of the process, for tests. Its result removes it.
func Intercept(f Interceptor) (remove func()) {
	interceptor.Store(&f)
	return func() { interceptor.Store(nil) }
}

// Do does an operation with do.
func Do(op *Op, do func() error) error {
	if f := interceptor.Load(); f != nil {
		return (*f)(op, do)
	}
	return do()
}
