package machine

// RingSeconds is the time of one pass of a ring over bytes that each of n members holds: reduce-scatter, or
// all-gather; an all-reduce is both. Each member sends n-1 pieces of 1/n, and every step waits for its neighbour.
//
//	t = (n-1)/n · bytes / bytesPerSecond + (n-1)·step
//
// Source: Patarasuk, Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations".
func RingSeconds(n int, bytes, bytesPerSecond, stepSeconds float64) float64 {
	if n < 2 {
		return 0
	}
	steps := float64(n - 1)
	return steps/float64(n)*bytes/bytesPerSecond + steps*stepSeconds
}
