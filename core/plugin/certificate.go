package plugin

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"strings"
	"time"
)

// Host and plugin know each other by certificates that each makes for this one start: the host's goes to the plugin in certificateVariable, the plugin's comes
// back in the handshake. That is AutoMTLS of go-plugin, so either end may be go-plugin's own. Its keys are on P-521, though, for which Go has no assembly: they
// took 57 ms of the 110 ms of CPU time that host and plugin need to start (measured). On P-256 they take 1 ms, and gRPC's Python packages
// before 1.60 know no other curve.

// certificateVariable is the environment variable with the host's certificate, PEM.
const certificateVariable = "PLUGIN_CLIENT_CERT"

// serverName is the name that certificates are for.
const serverName = "localhost"

// newCertificate makes a key and a certificate that it signs itself.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: serverName},
		DNSNames:              []string{serverName},
		SerialNumber:          serial,
		NotBefore:             now.Add(-time.Minute),
		NotAfter:              now.AddDate(30, 0, 0), // no run is to end by it
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true, // each end has the other's as its only root
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// hostTLS is the host's end, and the value of certificateVariable. go-plugin adds the plugin's certificate when the handshake has come.
func hostTLS() (*tls.Config, string, error) {
	own, err := newCertificate()
	if err != nil {
		return nil, "", err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})
	return &tls.Config{Certificates: []tls.Certificate{own}, ServerName: serverName, MinVersion: tls.VersionTLS12}, string(text), nil
}

// pluginTLS is the plugin's end, nil when the host sent no certificate: then there is no TLS. The plugin's own certificate will be in the handshake.
func pluginTLS() (*tls.Config, error) {
	text, ok := os.LookupEnv(certificateVariable)
	if !ok {
		return nil, nil
	}
	host := x509.NewCertPool()
	if !host.AppendCertsFromPEM([]byte(text)) {
		return nil, fmt.Errorf("%s is no certificate in PEM form: %.40q", certificateVariable, text)
	}
	own, err := newCertificate()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: host, MinVersion: tls.VersionTLS12}
	return config, certifyHandshake(base64.RawStdEncoding.EncodeToString(own.Certificate[0]))
}

// certificateField is the place of the plugin's certificate in the handshake.
const certificateField = 5

// certifyHandshake puts a certificate into the handshake, where go-plugin leaves the place of one that it did not make empty. It prints the handshake to
// os.Stdout, which is a pipe until then.
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
