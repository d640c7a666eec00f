// Package proof binds a result to the evidence of a TEE, or to a key, and says what that
// proves. It needs no network to verify: what the vendors' services said is in the result.
// docs/attested-results.md describes the form.
package proof

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/attest"
	"github.com/teescope/teescope/internal/result"
)

// What evidence and signatures are about, so that neither can be taken for anything else.
const (
	quotePurpose     = "teescope attested result"
	signaturePurpose = "teescope signed result"
)

// statement is what is bound or signed: the digest of the result, the time and the nonce.
func statement(purpose string, a *result.Attestation) ([]byte, error) {
	return result.CanonicalOf(map[string]string{"purpose": purpose, "digest": a.Digest, "made_at": a.MadeAt.Format(time.RFC3339Nano), "nonce": a.Nonce})
}

// Bound returns the 64 bytes that a quote is asked for: SHA-512 of the statement.
func Bound(a *result.Attestation) ([attest.Size]byte, error) {
	b, err := statement(quotePurpose, a)
	return sha512.Sum512(b), err
}

// begin makes an attestation of a document without any evidence.
func begin(doc []byte, nonce string, now time.Time) (*result.Attestation, error) {
	if err := checkNonce(nonce); err != nil {
		return nil, err
	}
	digest, err := result.Digest(doc)
	return &result.Attestation{Digest: digest, MadeAt: now.UTC().Truncate(time.Second), Nonce: nonce}, err
}

func checkNonce(nonce string) error {
	b, err := hex.DecodeString(nonce)
	if err != nil || len(b) > 64 || hex.EncodeToString(b) != nonce {
		return fmt.Errorf("nonce %q: want at most 64 bytes as hex in lower case", nonce)
	}
	return nil
}

// Sign signs a document.
func Sign(doc []byte, key crypto.Signer, nonce string, now time.Time) (*result.Attestation, error) {
	a, err := begin(doc, nonce, now)
	if err != nil {
		return nil, err
	}
	b, err := statement(signaturePurpose, a)
	if err != nil {
		return nil, err
	}
	if err := sign(a, key, b); err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return a, nil
}

// Attest asks a TEE for a quote that is bound to a document, and the vendor's services for
// what is needed to verify it. A quote that does not verify is an error.
func Attest(ctx context.Context, doc []byte, q attest.Quoter, c attest.Collateral, nonce string, now time.Time, roots attest.Trust) (*result.Attestation, error) {
	a, err := begin(doc, nonce, now)
	if err != nil {
		return nil, err
	}
	data, err := Bound(a)
	if err != nil {
		return nil, err
	}
	e, err := q.Quote(ctx, data)
	if err != nil {
		return nil, err
	}
	r := &attest.Recorder{From: c}
	i, err := attest.Inspect(ctx, e, r, a.MadeAt, roots)
	switch {
	case err != nil:
		return nil, err
	case i.Signature != nil && !errors.Is(i.Signature, attest.ErrUnknownTPM): // whoever verifies it may know the TPM
		return nil, fmt.Errorf("the quote of this machine does not verify: %w", i.Signature)
	case !i.IsBoundTo(data):
		return nil, errors.New("this machine returned a quote for other data than teescope requested")
	}
	a.Format, a.Quote, a.Certificates = e.Format, e.Quote, e.Aux
	for _, f := range r.Stored() {
		a.Collateral = append(a.Collateral, result.Collateral{URL: f.URL, Header: f.Header, Body: f.Body})
	}
	return a, nil
}

// State of a check.
type State string

// The states.
const (
	Holds      State = "holds"
	Fails      State = "fails"
	NotChecked State = "not checked"
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Detail string `json:"detail,omitempty"`
	// needed: without it nothing is proved.
	needed bool
}

// The words for where a result comes from.
const (
	Attested   = "attested"
	Signed     = "signed"
	Unattested = "unattested"
	Simulated  = "simulated" // a quote that no hardware vouches for
	Unproved   = "unproved"  // evidence that lacks something
	Refused    = "refused"   // evidence that is wrong, or of another result
)

// Report is what verifying a result found.
type Report struct {
	Origin string `json:"origin"` // one of the words
	// Line says what is proved and what is not.
	Line      string     `json:"line"`
	Proved    []string   `json:"proved"`
	NotProved []string   `json:"not_proved"`
	Format    string     `json:"format,omitempty"`
	Digest    string     `json:"digest,omitempty"`
	MadeAt    *time.Time `json:"made_at,omitempty"`
	// As of is the time for which certificates and lists were judged.
	AsOf *time.Time `json:"as_of,omitempty"`
	// Facts are what the evidence says of the environment; they mean nothing in a result
	// that is refused.
	Facts  *attest.Facts `json:"environment,omitempty"`
	Key    string        `json:"key,omitempty"` // fingerprint of the key that signed
	Checks []Check       `json:"checks"`
}

func (r *Report) add(name string, state State, needed bool, detail string) bool {
	r.Checks = append(r.Checks, Check{name, state, strings.ReplaceAll(detail, "\n", "; "), needed})
	return state == Holds
}

// test adds a check that holds or fails.
func (r *Report) test(name string, holds bool, good, bad string) bool {
	if holds {
		return r.add(name, Holds, true, good)
	}
	return r.add(name, Fails, true, bad)
}

func (r *Report) failed() *Check {
	if i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.State == Fails }); i >= 0 {
		return &r.Checks[i]
	}
	return nil
}

// lacking is the first check that is needed and could not be made, or nil.
func (r *Report) lacking() *Check {
	if i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.State == NotChecked && c.needed }); i >= 0 {
		return &r.Checks[i]
	}
	return nil
}

// Options are those of a verification.
type Options struct {
	Policy Policy
	Now    time.Time
	// AsOf is the time for which certificates and lists are judged; zero is that which the
	// attestation states.
	AsOf time.Time
	// Roots are those of the vendors, except in tests.
	Roots attest.Trust
}

// Verify says what the attestation of a document proves. Its error is about a document that
// is none.
func Verify(doc []byte, o Options) (*Report, error) {
	e, err := result.Parse(doc)
	if err != nil {
		return nil, err
	}
	r := &Report{Proved: []string{}, NotProved: []string{}, Checks: []Check{}}
	a := e.Attestation
	if a == nil {
		r.Origin, r.NotProved = Unattested, []string{"where this result was made", "that nobody has changed it since"}
		r.conclude()
		return r, nil
	}
	at := a.MadeAt
	r.Format, r.Digest, r.MadeAt = a.Format, a.Digest, &at
	if r.intact(doc, a) {
		if len(a.PublicKey) > 0 || len(a.Signature) > 0 {
			r.signed(a, o)
		} else {
			r.attested(a, o)
		}
	}
	if r.failed() != nil {
		r.Origin = Refused
	}
	r.conclude()
	return r, nil
}

// intact checks that the document is the one that the attestation is about, and that the
// attestation is spelled as this program does, so that none of its bytes is free.
func (r *Report) intact(doc []byte, a *result.Attestation) bool {
	have, err := result.CanonicalAttestation(doc)
	if err == nil {
		var want []byte
		if want, err = result.CanonicalOf(a); err == nil && !bytes.Equal(have, want) {
			err = errors.New("it has members or spellings that teescope does not write")
		}
	}
	if err != nil {
		return r.add("form", Fails, true, "the attestation: "+err.Error())
	}
	digest, err := result.Digest(doc)
	if err != nil {
		return r.add("digest", Fails, true, err.Error())
	}
	return r.test("digest", digest == a.Digest, "the attestation is about exactly this result",
		"the result was changed after it was attested, or the attestation is of another result: the result's digest is "+digest+", the attested digest is "+a.Digest)
}

// signed checks a key's signature.
func (r *Report) signed(a *result.Attestation, o Options) {
	r.Origin = Signed
	b, err := statement(signaturePurpose, a)
	if err == nil && len(a.Quote)+len(a.Certificates)+len(a.Collateral) > 0 {
		err = errors.New("the result also has a quote, certificates or collateral, which the signature does not cover")
	}
	if err == nil {
		r.Key, err = verifySignature(a, b)
	}
	if err != nil {
		r.add("signature", Fails, true, err.Error())
		return
	}
	r.add("signature", Holds, true, "by the key "+r.Key)
	p := o.Policy
	switch {
	case len(p.Keys) == 0:
		r.add("key", NotChecked, true, "no key was named (--key), and anybody can make a key")
	default:
		r.test("key", slices.Contains(p.Keys, r.Key), "the key is one of the named keys", "the key is "+r.Key+", which is none of the named keys")
	}
	if p.wantsTEE() {
		r.add("environment", Fails, true, "the policy wants a TEE, but a signature by a key does not prove a TEE")
	}
	r.fresh(a, a.MadeAt, "the signer's clock", o)
	r.Proved = []string{"who holds the key " + r.Key + " has signed exactly this result"}
	r.NotProved = []string{"where, how or when it was made"}
}

// names are those of formats for people.
var names = map[string]string{"tdx": "a TDX guest", "sev-snp": "an SEV-SNP guest", "nitro": "an AWS Nitro enclave", "tpm": "a machine with a known TPM", gpu: "an NVIDIA GPU, not the machine around it", "simulated": "no TEE"}

// asked is a collateral that knows whether anything of it was asked for.
type asked struct {
	from attest.Collateral
	any  bool
}

func (a *asked) Get(ctx context.Context, url string) (map[string][]string, []byte, error) {
	a.any = true
	return a.from.Get(ctx, url)
}

// attested checks the evidence of a TEE.
func (r *Report) attested(a *result.Attestation, o Options) {
	r.Origin = Attested
	asOf := a.MadeAt
	if !o.AsOf.IsZero() {
		asOf = o.AsOf
	}
	r.AsOf = &asOf
	var stored attest.Stored
	for _, c := range a.Collateral {
		stored = append(stored, attest.Fetched(c))
	}
	from := &asked{from: stored}
	i, err := attest.Inspect(context.Background(), &attest.Evidence{Format: a.Format, Quote: a.Quote, Aux: a.Certificates}, from, asOf, o.Policy.trust(o.Roots))
	if err == nil && i.Signature == nil && len(stored) > 0 && !from.any {
		err = errors.New("the result also has collateral, which evidence of format " + a.Format + " does not use")
	}
	if err != nil {
		r.add("evidence", Fails, true, err.Error())
		return
	}
	data, err := Bound(a)
	r.test("binding", err == nil && i.IsBoundTo(data), "the evidence is about this result, its time and its nonce",
		"the evidence was made for another result, another time or another nonce")
	p := o.Policy
	if !r.environment(i, p, asOf) {
		return
	}
	if len(p.Keys) > 0 {
		r.add("key", Fails, true, "the policy names keys, but no key has signed this result")
	}
	when, whose := a.MadeAt, "the attested machine's clock"
	if t := i.Facts.Time; t != nil {
		const most = 5 * time.Minute
		r.test("clock", a.MadeAt.Sub(*t).Abs() <= most, "the machine's clock agreed with the hardware's clock", "the machine's clock showed "+stamp(a.MadeAt)+", the hardware's clock "+stamp(*t))
		when, whose = *t, "the hardware's clock"
	}
	r.fresh(a, when, whose, o)
	r.listConclusions(a, i, asOf)
}

// environment checks who made the evidence, and what it says of the environment. It returns false
// if that means nothing.
func (r *Report) environment(i *attest.Inspection, p Policy, asOf time.Time) bool {
	r.Facts = &i.Facts
	whose := "by the hardware, with certificates up to the vendor's root"
	switch {
	case i.Facts.NoTEE:
		whose = "by the TPM's key " + i.Facts.Key + ", which the policy knows"
	case i.Facts.GPUs != nil:
		whose = "by the keys of the GPUs, with certificates up to NVIDIA's root"
	}
	if r.judge("signature", i.Signature, whose, asOf); i.Signature != nil && !errors.Is(i.Signature, attest.ErrUnknownTPM) {
		return false
	}
	r.judgeTCB(i, p, asOf)
	switch {
	case i.Facts.NoTEE:
		r.add("debug", NotChecked, false, "a TPM is not a TEE: it does not know whether the host can read and change the machine's memory")
	case i.Facts.GPUs != nil:
		r.add("debug", NotChecked, false, "no field of a GPU's report says whether confidential mode is on, or whether the GPU can be debugged")
	default:
		on := i.Facts.Debug == nil || *i.Facts.Debug
		what := "the host can read and change everything inside"
		if t := i.Facts.TDX; t != nil {
			what = "the attributes have " + (t.Attributes & attest.TDUnderDebug).Attributes() + ", with which the host can look inside or profile"
		}
		r.test("debug", !on || p.Debug, map[bool]string{false: "off", true: "on, which the policy allows"}[on], "on: "+what)
	}
	if s := i.Facts.SNP; s != nil {
		r.protectedSNP(s, p)
	}
	if t := i.Facts.TDX; t != nil {
		r.protectedTDX(t, p)
	}
	r.measured(&i.Facts, p)
	return true
}

// trust are the vendors' roots, and the TPMs that the policy knows.
func (p *Policy) trust(roots attest.Trust) attest.Trust {
	roots.TPM = p.TPM
	return roots
}

// judge adds the outcome of a verification that may lack collateral.
func (r *Report) judge(name string, err error, good string, asOf time.Time) {
	switch {
	case err == nil:
		r.add(name, Holds, true, good)
	case errors.Is(err, attest.ErrNonePublished), errors.Is(err, attest.ErrNotRead):
		r.add(name, NotChecked, false, err.Error())
	case errors.Is(err, attest.ErrUnknownTPM):
		r.add(name, NotChecked, true, err.Error()+"; name this key (tpm_keys) or the authority that certified the key (tpm_roots) in a policy")
	case errors.Is(err, attest.ErrNoCollateral):
		r.add(name, NotChecked, true, err.Error()+" in the result: attest the result again where the vendor's service can be reached")
	default:
		r.add(name, Fails, true, fmt.Sprintf("as of %s: %v", stamp(asOf), err))
	}
}

// measured compares with the measurements that a policy expects.
func (r *Report) measured(f *attest.Facts, p Policy) {
	if len(p.Formats) > 0 {
		r.test("environment", slices.Contains(p.Formats, f.TEE), "it is "+f.TEE, "the evidence is from "+f.TEE+", the policy wants "+strings.Join(p.Formats, " or "))
	} else if f.GPUs != nil {
		r.addUnboundGPUs()
	}
	if f.GPUs != nil || len(p.RIMs) > 0 {
		r.manifests(f, p.RIMs)
	}
	if len(p.Measurements) == 0 && len(p.Registers) == 0 {
		what := "no expected measurement was named (--measurement); the measurement is " + f.Measurement
		switch {
		case f.NoTEE:
			what = "no register was named (in a policy); event log: " + f.EventLog
		case f.GPUs != nil:
			what = "no register was named (in a policy)"
		}
		r.add("measurement", NotChecked, false, what)
		return
	}
	for name, want := range p.Registers {
		if f.Registers[name] != want {
			r.add("measurement", Fails, true, fmt.Sprintf("%s is %q, the policy wants %s", name, f.Registers[name], want))
			return
		}
	}
	r.test("measurement", len(p.Measurements) == 0 || slices.Contains(p.Measurements, f.Measurement), "as the policy wants", "the measurement is "+cmp.Or(f.Measurement, "none (name registers)")+", which is none of the named measurements")
}

// fresh checks nonce and age.
func (r *Report) fresh(a *result.Attestation, when time.Time, whose string, o Options) {
	switch p := o.Policy; {
	case p.Nonce != "":
		r.test("nonce", a.Nonce == p.Nonce, "the evidence is newer than the nonce", fmt.Sprintf("the result has the nonce %q, the policy wants %q", a.Nonce, p.Nonce))
	case a.Nonce != "":
		r.add("nonce", NotChecked, false, "the result has a nonce, but no expected nonce was named (--nonce)")
	}
	const ahead = 5 * time.Minute
	age := o.Now.Sub(when).Round(time.Second)
	switch most := o.Policy.MaxAge; {
	case age < -ahead:
		r.add("age", Fails, true, "made at "+stamp(when)+" by "+whose+", which is in the future")
	case most > 0:
		r.test("age", age <= most, fmt.Sprintf("%s by %s", age, whose), fmt.Sprintf("%s by %s, the policy allows %s", age, whose, most))
	default:
		r.add("age", NotChecked, false, fmt.Sprintf("made at %s by %s; no limit was named (--max-age)", stamp(when), whose))
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// listConclusions makes the lists of what is proved and what is not from the checks.
func (r *Report) listConclusions(a *result.Attestation, i *attest.Inspection, asOf time.Time) {
	state := func(name string) State {
		s := NotChecked
		for _, c := range r.Checks {
			if c.Name == name {
				s = c.State
			}
		}
		return s
	}
	if a.Format == "simulated" {
		r.Origin = Simulated
		r.NotProved = []string{"anything, because no hardware vouches for a simulated quote"}
		return
	}
	if i.Facts.GPUs != nil {
		r.Proved, r.NotProved = ofGPUs(i.Facts.GPUs, state)
	} else {
		r.Proved, r.NotProved = ofMachine(i, state, asOf)
	}
	if state("nonce") != Holds && i.Facts.Time == nil {
		r.NotProved = append(r.NotProved, "when (its own clock said "+stamp(a.MadeAt)+")")
	}
	r.NotProved = append(r.NotProved, "that its clock was honest", "what other machines in the result are")
}

// ofMachine says what the evidence of a TEE or a TPM proves, and what not.
func ofMachine(i *attest.Inspection, state func(check string) State, asOf time.Time) (proved, open []string) {
	where := names[i.Facts.TEE]
	if errors.Is(i.Signature, attest.ErrUnknownTPM) {
		where = "a machine with the TPM key " + i.Facts.Key
	}
	if state("measurement") == Holds {
		where += " with the expected measurement"
	} else {
		open = append(open, map[bool]string{false: "what software ran there (name a --measurement)", true: "what software ran there (name registers in a policy)"}[i.Facts.NoTEE])
	}
	proved = []string{where + " had exactly this result"}
	if i.Facts.NoTEE {
		open = append(open, "that the host stayed outside (a TPM is not a TEE)", "that the TPM is hardware (one in software is only as honest as its operator)")
	}
	switch {
	case state("tcb") != Holds:
		open = append(open, "that its TCB was current")
	case i.Facts.SNP != nil: // nobody publishes what is current
		proved = append(proved, "its TCB was at least the policy's minimum as of "+stamp(asOf))
	default:
		proved = append(proved, "its TCB was current as of "+stamp(asOf))
	}
	if d := i.Facts.Debug; d != nil && *d {
		open = append(open, "that the host stayed outside (debug is on)")
	}
	return proved, append(open, openProtection(&i.Facts)...)
}

// conclude finds the word, and makes the line.
func (r *Report) conclude() {
	if c := r.failed(); c != nil {
		r.Proved, r.NotProved = []string{}, []string{"anything"}
		r.Line = fmt.Sprintf("%s: %s: %s", r.Origin, c.Name, c.Detail)
		return
	}
	lacks := r.lacking()
	if lacks != nil && r.Origin == Attested {
		r.Origin = Unproved
	}
	r.Line = r.Origin + ":"
	if len(r.Proved) > 0 {
		r.Line += " proved: " + strings.Join(r.Proved, ", ") + ";"
	}
	r.Line += " not proved: " + strings.Join(r.NotProved, ", ")
	if lacks != nil {
		r.Line += fmt.Sprintf("; %s not checked: %s", lacks.Name, lacks.Detail)
	}
}

// Word says the origin in a few words, as lists of results show it: for evidence of what, or whose key.
func (r *Report) Word() string {
	switch r.Origin {
	case Attested:
		return Attested + ": " + names[r.Facts.TEE]
	case Signed:
		return "signed with a local key"
	}
	return r.Origin
}

// Status is the exit status of a verification: 0 if what was asked for is proved, 1 if the
// evidence is refused, 2 if it proves too little.
func (r *Report) Status() int {
	switch {
	case r.Origin == Refused:
		return 1
	case r.Origin == Attested, r.Origin == Signed && r.lacking() == nil:
		return 0
	}
	return 2
}
