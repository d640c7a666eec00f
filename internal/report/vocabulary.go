package report

import (
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// Words are the words and the looks of what a result document says in values, as reports use them.
type Words struct {
	// Verdicts are in the order in which they are listed.
	Verdicts []VerdictWords `json:"verdicts"`
	// Platforms are the grades of comparisons between different machines: their costs and gains are neither, but
	// the verdict "platform".
	Platforms []result.Grade `json:"platforms"`
	// Grades says what a comparison of a grade may be called, Designs how its runs were made; "" is for other values.
	Grades  map[string]string `json:"grades"`
	Designs map[string]string `json:"designs"`
	// Levels are those of guards.
	Levels map[string]LevelWords `json:"levels"`
	// Arms are the shapes of the arms in their order; their colours are the series of the same number.
	Arms []string `json:"arms"`
}

// VerdictWords is how a verdict looks: a word, a shape and a colour of the page; each alone identifies it.
type VerdictWords struct {
	// Verdict is a verdict of a document, "stand-in", "platform", or "none" where nothing was judged.
	Verdict string `json:"verdict"`
	Word    string `json:"word"`
	Shape   string `json:"shape"`
	Tone    string `json:"tone"`
	Means   string `json:"means"`
}

// LevelWords is the word for a guard's level, and the severity as which it is shown.
type LevelWords struct {
	Word     string            `json:"word"`
	Severity findings.Severity `json:"severity"`
}

// Vocabulary returns the words and looks.
func Vocabulary() Words {
	w := Words{Platforms: platformGrades, Grades: map[string]string{}, Designs: map[string]string{}, Levels: map[string]LevelWords{}}
	for _, c := range []result.Comparison{{Verdict: stats.Cost}, {Verdict: stats.Gain}, {Verdict: stats.Equivalent}, {Verdict: stats.Inconclusive}, {Verdict: stats.Invalid},
		{Verdict: stats.Cost, StandIn: "an arm"}, {Verdict: stats.Cost, Grade: result.GradeD}, {}} {
		a := appearanceOf(&c)
		v := VerdictWords{Verdict: kind(&c), Word: verdictWord(&c), Shape: a.shape.String(), Tone: string(a.ink), Means: a.means}
		if a.ink == rest {
			v.Tone = string(dim) // on the page the colour is also that of text
		}
		w.Verdicts = append(w.Verdicts, v)
	}
	for _, g := range []result.Grade{result.GradeA, result.GradeB, result.GradeC, result.GradeD, ""} {
		w.Grades[string(g)] = gradeMeans(g)
	}
	for _, k := range []result.Kind{result.Interleaved, result.Blocked, result.Unpaired, result.Single, ""} {
		w.Designs[string(k)] = designText(k)
	}
	for l, severity := range map[result.Level]findings.Severity{result.Refuse: findings.Critical, result.Warn: findings.Warning, result.Note: findings.Info} {
		_, word := levelMark(l)
		w.Levels[string(l)] = LevelWords{word, severity}
	}
	for _, s := range shapes {
		w.Arms = append(w.Arms, s.String())
	}
	return w
}

// String returns the name of the shape.
func (s shape) String() string {
	return [...]string{"disc", "square", "diamond", "triangle", "inverted", "ring", "cross", "plus"}[s]
}
