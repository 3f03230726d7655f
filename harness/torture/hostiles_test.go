//go:build unix

package torture

import (
	goplugin "github.com/hashicorp/go-plugin"

	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
)

// hostile is a plugin that does what no plugin may.
type hostile struct {
	play func()
	kind plugin.Kind
	want string // in the error; empty: the run ends with the right bits, or with any error that names the plugin
	// lies: the plugin is found out after steps that it was believed in, which may be in a checkpoint.
	lies     bool
	timeouts host.Timeouts
}

// hurried are deadlines for plugins that hang.
var hurried = host.Timeouts{Start: 10 * time.Second, Call: time.Second, Open: time.Second, Step: time.Second}

// patient are those for all others.
var patient = host.Timeouts{Start: 20 * time.Second, Call: 20 * time.Second, Open: 20 * time.Second, Step: 20 * time.Second}

// at does something at the n-th call of a name, from 1.
func at(name string, n int, do func() error) func(string) error {
	return func(call string) error {
		if call == name {
			if n--; n == 0 {
				return do()
			}
		}
		return nil
	}
}

// The ends of a process, and other deeds.
func die() error {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func exit0() error {
	os.Exit(0)
	return nil
}

func hang() error { select {} }

func panics() error { panic("tile 311 is on fire") }

func control() error { return errors.New("\x1b]0;title\a\x1b[2J\u202e\x00\xff tile 311\r\n") }

func long1MB() error { return errors.New(strings.Repeat("tile 311 is on fire. ", 50_000)) }

func late() error {
	time.Sleep(3 * time.Second)
	return nil
}

func flood() error {
	stderr := os.NewFile(2, "stderr")
	for range 512 {
		if _, err := stderr.WriteString(strings.Repeat("x", 1<<16)); err != nil {
			return err
		}
	}
	return nil
}

func child(escapes bool) error {
	cmd := exec.Command("sleep", "300")
	cmd.Stdout, cmd.Stderr = os.NewFile(1, "stdout"), os.NewFile(2, "stderr")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: escapes}
	return cmd.Start()
}

func forks() error {
	for range 20 {
		if err := child(false); err != nil {
			return err
		}
	}
	return die()
}

// handshake prints a line and waits.
func handshake(line string) func() {
	return func() {
		fmt.Println(line)
		time.Sleep(time.Minute)
	}
}

// listener says hello and then does something to who connects.
func listener(serve func(net.Conn)) func() {
	return func() {
		path := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "socket")
		l, err := net.Listen("unix", path)
		if err != nil {
			panic(err)
		}
		fmt.Printf("1|1|unix|%s|grpc|\n", path)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}
}

// wire is a server with a version of the protocol that answers every call with the same bytes, so many times.
func wire(version int, text []byte, times int) func() {
	return func() {
		cookie := goplugin.HandshakeConfig{
			ProtocolVersion: 1, MagicCookieKey: "HARNESS_PLUGIN", MagicCookieValue: os.Getenv("HARNESS_PLUGIN"),
		}
		goplugin.Serve(&goplugin.ServeConfig{
			HandshakeConfig:  cookie,
			VersionedPlugins: map[int]goplugin.PluginSet{version: {"backend": rawPlugin{}, "optimizer": rawPlugin{}}},
			GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
				return grpc.NewServer(append(options, grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(
					func(_ any, s grpc.ServerStream) error {
						var in []byte
						if err := s.RecvMsg(&in); err != nil && !errors.Is(err, io.EOF) {
							return err
						}
						for range times {
							if err := s.SendMsg(text); err != nil {
								return err
							}
						}
						return nil
					}))...)
			},
		})
	}
}

type rawPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (rawPlugin) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error { return nil }

func (rawPlugin) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("only a server")
}

// rawCodec passes on bytes as they are; go-plugin's own messages are encoded.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) {
	if text, ok := v.([]byte); ok {
		return text, nil
	}
	return proto.Marshal(v.(proto.Message))
}

func (rawCodec) Unmarshal(data []byte, v any) error {
	if into, ok := v.(*[]byte); ok {
		*into = data
		return nil
	}
	return proto.Unmarshal(data, v.(proto.Message))
}
