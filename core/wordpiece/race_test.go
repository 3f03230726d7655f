//go:build race

package wordpiece_test

const raceEnabled = true
