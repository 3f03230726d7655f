package statistics

import (
	"math"
	"slices"
)

// RobustSD estimates the standard deviation that several groups have around centers of their own. For each group it is
// 1.4826 times the median distance from the median, which is the standard deviation if values are normal, and which up
// to half of the values can change but little; for several it is the quadratic mean. Source: Rousseeuw and Croux 1993,
// J. Am. Stat. Assoc. 88:1273.
func RobustSD(groups ...[]float64) float64 {
	sum := 0.0
	for _, g := range groups {
		sd := 1.4826 * MedianDistance(g, Median(g))
		sum += sd * sd / float64(len(groups))
	}
	return math.Sqrt(sum)
}

// RareRate bounds how often something happens that did not happen in n independent trials: with a confidence of
// 1-alpha, in less than 1 - alpha^(1/n) of them, since at that rate n trials pass without it with probability alpha.
// Source: Louis 1981, Am. Stat. 35:154.
func RareRate(n int, alpha float64) float64 { return 1 - math.Pow(alpha, 1/float64(n)) }

// Finite are the values that are numbers.
func Finite(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}
