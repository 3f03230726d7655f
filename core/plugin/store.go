package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"

	"harness.invalid/core/arena"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/tensor"
)

// store holds the sessions of a plugin process.
type store struct {
	arena *arena.Arena // nil: the host shares no memory

	mu       sync.Mutex
	last     uint64
	sessions map[uint64]*entry
}

// entry is an open session with its memory.
type entry struct {
	busy    chan struct{} // holds a token while a call is under way
	session io.Closer     // backend.Session or optimizer.Session
	region  *arena.Region
	shared  bool
	extra   any // what the service needs to know about the session
}

// region makes the memory of a session: what the host shares, or sections of the plugin's own.
func (s *store) region(m *pb.Memory, sections int) (r *arena.Region, shared bool, err error) {
	l, err := layoutFromWire(m.GetTensors())
	if err != nil {
		return nil, false, fmt.Errorf("layout: %w", err)
	}
	if len(m.GetOffsets()) == 0 {
		r, err = arena.NewRegion(l, sections)
		return r, false, err
	}
	if s.arena == nil {
		return nil, false, fmt.Errorf("memory lies in an arena, but %s is not set", arenaVariable)
	}
	if len(m.GetOffsets()) != sections {
		return nil, false, fmt.Errorf("memory has %d sections, want %d", len(m.GetOffsets()), sections)
	}
	offsets := make([]int64, sections)
	for i, o := range m.GetOffsets() {
		offsets[i] = int64(o) // too large a number becomes negative, which Map refuses
	}
	r, err = s.arena.Map(l, offsets)
	return r, true, err
}

// open makes memory for a session, opens it, and files it under a new number. An error or a panic in open gives the memory back.
func (s *store) open(m *pb.Memory, sections int, open func(l *tensor.Layout, r *arena.Region) (io.Closer, any, error)) (id uint64, err error) {
	r, shared, err := s.region(m, sections)
	if err != nil {
		return 0, err
	}
	opened := false
	defer func() {
		if !opened {
			err = errors.Join(err, r.Close())
		}
	}()
	session, extra, err := open(r.Layout(), r)
	if err != nil {
		return 0, err
	}
	opened = true
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions == nil {
		s.sessions = map[uint64]*entry{}
	}
	s.last++
	s.sessions[s.last] = &entry{busy: make(chan struct{}, 1), session: session, region: r, shared: shared, extra: extra}
	return s.last, nil
}

// acquire finds a session and waits until it is free. The caller releases it.
func (s *store) acquire(ctx context.Context, id uint64) (*entry, error) {
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

func (e *entry) release() { <-e.busy }

// close ends a session. Its number is free of it even when an error comes back.
func (s *store) close(ctx context.Context, id uint64) error {
	e, err := s.acquire(ctx, id)
	if err != nil {
		return err
	}
	defer e.release()
	s.mu.Lock()
	delete(s.sessions, id)
	s.mu.Unlock()
	return errors.Join(e.session.Close(), e.region.Close())
}

// sectionsServer moves sections of sessions whose memory is streamed.
type sectionsServer struct {
	pb.UnimplementedSectionsServer
	store *store
}

func (s *sectionsServer) Push(stream grpc.ClientStreamingServer[pb.SectionChunk, pb.PushResponse]) error {
	chunk, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return stream.SendAndClose(&pb.PushResponse{})
	}
	if err != nil {
		return err
	}
	e, err := s.store.acquire(stream.Context(), chunk.GetSession())
	if err != nil {
		return err
	}
	defer e.release()
	for !errors.Is(err, io.EOF) {
		if err != nil {
			return err
		}
		if err := e.write(chunk); err != nil {
			return err
		}
		chunk, err = stream.Recv()
	}
	return stream.SendAndClose(&pb.PushResponse{})
}

// write takes a chunk over into its section.
func (e *entry) write(c *pb.SectionChunk) error {
	section, err := e.section(c.GetSection())
	if err != nil {
		return err
	}
	n := uint64(len(c.GetValues())) / 4
	if len(c.GetValues())%4 != 0 || c.GetOffset() > uint64(len(section)) || n > uint64(len(section))-c.GetOffset() {
		return fmt.Errorf("chunk of %d bytes at element %d of section %d, which has %d elements", len(c.GetValues()), c.GetOffset(), c.GetSection(), len(section))
	}
	copyFloats(section[c.GetOffset():c.GetOffset()+n], c.GetValues())
	return nil
}

func (e *entry) section(i uint32) ([]float32, error) {
	if e.shared {
		return nil, errors.New("the session's memory is shared: there is nothing to send")
	}
	if i >= uint32(e.region.Sections()) {
		return nil, fmt.Errorf("the session has %d sections, and none is number %d", e.region.Sections(), i)
	}
	return e.region.Section(int(i)), nil
}

func (s *sectionsServer) Pull(r *pb.PullRequest, stream grpc.ServerStreamingServer[pb.SectionChunk]) error {
	e, err := s.store.acquire(stream.Context(), r.GetSession())
	if err != nil {
		return err
	}
	defer e.release()
	section, err := e.section(r.GetSection())
	if err != nil {
		return err
	}
	return chunks(section, func(offset int, values []float32) error {
		return stream.Send(&pb.SectionChunk{Session: r.GetSession(), Section: r.GetSection(), Offset: uint64(offset), Values: toBytes(values)})
	})
}

func (s *sectionsServer) Settle(ctx context.Context, r *pb.SettleRequest) (*pb.SettleResponse, error) {
	e, err := s.store.acquire(ctx, r.GetSession())
	if err != nil {
		return nil, err
	}
	e.release()
	return &pb.SettleResponse{}, nil
}

// chunks cuts a section into pieces that fit a message.
func chunks(section []float32, send func(offset int, values []float32) error) error {
	for i := 0; i < len(section); i += chunkElements {
		if err := send(i, section[i:min(i+chunkElements, len(section))]); err != nil {
			return err
		}
	}
	return nil
}
