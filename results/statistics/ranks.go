package statistics

import (
	"math"
	"slices"
)

// RankSums estimates how far y lies above x: the median of all differences between a value of y and one of x, and
// the ends of its interval at level 1-2α, the outermost differences that the Mann-Whitney test does not reject. It
// assumes independent draws from two distributions that differ in location alone; an outlier moves it little. Too
// few values to reject anything, such as 2 and 3 at α = 0.05, make both ends infinite. Source: Hollander, Wolfe,
// Chicken 2014, Nonparametric Statistical Methods, 4.1 to 4.3 (Hodges and Lehmann's estimate, Moses's interval).
func RankSums(x, y []float64, alpha float64) (center, low, high float64) {
	var differences []float64
	for _, a := range x {
		for _, b := range y {
			differences = append(differences, b-a)
		}
	}
	slices.Sort(differences)
	center, low, high = Median(differences), math.Inf(-1), math.Inf(1)
	if k := RankSumReach(len(x), len(y), alpha); k > 0 {
		low, high = differences[k-1], differences[len(differences)-k]
	}
	return center, low, high
}

// RankSumReach is the number of values of U, counted from 0, that together have probability α or less in the
// Mann-Whitney test of n and m values. U counts how often a value of the second group is below one of the first.
// The largest of all values belongs to one group or the other, hence
//
//	p(u; n, m) = n/(n+m) p(u-m; n-1, m) + m/(n+m) p(u; n, m-1)
//
// Source: Mann, Whitney 1947, Ann. Math. Stat. 18:50.
func RankSumReach(n, m int, alpha float64) int {
	p := make([][]float64, m+1) // p[j][u] for the i values of the first group handled so far, and j of the second
	for j := range p {
		p[j] = make([]float64, n*m+1)
		p[j][0] = 1
	}
	for i := 1; i <= n; i++ {
		for j := 1; j <= m; j++ {
			first, second := float64(i)/float64(i+j), float64(j)/float64(i+j)
			next := make([]float64, n*m+1)
			for u := range next {
				next[u] = second * p[j-1][u]
				if u >= j {
					next[u] += first * p[j][u-j]
				}
			}
			p[j] = next
		}
	}
	sum := 0.0
	for u, v := range p[m] {
		// Rounding must not lose a level that is attained exactly, such as 1/20 by 3 and 3 values.
		if sum += v; sum > alpha*(1+1e-9) {
			return u
		}
	}
	return len(p[m])
}
