package host

import (
	"crypto/tls"
	"encoding/pem"

	"harness.invalid/core/plugin/internal/wire"
)

// newTLS is the host's end of the connection, and the value of wire.CertificateVariable. go-plugin adds the
// plugin's certificate after the handshake.
func newTLS() (*tls.Config, string, error) {
	own, err := wire.NewCertificate()
	if err != nil {
		return nil, "", err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})
	config := &tls.Config{Certificates: []tls.Certificate{own}, ServerName: wire.ServerName, MinVersion: tls.VersionTLS12}
	return config, string(text), nil
}
