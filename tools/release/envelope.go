package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// envelopeName is the statement of provenance with its signature in one file, as tools for SLSA want it. Its name ends as theirs do.
const envelopeName = "provenance.intoto.jsonl"

// statementType is the payload type of in-toto's statements: https://github.com/in-toto/attestation/blob/main/spec/v1/envelope.md.
const statementType = "application/vnd.in-toto+json"

// envelope is a signed text: https://github.com/secure-systems-lab/dsse/blob/master/envelope.md.
type envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     string              `json:"payload"` // base64
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	Sig string `json:"sig"` // base64 of an ASN.1 signature
}

// preAuthentication is what is signed: the payload with its type, so that no other use of the key signs the same bytes
// (https://github.com/secure-systems-lab/dsse/blob/master/protocol.md).
func preAuthentication(payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(statementType), statementType, len(payload), payload)
}

// writeEnvelope signs the statement of provenance.
func (o options) writeEnvelope(key *ecdsa.PrivateKey) error {
	payload, err := os.ReadFile(o.path(filepath.Join(o.out, provenanceName)))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(preAuthentication(payload))
	signature, err := key.Sign(nil, sum[:], crypto.SHA256) // without random numbers, by RFC 6979: the same each time
	if err != nil {
		return err
	}
	encode := base64.StdEncoding.EncodeToString
	b, err := json.Marshal(envelope{statementType, encode(payload), []envelopeSignature{{encode(signature)}}})
	if err != nil {
		return err
	}
	return os.WriteFile(o.path(filepath.Join(o.out, envelopeName)), append(b, '\n'), 0o644)
}
