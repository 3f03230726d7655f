package costmodel

import (
	"math"
	"slices"
	"sort"
)

// product is groups matrix products C[m, n] = A[m, k]·B[k, n] that are computed at once.
type product struct {
	groups, m, k, n int
}

// tiling is how a product is laid over the tiles: groups, rows, inner products and columns are each cut into so many
// parts, one combination a tile. A tile then holds blocks of rows x inner x columns, and serial groups one after the
// other.
type tiling struct {
	groups, rows, inner, columns int // parts
	rounds                       int // one after the other
	cost                         cost
	tileBytes                    float64 // operands and partial sums on a tile
}

// The matrix unit (AMP) has 16 units that multiply 4 wide: a block of 16 inputs x 16 outputs is loaded, and each row
// of inputs then takes 4 cycles in FP16.16. Each of the 6 workers takes a share of the rows and begins with 26 cycles
// of its own, 23 more than its first 3 outputs would take; a worker has every sixth cycle. Source: poplibs,
// conv_partial_1x1_half_float_8_and_half_half_h16.S: 26+(n-3)·4.
const (
	ampBlock        = 16
	ampWorkerStart  = 26
	ampWorkerAhead  = 3
	ampLoadBytes    = 16 // 128-bit loads of the block, a load a cycle
	ampCyclesPerRow = 4  // FP16.16
)

// ampCycles is what a tile takes for rows x inner x columns multiply-adds. slow is by how much a row takes longer
// than in FP16.16: 2 for FP32 partial sums, 4 for FP32 throughout.
func (c *Chip) ampCycles(rows, inner, columns int, slow float64) float64 {
	blocks := float64(ceil(inner, ampBlock) * ceil(columns, ampBlock))
	share := float64(ceil(rows, c.Workers))
	perRow := ampCyclesPerRow * slow
	worker := ampWorkerStart + max(0, share-ampWorkerAhead)*perRow
	load := float64(ampBlock*ampBlock*2) / ampLoadBytes
	return blocks * (load + float64(c.Workers)*worker)
}

// planner remembers tilings: programs of one size have the same products, whatever their accumulation.
type planner struct {
	constants
	fronts map[productKey][]tiling
	serial map[serialKey]tiling
}

type productKey struct {
	product
	chip   Chip
	format format
}

type serialKey struct {
	productKey
	limit float64
}

func newPlanner(c constants) *planner {
	return &planner{c, map[productKey][]tiling{}, map[serialKey]tiling{}}
}

// limit is the memory of a tile that a product may take on the device that is being worked on.
func (m *model) limit() float64 {
	return m.plan.Proportion(m.device) * float64(m.chip.SRAMPerTileBytes)
}

// planProduct finds the cheapest tiling of a product whose blocks fit into the tile memory that the program leaves to
// it, as poplin's planner does.
func (m *model) planProduct(p product) tiling {
	key := productKey{p, m.chip, m.format}
	front, ok := m.planner.fronts[key]
	if !ok {
		front = m.front(p)
		m.planner.fronts[key] = front
	}
	limit := m.limit()
	if i, _ := slices.BinarySearchFunc(front, limit, func(q tiling, limit float64) int {
		if q.tileBytes <= limit {
			return -1
		}
		return 1
	}); i > 0 {
		return front[i-1]
	}
	within := serialKey{key, limit}
	known, ok := m.planner.serial[within]
	if !ok {
		known = m.serialise(p)
		m.planner.serial[within] = known
	}
	return known
}

// front lists the tilings of a product that no other one beats in both memory and time, ordered by memory; each is
// faster than the one before.
func (m *model) front(p product) []tiling {
	c := &m.chip
	width := m.format.bytes
	var front []tiling
	var cycles []float64 // of the tilings of front: fewer and fewer
	for _, groups := range parts(p.groups, c.Tiles) {
		serial := ceil(p.groups, groups)
		for _, columns := range blockParts(p.n, ampBlock) {
			for _, inner := range blockParts(p.k, ampBlock) {
				used := groups * columns * inner
				if used > c.Tiles {
					break
				}
				rows := min(c.Tiles/used, p.m)
				r, k, n := ceil(p.m, rows), ceil(p.k, inner), ceil(p.n, columns)
				operands := float64(r*k+k*n) * width
				partials := float64(r*n) * m.format.partialBytes
				if operands+partials > float64(c.SRAMPerTileBytes) {
					continue
				}
				var x cost
				x.compute = float64(serial) * c.ampCycles(r, k, n, m.format.slow)
				x.exchange = float64(serial) * operands / m.exchangeBytesPerCycle
				x.supersteps = 2
				if inner > 1 {
					// Reduce-scatter: each tile gets the partial sums of a share of the outputs from all others, and
					// adds them up.
					share := float64(serial) * float64(r*n) * float64(inner-1) / float64(inner)
					x.exchange += share * m.format.partialBytes / m.exchangeBytesPerCycle
					x.compute += share * m.vectorCycles
					x.supersteps = 4
				}
				q := tiling{groups, rows, inner, columns, 1, x, operands + partials}
				at := sort.Search(len(front), func(i int) bool { return front[i].tileBytes > q.tileBytes })
				took := m.cycles(x)
				if at > 0 && cycles[at-1] <= took {
					continue
				}
				if at > 0 && front[at-1].tileBytes == q.tileBytes {
					at--
				}
				end := at
				for end < len(front) && cycles[end] >= took {
					end++
				}
				front, cycles = slices.Replace(front, at, end, q), slices.Replace(cycles, at, end, took)
			}
		}
	}
	return slices.Clip(front)
}

// serialise computes a product whose blocks do not fit as two halves, one after the other: half of the columns, of
// the rows, of the inner products, or of the groups.
func (m *model) serialise(p product) tiling {
	best := tiling{cost: cost{compute: math.Inf(1)}}
	for _, half := range []product{
		{p.groups, p.m, p.k, ceil(p.n, 2)}, {p.groups, ceil(p.m, 2), p.k, p.n}, {p.groups, p.m, ceil(p.k, 2), p.n},
		{ceil(p.groups, 2), p.m, p.k, p.n},
	} {
		if half == p {
			continue
		}
		h := m.planProduct(half)
		h.cost = h.cost.times(2)
		h.rounds *= 2
		if m.cycles(h.cost) < m.cycles(best.cost) {
			best = h
		}
	}
	return best
}

// parts lists the numbers of parts that differ in the size of the largest one.
func parts(n, most int) []int {
	var list []int
	for k := 1; k <= min(n, most); {
		list = append(list, k)
		size := ceil(n, k)
		if size == 1 {
			break
		}
		k = ceil(n, size-1)
	}
	return list
}

// blockParts are the numbers of parts of whole blocks that differ in the size of the largest one.
func blockParts(n, block int) []int { return parts(ceil(n, block), 1<<30) }

func ceil(a, b int) int { return (a + b - 1) / b }
