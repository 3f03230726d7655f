//go:build !race

package wordpiece_test

const raceEnabled = false
