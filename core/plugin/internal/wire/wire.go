// Package wire is what host and plugin share: the handshake, the limits on messages, and the conversion between Go
// values and the messages of proto/v1, which is the contract for plugins in any language. core/plugin is the end
// that serves, core/plugin/host the end that calls.
//
// A plugin is a process. Its host starts it with a socket folder, a certificate, an arena and a lifeline in its
// environment; the plugin prints one line, the handshake of go-plugin, and from then on answers calls over gRPC
// with mutual TLS. The services:
//
//	Backend    Describe, Systems, Variations, Estimate | Open, Step, Commit, Evaluate, Trace, Save, Load, Close
//	Optimizer  Describe, Slots, Cost                   | Open, Step, Probe, Average, Close
//	Sections                                           | Push, Pull, Settle
//
// Calls left of the bar stand alone; those to the right work on a session, which Open starts and Close ends. Batches go
// to Step, Evaluate and Trace as a stream (batch.go); outputs of Evaluate and tensors of Trace come back as one.
//
// A session works on sections: arrays of float32 that all have the layout of the model's parameters. Section 0
// holds the parameters, section 1 the gradients, and an optimizer's slots follow. The host owns them. They reach
// the plugin in one of two ways, with the same bits:
//
//	memory  Both ends map one arena (core/arena). Open carries the offsets of the sections in it, and later calls carry
//	        no tensors at all.
//	stream  The plugin keeps sections of its own. Before a call Sections.Push brings those that changed, after it
//	        Sections.Pull fetches results, both in chunks of ChunkElements. This is for systems that cannot share
//	        memory, and for plugins that another process started.
//
// The order of calls is the only synchronisation. When the host cancels a call, it waits with Settle until the
// plugin no longer touches the session's memory. Errors travel as gRPC statuses; ResourceExhausted and
// Unimplemented mean backend.ErrOutOfMemory and backend.ErrUnsupported.
//
// The calls themselves are in core/plugin/host (backend.go, optimizer.go, sections.go) and core/plugin (serve_*.go).
package wire

import goplugin "github.com/hashicorp/go-plugin"

// ProtocolVersion is the version of proto/v1. A host and a plugin work together if they have a version in common.
const ProtocolVersion = 1

// Handshake keeps people from running a plugin by hand; it is not a secret.
var Handshake = goplugin.HandshakeConfig{
	ProtocolVersion:  ProtocolVersion,
	MagicCookieKey:   "HARNESS_PLUGIN",
	MagicCookieValue: "5f0c4e0e0a2b4c2f9f6d1c7b8a3e2d10",
}

// Environment variables that tell a plugin what it inherits from its host. proto/v1/common.proto documents them.
const (
	ArenaVariable    = "HARNESS_ARENA_FD"
	LifelineVariable = "HARNESS_LIFELINE_FD"
	HostVariable     = "HARNESS_HOST_PID"
)

// Limits on messages. Every message, a chunk of a section or of an output included, stays well below MaxMessageBytes.
const (
	MaxMessageBytes = 16 << 20
	ChunkElements   = 1 << 20 // 4 MiB: larger chunks measured no faster
	MaxStateBytes   = 8 << 20 // a backend's private state
	MaxSlots        = 64      // of an optimizer
	// batchElements is the number of tokens in one message of a batch. Each token is five small numbers of one or two
	// bytes, so this is about 1 MiB.
	batchElements = 1 << 17
)

// Numbers of sections; slots follow.
const (
	Params = iota
	Grads
	FirstSlot
)

// Chunks cuts a section into pieces that fit a message. offset counts elements.
func Chunks(section []float32, send func(offset int, values []float32) error) error {
	for i := 0; i < len(section); i += ChunkElements {
		if err := send(i, section[i:min(i+ChunkElements, len(section))]); err != nil {
			return err
		}
	}
	return nil
}
