//go:build !unix

package bounded

// nonblock is a flag of Unix.
const nonblock = 0
