package random

// A Grid is random bits for the elements of a matrix that is rounded many times: a function of (stream, row, column,
// time), cheap enough to be computed in registers between multiplications. A product of two odd numbers, one of the
// row and the time and one of the column, gives two columns their bits.
//
// Each is uniform. Two elements in different rows, columns or times are as good as independent; elements whose rows
// and times both collide (one pair in 2^31) share their bits.
type Grid struct{ Row, Column uint32 }

// Grid returns the grid of the stream.
func (s Stream) Grid() Grid {
	b := s.Block(0)
	return Grid{Row: b[0], Column: b[1]}
}

// What core/kernels needs to draw the same bits. Columns of GridColumns have their bits in one vector of Lanes words:
// the first half of them from bit GridLow on, the second from GridHigh on, GridBits each.
const (
	GridColumns = 2 * Lanes
	GridBits    = 13
	GridLow     = 6
	GridHigh    = 32 - GridBits
	GridStep    = 0x9e3779b9 // between two times
)

// Bits returns the GridBits random bits of an element. Rows, columns and times count modulo 2^32.
func (g Grid) Bits(row, column, time uint32) uint32 {
	r := Mix(Mix(row+g.Row)+time*GridStep) | 1
	c := Mix(column/GridColumns*Lanes+column%Lanes+g.Column) | 1
	if column/Lanes%2 == 0 {
		return r * c >> GridLow & (1<<GridBits - 1)
	}
	return r * c >> GridHigh
}

// Constants of Mix.
const (
	MixM0 = 0x7feb352d
	MixM1 = 0x846ca68b
)

// Mix is a permutation of 32 bits in which each bit of the argument changes each of the result with a probability near
// one half (lowbias32 of Chris Wellons, "Prospecting for Hash Functions", 2018).
func Mix(x uint32) uint32 {
	x = (x ^ x>>16) * MixM0
	x = (x ^ x>>15) * MixM1
	return x ^ x>>16
}
