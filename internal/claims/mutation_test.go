package claims

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sheet is a claims file as text in parts, to be damaged.
type sheet struct {
	name  string
	head  []string
	names []string
	rows  [][]string
}

func (s sheet) String() string {
	var b strings.Builder
	for _, h := range s.head {
		fmt.Fprintf(&b, "# %s\n", h)
	}
	line := func(cells []string) {
		for i, c := range cells {
			if i > 0 {
				b.WriteByte(',')
			}
			if strings.Contains(c, ",") {
				c = strconv.Quote(c)
			}
			b.WriteString(c)
		}
		b.WriteByte('\n')
	}
	line(s.names)
	for _, r := range s.rows {
		line(r)
	}
	return b.String()
}

func (s sheet) clone() sheet {
	s.head = slices.Clone(s.head)
	rows := s.rows
	s.rows = nil
	for _, r := range rows {
		s.rows = append(s.rows, slices.Clone(r))
	}
	return s
}

// corrected returns the shipped tables with their faults corrected.
func corrected(t *testing.T) []sheet {
	t.Helper()
	names, _ := filepath.Glob("testdata/clean/*.csv")
	var out []sheet
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tab, err := Parse(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s := sheet{name: "corrected " + strings.TrimSuffix(filepath.Base(name), ".csv")}
		for _, l := range strings.Split(string(data), "\n") {
			if h, ok := strings.CutPrefix(l, "# "); ok {
				s.head = append(s.head, h)
			}
		}
		for _, c := range tab.columns {
			s.names = append(s.names, c.name)
		}
		for _, r := range tab.rows {
			var cells []string
			for _, c := range r.cells {
				cells = append(cells, c.text)
			}
			s.rows = append(s.rows, cells)
		}
		out = append(out, s)
	}
	return out
}

// maker fills an honest table: derived cells and claims come from the values before rounding, as a careful author
// would do it.
type maker struct {
	sheet
	rng *rand.Rand
}

func (m *maker) headf(format string, a ...any) {
	m.head = append(m.head, fmt.Sprintf(format, a...))
}
func (m *maker) row(cells ...string)          { m.rows = append(m.rows, cells) }
func (m *maker) around(v, by float64) float64 { return v * (1 - by + 2*by*m.rng.Float64()) }

// n prints with three or four digits.
func n(v float64) string {
	d := 0
	for x := math.Abs(v); x < 1000 && d < 5 && x > 0; x *= 10 {
		d++
	}
	return strconv.FormatFloat(v, 'f', d, 64)
}

func percentText(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) }

var arms = []string{"native", "vm", "cvm"}

// kindsOfTables make one honest table each.
var kindsOfTables = map[string]func(m *maker){
	"load": func(m *maker) {
		m.head = []string{"source: generated", "column: arm arm", "column: connections connection parameter", "column: rate req/s higher", "column: latency ms lower",
			"column: gain % = change(rate, rate[native])", "column: ratio x = rate / rate[native]",
			`law: "Little" rate * latency = connections within 1 %`}
		m.names = []string{"arm", "connections", "rate", "latency", "gain", "ratio"}
		base := map[int]float64{}
		slow := map[string]float64{"native": 1, "vm": m.around(0.9, 0.05), "cvm": m.around(0.6, 0.1)}
		var last [3]float64
		for i, a := range arms {
			for _, c := range []int{8, 64, 256} {
				r := m.around(12000, 0.2) * math.Pow(float64(c), 0.3) * slow[a]
				if a == "native" {
					base[c] = r
				}
				last[i] = r
				m.row(a, fmt.Sprint(c), n(r), n(1000*float64(c)/r), percentText(r/base[c]-1), n(r/base[c]))
			}
		}
		m.headf(`claim: "peak" rate[native, connections=256] = %s req/s`, n(last[0]))
		m.headf(`claim: "loss" worse(rate[cvm, connections=256], rate[native, connections=256]) = %s %%`, percentText(1-last[2]/last[0]))
		m.headf(`claim: "more" change(latency[cvm, connections=256], latency[native, connections=256]) = %s %%`, percentText(last[0]/last[2]-1))
	},
	"scaling": func(m *maker) {
		m.head = []string{"source: generated", "column: arm arm", "column: threads thread scale", "column: rate kop/s higher",
			"column: speedup x = rate / rate[threads=1]", "column: efficiency % efficiency = rate / (threads * rate[threads=1])", "column: time ms = 1000 op / rate"}
		m.names = []string{"arm", "threads", "rate", "speedup", "efficiency", "time"}
		var end [3]float64
		sum, k := 0.0, 0
		for i, a := range arms {
			one := m.around(100, 0.3)
			sigma := m.around(0.03, 0.5)
			for _, p := range []float64{1, 2, 4, 8, 16} {
				r := one * p / (1 + sigma*(p-1))
				end[i] = r
				m.row(a, fmt.Sprint(p), n(r), n(r/one), percentText(r/one/p), n(1000/r))
				if a == "cvm" {
					sum += r / one / p
					k++
				}
			}
		}
		m.headf(`claim: "average efficiency" mean(efficiency[cvm]) = %s %%`, percentText(sum/float64(k)))
		m.headf(`claim: "at 16 threads" rate[cvm, threads=16] / rate[native, threads=16] = %s x`, n(end[2]/end[0]))
		m.headf(`claim: "peak" rate[vm, threads=16] = %s kop/s`, n(end[1]))
	},
	"percentiles": func(m *maker) {
		m.head = []string{"source: generated", "column: arm arm", "column: samples req measure", "column: mean us lower", "column: p50 us lower", "column: p99 us lower",
			"column: extra us = mean - mean[native]", "column: overhead % = change(p50, p50[native])", "column: tail x = p99 / p50",
			`law: "percentiles rise" p50 <= p99`, `law: "the mean is above the median here" mean >= p50`, `claim: "p99" percentile(p99, 99 %, samples)`}
		m.names = []string{"arm", "samples", "mean", "p50", "p99", "extra", "overhead", "tail"}
		var mean0, p0 float64
		for i, a := range arms {
			p50 := m.around(40+30*float64(i), 0.1)
			mean, p99 := p50*m.around(1.1, 0.03), p50*m.around(3, 0.2)
			if i == 0 {
				mean0, p0 = mean, p50
			}
			m.row(a, "20000", n(mean), n(p50), n(p99), n(mean-mean0), percentText(p50/p0-1), n(p99/p50))
			m.headf(`claim: "median" p50[%s] = %s us`, a, n(p50))
			m.headf(`claim: "mean" mean[%s] = %s us`, a, n(mean))
		}
		m.headf(`claim: "samples" sum(samples) = 60,000 req`)
	},
	"payload": func(m *maker) {
		m.head = []string{"source: generated", "column: arm arm", "column: size KiB parameter", "column: rate msg/s higher", "column: throughput MB/s higher", "column: time us lower",
			"column: loss % = worse(throughput, throughput[native])",
			`law: "rate x size" rate * size = throughput within 0.5 %`, `law: "one at a time" rate * time = 1 msg within 0.5 %`, `law: "same work" agree(rate, throughput)`}
		m.names = []string{"arm", "size", "rate", "throughput", "time", "loss"}
		base := map[float64]float64{}
		for i, a := range arms {
			for _, s := range []float64{1, 16, 256} {
				per := m.around(10+5*float64(i), 0.1) + s*m.around(0.8+0.3*float64(i), 0.1)
				bw := s * 1024 / per
				if i == 0 {
					base[s] = bw
				}
				m.row(a, fmt.Sprint(s), n(1e6/per), n(bw), n(per), percentText(1-bw/base[s]))
			}
		}
		m.headf(`claim: "native wins" best(throughput) = native`)
	},
	"job": func(m *maker) {
		m.head = []string{"source: generated", "column: arm arm", "column: items op job", "column: total s lower", "column: rate op/s higher = items / total", "column: overhead x = total / total[native]",
			"column: energy $ lower", "column: output B job", "column: share % part = share(total[native], total)",
			`law: "an hour costs 3 dollars" energy = total * 3 $/h within 1 %`}
		m.names = []string{"arm", "items", "total", "rate", "overhead", "energy", "output", "share"}
		items := math.Round(m.around(50000, 0.5))
		var first, last float64
		for i, a := range arms {
			total := m.around(140+80*float64(i), 0.2)
			if i == 0 {
				first = total
			}
			last = total
			m.row(a, fmt.Sprint(items), n(total), n(items/total), n(total/first), n(total/1200), "8340752", percentText(first/total))
		}
		m.headf(`claim: "items" items[native] = %v op`, items)
		m.headf(`claim: "output" output[cvm] = 8.34 MB`)
		m.headf(`claim: "slower" worse(total[cvm], total[native]) = %s %%`, percentText(last/first-1))
		m.headf(`claim: "extra" diff(total[cvm], total[native]) = %s s`, n(last-first))
	},
	"disk": func(m *maker) {
		m.head = []string{"source: generated", "column: host label", "column: arm arm", "column: iops kIOPS higher", "column: latency us lower", "column: bandwidth MB/s higher", "column: seq MB/s higher",
			"column: loss % = worse(iops, iops[native])", "column: kept % part = share(seq, seq[native])",
			`law: "depth 32" iops * latency = 32 io within 0.5 %`, `law: "blocks of 4 KiB" iops * 4,096 B = bandwidth within 0.5 %`,
			`ceiling: "the device" seq <= 7,000 MB/s`, `ceiling: "no guest is faster than its host" seq <= seq[native]`}
		m.names = []string{"host", "arm", "iops", "latency", "bandwidth", "seq", "loss", "kept"}
		for _, h := range []string{"east", "west"} {
			var i0, s0 float64
			for i, a := range arms {
				io, seq := m.around(250, 0.1)/(1+0.6*float64(i)), m.around(6000, 0.05)/(1+0.3*float64(i))
				if i == 0 {
					i0, s0 = io, seq
					m.headf(`claim: "sequential" seq[%s, native] = %s GB/s`, h, n(seq/1000))
				}
				m.row(h, a, n(io), n(32e3/io), n(io*4.096), n(seq), percentText(1-io/i0), percentText(seq/s0))
			}
		}
	},
	"price": func(m *maker) {
		m.head = []string{"source: generated", "column: offer arm", "column: rate req/s higher", "column: cost $/h lower", "column: memory GiB higher",
			"column: per_dollar x higher = (rate / cost) / (rate[native] / cost[native])", "column: memory_ratio x = memory / memory[native]", "column: cost_ratio x = cost / cost[native]"}
		m.names = []string{"offer", "rate", "cost", "memory", "per_dollar", "memory_ratio", "cost_ratio"}
		var r0, c0, m0 float64
		for i, a := range arms {
			r, c, g := m.around(2000, 0.2), m.around(1+float64(i), 0.2), []float64{64, 96, 141}[i]
			if i == 0 {
				r0, c0, m0 = r, c, g
			}
			m.row(a, n(r), n(c), n(g), n(r/c/(r0/c0)), n(g/m0), n(c/c0))
			m.headf(`claim: "cost" cost[%s] = %s $/h`, a, n(c))
			m.headf(`claim: "rate" rate[%s] = %s kreq/s`, a, n(r/1000))
			m.headf(`claim: "memory" memory[%s] = %v GiB`, a, g)
			if i == 2 {
				m.headf(`claim: "cheaper" advantage(cost[native], cost[cvm]) = %s x`, n(c/c0))
			}
		}
	},
	"phases": func(m *maker) {
		m.head = []string{"source: generated", "column: arm arm", "column: connect ms lower", "column: attest ms lower", "column: transfer ms lower", "column: total ms lower = connect + attest + transfer",
			"column: attest_share % part = share(attest, total)", "column: slower % = change(total, total[native])"}
		m.names = []string{"arm", "connect", "attest", "transfer", "total", "attest_share", "slower"}
		var t0 float64
		for i, a := range arms {
			c, at, tr := m.around(20, 0.2), m.around(8+10*float64(i), 0.2), m.around(200, 0.1)
			total := c + at + tr
			if i == 0 {
				t0 = total
			}
			m.row(a, n(c), n(at), n(tr), n(total), percentText(at/total), percentText(total/t0-1))
			m.headf(`claim: "connect" connect[%s] = %s ms`, a, n(c))
			m.headf(`claim: "transfer" transfer[%s] = %s ms`, a, n(tr))
		}
	},
	"models": func(m *maker) {
		m.head = []string{"source: generated", "column: model label", "column: on token/s higher", "column: off token/s higher", "column: overhead % = worse(on, off)",
			"column: gap_on ms lower = 1 token / on", "column: gap_off ms lower = 1 token / off", "column: gap_overhead % = worse(gap_on, gap_off)"}
		m.names = []string{"model", "on", "off", "overhead", "gap_on", "gap_off", "gap_overhead"}
		sum := 0.0
		for i, a := range []string{"small", "middle", "large"} {
			off := m.around(120/math.Pow(3, float64(i)), 0.1)
			on := off * (1 - m.around(0.09/float64(i+1), 0.2))
			sum += 1 - on/off
			m.row(a, n(on), n(off), percentText(1-on/off), n(1000/on), n(1000/off), percentText(off/on-1))
		}
		m.headf(`claim: "average" mean(overhead) = %s %%`, percentText(sum/3))
		m.headf(`claim: "on" on[small] = %s token/s`, m.rows[0][1])
	},
	"sweep": func(m *maker) {
		m.head = []string{"source: generated", "column: arm arm", "column: messages msg work", "column: time s elapsed lower", "column: rate msg/s higher = messages / time", "column: ratio x = time / time[native]",
			"column: cpu s lower", "column: busy % part = share(cpu, time)"}
		m.names = []string{"arm", "messages", "time", "rate", "ratio", "cpu", "busy"}
		base := map[float64]float64{}
		for i, a := range arms {
			for _, w := range []float64{1000, 10000, 100000} {
				t := w / m.around(5000/(1+float64(i)), 0.05)
				if i == 0 {
					base[w] = t
				}
				cpu := t * m.around(0.8, 0.1)
				m.row(a, fmt.Sprint(w), n(t), n(w/t), n(t/base[w]), n(cpu), percentText(cpu/t))
			}
		}
		m.headf(`claim: "time" time[native, messages=1000] = %s s`, m.rows[0][2])
		m.headf(`claim: "processor" cpu[native, messages=100000] = %s s`, m.rows[2][5])
	},
}

// generated returns two honest tables of each kind.
func generated() []sheet {
	var names []string
	for name := range kindsOfTables {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []sheet
	for i, name := range names {
		for k := range 2 {
			m := &maker{rng: rand.New(rand.NewPCG(uint64(i), uint64(k)))}
			m.name = fmt.Sprintf("generated %s %d", name, k)
			kindsOfTables[name](m)
			out = append(out, m.sheet)
		}
	}
	return out
}

// TestClean: correct tables give no findings, in many more tables than the mutations start from.
func TestClean(t *testing.T) {
	all := append(corrected(t), generated()...)
	if len(all) < 20 {
		t.Fatalf("%d clean tables", len(all))
	}
	for name, fill := range kindsOfTables {
		for seed := range uint64(100) {
			m := &maker{rng: rand.New(rand.NewPCG(seed, 77))}
			m.name = fmt.Sprintf("%s, seed %d", name, seed)
			fill(m)
			all = append(all, m.sheet)
		}
	}
	for _, s := range all {
		tab, err := Parse([]byte(s.String()))
		if err != nil {
			t.Errorf("%s: %v\n%s", s.name, err, s)
			continue
		}
		r := tab.Check()
		if len(r.Findings) > 0 || len(r.Undecided) > 0 {
			var b strings.Builder
			if err := r.Text(&b, s.name); err != nil {
				t.Fatal(err)
			}
			t.Errorf("clean, and yet\n%s\n%s", b.String(), s)
		}
	}
}

// mutation damages a sheet; it returns false if there is nothing to damage.
type mutation struct {
	name string
	do   func(s *sheet, t *Table, r *rand.Rand) bool
}

func pick[T any](r *rand.Rand, list []T) (v T, ok bool) {
	if len(list) == 0 {
		return v, false
	}
	return list[r.IntN(len(list))], true
}

// measured returns the columns with numbers that are not keys.
func measured(t *Table) []int {
	var out []int
	for c, col := range t.columns {
		if !col.kind.key() {
			out = append(out, c)
		}
	}
	return out
}

// numbers returns the places of measured numbers.
func numbers(t *Table) [][2]int {
	var out [][2]int
	for r := range t.rows {
		for _, c := range measured(t) {
			if x := t.rows[r].cells[c]; !x.absent && x.num.v != 0 {
				out = append(out, [2]int{r, c})
			}
		}
	}
	return out
}

// rewrite prints a number with the decimals of the old text, and keeps its unit.
func rewrite(old string, v float64) string {
	num, rest, _ := leadingNumber(old)
	d := 0
	if num.ulp < 1 {
		d = int(math.Round(-math.Log10(num.ulp)))
	}
	for v != 0 && math.Abs(v) < 100*math.Pow10(-d) && d < 8 {
		d++
	}
	return strconv.FormatFloat(v, 'f', d, 64) + rest
}

// stated returns the claims that state a number with = or about: their header line and the statement.
func stated(s *sheet, t *Table) (at []int, of []statement) {
	k := 0
	for i, h := range s.head {
		key, _, _ := strings.Cut(h, ":")
		if key != "claim" && key != "law" && key != "ceiling" {
			continue
		}
		st := t.statements[k]
		k++
		if key == "claim" && st.form == "" && (st.op == "=" || st.op == "about") && st.args[1].op == "num" {
			at, of = append(at, i), append(of, st)
		}
	}
	return at, of
}

var lastNumber = regexp.MustCompile(`(= |about )([+-]?[\d,.]+)`)

// restate puts another number into a claim.
func restate(h string, v float64) string {
	at := lastNumber.FindAllStringSubmatchIndex(h, -1)
	m := at[len(at)-1]
	return h[:m[4]] + rewrite(h[m[4]:m[5]], v) + h[m[5]:]
}

var mutations = []mutation{
	{"two columns exchanged", func(s *sheet, t *Table, r *rand.Rand) bool {
		cols := measured(t)
		if len(cols) < 2 {
			return false
		}
		p := r.Perm(len(cols))
		a, b := cols[p[0]], cols[p[1]]
		for _, row := range s.rows {
			row[a], row[b] = row[b], row[a]
		}
		return true
	}},
	{"two cells of a column exchanged", func(s *sheet, t *Table, r *rand.Rand) bool {
		c, _ := pick(r, measured(t))
		i, j := r.IntN(len(s.rows)), r.IntN(len(s.rows))
		s.rows[i][c], s.rows[j][c] = s.rows[j][c], s.rows[i][c]
		return s.rows[i][c] != "" && s.rows[j][c] != ""
	}},
	{"a cell scaled", func(s *sheet, t *Table, r *rand.Rand) bool {
		at, _ := pick(r, numbers(t))
		f, _ := pick(r, []float64{0.1, 0.5, 0.8, 1.25, 2, 10, 1000})
		s.rows[at[0]][at[1]] = rewrite(s.rows[at[0]][at[1]], t.rows[at[0]].cells[at[1]].num.v*f)
		return true
	}},
	{"two digits of a cell exchanged", func(s *sheet, t *Table, r *rand.Rand) bool {
		at, _ := pick(r, numbers(t))
		text := []byte(s.rows[at[0]][at[1]])
		i := r.IntN(max(1, min(len(text)-1, 2))) // the leading ones, so it matters
		if i+1 >= len(text) || text[i] < '0' || text[i] > '9' || text[i+1] < '0' || text[i+1] > '9' {
			return false
		}
		text[i], text[i+1] = text[i+1], text[i]
		s.rows[at[0]][at[1]] = string(text)
		return true
	}},
	{"row labels exchanged", func(s *sheet, t *Table, r *rand.Rand) bool {
		c := slices.IndexFunc(t.columns, func(c column) bool { return c.kind.text() })
		if a := slices.IndexFunc(t.columns, func(c column) bool { return c.kind == arm }); a >= 0 {
			c = a
		}
		i, j := r.IntN(len(s.rows)), r.IntN(len(s.rows))
		s.rows[i][c], s.rows[j][c] = s.rows[j][c], s.rows[i][c]
		return true
	}},
	{"a unit changed", func(s *sheet, t *Table, r *rand.Rand) bool {
		c, _ := pick(r, measured(t))
		other := map[string][]string{"ms": {"us", "s"}, "us": {"ms", "ns"}, "s": {"ms", "min"}, "MB/s": {"MiB/s", "Mbit/s"}, "MiB/s": {"MB/s", "GiB/s"}, "KiB/s": {"kB/s", "MiB/s"},
			"req/s": {"kreq/s"}, "msg/s": {"kmsg/s"}, "kop/s": {"op/s"}, "op/s": {"kop/s"}, "token/s": {"ktoken/s"}, "kIOPS": {"IOPS"}, "MIPS": {"kIPS"}, "%": {"x"}, "x": {"%"},
			"GB": {"GiB"}, "GiB": {"GB"}, "$/h": {"$/min"}, "$": {"x"}, "B": {"kB"}, "Mbit/s": {"MB/s"}, "kHz": {"Hz", "MHz"}, "TFLOPS": {"GFLOPS"}, "GB/s": {"Gbit/s"}, "Gbit/s": {"GB/s"}}
		to, ok := pick(r, other[t.columns[c].unit.name])
		if !ok {
			return false
		}
		for i, h := range s.head {
			if rest, ok := strings.CutPrefix(h, "column: "+t.columns[c].name+" "); ok {
				s.head[i] = "column: " + t.columns[c].name + " " + strings.Replace(rest, t.columns[c].unit.name, to, 1)
			}
		}
		return true
	}},
	{"a stated number scaled", func(s *sheet, t *Table, r *rand.Rand) bool {
		at, of := stated(s, t)
		i, ok := pick(r, at)
		if !ok {
			return false
		}
		f, _ := pick(r, []float64{0.1, 0.5, 0.8, 1.25, 2, 10})
		s.head[i] = restate(s.head[i], of[slices.Index(at, i)].args[1].num.v*f)
		return true
	}},
	{"a difference claimed as a ratio", func(s *sheet, t *Table, r *rand.Rand) bool {
		at, of := stated(s, t)
		i, ok := pick(r, at)
		if !ok {
			return false
		}
		st := of[slices.Index(at, i)]
		e := st.args[0]
		if len(e.args) != 2 || e.fn == "diff" || e.op == "*" || e.op == "+" || e.op == "-" {
			return false
		}
		b, err := t.bind(e, 0)
		if err != nil {
			return false
		}
		x, err1 := t.eval(b.args[0])
		y, err2 := t.eval(b.args[1])
		if err1 != nil || err2 != nil || x.dims != y.dims {
			return false
		}
		own := t.columns[b.firstCell().col].unit
		s.head[i] = restate(s.head[i], (x.v-y.v)/own.scale)
		return true
	}},
	{"another quotient claimed", func(s *sheet, t *Table, r *rand.Rand) bool {
		at, of := stated(s, t)
		i, ok := pick(r, at)
		if !ok {
			return false
		}
		e := of[slices.Index(at, i)].args[0]
		to := map[string]string{"change(": "share(", "worse(": "share(", "ratio(": "change(", "share(": "worse(", "advantage(": "worse("}[e.fn+"("]
		if e.op != "call" || to == "" {
			return false
		}
		s.head[i] = strings.Replace(s.head[i], e.fn+"(", to, 1)
		return true
	}},
	{"a claim on the wrong row", func(s *sheet, t *Table, r *rand.Rand) bool {
		at, _ := stated(s, t)
		i, ok := pick(r, at)
		if !ok {
			return false
		}
		m := regexp.MustCompile(`[\[ ]([\w][\w .-]*)[\],]`).FindAllStringSubmatchIndex(s.head[i], -1)
		g, ok := pick(r, m)
		if !ok {
			return false
		}
		old := s.head[i][g[2]:g[3]]
		for _, row := range s.rows {
			for c, col := range t.columns {
				if col.kind.text() && row[c] == old {
					to, _ := pick(r, s.rows)
					s.head[i] = s.head[i][:g[2]] + to[c] + s.head[i][g[3]:]
					return to[c] != old
				}
			}
		}
		return false
	}},
	{"a claim on the wrong column", func(s *sheet, t *Table, r *rand.Rand) bool {
		at, of := stated(s, t)
		i, ok := pick(r, at)
		if !ok {
			return false
		}
		from := of[slices.Index(at, i)].args[0].firstCell().col
		to, _ := pick(r, measured(t))
		quote := strings.LastIndex(s.head[i], `"`)
		s.head[i] = s.head[i][:quote] + regexp.MustCompile(`\b`+t.columns[from].name+`\b`).ReplaceAllString(s.head[i][quote:], t.columns[to].name)
		return to != from
	}},
	{"a derived column on the wrong base", func(s *sheet, t *Table, r *rand.Rand) bool {
		i := r.IntN(len(s.head))
		m := regexp.MustCompile(`^column: .*= .*\[(native|CPU|Prod5|threads=1)\]`).FindStringSubmatch(s.head[i])
		if m == nil {
			return false
		}
		to := map[string]string{"native": "cvm", "CPU": "TEE CPU", "Prod5": "TDX-Lab", "threads=1": "threads=2"}[m[1]]
		s.head[i] = strings.ReplaceAll(s.head[i], "["+m[1]+"]", "["+to+"]")
		return true
	}},
}

// TestMutations damages clean tables in 200 seeded ways, and in 2,000 others so the share does not depend on one
// seed. It counts what is caught: a finding, or a file that is refused. A damaged table that is still consistent, or
// a claim that becomes undecidable, counts as missed.
func TestMutations(t *testing.T) {
	clean := append(corrected(t), generated()...)
	mutate(t, clean, 200, rand.New(rand.NewPCG(3, 14)))
	mutate(t, clean, 2000, rand.New(rand.NewPCG(27, 18)))
}

func mutate(t *testing.T, clean []sheet, total int, rng *rand.Rand) {
	caught, tried := map[string]int{}, map[string]int{}
	sum := 0
	texts, tables := make([]string, len(clean)), make([]*Table, len(clean))
	for i, s := range clean {
		texts[i] = s.String()
		var err error
		if tables[i], err = Parse([]byte(texts[i])); err != nil {
			t.Fatal(err)
		}
	}
	for i := range total {
		m := mutations[i%len(mutations)]
		for done := false; !done; {
			which := rng.IntN(len(clean))
			s, before := clean[which].clone(), texts[which]
			if !m.do(&s, tables[which], rng) || s.String() == before {
				continue
			}
			done = true
			tried[m.name]++
			bad, err := Parse([]byte(s.String()))
			if err == nil && len(bad.Check().Findings) == 0 {
				t.Logf("missed: %s in %s:\n%s", m.name, s.name, changed(before, s.String()))
				continue
			}
			caught[m.name]++
			sum++
		}
	}
	for _, m := range mutations {
		t.Logf("%-36s %3d of %3d", m.name, caught[m.name], tried[m.name])
	}
	t.Logf("%-36s %3d of %3d, of %d clean tables", "all", sum, total, len(clean))
	if sum*100 < total*95 {
		t.Errorf("%d of %d mutations are caught, want 95 %%", sum, total)
	}
}

// changed lists the lines that differ.
func changed(a, b string) string {
	old, now := strings.Split(a, "\n"), strings.Split(b, "\n")
	var out []string
	for i := range min(len(old), len(now)) {
		if old[i] != now[i] {
			out = append(out, "  "+old[i]+"  ->  "+now[i])
		}
	}
	return strings.Join(out[:min(len(out), 3)], "\n")
}
