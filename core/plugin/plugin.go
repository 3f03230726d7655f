// Package plugin serves backends and optimizers as plugins, processes of their own. A plugin's whole main is
//
//	func main() { plugin.ServeBackend(tpu.New()) }
//
// in a binary named harness-backend-tpu. core/plugin/host is the other end: it starts that binary and hands out a
// backend.Backend or an optimizer.Optimizer. Nothing of the host is linked into a plugin. What both ends share is
// in internal/wire, which describes the protocol; proto/v1 is its contract, for plugins in any language.
//
// No state is lost with a plugin: the host owns parameters, gradients and optimizer state, and may start another
// plugin in place of one that died. A plugin never outlives its host.
package plugin

import "harness.invalid/core/plugin/internal/wire"

//go:generate go -C proto/_gen run .

// ProtocolVersion is the version of proto/v1. A host and a plugin work together if they have a version in common.
const ProtocolVersion = wire.ProtocolVersion

// Kind is what a plugin is.
type Kind string

// The kinds of plugins.
const (
	Backend   Kind = "backend"
	Optimizer Kind = "optimizer"
)
