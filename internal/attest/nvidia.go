package attest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/host"
)

const (
	nvidiaFormat = "nvidia_gpu"
	// mostNVIDIA bounds the reports of a machine with 16 GPUs, of some 4 KiB each, and as much of certificates.
	mostNVIDIA = 256 << 10
)

// nvidiaRoot is the SHA-256 of the certificate "NVIDIA Device Identity CA", which NVIDIA publishes with its verifiers
// (https://github.com/NVIDIA/nvtrust, verifier_device_root.pem).
var nvidiaRoot = [32]byte{
	0x10, 0x2b, 0xf6, 0x59, 0xd5, 0x41, 0x96, 0x14, 0xc9, 0xd8, 0xe6, 0xae, 0xce, 0xbc, 0x80, 0x45,
	0x4e, 0xb2, 0x6b, 0x1d, 0xf6, 0xa7, 0x69, 0xac, 0x72, 0x0b, 0x9a, 0x69, 0x0b, 0x16, 0x7b, 0x48,
}

// NVIDIACommand asks the GPUs for reports, with NVIDIA's own tool
// (https://docs.nvidia.com/attestation/nv-attestation-sdk-cpp/latest/sdk-cli/command-reference.html).
const NVIDIACommand = "nvattest --format json collect-evidence --device gpu --nonce {nonce}"

// nvidia is the GPUs of a machine.
var nvidia = Provider{
	Name:  "nvidia",
	Doc:   "the NVIDIA GPUs of this machine, by NVIDIA's nvattest; it says nothing of the CPU, so it is used only where it is named",
	Named: true, Device: true,
	Open: func(s Settings) (Quoter, Collateral, error) {
		q, err := openGPUs(host.Local(), s.NVIDIA)
		return q, Stored(nil), err
	},
}

// gpus asks a command for the reports.
type gpus struct {
	host *host.Host
	argv []string
}

// openGPUs finds the command. Its error wraps errors.ErrUnsupported where it is not installed.
func openGPUs(h *host.Host, command string) (*gpus, error) {
	if command == "" {
		command = NVIDIACommand
	}
	argv := strings.Fields(command)
	if len(argv) == 0 || !strings.Contains(command, "{nonce}") {
		return nil, fmt.Errorf("ask the GPUs by %q: the command must contain {nonce}", command)
	}
	if _, err := h.LookPath(argv[0]); err != nil {
		return nil, fmt.Errorf("ask the GPUs by %q: %w: %w (install NVIDIA's nvattest, or name another command)", argv[0], errors.ErrUnsupported, err)
	}
	return &gpus{h, argv}, nil
}

// Quote has the command ask every GPU for a report.
func (g *gpus) Quote(ctx context.Context, data [Size]byte) (*Evidence, error) {
	argv := slices.Clone(g.argv)
	for n := range argv {
		argv[n] = strings.ReplaceAll(argv[n], "{nonce}", hex.EncodeToString(gpuNonce(data[:])))
	}
	out, err := g.host.Exec(ctx, host.Cmd{Argv: argv, Most: 4 * mostNVIDIA})
	if err != nil {
		if said := out.FailureReason(); said != "" {
			err = fmt.Errorf("%w: %.200q", err, said)
		}
		return nil, fmt.Errorf("ask the GPUs: %w", err)
	}
	e, err := collected(out.Stdout)
	if err != nil {
		return nil, fmt.Errorf("ask the GPUs: read what %s printed: %w", argv[0], err)
	}
	return e, nil
}

// gpuNonce is what a GPU signs for data: it takes 32 bytes, where other evidence takes 64.
func gpuNonce(data []byte) []byte {
	sum := sha256.Sum256(slices.Concat([]byte("teescope nvidia report 1\x00"), data))
	return sum[:]
}

// collected reads what nvattest prints: an object with the member evidences, or that list alone. Each has a report in
// base64, and certificates in PEM in base64. The reports follow each other in the evidence, and so do the certificates.
func collected(text []byte) (*Evidence, error) {
	type device struct {
		Evidence    []byte `json:"evidence"`
		Certificate []byte `json:"certificate"`
	}
	var all struct {
		Evidences []device `json:"evidences"`
	}
	var into any = &all
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		into = &all.Evidences
	}
	if err := json.Unmarshal(text, into); err != nil {
		return nil, fmt.Errorf("%w (the output begins with %.60q)", err, text)
	}
	if len(all.Evidences) == 0 {
		return nil, errors.New("the output has no evidence of a GPU")
	}
	e := &Evidence{Format: nvidiaFormat}
	for _, d := range all.Evidences {
		e.Quote = append(e.Quote, d.Evidence...)
		for rest := d.Certificate; ; {
			var b *pem.Block
			if b, rest = pem.Decode(rest); b == nil {
				break
			}
			e.Aux = append(e.Aux, b.Bytes...)
		}
	}
	return e, nil
}

// GPU is what a report says of the GPU that signed it.
type GPU struct {
	// Device is the name in the certificate of the device ("GH100 A01 GSP BROM"), Serial its number.
	Device string `json:"device"`
	Serial string `json:"serial"`
	Driver string `json:"driver"`
	VBIOS  string `json:"vbios"`
	// Mode is the GPU's in words of NVIDIA's SDK: "mpt", "spt" (passthrough of several GPUs, of one) or "ppcie"
	// (protected PCIe). Older drivers do not report it.
	Mode string `json:"mode,omitempty"`

	// measured are the measurements, in the order of their indexes.
	measured [][]byte
	// noDecoder: the GPU's decoder NVDEC0 is switched off.
	noDecoder bool
}

// gpuReport is a request for measurements and the answer of a GPU, as DMTF DSP0274 version 1.1 has them in sections
// "GET_MEASUREMENTS request message" and "MEASUREMENTS response message".
type gpuReport struct {
	nonce             []byte // of the request
	measured          [][]byte
	fields            map[int][]byte // of the opaque data
	signed, signature []byte
}

// Fields of the opaque data: type, length and value each, the numbers little-endian. NVIDIA's SDK names them.
const (
	fieldDriver    = 3
	fieldVBIOS     = 6
	fieldDecoder   = 11
	fieldFirmware  = 20
	fieldVersion   = 34
	fieldMode      = 36
	decoderOff     = 0x55
	measuredBytes  = sha512.Size384
	signatureBytes = 96 // two numbers on P-384
)

// readGPUReport returns the first report of some, and what follows it.
func readGPUReport(b []byte) (*gpuReport, []byte, error) {
	c := &cursor{left: b}
	r := &gpuReport{fields: map[int][]byte{}}
	request := c.bytes(4)
	r.nonce = c.bytes(32)
	c.bytes(1) // the slot of the certificates
	answer := c.bytes(4)
	blocks := c.number(1)
	record := &cursor{left: c.bytes(c.number(3))}
	c.bytes(32) // the GPU's own nonce
	fields := &cursor{left: c.bytes(c.number(2))}
	r.signed = b[:len(b)-len(c.left)]
	r.signature = c.bytes(signatureBytes)
	switch {
	case c.short:
		return nil, nil, fmt.Errorf("the report ends too early (%d bytes)", len(b))
	case !bytes.Equal(request, []byte{0x11, 0xe0, 1, 0xff}):
		return nil, nil, fmt.Errorf("the report begins with %x: want 11e001ff, the request of SPDM 1.1 for all measurements and a signature", request)
	case answer[0] != 0x11 || answer[1] != 0x60:
		return nil, nil, fmt.Errorf("the answer begins with %x: want 1160, the measurements of SPDM 1.1", answer[:2])
	}
	for len(record.left) > 0 {
		index, kind := record.number(1), record.number(1)
		block := &cursor{left: record.bytes(record.number(2))}
		block.bytes(1) // whose measurement it is
		value := block.bytes(block.number(2))
		r.measured = append(r.measured, value)
		if record.short || block.short || len(block.left) > 0 || kind != 1 || index != len(r.measured) || len(value) != measuredBytes {
			return nil, nil, fmt.Errorf("measurement %d is not a SHA-384 measurement in DMTF's form", len(r.measured))
		}
	}
	if record.short || len(r.measured) != blocks {
		return nil, nil, fmt.Errorf("the report has %d measurements, but declares %d", len(r.measured), blocks)
	}
	for len(fields.left) > 0 {
		kind := fields.number(2)
		value := fields.bytes(fields.number(2))
		if _, twice := r.fields[kind]; twice || fields.short {
			return nil, nil, fmt.Errorf("field %d of the opaque data is cut off or appears twice", kind)
		}
		r.fields[kind] = value
	}
	return r, c.left, nil
}

// cursor reads bytes one part after the other. Beyond the end it is short, and has nothing more.
type cursor struct {
	left  []byte
	short bool
}

func (c *cursor) bytes(n int) []byte {
	if n > len(c.left) {
		c.short, c.left = true, nil
		return make([]byte, min(n, 4))
	}
	b := c.left[:n]
	c.left = c.left[n:]
	return b
}

// number is one of n bytes, the lowest first.
func (c *cursor) number(n int) int { return int(littleEndian(c.bytes(n))) }

func littleEndian(b []byte) (v uint64) {
	for n, x := range b {
		v |= uint64(x) << (8 * n)
	}
	return v
}

// gpu is what the report says, without the names in the certificates.
func (r *gpuReport) gpu() (GPU, error) {
	g := GPU{Driver: strings.TrimRight(string(r.fields[fieldDriver]), "\x00"), measured: r.measured}
	if v := r.fields[fieldVBIOS]; len(v) == 8 { // "00 5e 00 96 01" is 96.00.5E.00.01
		g.VBIOS = fmt.Sprintf("%02X.%02X.%02X.%02X.%02X", v[3], v[2], v[1], v[0], v[4])
	}
	if g.Driver == "" || g.VBIOS == "" || strings.Trim(g.Driver, "0123456789.") != "" {
		return g, fmt.Errorf("the report has driver %.40q and VBIOS %q: want a version of the driver and one of the VBIOS", g.Driver, g.VBIOS)
	}
	g.noDecoder = bytes.Equal(r.fields[fieldDecoder], []byte{decoderOff})
	if mode, ok := r.fields[fieldMode]; ok && len(mode) <= 8 && littleEndian(r.fields[fieldVersion]) >= 1 {
		known := []string{"mpt", "spt", "ppcie"}
		if n := littleEndian(mode); n < uint64(len(known)) {
			g.Mode = known[n]
		}
	}
	return g, nil
}

// inspectNVIDIA verifies the reports of a machine's GPUs, each with its chain of certificates.
func inspectNVIDIA(e *Evidence, _ *watched, now time.Time, roots Trust) (*Inspection, error) {
	root := nvidiaRoot
	if roots.NVIDIA != nil {
		root = *roots.NVIDIA
	}
	certificates, err := x509.ParseCertificates(e.Aux)
	if err != nil {
		return nil, fmt.Errorf("read the certificates: %w", err)
	}
	i := &Inspection{bind: gpuNonce, Facts: Facts{TEE: "nvidia-gpu", Registers: Registers{}},
		Standing: fmt.Errorf("%w: only NVIDIA's OCSP service knows whether a certificate is revoked, and teescope does not ask this service", ErrNotRead)}
	var tcb []string
	for rest := e.Quote; len(rest) > 0 || len(i.Facts.GPUs) == 0; {
		n := len(i.Facts.GPUs)
		r, after, err := readGPUReport(rest)
		if err != nil {
			return nil, fmt.Errorf("read report %d: %w", n+1, err)
		}
		g, err := r.gpu()
		if err != nil {
			return nil, fmt.Errorf("read report %d: %w", n+1, err)
		}
		end := slices.IndexFunc(certificates, func(c *x509.Certificate) bool { return sha256.Sum256(c.Raw) == root })
		if end < 1 {
			i.Signature = fmt.Errorf("the certificates of report %d do not lead to NVIDIA's root", n+1)
			return i, nil
		}
		chain := certificates[:end+1]
		rest, certificates = after, certificates[end+1:]
		g.Device, g.Serial = chain[1].Subject.CommonName, chain[1].Subject.SerialNumber
		switch {
		case n > 0 && !bytes.Equal(i.Data, r.nonce):
			return nil, fmt.Errorf("report %d has a different nonce than report 1, so the reports are not about the same data", n+1)
		case slices.ContainsFunc(i.Facts.GPUs, func(other GPU) bool { return other.Serial == g.Serial }):
			return nil, fmt.Errorf("two reports are of the same GPU (%s): want one report for each GPU", g.Serial)
		}
		if i.Signature == nil {
			i.Signature = r.verify(chain, now)
		}
		for at, m := range r.measured {
			if !zero(m) {
				i.Facts.Registers[fmt.Sprintf("gpu%d_m%d", n, at+1)] = hex.EncodeToString(m)
			}
		}
		i.Data = r.nonce
		i.Facts.GPUs = append(i.Facts.GPUs, g)
		tcb = append(tcb, fmt.Sprintf("%s: driver %s, VBIOS %s", g.Device, g.Driver, g.VBIOS))
	}
	if len(certificates) > 0 {
		return nil, errors.New("some certificates belong to no report: want only the certificates of the reports")
	}
	i.Facts.TCB = strings.Join(tcb, "; ")
	return i, nil
}

// verify follows the report's signature (ECDSA on P-384 over SHA-384) to the last certificate of its chain. Each
// certificate must have signed the one before.
func (r *gpuReport) verify(chain []*x509.Certificate, now time.Time) error {
	key, ok := chain[0].PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P384() {
		return fmt.Errorf("the GPU's key is %s, want ECDSA on P-384", keyName(chain[0].PublicKey))
	}
	sum := sha512.Sum384(r.signed)
	if !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(r.signature[:signatureBytes/2]), new(big.Int).SetBytes(r.signature[signatureBytes/2:])) {
		return errors.New("the report is not signed by the GPU's key")
	}
	pools := [2]*x509.CertPool{x509.NewCertPool(), x509.NewCertPool()}
	for n, c := range chain[1:] {
		pools[min(len(chain)-2-n, 1)].AddCert(c)
	}
	found, err := chain[0].Verify(x509.VerifyOptions{Roots: pools[0], Intermediates: pools[1], CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return fmt.Errorf("the GPU's certificate: %w", err)
	}
	if !slices.ContainsFunc(found, func(c []*x509.Certificate) bool { return slices.EqualFunc(c, chain, (*x509.Certificate).Equal) }) {
		return errors.New("the GPU's certificates do not form one chain, or other certificates are between them")
	}
	// NVIDIA's switches have the same root and the same form of report.
	const device, firmware = " GSP BROM", " GSP FMC "
	if name := chain[1].Subject.CommonName; !strings.HasSuffix(name, device) || !strings.HasPrefix(chain[0].Subject.CommonName, strings.TrimSuffix(name, device)+firmware) {
		return fmt.Errorf("the certificates are of %q and %q, which are not a GPU and its firmware (GSP BROM, GSP FMC)", name, chain[0].Subject.CommonName)
	}
	return r.firmware(chain[0])
}

// firmware compares the digest of the firmware that has the key, which newer drivers report, with that in its certificate
// (TCG DICE Attestation Architecture, TcbInfo: FWIDs of an algorithm and a digest).
func (r *gpuReport) firmware(leaf *x509.Certificate) error {
	digest, ok := r.fields[fieldFirmware]
	if !ok {
		return nil
	}
	// SHA-384 is 2.16.840.1.101.3.4.2.2; 04 30 begins a string of 48 bytes.
	want := append([]byte{0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02, 0x04, 0x30}, digest...)
	for _, x := range leaf.Extensions {
		if len(digest) == measuredBytes && bytes.Contains(x.Value, want) {
			return nil
		}
	}
	return errors.New("the report names other firmware than the certificate of the GPU's key")
}
