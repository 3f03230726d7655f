//go:build !unix || portable

package bounded

// nonblock is a flag of Unix.
const nonblock = 0
