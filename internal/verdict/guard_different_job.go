package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/result"
)

var differentJob = Guard{
	ID:     "different-job",
	Doc:    "The arms did not do the same work: the digests of their outputs differ (answers, proof or token counts, bytes).",
	Effect: "invalid, without a ratio; a note if the workload gives no digest",
	Help:   "use the same program version, parameters and data in all arms; compare the raw outputs of two runs",
	check: func(p *guardRun) {
		for _, k := range p.contests {
			base, bare := digests(k, true)
			treat, blank := digests(k, false)
			switch {
			case len(base) > 1 || len(treat) > 1:
				p.report(withdraw, k.scope(), nil, "runs of one arm did different work%s: %s", inCase(k.cas.ID), firstOf(append(base, treat...)))
			case len(base) == 1 && len(treat) == 1 && base[0] != treat[0] && p.e.Workload.OutputPerArm:
				p.unknown(k.scope(), "whether the arms did the same work%s: this workload's output differs between versions of its tool", inCase(k.cas.ID))
			case len(base) == 1 && len(treat) == 1 && base[0] != treat[0]:
				p.report(withdraw, k.scope(), nil, "the arms did different work%s: %s gave %s, %s gave %s", inCase(k.cas.ID), k.base.ID, shortened(base[0]), k.treat.ID, shortened(treat[0]))
			case bare+blank > 0: // last: a run without one does not make the others equal
				runs := 2 * len(k.pairs)
				if k.unpaired {
					runs = len(k.pairs)
				}
				p.unknown(k.scope(), "%d of %d runs%s have no digest of their output, so it is unknown whether they did the same work", bare+blank, runs, ofCase(k.cas.ID))
			}
		}
	},
}

// firstOf returns a list of digests, cut to the part that a reader compares.
func firstOf(digests []string) string {
	const few = 3
	var out []string
	for _, d := range digests[:min(few, len(digests))] {
		out = append(out, shortened(d))
	}
	if n := len(digests) - few; n > 0 {
		out = append(out, fmt.Sprintf("%d more", n))
	}
	return strings.Join(out, ", ")
}

// shortened returns the distinguishing start of a hash, and the words that follow it. Runs have the full hash; other
// digests are words.
func shortened(digest string) string {
	const enough = len("sha256:") + 12
	hash, words, _ := strings.Cut(digest, " ")
	if !strings.HasPrefix(hash, "sha256:") {
		return digest
	}
	return strings.TrimSuffix(hash[:min(enough, len(hash))]+" "+words, " ")
}

// digests returns the distinct digests of an arm's outputs, and how many runs have none.
func digests(k *armComparison, base bool) (seen []string, without int) {
	for _, d := range k.pairs {
		r := d.treat
		if base {
			r = d.base
		}
		switch {
		case r == nil || r.Status == result.Failed:
		case r.OutputDigest == "":
			without++
		case !slices.Contains(seen, r.OutputDigest):
			seen = append(seen, r.OutputDigest)
		}
	}
	return seen, without
}
