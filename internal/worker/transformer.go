package worker

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
)

// transformer is a small decoder-only language model with random weights: what it says means nothing, but it is computed as a large
// model's answers are, token by token, over the keys and values of all tokens before. It is for benchmarks and tests without
// a GPU, without Python and without anything to download.
//
// It has root mean square norms, rotary positions (J. Su et al., 2021), attention with several heads, and a layer of rectified linear
// units four times as wide. The embedding is that of the output, too.
type transformer struct {
	width, heads int
	embedding    []float32 // vocabulary x width
	layers       []layer
}

// layer is a block of the model; each matrix has one row for each output.
type layer struct{ query, key, value, out, up, down []float32 }

const (
	vocabulary = 512
	headWidth  = 32
	widening   = 4
	// endToken ends an answer, startToken begins each prompt.
	endToken, startToken = 0, 1
	plainTokens          = 2 // those before words
)

// newTransformer makes a model whose weights follow from the seed.
func newTransformer(layers, width int, seed uint64) (*transformer, error) {
	if width%headWidth != 0 {
		return nil, fmt.Errorf("-width %d: want a multiple of %d", width, headWidth)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	matrix := func(rows, columns int) []float32 {
		m := make([]float32, rows*columns)
		scale := 1 / math.Sqrt(float64(columns))
		for i := range m {
			m[i] = float32(r.NormFloat64() * scale)
		}
		return m
	}
	t := &transformer{width: width, heads: width / headWidth, embedding: matrix(vocabulary, width)}
	for range layers {
		t.layers = append(t.layers, layer{
			query: matrix(width, width), key: matrix(width, width), value: matrix(width, width), out: matrix(width, width),
			up: matrix(widening*width, width), down: matrix(width, widening*width),
		})
	}
	return t, nil
}

// parameters is the number of weights.
func (t *transformer) parameters() int {
	n := len(t.embedding)
	for _, l := range t.layers {
		n += len(l.query) + len(l.key) + len(l.value) + len(l.out) + len(l.up) + len(l.down)
	}
	return n
}

// sequence is a text with its keys and values, which are its part of a server's cache.
type sequence struct {
	length       int
	keys, values [][]float32 // by layer: length x width
}

func (t *transformer) newSequence() *sequence {
	return &sequence{keys: make([][]float32, len(t.layers)), values: make([][]float32, len(t.layers))}
}

// add appends tokens to a sequence and returns the most likely next one.
func (t *transformer) add(s *sequence, tokens ...int) int {
	var x []float32
	for _, token := range tokens {
		x = t.step(s, token)
	}
	x = norm(x)
	best, most := endToken, float32(math.Inf(-1))
	for i := range vocabulary {
		if v := dot(t.embedding[i*t.width:][:t.width], x); v > most {
			best, most = i, v
		}
	}
	return best
}

// step runs one token through the model.
func (t *transformer) step(s *sequence, token int) []float32 {
	x := append([]float32(nil), t.embedding[token*t.width:][:t.width]...)
	for i, l := range t.layers {
		n := norm(x)
		query, key := times(l.query, n), times(l.key, n)
		t.rotate(query, s.length)
		t.rotate(key, s.length)
		s.keys[i] = append(s.keys[i], key...)
		s.values[i] = append(s.values[i], times(l.value, n)...)
		plus(x, times(l.out, t.attend(query, s.keys[i], s.values[i])))
		hidden := times(l.up, norm(x))
		for k := range hidden {
			hidden[k] = max(hidden[k], 0)
		}
		plus(x, times(l.down, hidden))
	}
	s.length++
	return x
}

// rotate turns pairs of numbers by angles that grow with the position.
func (t *transformer) rotate(v []float32, position int) {
	const base = 10_000
	for h := range t.heads {
		head := v[h*headWidth:][:headWidth]
		for i := 0; i < headWidth; i += 2 {
			sin, cos := math.Sincos(float64(position) * math.Pow(base, -float64(i)/headWidth))
			a, b := head[i], head[i+1]
			head[i], head[i+1] = a*float32(cos)-b*float32(sin), a*float32(sin)+b*float32(cos)
		}
	}
}

// attend is the mean of the values, weighted by how well their keys fit, for each head.
func (t *transformer) attend(query, keys, values []float32) []float32 {
	out := make([]float32, t.width)
	n := len(keys) / t.width
	weights := make([]float32, n)
	for h := range t.heads {
		from := h * headWidth
		most := float32(math.Inf(-1))
		for p := range n {
			weights[p] = dot(query[from:][:headWidth], keys[p*t.width+from:][:headWidth]) / float32(math.Sqrt(headWidth))
			most = max(most, weights[p])
		}
		sum := float32(0)
		for p := range n {
			weights[p] = float32(math.Exp(float64(weights[p] - most)))
			sum += weights[p]
		}
		for p := range n {
			w := weights[p] / sum
			for i, v := range values[p*t.width+from:][:headWidth] {
				out[from+i] += w * v
			}
		}
	}
	return out
}

// norm divides by the root of the mean square.
func norm(x []float32) []float32 {
	const least = 1e-6
	scale := float32(1 / math.Sqrt(float64(dot(x, x))/float64(len(x))+least))
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = v * scale
	}
	return out
}

// times multiplies a matrix by a vector.
func times(matrix, x []float32) []float32 {
	out := make([]float32, len(matrix)/len(x))
	for i := range out {
		out[i] = dot(matrix[i*len(x):][:len(x)], x)
	}
	return out
}

func plus(x, y []float32) {
	for i, v := range y {
		x[i] += v
	}
}

// dot has four sums, which a processor can add up at the same time.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}

// tokens are those of a text: one for each word, and one at the beginning.
func tokens(text string) []int {
	out := []int{startToken}
	for _, word := range strings.Fields(text) {
		h := fnv.New32a()
		h.Write([]byte(word))
		out = append(out, plainTokens+int(h.Sum32()%(vocabulary-plainTokens)))
	}
	return out
}

// spelled is the text of a token.
func spelled(token int) string { return fmt.Sprintf("w%d ", token) }
