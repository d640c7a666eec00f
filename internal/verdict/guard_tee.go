package verdict

import (
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
)

var teeEvidence = Guard{
	ID:     "tee-evidence",
	Doc:    "An arm is declared to run in a TEE, but neither detection from inside nor its launcher showed that the TEE was on.",
	Effect: "invalid: without evidence that the TEE was on, the ratio is not the cost of the TEE",
	Help:   "let the launcher give evidence (a quote, a report, the loader's output), or run where the TEE is visible from inside",
	check: func(p *guardRun) {
		for _, k := range p.contests {
			for _, e := range []*result.Environment{k.base, k.treat} {
				switch t := &e.TEE; {
				case t.Type == "" || t.Type == "unknown":
					p.unknown(k.arms(), "whether %s runs in a TEE: %s", e.ID, missing(e, "tee.type"))
				case t.Type != "none" && !shown(t):
					p.report(refuse, k.arms(), nil, "%s is declared to run in %s, but nothing shows that %[2]s was on", e.ID, t.Type)
				}
			}
		}
	},
}

// shown reports whether evidence, not only a declaration, shows that the TEE was on.
func shown(t *result.TEE) bool {
	inside := slices.ContainsFunc(t.Facts, func(f tee.Facts) bool { return f.Active && f.Role == tee.Guest })
	return t.Active && (inside || len(t.Evidence) > 0)
}

// isInTEE reports whether the arm is known to run in a TEE.
func isInTEE(t *result.TEE) bool {
	return t.Type != "" && t.Type != "none" && t.Type != "unknown" && t.Active
}

var teeInBaseline = Guard{
	ID:     "tee-in-baseline",
	Doc:    "The baseline itself runs in a TEE. The ratio is then not the cost of the TEE, although it may be the cost of another change inside the TEE.",
	Effect: "invalid if both arms have the same launcher and one arm should be without the TEE; otherwise a warning",
	Help:   "use a baseline with the TEE off on the same host; to compare two builds inside a TEE, declare the build as the subject",
	check: func(p *guardRun) {
		if len(p.e.Environments) < 2 || p.e.Design.Calibration || !subjectIsEnvironment(p.e) {
			return
		}
		base := &p.e.Environments[0]
		if base.TEE.Type == "" || base.TEE.Type == "unknown" {
			p.unknown(scope{}, "whether the baseline %s runs in a TEE: %s", base.ID, missing(base, "tee.type"))
		}
		if !isInTEE(&base.TEE) {
			return
		}
		for _, k := range p.contests {
			if k.base != base {
				continue
			}
			switch t := k.treat; {
			case isInTEE(&t.TEE) && t.TEE.Type == base.TEE.Type && t.Launcher == base.Launcher && p.o.Diff == nil:
				p.unknown(k.arms(), "what differs between %s and %s, which both run in %s: they were not compared", base.ID, t.ID, base.TEE.Type)
			case isInTEE(&t.TEE) && t.TEE.Type == base.TEE.Type && t.Launcher == base.Launcher && !settingsDiffer(k.changed):
				p.report(refuse, k.arms(), nil, "both %s and %s run in %s with equal settings, although one should run without it", base.ID, t.ID, base.TEE.Type)
			default:
				p.report(warn, k.arms(), nil, "the baseline %s runs in %s, so the ratio is not the cost of %s", base.ID, base.TEE.Type, base.TEE.Type)
			}
		}
	},
}

func subjectIsEnvironment(e *result.Experiment) bool {
	return e.Design.Subject == "environment" || e.Design.Subject == ""
}

func settingsDiffer(changed []result.Difference) bool {
	return slices.ContainsFunc(changed, func(d result.Difference) bool { return strings.HasPrefix(d.Field, "tee.settings") })
}

var teeDebug = Guard{
	ID:     "tee-debug",
	Doc:    "A TEE is open for debugging (SGX DEBUG attribute, TDX debug attribute, SNP debug policy). The TEE's protection is off, and its speed may differ from production.",
	Effect: "invalid if only one arm is in debug mode; a warning if both are",
	Help:   "build and launch the TEE for production; compare debug arms only with each other",
	check: func(p *guardRun) {
		for _, k := range p.contests {
			b, t := &k.base.TEE, &k.treat.TEE
			for _, e := range []*result.Environment{k.base, k.treat} {
				switch {
				case e.TEE.Debug && b.Debug && t.Debug:
					p.report(warn, k.arms(), nil, "%s runs in %s in debug mode, and so does the arm that it is compared with: neither is protected, and neither represents production", e.ID, e.TEE.Type)
				case e.TEE.Debug:
					p.report(refuse, k.arms(), nil, "%s runs in %s in debug mode, so it is not protected and does not represent production", e.ID, e.TEE.Type)
				case e.TEE.Type != "none" && e.Missing["tee.debug"] != "":
					p.unknown(k.arms(), "whether %s is in debug mode: %s", e.ID, e.Missing["tee.debug"])
				case e.TEE.Type != "none" && !shown(&e.TEE):
					p.unknown(k.arms(), "whether %s is in debug mode, because no TEE data was read", e.ID)
				}
			}
		}
	},
}
