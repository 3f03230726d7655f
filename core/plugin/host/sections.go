package host

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"sync/atomic"

	"harness.invalid/core/arena"
	"harness.invalid/core/kernels"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
	"harness.invalid/core/tensor"
)

// sections keeps the plugin's and the host's view of a session's memory the same: before a call the plugin sees
// what the host wrote, after it the host sees what the plugin wrote.
type sections interface {
	memory() *pb.Memory // for the call that opens the session
	before(ctx context.Context, session uint64, which ...int) error
	after(ctx context.Context, session uint64, which ...int) error
	// spoil says that the plugin may change sections that the host does not fetch afterwards.
	spoil(which ...int)
	close() error
}

// openSections chooses how the host's memory reaches the plugin: direct, mirrored or streamed.
func (p *Process) openSections(l *tensor.Layout, host [][]float32) (sections, error) {
	if l == nil || l.Len() == 0 {
		return nil, errors.New("memory has no layout")
	}
	for i, s := range host {
		if len(s) != l.Len() {
			return nil, fmt.Errorf("section %d of memory has %d elements, want the layout's %d", i, len(s), l.Len())
		}
	}
	tensors := wire.EncodeLayout(l)
	if p.transport == Stream {
		return &streamed{
			p: p, tensors: tensors, host: host,
			seed: maphash.MakeSeed(), known: make([]uint64, len(host)), valid: make([]bool, len(host)),
		}, nil
	}
	if p.ownArena {
		r, err := p.arena.Allocate(l, len(host))
		if err != nil {
			return nil, err
		}
		return &mirrored{tensors: tensors, host: host, region: r}, nil
	}
	m := &pb.Memory{Tensors: tensors}
	for i, s := range host {
		offset, ok := p.arena.Locate(s)
		if !ok {
			return nil, fmt.Errorf("section %d of memory does not lie in the arena that the plugin was started with", i)
		}
		m.Offsets = append(m.Offsets, uint64(offset))
	}
	return &direct{m}, nil
}

// direct is memory that host and plugin both map: there is nothing to do.
type direct struct{ offsets *pb.Memory }

func (d *direct) memory() *pb.Memory                           { return d.offsets }
func (d *direct) before(context.Context, uint64, ...int) error { return nil }
func (d *direct) after(context.Context, uint64, ...int) error  { return nil }
func (d *direct) spoil(...int)                                 {}
func (d *direct) close() error                                 { return nil }

// mirrored is memory outside of an arena, which is copied to the process's arena and back.
type mirrored struct {
	tensors []*pb.Tensor
	host    [][]float32
	region  *arena.Region
}

func (m *mirrored) memory() *pb.Memory {
	w := &pb.Memory{Tensors: m.tensors}
	for _, o := range m.region.Offsets() {
		w.Offsets = append(w.Offsets, uint64(o))
	}
	return w
}

func (m *mirrored) before(_ context.Context, _ uint64, which ...int) error {
	for _, i := range which {
		copy(m.region.Section(i), m.host[i])
	}
	return nil
}

func (m *mirrored) after(_ context.Context, _ uint64, which ...int) error {
	for _, i := range which {
		copy(m.host[i], m.region.Section(i))
	}
	return nil
}

func (m *mirrored) spoil(...int) {}
func (m *mirrored) close() error { return m.region.Close() }

// streamed is memory that is sent to the plugin and back. A section is sent only if its hash says that it has
// changed since both sides had the same. So nobody has to track who writes what, and a loaded checkpoint is sent
// like the result of a step.
type streamed struct {
	p       *Process
	tensors []*pb.Tensor
	host    [][]float32
	seed    maphash.Seed
	known   []uint64 // hash of what the plugin has, if valid
	valid   []bool
}

func (s *streamed) memory() *pb.Memory { return &pb.Memory{Tensors: s.tensors} }
func (s *streamed) close() error       { return nil }

func (s *streamed) hash(i int) uint64 { return maphash.Bytes(s.seed, wire.Bytes(s.host[i])) }

func (s *streamed) before(ctx context.Context, session uint64, which ...int) error {
	var changed []int
	for _, i := range which {
		if h := s.hash(i); !s.valid[i] || h != s.known[i] {
			changed = append(changed, i)
			s.known[i], s.valid[i] = h, false
		}
	}
	if len(changed) > 0 {
		if err := s.push(ctx, session, changed); err != nil {
			return err
		}
	}
	for _, i := range which {
		s.valid[i] = true
	}
	return nil
}

func (s *streamed) push(ctx context.Context, session uint64, which []int) error {
	stream, err := s.p.sections.Push(ctx)
	if err != nil {
		return err
	}
	for _, i := range which {
		err := wire.Chunks(s.host[i], func(offset int, values []float32) error {
			return stream.Send(&pb.SectionChunk{Session: session, Section: uint32(i), Offset: uint64(offset), Values: wire.Bytes(values)})
		})
		if errors.Is(err, io.EOF) {
			break // CloseAndRecv has the reason
		}
		if err != nil {
			return err
		}
	}
	_, err = stream.CloseAndRecv()
	return err
}

func (s *streamed) after(ctx context.Context, session uint64, which ...int) error {
	for _, i := range which {
		s.valid[i] = false
		if err := s.pull(ctx, session, i); err != nil {
			return err
		}
		s.known[i], s.valid[i] = s.hash(i), true
	}
	return nil
}

func (s *streamed) spoil(which ...int) {
	for _, i := range which {
		s.valid[i] = false
	}
}

func (s *streamed) pull(ctx context.Context, session uint64, i int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.p.sections.Pull(ctx, &pb.PullRequest{Session: session, Section: uint32(i)})
	if err != nil {
		return err
	}
	section := s.host[i]
	at := 0
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		n := len(chunk.GetValues()) / 4
		if len(chunk.GetValues())%4 != 0 || chunk.GetOffset() != uint64(at) || n > len(section)-at {
			return localError{fmt.Errorf("it sent %d bytes at element %d of section %d, want the elements from %d to %d",
				len(chunk.GetValues()), chunk.GetOffset(), i, at, len(section))}
		}
		wire.CopyFloats(section[at:at+n], chunk.GetValues())
		at += n
	}
	if at != len(section) {
		return localError{fmt.Errorf("it sent %d elements of section %d, want %d", at, i, len(section))}
	}
	return nil
}

// closed is the memory of a session that was closed.
type closed struct{}

var errClosed = localError{errors.New("the session is closed")}

func (closed) memory() *pb.Memory                           { return nil }
func (closed) before(context.Context, uint64, ...int) error { return errClosed }
func (closed) after(context.Context, uint64, ...int) error  { return errClosed }
func (closed) spoil(...int)                                 {}
func (closed) close() error                                 { return nil }

// session is what the sessions of both kinds of plugins have in common.
type session struct {
	p          *Process
	id         uint64
	sections   sections
	parameters int
	paces      paces
}

// Close ends the session. If the process is gone, only the host's part is left to free.
func (s *session) Close() (err error) {
	if s.sections == (closed{}) {
		return nil
	}
	if p := s.p; !p.Exited() {
		c := p.call(context.Background(), 0, p.spec.Timeouts.Call, "close")
		if p.spec.Kind == plugin.Backend {
			_, err = p.backend.Close(c.ctx, &pb.CloseRequest{Session: s.id})
		} else {
			_, err = p.optimizer.Close(c.ctx, &pb.CloseRequest{Session: s.id})
		}
		err = c.done(err)
	}
	err = errors.Join(err, s.sections.close())
	s.sections = closed{}
	return err
}

// finite reports whether all elements of a section are finite.
func finite(section []float32) bool {
	var bad atomic.Bool
	kernels.Parallel(len(section)/wire.ChunkElements+1, func(i0, i1 int) {
		if !kernels.AllFinite(section[i0*wire.ChunkElements : min(i1*wire.ChunkElements, len(section))]) {
			bad.Store(true)
		}
	})
	return !bad.Load()
}

// firstNotFinite describes the first element of a section that is not finite.
func firstNotFinite(what string, l *tensor.Layout, section []float32) string {
	for _, t := range l.Tensors() {
		if i := slices.IndexFunc(t.Of(section), func(v float32) bool { return v-v != 0 }); i >= 0 {
			return fmt.Sprintf("%g in the %s of %s, element %d", t.Of(section)[i], what, t.Name, i)
		}
	}
	return "a number that is not finite in the padding of the " + what
}
