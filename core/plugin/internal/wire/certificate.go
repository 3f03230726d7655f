package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"time"
)

// Host and plugin authenticate each other with certificates made for this one start: the host's goes to the plugin
// in CertificateVariable, the plugin's comes back in the handshake. That is go-plugin's AutoMTLS, so either end may
// be go-plugin's own. AutoMTLS uses P-521 keys, for which Go has no assembly: they took 57 ms of the 110 ms of CPU
// time that host and plugin need to start (measured). P-256 takes 1 ms, and gRPC's Python packages before 1.60 know
// no other curve.

// CertificateVariable is the environment variable that holds the host's certificate, in PEM form.
const CertificateVariable = "PLUGIN_CLIENT_CERT"

// ServerName is the name that certificates are issued for.
const ServerName = "localhost"

// NewCertificate makes a key and a self-signed certificate for it.
func NewCertificate() (tls.Certificate, error) {
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
		Subject:               pkix.Name{CommonName: ServerName},
		DNSNames:              []string{ServerName},
		SerialNumber:          serial,
		NotBefore:             now.Add(-time.Minute),
		NotAfter:              now.AddDate(30, 0, 0), // longer than any run
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true, // each end has the other's as its only root
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
