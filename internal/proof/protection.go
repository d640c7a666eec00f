package proof

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/attest"
)

// judgeTCB says whether the TCB is current. Intel publishes which are. AMD does not, so for SEV-SNP the policy must name a
// minimum; without one the check is not made.
func (r *Report) judgeTCB(i *attest.Inspection, p Policy, asOf time.Time) {
	const name = "tcb"
	s := i.Facts.SNP
	if s == nil || i.Standing != nil {
		r.judge(name, i.Standing, "current, and no certificate is revoked, as of "+stamp(asOf), asOf)
		return
	}
	least, named := p.MinTCB[s.Product]
	levels := s.Reported.Parts(s.Product)
	reported, launch := s.Reported.PartsBelow(least, s.Product), s.Launch.PartsBelow(least, s.Product)
	switch {
	case p.TCBUnchecked:
		r.add(name, NotChecked, false, "the policy accepts any TCB (tcb: unchecked); the TCB is "+s.Reported.String())
	case levels == "":
		r.add(name, NotChecked, true, "the parts of its TCB "+s.Reported.String()+" are not known, because the processor is none of "+strings.Join(attest.TCBProducts(), ", ")+"; a policy with tcb: unchecked accepts this TCB")
	case !named:
		r.add(name, NotChecked, true, fmt.Sprintf("AMD does not publish which TCB is current, and no minimum was named; if this TCB has at least the levels of AMD's security bulletins, write into a policy: min_tcb: {%s: {%s}}", s.Product, levels))
	case len(reported) > 0:
		r.add(name, Fails, true, "the reported TCB is too old: "+strings.Join(reported, ", "))
	case len(launch) > 0:
		r.add(name, Fails, true, "the firmware that started and measured the guest was too old: "+strings.Join(launch, ", ")+"; start the guest again")
	case !s.Reported.ReservedAreZero(s.Product) || !s.Launch.ReservedAreZero(s.Product):
		r.add(name, NotChecked, true, fmt.Sprintf("the TCBs %s and %s have levels in bytes that teescope knows as reserved", s.Reported, s.Launch))
	default:
		r.add(name, Holds, true, "at least the policy's minimum, and AMD has not revoked the key that certified the chip's key, as of "+stamp(asOf))
	}
}

// migration is the check of both kinds of guests.
func (r *Report) migration(allowed bool, p Policy) {
	r.test("migration", !allowed || p.Migration, map[bool]string{false: "off", true: "on, which the policy allows"}[allowed],
		"on: the host can move the guest to another machine; a policy with migration: true accepts migration")
}

// protectedSNP checks what an SEV-SNP report says beside its TCB.
func (r *Report) protectedSNP(s *attest.SNP, p Policy) {
	r.migration(s.Migratable, p)
	other := fmt.Sprintf("%d, the policy wants %d", s.VMPL, p.VMPL)
	switch {
	case s.VMPL > attest.MostVMPL:
		other = fmt.Sprintf("%#x: no software of a guest has this level", s.VMPL)
	case s.VMPL > p.VMPL:
		other += fmt.Sprintf(": other software of the guest may be more privileged than the software that asked for the report; a policy with vmpl: %d accepts this level", s.VMPL)
	}
	r.test("vmpl", s.VMPL == p.VMPL, fmt.Sprintf("%d, as the policy wants", s.VMPL), other)
	r.platform(s, p)
}

// platform checks PLATFORM_INFO.
func (r *Report) platform(s *attest.SNP, p Policy) {
	const name = "platform"
	var other, unknown []string
	for _, fact := range slices.Sorted(maps.Keys(p.Platform)) {
		if s.Platform[fact] != p.Platform[fact] {
			other = append(other, fmt.Sprintf("%s is %t, the policy wants %t", fact, s.Platform[fact], p.Platform[fact]))
		}
	}
	known := attest.PlatformFacts()
	for _, fact := range slices.Sorted(maps.Keys(s.Platform)) {
		if _, named := p.Platform[fact]; !named && !slices.Contains(known, fact) {
			unknown = append(unknown, fact+": true")
		}
	}
	switch {
	case len(other) > 0:
		r.add(name, Fails, true, strings.Join(other, ", "))
	case len(unknown) > 0:
		r.add(name, NotChecked, true, fmt.Sprintf("teescope does not know the meaning of some bits of PLATFORM_INFO; to accept these bits, write into a policy: platform: {%s}", strings.Join(unknown, ", ")))
	case len(p.Platform) > 0:
		r.add(name, Holds, true, "as the policy wants")
	default:
		r.add(name, NotChecked, false, "the policy names no fact of the platform (platform)")
	}
}

// protectedTDX checks the attributes of a TDX guest, of which the groups for debugging and migration have checks of their own.
func (r *Report) protectedTDX(t *attest.TDX, p Policy) {
	r.migration(t.Attributes&attest.TDMigratable != 0, p)
	wantSet, wantClear := p.Attributes.bits(attest.SEPTVEDisable)
	off, on, unknown := wantSet&^t.Attributes, wantClear&t.Attributes, t.Attributes.UnknownAttributes()&^wantSet
	const name = "attributes"
	switch {
	case off != 0 && p.Attributes.Set == nil:
		r.add(name, Fails, true, off.Attributes()+" is off, so the host can hand the guest pages that it did not accept; a policy with attributes: {set: 0} accepts that")
	case off != 0:
		r.add(name, Fails, true, off.Attributes()+" is off, and the policy wants it set")
	case on != 0:
		r.add(name, Fails, true, on.Attributes()+" is on, and the policy wants it clear")
	case unknown != 0:
		r.add(name, NotChecked, true, fmt.Sprintf("teescope does not know the meaning of %s; to accept these attributes, write into a policy: attributes: {set: %s}", unknown.Attributes(), wantSet|unknown))
	default:
		r.add(name, Holds, true, t.Attributes.Attributes())
	}
	wantSet, wantClear = p.XFAM.bits(0)
	off, on = wantSet&^t.XFAM, wantClear&t.XFAM
	switch {
	case !p.XFAM.named():
		r.add("xfam", NotChecked, false, "the policy names no bit of XFAM (xfam); XFAM is "+t.XFAM.String())
	default:
		r.test("xfam", off == 0 && on == 0, "as the policy wants", fmt.Sprintf("XFAM is %s, the policy wants %s set and %s clear", t.XFAM, wantSet, wantClear))
	}
}

// openProtection says what a policy has accepted.
func openProtection(f *attest.Facts) (open []string) {
	migratable := f.SNP != nil && f.SNP.Migratable || f.TDX != nil && f.TDX.Attributes&attest.TDMigratable != 0
	if migratable {
		open = append(open, "that it stayed on this machine (migration is on)")
	}
	if f.SNP != nil && f.SNP.VMPL > 0 {
		open = append(open, fmt.Sprintf("what the guest's more privileged software is (VMPL %d asked for the report)", f.SNP.VMPL))
	}
	if f.SNP != nil && !f.SNP.Platform["alias_check_complete"] {
		open = append(open, "that no two addresses shared the same memory (ALIAS_CHECK_COMPLETE is off)")
	}
	if f.TDX != nil && f.TDX.Attributes&attest.SEPTVEDisable == 0 {
		open = append(open, "that the host gave it only pages that it accepted (SEPT_VE_DISABLE is off)")
	}
	return open
}
