//go:build !linux

package index

func networkFileSystem(string) string { return "" }
