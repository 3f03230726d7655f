package plugin

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"harness.invalid/core/arena"
	"harness.invalid/core/backend"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
)

// ServeBackend runs a backend as a plugin. It returns when the host is done with it. In a process that no harness
// started it says so and exits with status 1. Nothing may be printed to standard output before the call.
func ServeBackend(b backend.Backend) {
	serve(Backend, func(s *store[backendSession], r grpc.ServiceRegistrar) {
		pb.RegisterBackendServer(r, &backendServer{store: s, backend: b})
	})
}

// ServeOptimizer runs an optimizer as a plugin, as ServeBackend does for a backend.
func ServeOptimizer(o optimizer.Optimizer) {
	serve(Optimizer, func(s *store[optimizer.Session], r grpc.ServiceRegistrar) {
		pb.RegisterOptimizerServer(r, &optimizerServer{store: s, optimizer: o})
	})
}

func serve[S io.Closer](kind Kind, register func(*store[S], grpc.ServiceRegistrar)) {
	s := &store[S]{}
	var secured *tls.Config
	if os.Getenv(wire.Handshake.MagicCookieKey) == wire.Handshake.MagicCookieValue {
		err := s.inherit()
		if err == nil {
			secured, err = newTLS()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s plugin: %v\n", kind, err)
			os.Exit(1)
		}
	}
	// go-plugin replaces os.Stdout and os.Stderr by pipes whose contents it streams to the host, which loses the last
	// words of a plugin that crashes. The process's original standard error reaches the host directly, so it is
	// restored before the first call, for both streams: the original standard output carries only the handshake.
	stderr := os.Stderr
	restore := sync.OnceFunc(func() { os.Stdout, os.Stderr = stderr, stderr })
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  wire.Handshake,
		VersionedPlugins: map[int]goplugin.PluginSet{ProtocolVersion: {string(kind): &services[S]{store: s, register: register}}},
		TLSProvider:      func() (*tls.Config, error) { return secured, nil },
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(options,
				grpc.MaxRecvMsgSize(wire.MaxMessageBytes),
				grpc.UnaryInterceptor(unaryGuard(restore)), grpc.StreamInterceptor(streamGuard(restore)))...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Name: "plugin", Level: hclog.Error, Output: stderr}),
	})
}

// services is what a plugin process registers with its gRPC server.
type services[S io.Closer] struct {
	goplugin.NetRPCUnsupportedPlugin
	store    *store[S]
	register func(*store[S], grpc.ServiceRegistrar)
}

// GRPCServer implements goplugin.GRPCPlugin.
func (s *services[S]) GRPCServer(_ *goplugin.GRPCBroker, r *grpc.Server) error {
	pb.RegisterSectionsServer(r, &sectionsServer[S]{store: s.store})
	s.register(s.store, r)
	return nil
}

// GRPCClient implements goplugin.GRPCPlugin.
func (s *services[S]) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin calls nobody")
}

// inherit opens what the host passed on: its lifeline and its arena.
func (s *store[S]) inherit() error {
	if err := watchHost(); err != nil {
		return err
	}
	text, ok := os.LookupEnv(wire.ArenaVariable)
	if !ok {
		return nil
	}
	f, err := inheritedFile(text, wire.ArenaVariable)
	if err != nil {
		return err
	}
	s.arena, err = arena.Attach(f)
	return err
}

// inheritedFile opens a descriptor by the number in an environment variable, and keeps it from the plugin's own
// children.
func inheritedFile(text, variable string) (*os.File, error) {
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s is %q, want the number of an inherited descriptor", variable, text)
	}
	closeOnExec(fd)
	return os.NewFile(uintptr(fd), variable), nil
}

// unaryGuard calls before, and then a handler whose errors and panics become statuses.
func unaryGuard(before func()) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (_ any, err error) {
		before()
		defer guard(&err)
		return handle(ctx, r)
	}
}

// streamGuard does for streams what unaryGuard does for single calls.
func streamGuard(before func()) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
		before()
		defer guard(&err)
		return handle(srv, stream)
	}
}

// guard turns what a handler returned, or the panic that ended it, into a status.
func guard(err *error) {
	if p := recover(); p != nil {
		fmt.Fprintf(os.Stderr, "panic: %v\n%s", p, pluginFrames(debug.Stack()))
		*err = status.Errorf(codes.Internal, "panic: %v", p)
		return
	}
	*err = toStatus(*err)
}

// pluginFrames are the frames of a handler's stack that concern a plugin's author: the host keeps only the last
// lines that a plugin prints, and they should not be gRPC's.
func pluginFrames(stack []byte) []byte {
	if i := bytes.Index(stack, []byte("\npanic(")); i >= 0 {
		stack = stack[i+1:]
	}
	if i := bytes.Index(stack, []byte("\nharness.invalid/core/plugin/internal/pb.")); i >= 0 {
		stack = stack[:i+1]
	}
	return stack
}

// maxErrorBytes bounds the message of a status: gRPC sends it in a header, which other languages limit to 8 KiB.
const maxErrorBytes = 4 << 10

// toStatus gives an error the code by which the host recognizes it.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		return err
	}
	code := codes.Unknown
	switch {
	case errors.Is(err, backend.ErrOutOfMemory):
		code = codes.ResourceExhausted
	case errors.Is(err, backend.ErrUnsupported):
		code = codes.Unimplemented
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	}
	message := err.Error()
	if len(message) > maxErrorBytes {
		message = message[:maxErrorBytes] + " ..."
	}
	return status.Error(code, message)
}
