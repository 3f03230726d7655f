package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"harness.invalid/core/arena"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
	"harness.invalid/core/tensor"
)

// store holds the open sessions of a plugin process. S is what its kind of plugin opens.
type store[S io.Closer] struct {
	arena *arena.Arena // nil: the host shares no memory

	mu       sync.Mutex
	last     uint64
	sessions map[uint64]*entry[S]
}

// entry is an open session with its memory.
type entry[S io.Closer] struct {
	busy    chan struct{} // holds a token while a call is under way
	session S
	memory  memory
}

// open makes memory for a session, opens it, and files it under a new number. An error or a panic in open gives the
// memory back.
func (s *store[S]) open(m *pb.Memory, sections int, open func(*tensor.Layout, *arena.Region) (S, error)) (id uint64, err error) {
	memory, err := newMemory(s.arena, m, sections)
	if err != nil {
		return 0, err
	}
	opened := false
	defer func() {
		if !opened {
			err = errors.Join(err, memory.Close())
		}
	}()
	session, err := open(memory.Layout(), memory.Region)
	if err != nil {
		return 0, err
	}
	opened = true
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions == nil {
		s.sessions = map[uint64]*entry[S]{}
	}
	s.last++
	s.sessions[s.last] = &entry[S]{busy: make(chan struct{}, 1), session: session, memory: memory}
	return s.last, nil
}

// acquire finds a session and waits until it is free. The caller releases it.
func (s *store[S]) acquire(ctx context.Context, id uint64) (*entry[S], error) {
	s.mu.Lock()
	e, ok := s.sessions[id]
	s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("no session has the number %d: it was closed, or never opened", id)
	}
	select {
	case e.busy <- struct{}{}:
		return e, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *entry[S]) release() { <-e.busy }

// close ends a session and frees its number, even if it returns an error.
func (s *store[S]) close(ctx context.Context, id uint64) error {
	e, err := s.acquire(ctx, id)
	if err != nil {
		return err
	}
	defer e.release()
	s.mu.Lock()
	delete(s.sessions, id)
	s.mu.Unlock()
	return errors.Join(e.session.Close(), e.memory.Close())
}

// memory is the memory of a session: what the host shares, or sections of the plugin's own.
type memory struct {
	*arena.Region
	shared bool
}

// newMemory maps sections of the arena that the host shares, or, if the host names no offsets, makes sections of
// the plugin's own.
func newMemory(a *arena.Arena, m *pb.Memory, sections int) (memory, error) {
	l, err := wire.DecodeLayout(m.GetTensors())
	if err != nil {
		return memory{}, fmt.Errorf("layout: %w", err)
	}
	if len(m.GetOffsets()) == 0 {
		r, err := arena.NewRegion(l, sections)
		return memory{r, false}, err
	}
	if a == nil {
		return memory{}, fmt.Errorf("memory lies in an arena, but %s is not set", wire.ArenaVariable)
	}
	if len(m.GetOffsets()) != sections {
		return memory{}, fmt.Errorf("memory has %d sections, want %d", len(m.GetOffsets()), sections)
	}
	offsets := make([]int64, sections)
	for i, o := range m.GetOffsets() {
		offsets[i] = int64(o) // too large a number becomes negative, which Map refuses
	}
	r, err := a.Map(l, offsets)
	return memory{r, true}, err
}

// write copies a chunk into its section.
func (m memory) write(c *pb.SectionChunk) error {
	section, err := m.section(c.GetSection())
	if err != nil {
		return err
	}
	n := uint64(len(c.GetValues())) / 4
	if len(c.GetValues())%4 != 0 || c.GetOffset() > uint64(len(section)) || n > uint64(len(section))-c.GetOffset() {
		return fmt.Errorf("chunk of %d bytes at element %d of section %d, which has %d elements",
			len(c.GetValues()), c.GetOffset(), c.GetSection(), len(section))
	}
	wire.CopyFloats(section[c.GetOffset():c.GetOffset()+n], c.GetValues())
	return nil
}

// section is a section that may be streamed.
func (m memory) section(i uint32) ([]float32, error) {
	if m.shared {
		return nil, errors.New("the session's memory is shared: there is nothing to send")
	}
	if i >= uint32(m.Sections()) {
		return nil, fmt.Errorf("the session has %d sections, and none is number %d", m.Sections(), i)
	}
	return m.Section(int(i)), nil
}
