// Package arena is float32 memory that several processes map: the parameters, gradients and optimizer state of a
// run. The host creates an arena and hands its file to each plugin that it starts; a plugin attaches to it. No
// tensor then ever goes over the wire.
//
//	host:    New      ->  File (to the plugin)  ->  Allocate(layout, sections)  ->  Offsets (to the plugin)
//	plugin:  Attach   ->  Map(layout, offsets)
//
// An arena is empty at first and grows with what is allocated, so that it can be handed over before anyone knows
// how large a model will be, and serves one layout after the other as a recipe goes through its phases. An arena
// has no lock: host and plugins take turns by their calls.
//
// # Where the memory lies
//
// On Linux it is a memfd: no name in any file system, gone with the last process that has it open, however that
// process ended. It is sealed against shrinking. Without the seal a process that truncates the file would kill all
// others with SIGBUS at their next access; with it, a range that lay within the file when it was mapped stays valid
// for good. Pages come when they are first touched, as those of the heap do.
//
// On other Unix systems it is a temporary file without a name. There are no seals there: a plugin is trusted not to
// truncate it. On Windows and elsewhere memory is not shared; Allocate takes it from the heap, File is nil, and the
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

	"harness.invalid/core/tensor"
)

// Granularity is the alignment in bytes of sections in an arena: the largest page size of the systems that harness
// is built for.
const Granularity = 64 << 10

// maxBytes bounds the size of an arena: a hundred sections of the largest layout.
const maxBytes = 100 * 4 * tensor.MaxLen

// Arena is a file of memory. Its methods may be called concurrently.
type Arena struct {
	file     *os.File // nil: heap
	attached bool

	mu     sync.Mutex
	live   []*Region // host: in the order of their offsets
	size   int64     // host: bytes that regions had so far, no longer known to be zero
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
	f, err := create()
	if err != nil {
		return nil, fmt.Errorf("arena: create shared memory: %w", err)
	}
	return &Arena{file: f}, nil
}

// Attach opens the arena that another process created from an inherited file, and takes the file over.
func Attach(f *os.File) (*Arena, error) {
	if err := checkAttached(f); err != nil {
		return nil, fmt.Errorf("arena: attach: %w", err)
	}
	return &Arena{file: f, attached: true}, nil
}

// File is what another process attaches to, nil when memory is not shared. It stays the arena's.
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

// fit returns the first offset with n free bytes, and the place of a region there among the live ones.
func (a *Arena) fit(n int64) (offset int64, at int) {
	for i, r := range a.live {
		if r.offsets[0]-offset >= n {
			return offset, i
		}
		offset = r.end()
	}
	return offset, len(a.live)
}

// end is the first offset behind a region.
func (r *Region) end() int64 {
	n := int64(r.layout.Len()) * 4
	return r.offsets[len(r.offsets)-1] + (n+Granularity-1)/Granularity*Granularity
}

// Map maps sections that the creator of the arena allocated, given by their offsets. Offsets that don't lie in the
// arena are an error.
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

// mapSections maps ranges of the file that are known to lie in it.
func (a *Arena) mapSections(l *tensor.Layout, offsets []int64) (*Region, error) {
	r := &Region{arena: a, layout: l, offsets: slices.Clone(offsets)}
	for _, offset := range offsets {
		b, err := mapFile(a.file, offset, l.Len()*4)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("arena: map %d bytes: %w", l.Len()*4, err), r.unmap())
		}
		r.mappings = append(r.mappings, b)
		r.sections = append(r.sections, unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), l.Len()))
	}
	return r, nil
}

// Locate returns the offset of a section, given by the very slice that Region.Section returned. It is false for
// memory that is not the arena's, or not shared.
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
	return f.Truncate(n)
}

// NewRegion returns zeroed memory of this process alone for sections of a layout, aligned as an arena's: for a
// plugin whose host sends tensors over the wire.
func NewRegion(l *tensor.Layout, sections int) (*Region, error) {
	return (&Arena{}).Allocate(l, sections)
}

// Layout is the layout of every section.
func (r *Region) Layout() *tensor.Layout { return r.layout }

// Sections is the number of sections.
func (r *Region) Sections() int { return len(r.sections) }

// Section returns the memory of section i. It is valid until Close.
func (r *Region) Section(i int) []float32 { return r.sections[i] }

// Params, Grads and Slots are the sections as harness orders them: 0, 1, and all after.
func (r *Region) Params() []float32  { return r.sections[0] }
func (r *Region) Grads() []float32   { return r.sections[1] }
func (r *Region) Slots() [][]float32 { return r.sections[2:] }

// Offsets are the places of the sections in the arena's file in bytes, nil when memory is not shared.
func (r *Region) Offsets() []int64 { return r.offsets }

// Close gives the memory back. Slices into it must not be used afterwards, here or in another process.
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

// onHeap returns n zeroed elements whose first is aligned to tensor.Align.
func onHeap(n int) []float32 {
	s := make([]float32, n+tensor.Align)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(s)))/4) & (tensor.Align - 1)
	return s[skip : skip+n : skip+n]
}
