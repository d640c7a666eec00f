package sources

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

// userProbe is a user's NAME.yaml for the object NAME.o: where its programs attach, and which
// metrics are in its maps. docs/probes.md explains it.
type userProbe struct {
	Name   string `yaml:"name"`
	Doc    string `yaml:"doc"`
	Object string `yaml:"object"`
	On     bool   `yaml:"on"`
	// Events names the counter whose sum is the number of runs of the programs.
	Events  string                  `yaml:"events"`
	Attach  map[string]userFunction `yaml:"attach"`
	Metrics []userMetric            `yaml:"metrics"`
}

type userFunction struct {
	Path   string `yaml:"path"`
	Symbol string `yaml:"symbol"`
}

type userMetric struct {
	Map    string      `yaml:"map"`
	Name   string      `yaml:"name"`
	Help   string      `yaml:"help"`
	Kind   string      `yaml:"kind"`
	Unit   string      `yaml:"unit"`
	Labels []userLabel `yaml:"labels"`
	Value  userNumber  `yaml:"value"`
	// Bounds are the upper bounds of a histogram's buckets; its counts, one more than bounds,
	// are adjacent from Value on. Sum is the place of the sum.
	Bounds []float64   `yaml:"bounds"`
	Sum    *userNumber `yaml:"sum"`
	// Series limits the number of series; further ones are counted as "other", or dropped if
	// Overflow is "drop".
	Series   int    `yaml:"series"`
	Overflow string `yaml:"overflow"`

	desc *metric.Desc
}

// userNumber is an unsigned number in a map's value.
type userNumber struct {
	Offset int     `yaml:"offset"`
	Size   int     `yaml:"size"`
	Scale  float64 `yaml:"scale"`
}

// userLabel is a label whose value is in a map's key.
type userLabel struct {
	Name   string `yaml:"name"`
	Offset int    `yaml:"offset"`
	Size   int    `yaml:"size"`
	Type   string `yaml:"type"`
	// Names are the words for the numbers 0, 1, 2 ...
	Names []string `yaml:"names"`
}

const (
	userPrefix      = "tee_user_"
	maxUserFile     = 64 << 10
	maxUserFiles    = 64
	maxUserMetrics  = 32
	defaultSeries   = 256
	maxSeries       = 4096
	maxUserBuckets  = 19 // and the last
	maxUserLabels   = 4  // as many as the engine's estimates can tell apart
	maxUserKeyBytes = 256
)

var (
	userName  = regexp.MustCompile(`^[a-z][a-z0-9_]{0,40}$`)
	userDesc  = regexp.MustCompile(`^tee_user_[a-z][a-z0-9_]{0,80}$`)
	userWords = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,40}$`)
)

// UserProbes returns a source for each NAME.yaml in a folder of the machine; one that cannot be
// used becomes an unavailable source with the reason. The error concerns the folder itself; a
// missing folder is not an error and means no probes.
func UserProbes(h *host.Host, folder string) ([]*probe.Source, error) {
	if !path.IsAbs(folder) { // the examined machine has no working directory
		return nil, fmt.Errorf("look for probes: folder %q: want an absolute path", folder)
	}
	files, err := h.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for probes: %w", err)
	}
	if err := safe(h, folder); err != nil {
		return nil, fmt.Errorf("look for probes: %w", err)
	}
	// Names in use: two origins must not share a series or a source.
	taken := map[string]string{}
	for _, s := range All {
		for _, d := range s.Metrics {
			taken[d.Name] = "source " + s.Name
		}
	}
	var out []*probe.Source
	bad, order := map[string]error{}, []string{}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".yaml")
		if !ok || len(out)+len(bad) == maxUserFiles {
			continue
		}
		file := path.Join(folder, f.Name())
		p, err := readUserProbe(h, file, name)
		if err == nil {
			err = p.claim(taken, file)
		}
		if err != nil {
			bad[name] = err
			order = append(order, name)
			continue
		}
		out = append(out, p.source(folder))
	}
	for _, name := range order {
		out = append(out, unusable(name, bad[name], out))
	}
	return out, nil
}

// safe refuses a file that anyone may write, because its author's code is loaded into the
// kernel.
func safe(h *host.Host, file string) error {
	fi, err := h.Stat(file)
	if err != nil {
		return err
	}
	if fi.Mode().Perm()&0o002 != 0 {
		return &probe.Problem{Err: fmt.Errorf("anyone can write to %s, and its content is loaded into the kernel", file),
			Remedy: "chmod o-w " + file}
	}
	return nil
}

func readUserProbe(h *host.Host, file, name string) (*userProbe, error) {
	fi, err := h.Stat(file)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxUserFile {
		return nil, fmt.Errorf("%s: want a file of at most %d bytes", file, maxUserFile)
	}
	if err := safe(h, file); err != nil {
		return nil, err
	}
	b, err := h.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p, err := parseUserProbe(b, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// unusable returns the source of a file that cannot be used. Its name is derived from the
// file's, which may have any bytes.
func unusable(file string, err error, others []*probe.Source) *probe.Source {
	name := []byte("user_")
	for _, c := range []byte(file) {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c < '0' || c > '9' && c < 'a' || c > 'z' {
			c = '_'
		}
		if name = append(name, c); len(name) == 45 {
			break
		}
	}
	for slices.ContainsFunc(others, func(s *probe.Source) bool { return s.Name == string(name) }) {
		name = append(name, '_')
	}
	return &probe.Source{Name: string(name), Doc: "a probe that cannot be used",
		Open: func(*host.Host, []tee.Facts) (probe.Reader, error) { return nil, err }}
}

// userError names the wrong key and its line.
type userError struct {
	line      int
	key, text string
}

func (e *userError) Error() string {
	if e.line == 0 {
		return e.key + ": " + e.text
	}
	return fmt.Sprintf("line %d: %s: %s", e.line, e.key, e.text)
}

// goType matches the names that the YAML library has for types of this file.
var goType = regexp.MustCompile(` in type sources\.\w+| into sources\.\w+`)

// parseUserProbe reads and checks a file. name is its own, without the ending.
func parseUserProbe(b []byte, name string) (*userProbe, error) {
	p := &userProbe{Name: name, Object: name + ".o"}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(p); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the file is empty")
		}
		text := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n  ", "")
		text = goType.ReplaceAllString(text, "")
		return nil, errors.New(strings.Join(strings.Fields(metric.Label(text)), " "))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file holds more than one document")
	}
	var root yaml.Node
	if err := yaml.Unmarshal(b, &root); err != nil {
		return nil, err
	}
	if err := p.check(func(text string, key ...any) error { return at(&root, text, key) }); err != nil {
		return nil, err
	}
	return p, nil
}

// at returns the error of a key with its line, found by names of keys and indices of lists. If
// the key is missing, the line is that of its parent.
func at(root *yaml.Node, text string, path []any) error {
	e := &userError{text: text}
	n := root
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	for i, step := range path {
		switch step := step.(type) {
		case string:
			if i > 0 {
				e.key += "."
			}
			e.key += step
			var next *yaml.Node
			for k := 0; n != nil && n.Kind == yaml.MappingNode && k+1 < len(n.Content); k += 2 {
				if n.Content[k].Value == step {
					e.line, next = n.Content[k].Line, n.Content[k+1]
				}
			}
			n = next
		case int:
			e.key += fmt.Sprintf("[%d]", step)
			if n != nil && n.Kind == yaml.SequenceNode && step < len(n.Content) {
				n = n.Content[step]
				e.line = n.Line
			} else {
				n = nil
			}
		}
	}
	return e
}

// check checks everything that does not need the object.
func (p *userProbe) check(bad func(text string, key ...any) error) error {
	switch {
	case !userName.MatchString(p.Name):
		return bad(fmt.Sprintf("%q is not a name of lower-case letters, digits and _", p.Name), "name")
	case p.Doc == "":
		return bad("say in a sentence what the probe counts", "doc")
	case path.Base(p.Object) != p.Object || p.Object == "." || p.Object == "..":
		return bad(fmt.Sprintf("%q is not the name of a file in the same folder", p.Object), "object")
	case len(p.Metrics) == 0 || len(p.Metrics) > maxUserMetrics:
		return bad(fmt.Sprintf("want 1 to %d metrics", maxUserMetrics), "metrics")
	}
	for program, f := range p.Attach {
		if f.Path == "" || f.Path[0] != '/' || f.Symbol == "" {
			return bad("want path, from /, and symbol", "attach", program)
		}
	}
	seen := map[string]bool{}
	for i := range p.Metrics {
		m := &p.Metrics[i]
		if err := m.check(func(text string, key ...any) error { return bad(text, append([]any{"metrics", i}, key...)...) }); err != nil {
			return err
		}
		if seen[m.Name] {
			return bad("declared twice", "metrics", i, "name")
		}
		seen[m.Name] = true
	}
	if p.Events != "" && !slices.ContainsFunc(p.Metrics, func(m userMetric) bool { return m.Name == p.Events && m.Kind == "counter" }) {
		return bad(fmt.Sprintf("%q is none of the counters", p.Events), "events")
	}
	return nil
}

func (m *userMetric) check(bad func(text string, key ...any) error) error {
	kinds := map[string]metric.Kind{"counter": metric.Counter, "gauge": metric.Gauge, "histogram": metric.Histogram}
	kind, ok := kinds[m.Kind]
	switch {
	case m.Map == "":
		return bad("say which map has the values", "map")
	case !userDesc.MatchString(m.Name):
		return bad(fmt.Sprintf("%q must be %s and lower-case letters, digits and _", m.Name, userPrefix), "name")
	case !ok:
		return bad(fmt.Sprintf("%q is not counter, gauge or histogram", m.Kind), "kind")
	case m.Help == "":
		return bad("say in a sentence what it is", "help")
	case m.Unit != "" && !strings.HasSuffix(strings.TrimSuffix(m.Name, "_total"), "_"+m.Unit):
		return bad(fmt.Sprintf("the name of a metric in %s ends in _%s, before _total", m.Unit, m.Unit), "unit")
	case m.Overflow != "" && m.Overflow != "other" && m.Overflow != "drop":
		return bad(fmt.Sprintf("%q is not other or drop", m.Overflow), "overflow")
	case m.Series < 0 || m.Series > maxSeries:
		return bad(fmt.Sprintf("want 1 to %d", maxSeries), "series")
	case len(m.Labels) > maxUserLabels:
		return bad(fmt.Sprintf("want at most %d", maxUserLabels), "labels")
	case kind != metric.Histogram && (m.Bounds != nil || m.Sum != nil):
		return bad("only a histogram has bounds and sum", "bounds")
	case kind == metric.Histogram && (m.Sum == nil || len(m.Bounds) == 0 || len(m.Bounds) > maxUserBuckets):
		return bad(fmt.Sprintf("a histogram has 1 to %d bounds, and a sum", maxUserBuckets), "bounds")
	}
	for i, b := range m.Bounds {
		if !(b > -1e300 && b < 1e300) || i > 0 && b <= m.Bounds[i-1] {
			return bad("want numbers that rise", "bounds")
		}
	}
	if m.Series == 0 {
		m.Series = defaultSeries
	}
	for _, v := range []struct {
		key string
		n   *userNumber
	}{{"value", &m.Value}, {"sum", m.Sum}} {
		if v.n == nil {
			continue
		}
		if text := v.n.check(); text != "" {
			return bad(text, v.key)
		}
	}
	labels := make([]string, len(m.Labels))
	for i := range m.Labels {
		if text := m.Labels[i].check(); text != "" {
			return bad(text, "labels", i)
		}
		labels[i] = m.Labels[i].Name
	}
	help := m.Help
	if !strings.HasSuffix(help, ".") {
		help += "."
	}
	m.desc = &metric.Desc{Name: m.Name, Help: metric.Label(help), Kind: kind, Labels: labels}
	if err := m.desc.Check(); err != nil {
		return bad(err.Error(), "name")
	}
	return nil
}

func (n *userNumber) check() string {
	if n.Size == 0 {
		n.Size = 8
	}
	if n.Scale == 0 {
		n.Scale = 1
	}
	switch {
	case n.Size != 1 && n.Size != 2 && n.Size != 4 && n.Size != 8:
		return "want a size of 1, 2, 4 or 8 bytes"
	case n.Offset < 0 || n.Offset > 1<<20:
		return "the offset is outside of the value"
	case !(n.Scale > 0 && n.Scale < 1e300):
		return "want a scale above 0"
	}
	return ""
}

// labelSizes are the sizes in bytes of a label's types; 0 means any, with comm's size as the
// default for strings.
var labelSizes = map[string]int{"u8": 1, "u16": 2, "u32": 4, "u64": 8, "ipv4": 4, "syscall": 4, "comm": 16, "string": 0, "hex": 0}

func (l *userLabel) check() string {
	size, ok := labelSizes[l.Type]
	switch {
	case !userWords.MatchString(l.Name):
		return fmt.Sprintf("name %q: want lower-case letters, digits and _", l.Name)
	case !ok:
		return fmt.Sprintf("type %q is not u8, u16, u32, u64, string, comm, syscall, ipv4 or hex", l.Type)
	case l.Size == 0 && size == 0:
		return "a " + l.Type + " needs a size"
	case l.Size != 0 && l.Size != size && size != 0 && (l.Type != "syscall" || l.Size != 8):
		return fmt.Sprintf("a %s has %d bytes", l.Type, size)
	case l.Offset < 0 || l.Size < 0 || l.Size > maxUserKeyBytes || l.Offset > 1<<20:
		return "offset and size are outside of the key"
	case len(l.Names) > 0 && !strings.HasPrefix(l.Type, "u"):
		return "only a number has names"
	}
	if l.Size == 0 {
		l.Size = size
	}
	return ""
}

// claim reserves the names of the probe's metrics, and those of their series.
func (p *userProbe) claim(taken map[string]string, file string) error {
	names := []string{"the name " + p.Name} // the source's name, which is not a metric's
	for _, m := range p.Metrics {
		names = append(names, m.Name)
		if m.desc.Kind == metric.Histogram {
			names = append(names, m.Name+"_bucket", m.Name+"_sum", m.Name+"_count")
		}
	}
	for _, n := range names {
		if owner, ok := taken[n]; ok {
			return fmt.Errorf("%s: name: %s is taken by %s", file, n, owner)
		}
	}
	for _, n := range names {
		taken[n] = file
	}
	return nil
}

// source returns the source of a probe; the object is read when the source is opened.
func (p *userProbe) source(folder string) *probe.Source {
	s := &probe.Source{
		Name:  "user_" + p.Name,
		Doc:   metric.Label(p.Doc),
		OptIn: !p.On,
		Needs: []probe.Need{
			{Capability: "cap_bpf", For: "to load the programs"},
			{Capability: "cap_perfmon", For: "to attach the programs"},
		},
		Kernels: "Linux 5.15 with BTF, and what the probe attaches to.",
		Cost:    "The probe's own; see docs/probes.md. The budget limits it only where the probe names its events.",
		Blind:   "What its author left out.",
		Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
			if !h.IsLocal() {
				return nil, probe.NotHere("user-written probes on a recorded machine")
			}
			return p.open(h, path.Join(folder, p.Object))
		},
	}
	for _, m := range p.Metrics {
		s.Metrics = append(s.Metrics, m.desc)
	}
	return s
}

// open loads the object and checks that it has what the metrics need.
func (p *userProbe) open(h *host.Host, file string) (probe.Reader, error) {
	if err := safe(h, file); err != nil {
		return nil, err
	}
	b, err := h.ReadFile(file)
	if err != nil {
		return nil, err
	}
	o, err := bpf.ReadUserObject(file, b)
	if err != nil {
		return nil, err
	}
	for _, m := range p.Metrics {
		size, err := o.Layout(m.Map)
		if err == nil {
			err = m.fits(size)
		}
		if err != nil {
			return nil, &probe.Problem{Err: fmt.Errorf("metric %s: %w", m.Name, err), Remedy: "correct the probe's YAML file"}
		}
	}
	where := map[string]bpf.Function{}
	programs := o.Programs()
	for name, f := range p.Attach {
		if _, ok := programs[name]; !ok {
			return nil, &probe.Problem{Err: fmt.Errorf("attach: %s has no program %q", file, name), Remedy: "correct the probe's YAML file"}
		}
		where[name] = bpf.Function{Path: f.Path, Symbol: f.Symbol}
	}
	for name, needs := range programs {
		if _, ok := where[name]; needs && !ok {
			return nil, &probe.Problem{Err: fmt.Errorf("program %s of %s is a uprobe of no function", name, file), Remedy: "name path and symbol below attach in the probe's YAML file"}
		}
	}
	return p.load(h, o, where)
}

// fits checks offsets against the sizes of the map.
func (m *userMetric) fits(size bpf.Layout) error {
	for _, l := range m.Labels {
		if l.Offset+l.Size > size.Key {
			return fmt.Errorf("label %s ends at byte %d, but a key of map %s has %d", l.Name, l.Offset+l.Size, m.Map, size.Key)
		}
	}
	numbers := []userNumber{m.Value, {Offset: m.Value.Offset, Size: m.Value.Size * (len(m.Bounds) + 1)}}
	if m.Sum != nil {
		numbers = append(numbers, *m.Sum)
	}
	for _, n := range numbers {
		if n.Offset+n.Size > size.Value {
			return fmt.Errorf("a number ends at byte %d, but a value of map %s has %d", n.Offset+n.Size, m.Map, size.Value)
		}
	}
	return nil
}
