// Package swtpm runs a TPM in software (https://github.com/stefanberger/swtpm) whose maker has certified it, for
// tests.
package swtpm

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
)

// Start runs a TPM until the test ends, and returns its socket and the certificates of its maker: the
// root, and the one below it. The test is skipped where the programs are missing.
func Start(t *testing.T) (socket string, maker []*x509.Certificate) {
	t.Helper()
	for _, name := range []string{"swtpm", "swtpm_setup"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("no %s here (Debian: swtpm, swtpm-tools)", name)
		}
	}
	dir, err := host.Local().MkdirShort("tpm", "socket", host.MostSocketPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"localca.conf": "statedir = " + dir + "\nsigningkey = " + at("signkey.pem") + "\nissuercert = " + at("issuer.pem") + "\ncertserial = " + at("serial") + "\n",
		"options.conf": "--platform-manufacturer test\n--platform-version 1\n--platform-model test\n",
		"setup.conf":   "create_certs_tool = " + lookup(t, "swtpm_localca") + "\ncreate_certs_tool_config = " + at("localca.conf") + "\ncreate_certs_tool_options = " + at("options.conf") + "\nactive_pcr_banks = sha256\n",
	} {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "swtpm_setup", "--tpm2", "--tpmstate", dir, "--config", at("setup.conf"), "--create-ek-cert", "--lock-nvram", "--overwrite", "--logfile", at("log")).CombinedOutput()
	if err != nil {
		log, _ := os.ReadFile(at("log"))
		t.Fatalf("swtpm_setup: %v\n%s%s", err, out, log)
	}
	socket = at("socket")
	await.Start(t, exec.Command("swtpm", "socket", "--tpm2", "--tpmstate", "dir="+dir, "--server", "type=unixio,path="+socket, "--flags", "not-need-init,startup-clear"))
	await.Event(t, "the TPM listens", func() error {
		c, err := net.Dial("unix", socket)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	for _, name := range []string{"swtpm-localca-rootca-cert.pem", "issuer.pem"} {
		text, err := os.ReadFile(at(name))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := pem.Decode(text)
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		maker = append(maker, c)
	}
	return socket, maker
}

func lookup(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s here (Debian: swtpm-tools)", name)
	}
	return path
}
