// Package arena is float32 memory that several processes share: the parameters, gradients and optimizer state of a
// run. A layout and a number of sections go in, slices of zeroed memory come out. The host creates an arena and
// hands its file to each plugin that it starts; a plugin attaches to it. Tensors then never go over the wire.
//
//	host:    New      ->  File (to the plugin)  ->  Allocate(layout, sections)  ->  Offsets (to the plugin)
//	plugin:  Attach   ->  Map(layout, offsets)
//
// An arena is empty at first and grows with allocations, so it can be handed over before the size of a model is
// known, and can hold one layout after the other as a recipe goes through its phases. An arena has no lock: the
// order of calls synchronises all access.
//
// # Where the memory lies
//
// On Linux it is a memfd, which has no name in any file system and is gone with the last process that has it open.
// It is sealed against shrinking: without the seal, a process that truncated the file would kill all others with
// SIGBUS at their next access; with it, a range that was within the file when it was mapped stays valid. Like the
// heap's, pages are allocated when they are first touched.
//
// On other Unix systems it is an unlinked temporary file. They have no seals, so plugins are trusted not to
// truncate it. On Windows and elsewhere memory is not shared: Allocate takes it from the heap, File is nil, and the
// transport of core/plugin copies.
package arena

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"unsafe"

	"harness.invalid/core/fault"
	"harness.invalid/core/tensor"
)

// Granularity is the alignment of sections in an arena in bytes: the largest page size of the systems that harness
// runs on.
const Granularity = 64 << 10

// maxBytes bounds the size of an arena: a hundred sections of the largest layout.
const maxBytes = 100 * 4 * tensor.MaxLen

// Arena is a file of memory. Its methods may be called concurrently.
type Arena struct {
	file     *os.File // nil: heap
	attached bool

	mu     sync.Mutex
	live   []*Region // host: in the order of their offsets
	size   int64     // host: bytes that regions have used so far and that may not be zero
	closed bool
}

// Region is memory for sections of one layout.
type Region struct {
	arena    *Arena
	layout   *tensor.Layout
	offsets  []int64 // in bytes from the start of the arena's file
	sections [][]float32
	mappings [][]byte // nil: heap
}

// New creates an empty arena, shared where the system has shared memory.
func New() (*Arena, error) {
	var f *os.File
	err := fault.Do(&fault.Op{Kind: fault.Share}, func() (err error) {
		f, err = create()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("arena: create shared memory: %w", err)
	}
	return &Arena{file: f}, nil
}

// Attach opens an arena that another process created, from its inherited file, and takes ownership of the file.
func Attach(f *os.File) (*Arena, error) {
	if err := checkAttached(f); err != nil {
		return nil, fmt.Errorf("arena: attach: %w", err)
	}
	return &Arena{file: f, attached: true}, nil
}

// File is the file for another process to attach to, nil if memory is not shared. The arena keeps ownership.
func (a *Arena) File() *os.File { return a.file }

// Allocate returns zeroed memory for sections of a layout.
func (a *Arena) Allocate(l *tensor.Layout, sections int) (*Region, error) {
	if a.attached {
		return nil, errors.New("arena: allocate: only the process that created an arena allocates from it")
	}
	if sections < 1 || l.Len() == 0 {
		return nil, fmt.Errorf("arena: allocate %d sections of %d elements, want at least one of each", sections, l.Len())
	}
	stride := (int64(l.Len())*4 + Granularity - 1) / Granularity * Granularity
	if stride > maxBytes/int64(sections) {
		return nil, fmt.Errorf("arena: allocate %d sections of %d elements: more than %d bytes", sections, l.Len(), int64(maxBytes))
	}
	if a.file == nil {
		r := &Region{arena: a, layout: l}
		for range sections {
			r.sections = append(r.sections, onHeap(l.Len()))
		}
		return r, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, errors.New("arena: allocate: the arena is closed")
	}
	offset, at := a.fit(stride * int64(sections))
	if offset > maxBytes-stride*int64(sections) {
		return nil, fmt.Errorf("arena: allocate %d sections of %d elements: arena would exceed %d bytes", sections, l.Len(), int64(maxBytes))
	}
	if err := grow(a.file, offset+stride*int64(sections)); err != nil {
		return nil, fmt.Errorf("arena: allocate %d bytes: %w", stride*int64(sections), err)
	}
	offsets := make([]int64, sections)
	for i := range offsets {
		offsets[i] = offset + int64(i)*stride
	}
	r, err := a.mapSections(l, offsets)
	if err != nil {
		return nil, err
	}
	if offset < a.size {
		for _, s := range r.sections {
			clear(s)
		}
	}
	a.size = max(a.size, offset+stride*int64(sections))
	a.live = slices.Insert(a.live, at, r)
	return r, nil
}

// fit returns the first offset with n free bytes, and the index of a region there among the live ones.
func (a *Arena) fit(n int64) (offset int64, at int) {
	for i, r := range a.live {
		if r.offsets[0]-offset >= n {
			return offset, i
		}
		offset = r.end()
	}
	return offset, len(a.live)
}

// end is the first offset after a region.
func (r *Region) end() int64 {
	n := int64(r.layout.Len()) * 4
	return r.offsets[len(r.offsets)-1] + (n+Granularity-1)/Granularity*Granularity
}

// Map maps sections that the creator of the arena allocated, given by their offsets. Offsets outside the arena are
// an error.
func (a *Arena) Map(l *tensor.Layout, offsets []int64) (*Region, error) {
	if !a.attached {
		return nil, errors.New("arena: map: the process that created an arena allocates instead")
	}
	if len(offsets) == 0 || l.Len() == 0 {
		return nil, fmt.Errorf("arena: map %d sections of %d elements, want at least one of each", len(offsets), l.Len())
	}
	info, err := a.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("arena: map: %w", err)
	}
	n := int64(l.Len()) * 4
	for i, offset := range offsets {
		if offset < 0 || offset%Granularity != 0 || offset > math.MaxInt64-n || offset+n > info.Size() {
			return nil, fmt.Errorf("arena: map: section %d has %d bytes at offset %d, want a multiple of %d within the arena's %d bytes",
				i, n, offset, Granularity, info.Size())
		}
		for j, other := range offsets[:i] {
			if offset < other+n && other < offset+n {
				return nil, fmt.Errorf("arena: map: sections %d and %d overlap at offsets %d and %d", j, i, other, offset)
			}
		}
	}
	return a.mapSections(l, offsets)
}

// mapSections maps ranges that are known to be within the file.
func (a *Arena) mapSections(l *tensor.Layout, offsets []int64) (*Region, error) {
	r := &Region{arena: a, layout: l, offsets: slices.Clone(offsets)}
	for _, offset := range offsets {
		var b []byte
		err := fault.Do(&fault.Op{Kind: fault.Map, Offset: offset}, func() (err error) {
			b, err = mapFile(a.file, offset, l.Len()*4)
			return err
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("arena: map %d bytes: %w", l.Len()*4, err), r.unmap())
		}
		r.mappings = append(r.mappings, b)
		r.sections = append(r.sections, unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), l.Len()))
	}
	return r, nil
}

// Locate returns the offset of a section, given as the slice that Region.Section returned. It returns false for
// memory that is not the arena's, or is not shared.
func (a *Arena) Locate(section []float32) (offset int64, ok bool) {
	if len(section) == 0 {
		return 0, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.live {
		for i, s := range r.sections {
			if unsafe.SliceData(s) == unsafe.SliceData(section) && len(s) == len(section) {
				return r.offsets[i], true
			}
		}
	}
	return 0, false
}

// Close unmaps all regions that were allocated and closes the file. Slices into the arena must not be used afterwards.
func (a *Arena) Close() error {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return nil
	}
	a.closed = true
	live := a.live
	a.live = nil
	a.mu.Unlock()
	var errs []error
	for _, r := range live {
		errs = append(errs, r.unmap())
	}
	if a.file != nil {
		errs = append(errs, a.file.Close())
	}
	return errors.Join(errs...)
}

// grow makes the file at least n bytes long.
func grow(f *os.File, n int64) error {
	info, err := f.Stat()
	if err != nil || info.Size() >= n {
		return err
	}
	return fault.Do(&fault.Op{Kind: fault.Grow, Offset: n}, func() error { return f.Truncate(n) })
}

// NewRegion returns zeroed memory of this process for sections of a layout, aligned like an arena's, for a plugin
// whose host sends tensors over the wire.
func NewRegion(l *tensor.Layout, sections int) (*Region, error) {
	return (&Arena{}).Allocate(l, sections)
}

// Layout is the layout of every section.
func (r *Region) Layout() *tensor.Layout { return r.layout }

// Sections is the number of sections.
func (r *Region) Sections() int { return len(r.sections) }

// Section returns the memory of section i. It is valid until Close.
func (r *Region) Section(i int) []float32 { return r.sections[i] }

// Params, Grads and Slots are the sections in harness's order: 0, 1, and all others.
func (r *Region) Params() []float32  { return r.sections[0] }
func (r *Region) Grads() []float32   { return r.sections[1] }
func (r *Region) Slots() [][]float32 { return r.sections[2:] }

// Offsets are the places of the sections in the arena's file in bytes, nil when memory is not shared.
func (r *Region) Offsets() []int64 { return r.offsets }

// Close releases the memory. Slices into it must not be used afterwards, here or in another process.
func (r *Region) Close() error {
	if r.mappings == nil {
		return nil
	}
	a := r.arena
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	err := r.unmap()
	if i := slices.Index(a.live, r); i >= 0 {
		a.live = slices.Delete(a.live, i, i+1)
		err = errors.Join(err, release(a.file, r.offsets[0], r.end()-r.offsets[0]))
	}
	return err
}

func (r *Region) unmap() error {
	var errs []error
	for _, b := range r.mappings {
		errs = append(errs, unmap(b))
	}
	r.mappings, r.sections = nil, nil
	return errors.Join(errs...)
}

// onHeap returns n zeroed elements, aligned to tensor.Align.
func onHeap(n int) []float32 {
	s := make([]float32, n+tensor.Align)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(s)))/4) & (tensor.Align - 1)
	return s[skip : skip+n : skip+n]
}
