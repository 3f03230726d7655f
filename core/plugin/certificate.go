package plugin

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"strings"

	"harness.invalid/core/plugin/internal/wire"
)

// newTLS is the plugin's end of the connection. It is nil if the host sent no certificate: then there is no TLS.
// The plugin's own certificate will be in the handshake.
func newTLS() (*tls.Config, error) {
	text, ok := os.LookupEnv(wire.CertificateVariable)
	if !ok {
		return nil, nil
	}
	host := x509.NewCertPool()
	if !host.AppendCertsFromPEM([]byte(text)) {
		return nil, fmt.Errorf("%s is no certificate in PEM form: %.40q", wire.CertificateVariable, text)
	}
	own, err := wire.NewCertificate()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: host,
	}
	return config, certifyHandshake(base64.RawStdEncoding.EncodeToString(own.Certificate[0]))
}

// certificateField is the index of the plugin's certificate in the handshake.
const certificateField = 5

// certifyHandshake puts a certificate into the handshake, where go-plugin leaves the field empty if it did not make
// the certificate itself. go-plugin prints the handshake to os.Stdout, which is a pipe until then.
func certifyHandshake(certificate string) error {
	printed, pipe, err := os.Pipe()
	if err != nil {
		return err
	}
	stdout := os.Stdout
	os.Stdout = pipe
	go func() {
		line, _ := bufio.NewReader(printed).ReadString('\n')
		if fields := strings.Split(strings.TrimSuffix(line, "\n"), "|"); len(fields) > certificateField {
			fields[certificateField] = certificate
			line = strings.Join(fields, "|") + "\n"
		}
		fmt.Fprint(stdout, line)
		_, _ = printed.Close(), pipe.Close()
	}()
	return nil
}
