//go:build !linux || portable

package index

func networkFileSystem(string) string { return "" }
