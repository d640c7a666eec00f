package web

import (
	"time"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/anomaly"
	"github.com/teescope/teescope/internal/fleet"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
)

// This file is the JSON of /api/teescope/v1. The page's TypeScript types are generated
// from these structs.

// Platform is the answer of GET platform?job=JOB&instance=INSTANCE: what a machine is; without parameters, the server's
// own one.
type Platform struct {
	// The labels of the machine's series; absent without a store.
	query.Machine
	// Elsewhere: it is another machine, of which only stored series are known. What they do not have is absent or 0,
	// and Lacks says what that is.
	Elsewhere bool     `json:"elsewhere,omitempty"`
	Lacks     []string `json:"lacks,omitempty"`
	// Gone: another machine has no reading now. LastSeen is the time of its last one.
	Gone        bool      `json:"gone,omitempty"`
	LastSeen    time.Time `json:"lastSeen,omitzero"`
	Hostname    string    `json:"hostname"`
	Kernel      string    `json:"kernel"`
	Arch        string    `json:"arch"`
	OS          string    `json:"os"`
	CPUModel    string    `json:"cpuModel"`
	CPUs        int       `json:"cpus"`
	MemoryBytes uint64    `json:"memoryBytes"`
	Lockdown    string    `json:"lockdown,omitempty"`
	Privileged  bool      `json:"privileged"`
	Version     string    `json:"version"`
	Started     time.Time `json:"started,omitzero"`
	// Interval is the time between two readings in seconds; absent without a store.
	Interval float64 `json:"interval,omitempty"`
	// Data is the folder of the store and of benchmark results; absent without a store.
	Data string `json:"data,omitempty"`
	TEEs []TEE  `json:"tees"`
}

// TEE is the answer of one detector.
type TEE struct {
	Kind  string `json:"kind"`
	Doc   string `json:"doc"`
	State string `json:"state"` // "here", "not here", "could not tell"
	// Facts is set when State is "here", Reason otherwise.
	Facts  *tee.Facts `json:"facts,omitempty"`
	Reason string     `json:"reason,omitempty"`
}

// Source is one element of GET sources.
type Source struct {
	Name   string `json:"name"`
	Doc    string `json:"doc"`
	State  string `json:"state"` // "opening", "available", "degraded", "unavailable", "not here", "off"
	Reason string `json:"reason,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	Blind  bool   `json:"blind,omitempty"`
	// Process, PIDs, Cgroup and Container are the filters in force.
	Process   string `json:"process,omitempty"`
	PIDs      []int  `json:"pids,omitempty"`
	Cgroup    string `json:"cgroup,omitempty"`
	Container string `json:"container,omitempty"`
	// Levels are the levels of detail, the cheapest first. Level is the one in force,
	// Wanted the one that was set: they differ where the budget does not allow it.
	Levels []SourceLevel `json:"levels,omitempty"`
	Level  string        `json:"level,omitempty"`
	Wanted string        `json:"wanted,omitempty"`
	// Sample is the largest share of the time in which the source may count; 0 where it
	// cannot be sampled.
	Sample float64 `json:"sample,omitempty"`
	// Files are the patterns of the files that it reads, for a source whose files the configuration names. Configure says how.
	Files     []string       `json:"files,omitempty"`
	Configure *Configuration `json:"configure,omitempty"`
	// Error is the relative standard error of the scaled number of events. RestError is that of the events
	// whose number the kernel does not give; absent where it gives none.
	Error     *float64 `json:"error,omitempty"`
	RestError *float64 `json:"restError,omitempty"`
	OptIn     bool     `json:"optIn,omitempty"` // off until it is switched on
	// Waits is the condition, such as "an enclave runs", under which it switches itself on
	// and off. Auto: it does so now, because no setting says on or off. Seen names the process
	// that meets the condition, until shortly after its end.
	Waits string `json:"waits,omitempty"`
	Auto  bool   `json:"auto,omitempty"`
	Seen  string `json:"seen,omitempty"`
	// Narrows: it can be narrowed to PIDs, control groups and containers.
	Narrows bool `json:"narrows,omitempty"`
	// Kernels, Cost and CannotSee are sentences: where it works, what it costs, and what
	// it does not see.
	Kernels   string `json:"kernels,omitempty"`
	Cost      string `json:"cost,omitempty"`
	CannotSee string `json:"cannotSee,omitempty"`
	// Needs are the capabilities it needs.
	Needs []SourceNeed `json:"needs,omitempty"`
	// Coverage is the share of all events that were counted; absent where unknown.
	// Missed and Folded are absent where nothing is read.
	Coverage *float64 `json:"coverage,omitempty"`
	// Estimated: it counts a part of its events, and its counters are scaled. Short: it counts less than its setting asks
	// for, to stay within the budget.
	Estimated bool     `json:"estimated,omitempty"`
	Short     bool     `json:"short,omitempty"`
	Missed    *float64 `json:"missed,omitempty"`
	Folded    *float64 `json:"folded,omitempty"`
	Series    int      `json:"series"`
	Metrics   []string `json:"metrics"`
}

// Configuration is a setting that no request changes: What it is, how it is set, and the lines of the configuration that do so.
type Configuration struct {
	What   string `json:"what"`
	Advice string `json:"advice"`
	Lines  string `json:"lines"`
}

// SourceLevel is a level of detail.
type SourceLevel struct {
	Name string `json:"name"`
	Doc  string `json:"doc"`
}

// SourceNeed is a capability and what the source needs it for.
type SourceNeed struct {
	Capability string `json:"capability"`
	For        string `json:"for"`
	Optional   bool   `json:"optional,omitempty"`
}

// Findings is the answer of GET findings. With job= and instance= it has the findings of that machine, and its answers
// of the rules.
type Findings struct {
	Findings []findings.Record   `json:"findings"` // open ones first, then the newest closed ones
	Rules    []findings.RuleStat `json:"rules"`
	At       time.Time           `json:"at"`
	// Problems are the open findings in groups, the worst first, and Summary says them in sentences. Parameters other
	// than job and instance do not narrow them.
	Problems []findings.Problem `json:"problems"`
	Summary  findings.Summary   `json:"summary"`
}

// WithSummary returns the findings with their problems and their summary, on a machine that is observed since a time; the zero
// time is not known.
func (f Findings) WithSummary(started time.Time) Findings {
	f.Problems, f.Summary = findings.Problems(f.Findings), findings.Summarize(f.Findings, f.Rules, f.At, started)
	return f
}

// Causes is the answer of GET causes: the open findings of all machines, grouped by their rule.
type Causes struct {
	Causes []fleet.Cause `json:"causes"`
}

// Explanation is the answer of GET explain?process=NAME&from=TIME&to=TIME, with
// job= and instance= where several machines are stored and per=request where the process
// has a counter of requests.
type Explanation struct {
	Tree explain.Tree `json:"tree"`
	// Summary says in sentences what the tree shows.
	Summary explain.Summary `json:"summary"`
	// Causes are the rows of the tree that are something to act on, the largest first.
	Causes []explain.FoundCause `json:"causes"`
	// Findings are those about the process that were open in the window.
	Findings []findings.Record `json:"findings"`
	// Silent says of each cause without a finding why its rule has none.
	Silent []SilentRule `json:"silent,omitempty"`
}

// SilentRule is a rule without a finding about a cause that an explanation shows.
type SilentRule struct {
	Rule string `json:"rule"`
	Text string `json:"text"` // a sentence with the numbers
}

// ResultExplanation is the answer of GET results/{id}/explanation and comparisons/explanation:
// a tree for each comparison of the primary metric.
type ResultExplanation struct {
	Trees []explain.Tree `json:"trees"`
}

// Distributions is the answer of GET distributions?query=PROMQL&from=TIME&to=TIME&windows=N:
// one box for each series and window.
type Distributions struct {
	Boxes []anomaly.Box `json:"boxes"`
}

// Queries is the body of POST queries: what a page draws, in one call.
type Queries struct {
	Queries []Query `json:"queries"`
}

// Query asks for a PromQL expression at every step from From to To, in Unix seconds, or
// only at To if Step is 0.
type Query struct {
	Query string  `json:"query"`
	From  float64 `json:"from,omitempty"`
	To    float64 `json:"to"`
	Step  float64 `json:"step,omitempty"`
	// Since is the first step whose values are wanted, where the earlier ones are known.
	Since float64 `json:"since,omitempty"`
	// Top keeps the lines with the largest sums over the whole window and adds up the
	// others; 0 keeps all.
	Top int `json:"top,omitempty"`
	// Known is the Set of the answer that the values before Since are from.
	Known string `json:"known,omitempty"`
}

// Answer is a line of the answer of POST queries; Index is the query's place in the call.
type Answer struct {
	Index int `json:"index"`
	// Since is the time of the first value of each line.
	Since float64 `json:"since"`
	Lines []Line  `json:"lines"`
	// Rest is the sum of the Folded lines that are not among the top; absent without any.
	Rest   *Line `json:"rest,omitempty"`
	Folded int   `json:"folded,omitempty"`
	// Set names the lines at the top. Where it is not what the query knows, Since is From.
	Set string `json:"set,omitempty"`
	// Warnings say what was not counted in the window.
	Warnings []string `json:"warnings,omitempty"`
	// Error says why there is no answer.
	Error string `json:"error,omitempty"`
}

// Line is a series: a value for each step, or one value, which may be "NaN" or "+Inf".
type Line struct {
	Labels map[string]string `json:"labels,omitempty"`
	Values Values            `json:"values,omitempty"`
	Value  string            `json:"value,omitempty"`
}

// Values are those of the steps; null is a gap.
type Values []float64

// Silences is the answer of GET, POST and DELETE silences.
type Silences struct {
	Silences []findings.Silence `json:"silences"`
}

// Annotation is an element of GET annotations?from=TIME&to=TIME, with the fields of
// Grafana's annotations; times are in milliseconds since 1970.
type Annotation struct {
	ID      string   `json:"id"`
	Time    int64    `json:"time"`
	TimeEnd int64    `json:"timeEnd,omitempty"`
	Title   string   `json:"title"`
	Text    string   `json:"text"`
	Tags    []string `json:"tags"`
}

// Dashboards is the answer of GET dashboards and the body of PUT dashboards: those made
// on the page, as stored in the data folder.
type Dashboards struct {
	Dashboards []Dashboard `json:"dashboards"`
	// Locked are those of the configuration file; the page cannot change them.
	Locked []Dashboard `json:"locked,omitempty"`
}

// Dashboard is a page of panels.
type Dashboard struct {
	Name   string  `json:"name"`
	Panels []Panel `json:"panels"`
}

// Panel shows one query.
type Panel struct {
	Title string `json:"title"`
	Query string `json:"query"`
	// Unit is one of "1/s", "ratio", "cores", "bytes", "bytes/s", "seconds", or "".
	Unit string    `json:"unit"`
	Kind PanelKind `json:"kind"`
}

// PanelKind is how a panel draws.
type PanelKind string

// The kinds, those of TEEMon's page and the box plots of its offline analysis.
const (
	Graph     PanelKind = "graph"
	Area      PanelKind = "area" // a graph filled with a gradient
	Histogram PanelKind = "histogram"
	Gauge     PanelKind = "gauge"
	Value     PanelKind = "value"
	Table     PanelKind = "table"
	HeatMap   PanelKind = "heatmap"
	BoxPlot   PanelKind = "boxplot"
)

// View is a part of the page, by its name in the page's address: "/?page=findings", or "/findings", which leads there.
type View string

// The views. The page's own list is made of these.
const (
	NowView        View = "now"
	ProcessesView  View = "processes"
	TEEView        View = "tee"
	MachineView    View = "machine"
	BenchmarksView View = "benchmarks"
	ExploreView    View = "explore"
	FindingsView   View = "findings"
	SettingsView   View = "settings"
	FleetView      View = "fleet"
)

var views = []View{NowView, ProcessesView, TEEView, MachineView, BenchmarksView, ExploreView, FindingsView, SettingsView, FleetView}

// Process is an element of GET processes?name=NAME: a process that runs now.
type Process struct {
	PID int `json:"pid"`
	// Command is the program as it was called, or what a runtime runs: "redis-server in
	// Gramine", "java org.example.Main", "python3 app.py". Its arguments are left out: they
	// may hold secrets. "" for a thread of the kernel.
	Command string `json:"command,omitempty"`
	// Container is the id or name of its container, Cgroup its control group.
	Container string `json:"container,omitempty"`
	Cgroup    string `json:"cgroup,omitempty"`
	// Files are files that it has open by a path, with others of its name at most 64, of the first 16 processes. They are
	// absent for clients that may not change settings.
	Files []OpenFile `json:"files,omitempty"`
}

// OpenFile is a file that a process has open, with the labels of tee_sampled_file_wait_seconds_total.
type OpenFile struct {
	Device string `json:"device"` // "8:1"
	Inode  string `json:"inode"`
	Path   string `json:"path"`
}

// Overhead is the answer of GET overhead: what the monitor itself costs.
type Overhead struct {
	// CPU maps a part (body, dispatch, userspace, page, commands) to its share of one core in the
	// last minute; an unknown part is absent.
	CPU map[string]float64 `json:"cpu"`
	// Used is what counts against the budget, in cores: all parts but page. It is the mean of the last minute, as in the
	// finding over_budget; absent while no part is known.
	Used *float64 `json:"used,omitempty"`
	// Missing explains the absent parts, and the absent "memory" and "series".
	Missing  map[string]string `json:"missing,omitempty"`
	RSSBytes float64           `json:"rssBytes,omitempty"`
	Series   int               `json:"series,omitempty"`
	// Budget is the share of each core that the monitor may use.
	Budget float64 `json:"budget"`
	// Slowed is how many times less often than set walks over threads and patient rules run, to stay within the budget;
	// absent where they run as set.
	Slowed float64 `json:"slowed,omitempty"`
	// StoreError says why the store has lost or may lose samples, "" if it has not.
	StoreError string `json:"storeError,omitempty"`
}

// Results is the answer of GET results: all finished benchmark results, newest first.
type Results struct {
	Results []ResultSummary `json:"results"`
	// Problems are the files that could not be read, each with the reason.
	Problems []string `json:"problems,omitempty"`
}

// ResultSummary is one result in a list. GET results/{id} returns the whole document,
// as `teescope schema result` describes it.
type ResultSummary struct {
	ID           string       `json:"id"`
	Name         string       `json:"name"`
	Workload     string       `json:"workload"`
	Started      time.Time    `json:"started"`
	Ended        time.Time    `json:"ended,omitzero"`
	Commit       string       `json:"commit,omitempty"`
	Grade        result.Grade `json:"grade"`
	Pairs        int          `json:"pairs"`
	Runs         int          `json:"runs"`
	Calibration  bool         `json:"calibration,omitempty"`
	Environments []string     `json:"environments"`
	Cases        []string     `json:"cases"`
	// Comparisons are those of the primary metric; empty for a single environment.
	Comparisons []result.Comparison `json:"comparisons"`
	// Origin is what is proved of where it was made.
	Origin Origin `json:"origin"`
}

// Origin is the answer of GET results/{id}/origin and comparisons/origin: what is proved
// of where results were made, without a policy.
type Origin struct {
	// Word is "unattested", "signed with a local key", "attested: " and by what, "simulated",
	// "unproved", "refused" or "unknown"; several results have several.
	Word string `json:"word"`
	// Line says what is proved and what is not.
	Line string `json:"line"`
}

// Drawings is the answer of GET results/{id}/drawings and comparisons/drawings: the
// plots of a result as reports have them, in the colours that the page declares.
type Drawings struct {
	Drawings []report.Drawing `json:"drawings"`
}

// Tables is the answer of GET results/{id}/tables and comparisons/tables: the tables of a
// result that are computed from its runs, as reports have them.
type Tables struct {
	Tables []report.SectionTable `json:"tables"`
}

// Authority is the answer of GET authority: whether this client may change sources, silences and dashboards.
type Authority struct {
	May bool `json:"may"`
	// Who it is, as in audit lines and silences; absent where it may not.
	Who string `json:"who,omitempty"`
	// Until is when a browser's right ends; absent for others.
	Until time.Time `json:"until,omitzero"`
	// Locked says why it may not, and what to type.
	Locked string `json:"locked,omitempty"`
}

// Link is the answer of POST links, which only the Unix socket takes: a link that once gives a browser the right to change settings.
type Link struct {
	// URL is the monitor's page, Path what follows it.
	URL  string `json:"url"`
	Path string `json:"path"`
	// Seconds is how long the link can be opened, Session how long the right lasts.
	Seconds float64 `json:"seconds"`
	Session float64 `json:"session"`
}

// Error is the body of every failed request.
type Error struct {
	Error string `json:"error"`
}
