package load

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// Prompt is what a language model is asked.
type Prompt struct {
	Text string
	// Output is how many tokens the answer shall have.
	Output int
}

// Lengths say how long prompts and answers are.
type Lengths struct {
	// Spread is one of Spreads: "fixed" makes all equal. "sharegpt" draws them from log-normal distributions, whose shape is close to
	// that of the conversations in ShareGPT as benchmarks of servers filter them: many short ones and a long tail. The text is ours.
	Spread string
	// Input is the mean number of words of a prompt, Output that of the tokens of an answer.
	Input, Output int
	// Shared is how many words all prompts begin with, which a server may keep in its cache of prefixes.
	Shared int
}

// Spreads are those known.
var Spreads = []string{"sharegpt", "fixed"}

// MostLength bounds the words of a prompt and the tokens of an answer.
const MostLength = 1 << 17

func (l *Lengths) check() error {
	switch {
	case l.Spread != "fixed" && l.Spread != "sharegpt":
		return fmt.Errorf("lengths %q: want one of %s", l.Spread, strings.Join(Spreads, ", "))
	case l.Input < leastLength || l.Input > MostLength || l.Output < leastLength || l.Output > MostLength:
		return fmt.Errorf("prompts of %d words and answers of %d tokens: want %d to %d of each", l.Input, l.Output, leastLength, MostLength)
	case l.Shared < 0 || l.Shared > l.Input:
		return fmt.Errorf("%d words that all prompts share: want at most the %d words of a prompt", l.Shared, l.Input)
	}
	return nil
}

// Shapes of the log-normal distributions, and the bounds of what is drawn, in means.
const (
	inputShape, outputShape = 1.0, 0.8
	leastLength             = 2
	longestLength           = 8
)

// draw returns a length with the mean, of one of the distributions.
func (l *Lengths) draw(r *rand.Rand, mean int, shape float64) int {
	if l.Spread == "fixed" {
		return mean
	}
	v := math.Exp(math.Log(float64(mean)) - shape*shape/2 + shape*r.NormFloat64()) // the mean of a log-normal is exp(mu + sigma^2/2)
	return int(min(max(math.Round(v), leastLength), float64(longestLength*mean), MostLength))
}

// words are short and common, so most tokenizers have a token for each.
var words = strings.Fields("time year people way day man thing woman life child world school state family student group country problem hand part " +
	"place case week company system program question work government number night point home water room mother area money story fact " +
	"month lot right study book eye job word business issue side kind head house service friend father power hour game line end member law car city")

// saltWords are the words at the beginning of a prompt that differ between runs, so no run finds the prompts of an earlier one in a
// server's cache.
const saltWords = 4

// NewPrompts makes n prompts. Their lengths and words follow from the seed; the first few words from the salt, unless all prompts share
// their beginning.
func NewPrompts(n int, l Lengths, seed, salt uint64) []Prompt {
	out := make([]Prompt, n)
	lengths, text, salted := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2)), rand.New(rand.NewPCG(salt, 3))
	all := rand.New(rand.NewPCG(seed, 4))
	shared := make([]string, l.Shared)
	for i := range shared {
		shared[i] = words[all.IntN(len(words))]
	}
	for i := range out {
		chosen := make([]string, max(l.draw(lengths, l.Input, inputShape), l.Shared))
		out[i].Output = l.draw(lengths, l.Output, outputShape)
		for k := range chosen {
			chosen[k] = words[text.IntN(len(words))]
			if k < saltWords && l.Shared == 0 {
				chosen[k] = words[salted.IntN(len(words))]
			}
		}
		copy(chosen, shared)
		out[i].Text = strings.Join(chosen, " ")
	}
	return out
}

// LongestTurn is the largest sum of the words of a prompt and the tokens of its answer.
func LongestTurn(n int, l Lengths, seed uint64) int {
	longest := 0
	for _, p := range NewPrompts(n, l, seed, 0) {
		longest = max(longest, len(strings.Fields(p.Text))+p.Output)
	}
	return longest
}

// promptsDigest covers what a set of prompts asks for: all of it but the words that differ between runs.
func promptsDigest(n int, l Lengths, seed uint64) string {
	h := sha256.New()
	for _, p := range NewPrompts(n, l, seed, 0) {
		fmt.Fprintf(h, "%d %s\n", p.Output, p.Text)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
