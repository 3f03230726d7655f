package host_test

import (
	"crypto/tls"
	"os"
	"os/exec"
	"testing"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"

	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
)

// TestCertificates starts a plugin from go-plugin's own hosts: one with AutoMTLS is served, one that cannot prove
// that it sent the certificate is not. TestLiar shows that a plugin of go-plugin's own works with this package's
// host.
func TestCertificates(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ping := func(config goplugin.ClientConfig, env ...string) error {
		config.HandshakeConfig = host.Handshake
		config.VersionedPlugins = map[int]goplugin.PluginSet{plugin.ProtocolVersion: {}}
		config.AllowedProtocols = []goplugin.Protocol{goplugin.ProtocolGRPC}
		config.Logger = hclog.NewNullLogger()
		config.Cmd = exec.Command(self)
		config.Cmd.Env = append(os.Environ(), append(env, roleVariable+"=adamw", "GOMAXPROCS=1", "PLUGIN_UNIX_SOCKET_DIR="+t.TempDir())...)
		config.SkipHostEnv = true
		c := goplugin.NewClient(&config)
		defer func() {
			_ = config.Cmd.Process.Kill() // a host that it does not trust cannot ask it to end
			c.Kill()
		}()
		conn, err := c.Client()
		if err != nil {
			return err
		}
		return conn.Ping()
	}
	if err := ping(goplugin.ClientConfig{AutoMTLS: true}); err != nil {
		t.Errorf("a host with AutoMTLS: %v", err)
	}
	own, certificate, err := host.NewTLS()
	if err != nil {
		t.Fatal(err)
	}
	if err := ping(goplugin.ClientConfig{TLSConfig: own}, "PLUGIN_CLIENT_CERT="+certificate); err != nil {
		t.Errorf("a host with the certificate that it sent: %v", err)
	}
	other, _, err := host.NewTLS()
	if err != nil {
		t.Fatal(err)
	}
	for what, config := range map[string]*tls.Config{"another's certificate": other, "no certificate": {ServerName: own.ServerName}} {
		if err := ping(goplugin.ClientConfig{TLSConfig: config}, "PLUGIN_CLIENT_CERT="+certificate); err == nil {
			t.Errorf("a host with %s was served", what)
		}
	}
}
