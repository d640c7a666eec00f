// Generated from internal/web/types.go by `go generate ./internal/web`. Do not edit.

/** Machine names a machine by the labels that all its series have. */
export interface QueryMachine {
  job?: string;
  instance?: string;
}

/** Role says from which side the TEE is seen. */
export type TeeRole = "host" | "guest" | "device";

/** Evidence is one thing that was read: where, and what it said. */
export interface TeeEvidence {
  source: string;
  value: string;
}

/** Facts are what Detect found out about one TEE. */
export interface TeeFacts {
  /** Kind is the Kind's Name ("sgx", "tdx", "sev"), filled in by the package's Detect. */
  kind: string;
  /** Variant distinguishes members of a family ("in-tree", "isgx", "sev-es", "sev-snp"). */
  variant?: string;
  role: TeeRole;
  /** Active: usable now. A capable CPU with the driver absent is not active. */
  active: boolean;
  /** Debug: the TEE runs with its protection opened for debugging. */
  debug?: boolean;
  /** Why explains an inactive TEE and what would activate it. */
  why?: string;
  evidence: TeeEvidence[] | null;
}

/** TEE is the answer of one detector. */
export interface TEE {
  kind: string;
  doc: string;
  /** "here", "not here", "could not tell" */
  state: string;
  /** Facts is set when State is "here", Reason otherwise. */
  facts?: TeeFacts;
  reason?: string;
}

/** Platform is the answer of GET platform?job=JOB&instance=INSTANCE: what a machine is; without parameters, the server's own one. */
export interface Platform extends QueryMachine {
  /** Elsewhere: it is another machine, of which only stored series are known. What they do not have is absent or 0, and Lacks says what that is. */
  elsewhere?: boolean;
  lacks?: string[];
  /** Gone: another machine has no reading now. LastSeen is the time of its last one. */
  gone?: boolean;
  lastSeen?: string;
  hostname: string;
  kernel: string;
  arch: string;
  os: string;
  cpuModel: string;
  cpus: number;
  memoryBytes: number;
  lockdown?: string;
  privileged: boolean;
  version: string;
  started?: string;
  /** Interval is the time between two readings in seconds; absent without a store. */
  interval?: number;
  /** Data is the folder of the store and of benchmark results; absent without a store. */
  data?: string;
  tees: TEE[] | null;
}

/** SourceLevel is a level of detail. */
export interface SourceLevel {
  name: string;
  doc: string;
}

/** Configuration is a setting that no request changes: What it is, how it is set, and the lines of the configuration that do so. */
export interface Configuration {
  what: string;
  advice: string;
  lines: string;
}

/** SourceNeed is a capability and what the source needs it for. */
export interface SourceNeed {
  capability: string;
  for: string;
  optional?: boolean;
}

/** Source is one element of GET sources. */
export interface Source {
  name: string;
  doc: string;
  /** "opening", "available", "degraded", "unavailable", "not here", "off" */
  state: string;
  reason?: string;
  remedy?: string;
  blind?: boolean;
  /** Process, PIDs, Cgroup and Container are the filters in force. */
  process?: string;
  pids?: number[];
  cgroup?: string;
  container?: string;
  /** Levels are the levels of detail, the cheapest first. Level is the one in force, Wanted the one that was set: they differ where the budget does not allow it. */
  levels?: SourceLevel[];
  level?: string;
  wanted?: string;
  /** Sample is the largest share of the time in which the source may count; 0 where it cannot be sampled. */
  sample?: number;
  /** Files are the patterns of the files that it reads, for a source whose files the configuration names. Configure says how. */
  files?: string[];
  configure?: Configuration;
  /** Error is the relative standard error of the scaled number of events. RestError is that of the events whose number the kernel does not give; absent where it gives none. */
  error?: number;
  restError?: number;
  /** off until it is switched on */
  optIn?: boolean;
  /** Waits is the condition, such as "an enclave runs", under which it switches itself on and off. Auto: it does so now, because no setting says on or off. Seen names the process that meets the condition, until shortly after its end. */
  waits?: string;
  auto?: boolean;
  seen?: string;
  /** Narrows: it can be narrowed to PIDs, control groups and containers. */
  narrows?: boolean;
  /** Kernels, Cost and CannotSee are sentences: where it works, what it costs, and what it does not see. */
  kernels?: string;
  cost?: string;
  cannotSee?: string;
  /** Needs are the capabilities it needs. */
  needs?: SourceNeed[];
  /** Coverage is the share of all events that were counted; absent where unknown. Missed and Folded are absent where nothing is read. */
  coverage?: number;
  /** Estimated: it counts a part of its events, and its counters are scaled. Short: it counts less than its setting asks for, to stay within the budget. */
  estimated?: boolean;
  short?: boolean;
  missed?: number;
  folded?: number;
  series: number;
  metrics: string[] | null;
}

/** Severity orders findings. */
export type FindingsSeverity = "info" | "warning" | "critical";

/** Confidence says how sure a finding is. */
export type FindingsConfidence = "high" | "medium" | "low";

/** Evidence is one number behind a finding, with the query that gives it. */
export interface QueryEvidence {
  text: string;
  value: number;
  /** Unit is a unit for printing: "1/s", "ratio", "cores", "bytes", "bytes/s", "seconds", or "" for a plain number. */
  unit: string;
  expr: string;
  /** Low and High bound, with 95 % probability, a rate that a source estimates from part of the events; nil for others. */
  low?: number;
  high?: number;
  /** Printed is the value, with its interval, as the terminal and a notification print it. Only JSON has it. */
  number: string;
}

/** Part is one process's part in a shortage: what it takes, or how many of its threads wait. */
export interface RivalsPart {
  name: string;
  value: number;
  /** Unit is one of Evidence's. */
  unit?: string;
  /** AtMost: the process may have taken it elsewhere. */
  atMost?: boolean;
}

/** Role is the part of a finding in a problem. */
export type FindingsRole = "cause" | "effect" | "monitor";

/** Finding is a cause seen on a subject. */
export interface FindingsFinding extends QueryMachine {
  rule: string;
  /** Subject is what shows it: a process name, a container, "machine" for all of it. With Rule, Machine and Unit it identifies the finding. */
  subject: string;
  /** Unit is the unit or container of the subject's processes that show it, where those in others do not count; "" where all processes of the subject count. */
  unit?: string;
  /** RunsIn are the units and containers in which the processes of the subject run now; with several, their processes are added up. It is empty where that is not known and for information, and no part of the finding's identity. */
  runsIn?: string[];
  /** Title is the verdict in one sentence: subject, verb, number, unit, cause. */
  title: string;
  severity: FindingsSeverity;
  /** High when a rule leaves it out */
  confidence: FindingsConfidence;
  evidence: QueryEvidence[] | null;
  /** Share is the interval of the cause's share in ShareOf, as ratios; nil where unknown. */
  share?: [number, number];
  /** ShareOf is the whole of Share in words: "its active time" of a process, "the CPU time in use" of a machine. */
  shareOf?: string;
  /** Life is the query that has a value while the subject exists; "" for one that does not end. */
  life?: string;
  /** Takers use what is short, and Waiters lack it, the most important first; both are empty where unknown. */
  takers?: RivalsPart[];
  waiters?: RivalsPart[];
  /** Cost is a sentence with the number that the cause costs; "" where unknown. */
  cost?: string;
  remedy: string;
  reference: string;
  /** Topic and Role are those of its rule, or Topic is one that the rule chose for it. */
  topic?: string;
  role?: FindingsRole;
}

/** State of a finding over time. */
export type FindingsState = "open" | "closed";

/** Record is a finding with its history, as the API serves it. */
export interface FindingsRecord extends FindingsFinding {
  /** ID is stable: the same rule, machine, subject and unit opened at the same time. */
  id: string;
  state: FindingsState;
  since: string;
  /** LastSeen is the last evaluation in which the rule held; Until is set once closed. */
  lastSeen: string;
  until?: string;
  /** Ended is the time of the first reading that no longer had the subject; absent while it exists, and where that is not known. */
  ended?: string;
  /** Early: its rule holds since a short time, and its windows are not met yet. Since is then the begin of that time, and the finding is sent to nobody. */
  early?: boolean;
  /** Silenced is the id of the silence that covers it, "" for none. */
  silenced?: string;
  /** Sentence is the title for a reader of now: in the past tense, and since when, where its value is older than two readings or the subject has ended. It is not stored. */
  sentence?: string;
  /** Age is the age of the value in seconds, since LastSeen. */
  age: number;
}

/** Answer is the result of a rule's last evaluation. */
export type FindingsAnswer = "fires" | "silent" | "cannot tell";

/** Near is a subject near a threshold of a rule, and why it has no finding. */
export interface FindingsNear extends QueryMachine {
  subject: string;
  /** Text is a sentence with both numbers. */
  text: string;
}

/** RuleStat is a rule with the outcome of its last evaluation. */
export interface FindingsRuleStat {
  name: string;
  title: string;
  doc: string;
  answer: FindingsAnswer;
  reason?: string;
  at?: string;
  /** Near are subjects without a finding although they are near a threshold. */
  near?: FindingsNear[];
  /** Needs are the metrics without which it is not checked. */
  needs?: string[];
  /** Windows are the long and the short one, in seconds. */
  windows: [number, number];
}

/** Problem is what is wrong on a machine: its open findings with the same topic, all of one process, or a single one. The page, explain, top, the log and notifications show the same problems. */
export interface FindingsProblem {
  /** Title is the sentence of the leading finding without its full stop, or the topic with the number of its effects that go on. */
  title: string;
  /** Severity is that of the worst finding. */
  severity: FindingsSeverity;
  /** Ended says that the subjects of all its findings have ended: it comes after what lives, and is no headline. */
  ended?: boolean;
  /** Lead is the id of the finding that represents the problem, and Since its beginning. */
  lead: string;
  since: string;
  /** Effects are the ids of the findings below the title, the worst first: all but the leading one, which is among them if the title is a topic and no finding names its cause. Findings about the monitor come last, if it adds to the problem. */
  effects: string[] | null;
}

/** Level is how a machine is, as far as the rules know. */
export type FindingsLevel = "good" | "unknown" | "warning" | "critical";

/** Summary says in sentences what is wrong now, or that nothing is, and how much was checked. */
export interface FindingsSummary {
  level: FindingsLevel;
  /** Headline counts the problems and names the worst, without a full stop, so the time of its beginning can follow; without problems it is a sentence. Detail is what it leaves open, "" for nothing. */
  headline: string;
  detail?: string;
  /** Checks says how many rules have an answer ("22 of 29 checks ran; 7 lack data here"). */
  checks: string;
  /** Youth is why an answer may be missing just after the monitor's start; "" later. */
  youth?: string;
}

/** Findings is the answer of GET findings. With job= and instance= it has the findings of that machine, and its answers of the rules. */
export interface Findings {
  /** open ones first, then the newest closed ones */
  findings: FindingsRecord[] | null;
  rules: FindingsRuleStat[] | null;
  at: string;
  /** Problems are the open findings in groups, the worst first, and Summary says them in sentences. Parameters other than job and instance do not narrow them. */
  problems: FindingsProblem[] | null;
  summary: FindingsSummary;
}

/** Cause is the open findings of one rule, on all machines. */
export interface FleetCause {
  rule: string;
  title: string;
  /** Severity is the worst, Since the earliest of its findings. */
  severity: FindingsSeverity;
  since: string;
  /** Machines is on how many machines, Findings how many findings. */
  machines: number;
  findings: number;
  /** Names are those of the first machines, at most five. */
  names: string[] | null;
}

/** Causes is the answer of GET causes: the open findings of all machines, grouped by their rule. */
export interface Causes {
  causes: FleetCause[] | null;
}

/** Amount is an estimate with its 95 % interval, in the unit of its place. */
export interface ExplainAmount {
  value: number;
  low: number;
  high: number;
}

/** Part is the kind of time that a row is part of. */
export type ExplainPart = "user" | "kernel" | "wait";

/** Origin says where a unit cost comes from, best first. */
export type ExplainOrigin = "measured" | "calibrated" | "regression" | "literature";

/** Unit is what one event costs, in seconds. */
export interface ExplainUnit extends ExplainAmount {
  origin: ExplainOrigin;
  /** How says in a sentence how it was found. */
  how: string;
}

/** Row is a line of the tree. Rates, times and shares are per Tree.Per. */
export interface ExplainRow {
  /** ID is stable ("syscall:futex", "faults", "lock", "own"), and never parsed. */
  id: string;
  title: string;
  part: ExplainPart;
  /** Rate is how often it happens and Unit what one costs; both are absent for time that is not made of events. */
  rate?: ExplainAmount;
  unit?: ExplainUnit;
  /** Base is the rate in the baseline, of a comparison's rows. */
  base?: ExplainAmount;
  /** Time in seconds, and its share of the tree's active time. */
  time: ExplainAmount;
  share: ExplainAmount;
  /** Cause names the rule about it, "" for the process's own work; Advice says what to do. */
  cause?: string;
  advice?: string;
  evidence: QueryEvidence[] | null;
  /** Rows are its parts, if known. Their times may add up to more than its own; Tree.Checks then says so. */
  rows?: ExplainRow[];
  /** Reason says what the numbers rest on, or why one is missing. */
  reason?: string;
  /** TEE: the row is what the trusted execution environment does. */
  tee?: boolean;
}

/** Unseen is the time that a sampling clock may have missed: 0, with the upper end of its interval. Both are zero if the clock's interval is unknown. */
export interface ExplainUnseen {
  cpu: ExplainAmount;
  wait: ExplainAmount;
}

/** Contest is who used the CPUs that a process waited for. */
export interface RivalsContest {
  /** Text says it in one sentence, which names the takers. */
  text: string;
  /** Takers used the CPUs while the process waited: means over its waiting, the largest first. */
  takers: RivalsPart[] | null;
  /** Own is what the process itself used, in cores. Greedy: it never gives a CPU back by itself, as a loop that computes without end; where its switches are not counted, it is not. */
  own: number;
  greedy?: boolean;
  /** CPUs are those that the process may use, as "0-3"; "" for all, or where that is not known. */
  cpus?: string;
  /** Notes say what is not known. */
  notes?: string[];
}

/** Group is the sum of the rows that a TEE adds. */
export interface ExplainGroup {
  /** Title is a sentence with the number and the rows. */
  title: string;
  share: ExplainAmount;
}

/** Machine is what the TEE does on the whole machine of a process, where no counter says for which process. */
export interface ExplainMachine {
  /** Busy is the CPU time in use, in cores; 0 where it is not known. */
  busy: number;
  /** Rows are sorted by time, which is in cores; a share is of Busy. A row without a unit cost says why. */
  rows: ExplainRow[] | null;
}

/** Check compares explained time with an independent measurement of it. */
export interface ExplainCheck {
  text: string;
  /** cores */
  explained: number;
  /** cores */
  measured: number;
  /** Holds: the two agree within their intervals, and no more is explained than measured. */
  holds: boolean;
}

/** Tree is where the time of a process went in a window, or what an operation takes longer in one arm of an experiment than in another. */
export interface ExplainTree {
  /** process, or the arm that is compared */
  subject: string;
  instance?: string;
  /** RunsIn are the units, containers and programs in a runtime in which the processes of the subject run now, added up; nil where that is not known. */
  runsIn?: string[];
  /** Baseline and Case are those of a comparison. Its rates, times and Active are what the treatment has more than the baseline, and negative where it has less. */
  baseline?: string;
  case?: string;
  from: string;
  to: string;
  /** Per is "second", "request" or, of a comparison, "operation"; Requests is the number of requests a second, with the counter that it comes from, where there is one. */
  per: string;
  requests?: QueryEvidence;
  /** Active is the time in which the subject had work: on a CPU, or waiting for a lock, for a disk or for a CPU; in thread-seconds. Waiting for work is no part of it, nor is waiting for a CPU part of that of a comparison. */
  active: ExplainAmount;
  /** Rows are sorted by share. Unexplained is the measured time minus that of the rows: negative if they explain too much. */
  rows: ExplainRow[] | null;
  unexplained: ExplainAmount;
  unexplainedShare: ExplainAmount;
  /** Unseen bounds the time of a row that is missing. */
  unseen?: ExplainUnseen;
  /** Rivals are those that use the CPUs while the subject waits for one; nil where it hardly waits. */
  rivals?: RivalsContest;
  /** TEE is the sum of the TEE's rows; nil without any. */
  tee?: ExplainGroup;
  /** Machine holds what is counted for the whole machine only; nil without any. */
  machine?: ExplainMachine;
  /** Uncosted are the counters that have no share, with the reason. */
  uncosted?: ExplainRow[];
  checks: ExplainCheck[] | null;
  /** Blind says in sentences what could not be seen. */
  blind: string[] | null;
}

/** Level is how a process is, as far as its tree shows. */
export type ExplainLevel = "good" | "unknown" | "info" | "warning" | "critical";

/** Summary says in sentences where the time of a process goes, as the page and the commands show it. */
export interface ExplainSummary {
  /** Level is the severity of what was found, "info" for a cause without a finding; "good" without a cause, and "unknown" if too much is not explained to tell. */
  level: ExplainLevel;
  /** Headline names the largest cause, or says that there is none. */
  headline: string;
  /** Whole says how much time there is to explain, and how much of it nothing explains. */
  whole: string;
  /** Starved: waiting for a CPU takes so much of the time that it is a cause. A process that waits does less work, so its other times cannot be compared without that. */
  starved?: boolean;
}

/** FoundCause is a cause of the time that a process takes: rows of its tree that speak for the same rule. */
export interface ExplainFoundCause {
  rule: string;
  /** a sentence with the number */
  title: string;
  /** of the active time */
  share: ExplainAmount;
  /** Rows are the ids of the tree's rows that it is made of. */
  rows: string[] | null;
  /** what to do about it */
  advice: string;
}

/** SilentRule is a rule without a finding about a cause that an explanation shows. */
export interface SilentRule {
  rule: string;
  /** a sentence with the numbers */
  text: string;
}

/** Explanation is the answer of GET explain?process=NAME&from=TIME&to=TIME, with job= and instance= where several machines are stored and per=request where the process has a counter of requests. */
export interface Explanation {
  tree: ExplainTree;
  /** Summary says in sentences what the tree shows. */
  summary: ExplainSummary;
  /** Causes are the rows of the tree that are something to act on, the largest first. */
  causes: ExplainFoundCause[] | null;
  /** Findings are those about the process that were open in the window. */
  findings: FindingsRecord[] | null;
  /** Silent says of each cause without a finding why its rule has none. */
  silent?: SilentRule[];
}

/** ResultExplanation is the answer of GET results/{id}/explanation and comparisons/explanation: a tree for each comparison of the primary metric. */
export interface ResultExplanation {
  trees: ExplainTree[] | null;
}

/** Window is a span of time, from From to To. */
export interface AnomalyWindow {
  from: string;
  to: string;
}

/** Box is the distribution of the values of one series in one window: a box plot after Tukey, whose whiskers end at the last values within 1.5 times the interquartile range of the box. */
export interface AnomalyBox {
  labels: { [key: string]: string } | null;
  window: AnomalyWindow;
  n: number;
  min: number;
  /** lower whisker */
  low: number;
  q1: number;
  median: number;
  q3: number;
  /** upper whisker */
  high: number;
  max: number;
  mean: number;
  /** Outliers are the values beyond the whiskers, at most 50 of them, the farthest. */
  outliers: number[] | null;
}

/** Distributions is the answer of GET distributions?query=PROMQL&from=TIME&to=TIME&windows=N: one box for each series and window. */
export interface Distributions {
  boxes: AnomalyBox[] | null;
}

/** Query asks for a PromQL expression at every step from From to To, in Unix seconds, or only at To if Step is 0. */
export interface Query {
  query: string;
  from?: number;
  to: number;
  step?: number;
  /** Since is the first step whose values are wanted, where the earlier ones are known. */
  since?: number;
  /** Top keeps the lines with the largest sums over the whole window and adds up the others; 0 keeps all. */
  top?: number;
  /** Known is the Set of the answer that the values before Since are from. */
  known?: string;
}

/** Queries is the body of POST queries: what a page draws, in one call. */
export interface Queries {
  queries: Query[] | null;
}

/** Line is a series: a value for each step, or one value, which may be "NaN" or "+Inf". */
export interface Line {
  labels?: { [key: string]: string };
  values?: (number | null)[];
  value?: string;
}

/** Answer is a line of the answer of POST queries; Index is the query's place in the call. */
export interface Answer {
  index: number;
  /** Since is the time of the first value of each line. */
  since: number;
  lines: Line[] | null;
  /** Rest is the sum of the Folded lines that are not among the top; absent without any. */
  rest?: Line;
  folded?: number;
  /** Set names the lines at the top. Where it is not what the query knows, Since is From. */
  set?: string;
  /** Warnings say what was not counted in the window. */
  warnings?: string[];
  /** Error says why there is no answer. */
  error?: string;
}

/** Silence stops notifications about findings; they are still shown, and marked. */
export interface FindingsSilence {
  id: string;
  /** Rule is a rule's name, "" for all; Subject matches the whole of the subjects, or of "SUBJECT of UNIT" where a finding is about one unit (RE2), "" for all. */
  rule: string;
  subject: string;
  until: string;
  comment: string;
  /** Author is who made it, as the audit line says it; "" where that is not known. */
  author?: string;
  /** Created is when it was made, by the clock of then. */
  created?: string;
}

/** Silences is the answer of GET, POST and DELETE silences. */
export interface Silences {
  silences: FindingsSilence[] | null;
}

/** Annotation is an element of GET annotations?from=TIME&to=TIME, with the fields of Grafana's annotations; times are in milliseconds since 1970. */
export interface Annotation {
  id: string;
  time: number;
  timeEnd?: number;
  title: string;
  text: string;
  tags: string[] | null;
}

/** PanelKind is how a panel draws. */
export type PanelKind = "graph" | "area" | "histogram" | "gauge" | "value" | "table" | "heatmap" | "boxplot";

/** Panel shows one query. */
export interface Panel {
  title: string;
  query: string;
  /** Unit is one of "1/s", "ratio", "cores", "bytes", "bytes/s", "seconds", or "". */
  unit: string;
  kind: PanelKind;
}

/** Dashboard is a page of panels. */
export interface Dashboard {
  name: string;
  panels: Panel[] | null;
}

/** Dashboards is the answer of GET dashboards and the body of PUT dashboards: those made on the page, as stored in the data folder. */
export interface Dashboards {
  dashboards: Dashboard[] | null;
  /** Locked are those of the configuration file; the page cannot change them. */
  locked?: Dashboard[];
}

/** OpenFile is a file that a process has open, with the labels of tee_sampled_file_wait_seconds_total. */
export interface OpenFile {
  /** "8:1" */
  device: string;
  inode: string;
  path: string;
}

/** Process is an element of GET processes?name=NAME: a process that runs now. */
export interface Process {
  pid: number;
  /** Command is the program as it was called, or what a runtime runs: "redis-server in Gramine", "java org.example.Main", "python3 app.py". Its arguments are left out: they may hold secrets. "" for a thread of the kernel. */
  command?: string;
  /** Container is the id or name of its container, Cgroup its control group. */
  container?: string;
  cgroup?: string;
  /** Files are files that it has open by a path, with others of its name at most 64, of the first 16 processes. They are absent for clients that may not change settings. */
  files?: OpenFile[];
}

/** Overhead is the answer of GET overhead: what the monitor itself costs. */
export interface Overhead {
  /** CPU maps a part (body, dispatch, userspace, page, commands) to its share of one core in the last minute; an unknown part is absent. */
  cpu: { [key: string]: number } | null;
  /** Used is what counts against the budget, in cores: all parts but page. It is the mean of the last minute, as in the finding over_budget; absent while no part is known. */
  used?: number;
  /** Missing explains the absent parts, and the absent "memory" and "series". */
  missing?: { [key: string]: string };
  rssBytes?: number;
  series?: number;
  /** Budget is the share of each core that the monitor may use. */
  budget: number;
  /** Slowed is how many times less often than set walks over threads and patient rules run, to stay within the budget; absent where they run as set. */
  slowed?: number;
  /** StoreError says why the store has lost or may lose samples, "" if it has not. */
  storeError?: string;
}

/** Grade says how strong a comparison is. Only A and B may be called overhead. */
export type ResultGrade = "A" | "B" | "C" | "D";

/** Difference is one field in which two environments differ. */
export interface ResultDifference {
  field: string;
  baseline: string;
  treatment: string;
}

/** Bound says that a ratio is only a limit, because an arm stood at a ceiling. */
export type ResultBound = "none" | "le" | "ge";

/** Verdict is the conclusion of a comparison. */
export type StatsVerdict = "cost" | "gain" | "equivalent" | "inconclusive" | "invalid";

/** Comparison is one treatment against one baseline for one metric of one case. */
export interface ResultComparison {
  baseline: string;
  treatment: string;
  case: string;
  metric: string;
  primary: boolean;
  /** Headline is the verdict in one sentence of at most 25 words, made from the fields below. */
  headline: string;
  /** Details are the sentences below the headline: medians, and in what else the arms differ. */
  details?: string[];
  /** StandIn says why the ratio is not what an environment of this name costs: an arm is emulated or stands in for another, or the measured device is simulated. "" for a real measurement. */
  stand_in?: string;
  /** Open says what keeps an inconclusive comparison from a verdict: how many pairs would probably decide it if the spread does, or else what blocks it. "" if nothing is open. */
  open?: string;
  /** Changed names what differs between the arms, as JSON paths of Environment. */
  changed_dimensions: ResultDifference[] | null;
  estimator: string;
  /** Ratio is treatment divided by baseline, of the values as measured; its interval has Confidence. Null when there is no ratio. */
  ratio: number | null;
  ci_low: number | null;
  ci_high: number | null;
  confidence: number;
  /** Cost is the ratio, inverted if needed so that above 1 is worse: 1.25 takes 25 % more time, or does the work of 1 in 1.25 times the time. */
  cost_ratio: number | null;
  cost_ci_low: number | null;
  cost_ci_high: number | null;
  /** BootLow and BootHigh are the pair bootstrap's interval of Ratio, the second opinion. */
  boot_ci_low: number | null;
  boot_ci_high: number | null;
  n_pairs: number;
  /** BaseMedian and TreatMedian are medians of the values that were compared. */
  baseline_median: number | null;
  treatment_median: number | null;
  sd_log: number | null;
  /** MDE is the smallest ratio minus 1 that this many pairs would find four times in five. */
  mde: number | null;
  /** PairsNeeded would probably decide a comparison that its spread leaves open; 0 where nothing is open, or something else blocks it. */
  pairs_needed: number;
  margin: number;
  noise_floor: number | null;
  bound: ResultBound;
  grade: ResultGrade;
  /** Verdict is empty for a metric that is not the primary one. */
  verdict: StatsVerdict;
  /** Material: a cost or gain whose whole interval lies beyond the margin. */
  material: boolean;
  reasons: string[] | null;
  /** Cause says in one sentence what causes most of a cost and what fixes it, as far as counters and their prices show; "" if they do not. */
  cause?: string;
  /** Rung is the place on a ladder, from 1; 0 when it is not one. */
  ladder_step: number;
}

/** Origin is the answer of GET results/{id}/origin and comparisons/origin: what is proved of where results were made, without a policy. */
export interface Origin {
  /** Word is "unattested", "signed with a local key", "attested: " and by what, "simulated", "unproved", "refused" or "unknown"; several results have several. */
  word: string;
  /** Line says what is proved and what is not. */
  line: string;
}

/** ResultSummary is one result in a list. GET results/{id} returns the whole document, as `teescope schema result` describes it. */
export interface ResultSummary {
  id: string;
  name: string;
  workload: string;
  started: string;
  ended?: string;
  commit?: string;
  grade: ResultGrade;
  pairs: number;
  runs: number;
  calibration?: boolean;
  environments: string[] | null;
  cases: string[] | null;
  /** Comparisons are those of the primary metric; empty for a single environment. */
  comparisons: ResultComparison[] | null;
  /** Origin is what is proved of where it was made. */
  origin: Origin;
}

/** Results is the answer of GET results: all finished benchmark results, newest first. */
export interface Results {
  results: ResultSummary[] | null;
  /** Problems are the files that could not be read, each with the reason. */
  problems?: string[];
}

/** Drawing is a plot for a page that declares the colours by their role, as custom properties. */
export interface ReportDrawing {
  /** Section of the result that it belongs to: costs, start, scaling, runs, ladder or counters. */
  section: string;
  name: string;
  /** Title is the question that it answers, Alt what can be seen, in words. */
  title: string;
  alt: string;
  /** Wide and Narrow are the SVG for screens of 720 px and more, and for smaller ones. */
  wide: string;
  narrow: string;
}

/** Drawings is the answer of GET results/{id}/drawings and comparisons/drawings: the plots of a result as reports have them, in the colours that the page declares. */
export interface Drawings {
  drawings: ReportDrawing[] | null;
}

/** Cell is one field of a table. */
export interface ReportCell {
  text: string;
  /** Raw is the unrounded value, for a tip or a program; "" when Text says all. */
  raw?: string;
  /** Reason is why there is no value, or only one of two; Text then says "missing". */
  reason?: string;
  /** Mark is the shape before a verdict's word. */
  mark?: string;
  /** Kind is the verdict's word, for a style sheet. */
  kind?: string;
  /** Number: the text is a number with its unit. */
  number?: boolean;
}

/** Table has as many cells in each row as there are columns; the first names the row. */
export interface ReportTable {
  /** Caption says what the table shows. */
  caption: string;
  columns: string[] | null;
  /** Numbers are the columns to be aligned to the right. */
  numbers: boolean[] | null;
  rows: ReportCell[][] | null;
  /** Long: the rows that say most come first, and a small screen may show only these. */
  long?: boolean;
}

/** Note is why values of a table are missing, said once below it. */
export interface ReportNote {
  mark: string;
  reason: string;
}

/** SectionTable is a table of a result for its page. */
export interface ReportSectionTable extends ReportTable {
  /** Section of the result that it belongs to: costs, scaling, runs, why, harness, published or specification. */
  section: string;
  /** Footnotes are the reasons for what is missing, each with its mark. */
  footnotes?: ReportNote[];
}

/** Tables is the answer of GET results/{id}/tables and comparisons/tables: the tables of a result that are computed from its runs, as reports have them. */
export interface Tables {
  tables: ReportSectionTable[] | null;
}

/** View is a part of the page, by its name in the page's address: "/?page=findings", or "/findings", which leads there. */
export type View = "now" | "processes" | "tee" | "machine" | "benchmarks" | "explore" | "findings" | "settings" | "fleet";

/** Authority is the answer of GET authority: whether this client may change sources, silences and dashboards. */
export interface Authority {
  may: boolean;
  /** Who it is, as in audit lines and silences; absent where it may not. */
  who?: string;
  /** Until is when a browser's right ends; absent for others. */
  until?: string;
  /** Locked says why it may not, and what to type. */
  locked?: string;
}

/** Error is the body of every failed request. */
export interface Error {
  error: string;
}

/** Setting changes a source at run time, from the page, the API and the sources section of the configuration; an absent field changes nothing. */
export interface ProbeSetting {
  /** On switches the source on or off. */
  on?: boolean;
  /** Auto, for a source that waits for something, has it on while that is there. A setting of On ends it. */
  auto?: boolean;
  /** Level is the name of one of the source's levels of detail. */
  level?: string;
  /** Process is an unanchored regular expression: only series of matching process names are kept. The kernel keeps 15 bytes of a name, and a longer name in the expression matches these. "" removes the filter. */
  process?: string;
  /** PIDs narrows the source to these process ids, which get series of their own. An empty list removes the filter. */
  pids?: number[];
  /** Cgroup is an unanchored regular expression for the paths of control groups. "" removes the filter. */
  cgroup?: string;
  /** Container is an unanchored regular expression for the names and ids of containers. "" removes the filter. */
  container?: string;
  /** Sample is the largest part of the time in which the source may count, above 0 and at most 1. */
  sample?: number;
}

/** Health is the state of a machine in a word. */
export type FleetHealth = "gone" | "critical" | "warning" | "unknown" | "good";

/** TEE is what a machine says of one of its TEEs. */
export interface FleetTEE {
  kind: string;
  variant?: string;
  role: string;
  active: boolean;
  debug?: boolean;
}

/** Worst is the finding that says most about a machine. */
export interface FleetWorst {
  id: string;
  rule: string;
  title: string;
  severity: FindingsSeverity;
  since: string;
}

/** Row is a machine. What is unknown is absent. */
export interface FleetRow extends QueryMachine {
  /** Own: it is the machine that the monitor runs on. */
  own?: boolean;
  /** Name is its host name, or its instance where that is unknown. */
  name: string;
  /** Agents is how many agents have these labels, where it is more than one: their numbers cannot be told apart. */
  agents?: number;
  /** Labels are further labels of its target, such as node and pod. */
  labels?: { [key: string]: string };
  version?: string;
  health: FleetHealth;
  /** LastSeen is the time of its last reading; absent for a target that never answered. */
  lastSeen?: string;
  /** TEE is the kind and role of the TEE that protects it or that it offers, as "sev-snp guest"; or "none", "inactive" or "unknown". */
  tee: string;
  tees?: FleetTEE[];
  /** Findings is the number of open findings that are at least a warning; Worst is the worst of them. */
  findings: number;
  worst?: FleetWorst;
  /** Rules are those of all its open findings. */
  rules?: string[];
  /** Share is the largest share of a subject's time that an open finding explains, as the interval of a ratio. */
  share?: [number, number];
  /** Cost is the CPU time that teescope uses there, in cores, without answers to pages. */
  cost?: number;
  /** Waiting is the share of time in which a task waited for a CPU. */
  waiting?: number;
  /** Sources is the number of its sources, Up of those that delivered values in the last reading, Blind of those whose values are hidden. */
  sources: number;
  up: number;
  blind?: number;
  /** Coverage is the lowest share of events that a source counted, Error the largest standard error of a source. */
  coverage?: number;
  error?: number;
}

/** Kind is how many machines with a TEE are in each state. */
export interface FleetKind {
  tee: string;
  machines: number;
  gone: number;
  critical: number;
  warning: number;
  unknown: number;
  good: number;
}

/** Page is the selected part of the list. */
export interface FleetPage {
  /** At is when the list was made, All the number of machines, Matched that of the selected ones. */
  at: string;
  all: number;
  matched: number;
  /** Machines are those of the page, in the order that was asked for. */
  machines: FleetRow[] | null;
  /** Kinds are all machines by their TEE. */
  kinds: FleetKind[] | null;
}

/** Tool is the program that made the document. */
export interface ResultTool {
  name: string;
  version: string;
  go: string;
  /** Command is the command line without secrets, to repeat the experiment. */
  command: string[] | null;
}

/** Commit is a state of the program under test in its repository. */
export interface ResultCommit {
  id: string;
  at: string;
}

/** Kind of design, from the strongest. */
export type ResultKind = "paired_interleaved" | "blocked" | "unpaired" | "single";

/** Slot is one place of the schedule. */
export interface ResultSlot {
  /** from 0 */
  pair: number;
  case: string;
  env_id: string;
}

/** Ceiling is the best value of a metric that is physically possible: the largest where higher is better, the smallest where lower is. */
export interface ResultCeiling {
  metric: string;
  /** "" is every arm */
  env_id: string;
  value: number;
  /** "NIC eth0, 25 Gbit/s" */
  source: string;
}

/** ClockOffset is by how much the clock of another machine is ahead of the harness's, in seconds. The truth is at most Uncertainty away, because the clock was read at an unknown moment of a question and its answer. */
export interface ResultClockOffset {
  seconds: number;
  uncertainty_seconds: number;
}

/** Pass is an experiment that follows from another: its cases in its arms, under loads that are shares of what the slower arm can do. */
export interface ResultPass {
  name: string;
  loads: number[] | null;
  /** Params override those of the experiment before; so do Pairs and Margin, if they are not 0. Primary is the metric of the verdict; "" is the workload's own. */
  params?: { [key: string]: string };
  pairs?: number;
  primary_metric?: string;
  margin?: number;
}

/** LeftOut is an environment that was left out, and what it lacks. */
export interface ResultLeftOut {
  env_id: string;
  why: string;
}

/** Design is how the runs were arranged. */
export interface ResultDesign {
  kind: ResultKind;
  grade: ResultGrade;
  seed: number;
  pairs_planned: number;
  /** SparePairs are the most pairs that may follow the planned ones, to replace those that gave no valid ratio. Only those that were run are in Order. */
  spare_pairs?: number;
  order: ResultSlot[] | null;
  alpha: number;
  /** Margin is the smallest cost that matters, as a ratio (0.03). */
  margin: number;
  /** Primary is the metric that the verdict is about. */
  primary_metric: string;
  /** Subject is the one thing in which the arms are declared to differ: "environment", or the name of a subject parameter ("binary"). */
  subject: string;
  /** Ceilings are what devices and links can give at most. */
  ceilings: ResultCeiling[] | null;
  /** Calibration: both arms are the same on purpose (A/A). */
  calibration?: boolean;
  /** Client is where the load came from: SameHost, ThisHost, the other machine as named by the user, or where environments run it themselves, in words. "" for jobs without a load from outside. */
  client?: string;
  /** ClientClock is that machine's clock; absent if it is this machine's, or unknown. */
  client_clock?: ResultClockOffset;
  /** NoCounters: the experiment wants the monitor's sources off. */
  no_counters?: boolean;
  /** Then are the passes that follow, each with its own document. */
  then?: ResultPass[];
  /** LeftOut are environments of the experiment that could not run on the machine. */
  left_out?: ResultLeftOut[];
}

/** MetricDesc declares a metric of a workload. */
export interface ResultMetricDesc {
  name: string;
  help: string;
  unit: string;
  /** Better is "lower", "higher" or "none". */
  better: string;
  /** Least and Most bound what a value can be at all. Without them, it is from 0 to 1 for a share (a name that ends in _ratio), and from 0 to 2^63 for anything else. */
  least?: number;
  most?: number;
  /** Unlimited: the name ends in _ratio, and the metric is a share of nothing, so it can be above 1. Documents before version 1.5 have a Most of 2^62 instead. */
  unlimited?: boolean;
}

/** Workload is what ran. */
export interface ResultWorkload {
  name: string;
  version: number;
  doc: string;
  /** Metrics declares what runs may hold. */
  metrics: ResultMetricDesc[] | null;
  /** Operations names the metric that counts the operations of a run, which counters are divided by; "" when there is none. */
  operations_metric: string;
  /** OutputPerArm: equal work gives equal output digests within an arm only, because the arms may have tools of different versions. */
  output_per_arm?: boolean;
}

/** Case is one job: the workload with one set of parameters. Identity is the hash of everything that makes the job: workload, version, parameters that are not subject, data. Compared jobs must have the same identity. */
export interface ResultCase {
  /** "threads=4", or "default" */
  case_id: string;
  params: { [key: string]: string } | null;
  /** sha256:… */
  identity: string;
  data_digest?: string;
}

/** Role of an environment in the experiment. */
export type ResultRole = "baseline" | "treatment" | "intermediate";

/** TEE describes the protection of an arm. */
export interface ResultTEE {
  /** Type is "none" or a kind of package tee ("sgx", "tdx", "sev", …); "unknown" if it could not be determined. */
  type: string;
  active: boolean;
  debug: boolean;
  /** Declared: the launcher says so; nothing inside the environment showed it. */
  declared: boolean;
  /** Facts are what was detected from inside. */
  facts: TeeFacts[] | null;
  evidence: TeeEvidence[] | null;
  /** Settings are what the TEE was configured with (EPC size, enclave size, SWIOTLB size, policy), as read back. */
  settings: { [key: string]: string } | null;
}

/** Disk is a block device. */
export interface ResultDisk {
  name: string;
  model: string;
  bytes: number;
  rotational: boolean;
  scheduler: string;
  write_cache: string;
}

/** NIC is a network interface. BitsPerSecond is null if the driver does not say. */
export interface ResultNIC {
  name: string;
  driver: string;
  mtu: number;
  bits_per_second: number | null;
}

/** GPU is a graphics or compute card. */
export interface ResultGPU {
  model: string;
  driver: string;
  /** mode, as nvidia-smi says it */
  confidential_compute: string;
}

/** Hardware is the machine under an arm. */
export interface ResultHardware {
  cpu_model: string;
  cpu_vendor: string;
  /** "family-model-stepping" */
  cpu_family: string;
  microcode: string;
  /** online logical CPUs */
  cpus: number;
  sockets: number;
  threads_per_core: number;
  smt: string;
  numa_nodes: number;
  /** CPUs that the workload may use */
  affinity: string;
  governor: string;
  turbo: string;
  /** "L1d", "L2", "L3" */
  cache_bytes: { [key: string]: number } | null;
  mitigations: { [key: string]: string } | null;
  memory_bytes: number;
  swap_bytes: number;
  transparent_hugepage: string;
  disks: ResultDisk[] | null;
  nics: ResultNIC[] | null;
  gpus: ResultGPU[] | null;
  /** hash of the machine's id: same host or not */
  host_id: string;
}

/** Software is what runs under the workload. */
export interface ResultSoftware {
  kernel: string;
  cmdline: string;
  os: string;
  libc: string;
  /** "none", a name from CPUID, or "unknown" */
  hypervisor: string;
  clock_source: string;
  /** Limits are those of the cgroup or container: cpu, memory, pids. */
  limits: { [key: string]: string } | null;
  /** Versions are of tools and runtimes in use ("fio": "3.33", "runsc": "…"); of ServerVersion what a server of a workload says that it is. */
  versions: { [key: string]: string } | null;
  /** Worker is how the program under test was built: compiler, flags, date. */
  worker: { [key: string]: string } | null;
  /** CachePolicy is how the page cache is treated ("dropped before each run", "direct", "as found"). */
  page_cache_policy: string;
  /** Encryption layers in the way of data: "network", "storage". */
  encryption: { [key: string]: string } | null;
}

/** Cloud is where a rented machine is hosted. */
export interface ResultCloud {
  provider: string;
  region: string;
  zone: string;
  instance_type: string;
}

/** Spread describes readings of one quantity. */
export interface ResultSpread {
  min: number;
  mean: number;
  max: number;
  /** CV is the standard deviation divided by the mean. */
  cv: number;
  n: number;
}

/** CallCost is what a system call that does nothing costs in an environment, in seconds of CPU time by the account of the harness's machine: the median of a few jobs, the least and the most. */
export interface ResultCallCost {
  seconds: number;
  low: number;
  high: number;
  /** Seen is the share of the calls that reached the machine's kernel: 1 for ordinary programs, 0 where a sandbox's own kernel or a guest's answers them. */
  seen_ratio: number;
  /** Form is how the program that made the calls is linked, static or dynamic: as the workload's where an arm is a library OS, else static. Older documents lack it. */
  form?: string;
}

/** Environment is one arm: where the job ran, as seen from inside and outside. */
export interface ResultEnvironment {
  /** the label of the arm */
  env_id: string;
  role: ResultRole;
  launcher: string;
  /** StandsFor is what the experiment declares the arm to stand in for ("tdx"); "" if it is asked for as what it is. */
  stands_for?: string;
  /** of the launcher, as read back */
  params: { [key: string]: string } | null;
  /** subject parameters of the workload in this arm */
  subject: { [key: string]: string } | null;
  /** Digests are hashes of the files that ran (worker, binaries), by name. */
  digests: { [key: string]: string } | null;
  tee: ResultTEE;
  hardware: ResultHardware;
  software: ResultSoftware;
  /** Network is the way from the load generator to the servers of the environment, in words; absent without such a load. */
  network?: string;
  /** Path is what a run found of the network between the two machines, by end: MTU, driver and offloads of the interfaces. Absent for jobs that do not report it. */
  network_path?: { [key: string]: string };
  /** Clock is the clock of another machine, read when the environment was opened; absent on the harness's machine, or if it is unknown. */
  clock_offset?: ResultClockOffset;
  /** Boot is the boot ID of another machine: its runs are all of one boot. */
  boot_id?: string;
  /** null: not a known cloud, or could not tell (see Missing) */
  cloud: ResultCloud | null;
  /** Fingerprint is the hash of what must be equal for two results to be of the same environment; Class, of what must be equal for the same kind of host. */
  fingerprint: string;
  fingerprint_class: string;
  /** Missing says why a field is null or empty, by its JSON path in the environment ("hardware.microcode"). */
  missing: { [key: string]: string } | null;
  /** Opened is how long it took to have the environment ready for its first run (boot of a VM, build of an enclave), in seconds. */
  open_seconds: number | null;
  /** NullSeconds is the time of an empty job here: the harness's own cost, which is not subtracted from anything. Null if the environment only runs its own programs. */
  null_run_seconds: ResultSpread | null;
  /** Call is what a system call that does nothing costs here; absent where that is not known, for the reason in Missing. */
  system_call?: ResultCallCost;
  /** FirstSeconds is the duration of the first run, which is cold and not counted; null if it failed. */
  first_run_seconds: number | null;
  /** Changed are fields that were different at the end of the experiment. */
  changed_during_experiment?: { [key: string]: string };
}

/** Status of a run. */
export type ResultStatus = "ok" | "failed" | "excluded";

/** Warmup is how a run's warm-up was cut off. */
export interface ResultWarmup {
  /** "slope-deviation+mser5", "fio" */
  method: string;
  /** CutSeconds were dropped from the start of the run. */
  cut_seconds: number;
  /** Steady: a steady state was reached. If not, the run gives no ratio. */
  steady: boolean;
  /** Windows are the values of the primary metric, Width seconds each. */
  windows: number[] | null;
  window_seconds: number;
}

/** Provenance is the origin of a number. */
export type ResultProvenance = "measured" | "derived" | "vendor_spec" | "literature";

/** Histogram is a classic histogram: Counts[i] observations at most Bounds[i] and above Bounds[i-1]; the last count is of those above all bounds. */
export interface ResultHistogram {
  bounds: number[] | null;
  counts: number[] | null;
  sum: number;
}

/** Metric is one value of a run. Value is null when it is unavailable; Reason says why. */
export interface ResultMetric {
  name: string;
  value: number | null;
  missing_reason?: string;
  source: ResultProvenance;
  histogram?: ResultHistogram;
  /** N is the number of observations behind the value, 0 where that has no meaning. */
  n?: number;
}

/** Trust in a counter: what of the workload it can see. */
export type ResultTrust = "full" | "partial" | "none";

/** Counter is what the monitor's sources counted during a run. */
export interface ResultCounter {
  /** a metric of docs/metrics.md */
  name: string;
  labels: { [key: string]: string } | null;
  value: number | null;
  /** PerOperation is Value divided by the run's operations; null where those are not known. */
  per_operation: number | null;
  /** "process", or "machine" where others are counted too */
  scope: string;
  trust: ResultTrust;
  note?: string;
}

/** Interference is what disturbed a run, measured apart from its metrics. A null field could not be read; Missing says why. */
export interface ResultInterference {
  steal_ratio: number | null;
  /** CPU time of others, as a share of all CPUs */
  foreign_cpu_ratio: number | null;
  throttle_events: number | null;
  swap_bytes: number | null;
  load_before: number | null;
  memory_pressure_ratio: number | null;
  /** null: blind */
  cpu_hertz: ResultSpread | null;
  /** HarnessCPU and MonitorCPU are CPU seconds that teescope itself used outside the workload during the run; Monitor is the counting, if known. */
  harness_cpu_seconds: number | null;
  monitor_cpu_seconds: number | null;
  missing?: { [key: string]: string };
}

/** RawFile is a file next to the document, with a relative path. */
export interface ResultRawFile {
  path: string;
  /** sha256:… */
  digest: string;
}

/** Run is one execution of one case in one environment. */
export interface ResultRun {
  /** "p03-threads=4-native" */
  run_id: string;
  env_id: string;
  case: string;
  /** from 0 */
  pair: number;
  /** place of the arm within its pair, from 0 */
  position: number;
  started_at: string;
  /** Seconds is the wall time of the whole run on the harness's clock. */
  duration_seconds: number;
  status: ResultStatus;
  /** Reason explains a status other than OK. */
  reason?: string;
  /** null: the job has no windows to look at */
  warmup: ResultWarmup | null;
  metrics: ResultMetric[] | null;
  /** OutputDigest is what the workload's own check made of its answer; equal digests are equal work. */
  output_digest: string;
  counters: ResultCounter[] | null;
  /** HostCounters are events of the whole machine, which include everything else that ran on it, so they explain nothing about the workload. Without labels they are totals over all processes. With the label helper they are those of kernel threads and virtual machine monitors whose names match its pattern; a helper that is not listed had none. */
  host_counters?: ResultCounter[];
  interference: ResultInterference;
  clock_source: string;
  errors: { [key: string]: number } | null;
  raw_refs: ResultRawFile[] | null;
  /** Missing says why a metric or counter is absent, by name. */
  missing?: { [key: string]: string };
}

/** Attribution is what a cause explains of a cost. */
export interface ResultAttribution {
  baseline: string;
  treatment: string;
  case: string;
  /** Counter is the counter as PromQL writes it, for people; Metric and Labels say the same to programs, and are missing in documents before version 1.2. */
  counter: string;
  metric?: string;
  labels?: { [key: string]: string };
  /** Base is the baseline's count per operation, Delta how much more the treatment has. For the counter Dearer, Delta is how many system calls both arms make per operation, and UnitCost the extra cost of one in the treatment. */
  baseline_per_operation?: number;
  delta_per_operation: number;
  /** DeltaLow and DeltaHigh are the 95 % interval of the pairs' centre, if there are enough of them. */
  delta_low_per_operation?: number;
  delta_high_per_operation?: number;
  /** Seconds is Delta times UnitCost, or Delta itself for a counter of waiting time. The largest come first. */
  unit_cost_seconds: number | null;
  /** UnitLow and UnitHigh are, for the counter Dearer, the minimum and maximum extra cost of a call: the extremes of the few jobs measured in each arm. They bound the observations and are not a confidence interval. */
  unit_cost_low_seconds?: number;
  unit_cost_high_seconds?: number;
  seconds_per_operation?: number;
  /** Share is the part that Seconds are of the time by which an operation takes longer: on CPUs, and waiting for locks and disks. Unexplained is the part that no row has; it is below 0 where prices explain too much. */
  explained_share: number | null;
  unexplained_share: number | null;
  /** Cause names the rule that is about such events; "" for none. */
  cause?: string;
  missing_reason?: string;
}

/** Level of a guard's message. */
export type ResultLevel = "info" | "warn" | "invalid";

/** Guard is a guard that tripped: a reason to refuse or doubt a verdict. */
export interface ResultGuard {
  id: string;
  level: ResultLevel;
  /** what was seen */
  message: string;
  /** what would help */
  help: string;
  /** Scope limits it to comparisons of a case, treatment or metric; "" is all. */
  case?: string;
  treatment?: string;
  metric?: string;
  values?: { [key: string]: number };
}

/** Reference is a published figure shown next to ours; it never decides a verdict. A Unit of "cost_ratio" (above 1 is worse) is drawn next to our cost ratios. */
export interface ResultReference {
  id: string;
  citation: string;
  workload: string;
  tee: string;
  low: number;
  high: number;
  unit: string;
  caveat: string;
  source: ResultProvenance;
}

/** UnitCost is the cost of an event in seconds: the median, and what 95 % of the measurements lie between. */
export interface ResultUnitCost {
  /** an event of `teescope calibrate` */
  event: string;
  seconds: number;
  low: number;
  high: number;
}

/** UnitCosts is what single events cost on the harness's machine, whose kernel counted them, whatever arm made them. */
export interface ResultUnitCosts {
  measured_at: string;
  units: ResultUnitCost[] | null;
  /** Traced are the tracepoints on which other programs ran during the calibration: their time is part of the costs. */
  traced?: string[];
  /** Reason says why there are none. */
  missing_reason?: string;
}

/** Origin is the source of an experiment. */
export interface ResultOrigin {
  /** Source cites who published its parameters. */
  source?: string;
  /** Corrects says how the published method misleads, and what is done differently here. */
  corrects?: string;
}

/** Collateral is an answer of a vendor's service. */
export interface ResultCollateral {
  url: string;
  /** Header has the certificates of who signed the body, where the service sends them there. */
  header?: { [key: string]: string[] };
  body: string | null;
}

/** Attestation binds a document to the quote of a TEE, or to a key. See docs/attested-results.md. */
export interface ResultAttestation {
  /** Format is that of the evidence: "tdx_guest", "sev_guest", "nitro", "tpm2", "nvidia_gpu" or "simulated"; or the kind of the key that signed: "ed25519" or "ecdsa-p256". */
  format: string;
  /** Digest is that of the document's canonical form (RFC 8785) without the member attestation: "sha256:…". */
  digest: string;
  /** MadeAt is the time by the clock of the machine that attested. */
  made_at: string;
  /** Nonce is hex that the verifier has chosen, to know that the evidence is newer. */
  nonce?: string;
  /** Quote is the evidence, Certificates those that came with it. */
  quote?: string;
  certificates?: string;
  /** Collateral is what the vendor's services said of the platform when it attested. */
  collateral?: ResultCollateral[];
  /** PublicKey is that of a key that signed (PKIX, DER). */
  public_key?: string;
  signature?: string;
}

/** Experiment is one document. */
export interface ResultExperiment {
  schema_version: string;
  /** UUID */
  experiment_id: string;
  name: string;
  started_at: string;
  /** null while it runs */
  ended_at: string | null;
  tool: ResultTool;
  /** of the program under test; null if the user named none */
  commit: ResultCommit | null;
  design: ResultDesign;
  workload: ResultWorkload;
  cases: ResultCase[] | null;
  environments: ResultEnvironment[] | null;
  runs: ResultRun[] | null;
  comparisons: ResultComparison[] | null;
  attribution: ResultAttribution[] | null;
  guards: ResultGuard[] | null;
  references: ResultReference[] | null;
  /** UnitCosts are what counters are priced with; null in results of version 1.0 and where nothing was counted. */
  unit_costs?: ResultUnitCosts;
  /** Origin is that of an experiment file; null for a workload that was run as it is. */
  origin?: ResultOrigin;
  /** Summary: the document is a copy without raw files, histograms and the conclusions about secondary metrics. System calls that are below 1 % of their process's calls in every run are added up, and counts have four digits. */
  summary?: boolean;
  /** Digest is that of the document's values without the members digest and attestation: "sha256:…". Who reads the document is told if it has changed since it was written. */
  digest?: string;
  /** Attestation binds all of the above to a TEE or to a key; null where nobody did that. */
  attestation?: ResultAttestation;
}

/** VerdictWords is how a verdict looks: a word, a shape and a colour of the page; each alone identifies it. */
export interface ReportVerdictWords {
  /** Verdict is a verdict of a document, "stand-in", "platform", or "none" where nothing was judged. */
  verdict: string;
  word: string;
  shape: string;
  tone: string;
  means: string;
}

/** LevelWords is the word for a guard's level, and the severity as which it is shown. */
export interface ReportLevelWords {
  word: string;
  severity: FindingsSeverity;
}

/** Words are the words and the looks of what a result document says in values, as reports use them. */
export interface ReportWords {
  /** Verdicts are in the order in which they are listed. */
  verdicts: ReportVerdictWords[] | null;
  /** Platforms are the grades of comparisons between different machines: their costs and gains are neither, but the verdict "platform". */
  platforms: ResultGrade[] | null;
  /** Grades says what a comparison of a grade may be called, Designs how its runs were made; "" is for other values. */
  grades: { [key: string]: string } | null;
  designs: { [key: string]: string } | null;
  /** Levels are those of guards. */
  levels: { [key: string]: ReportLevelWords } | null;
  /** Arms are the shapes of the arms in their order; their colours are the series of the same number. */
  arms: string[] | null;
}

/** Counted names the metric that says which devices a sum over devices counts, so that each byte counts once: a bond has the bytes of its cards, an encrypted volume those of its disk. Whoever sums takes it from here, the page too. */
export type MetricCounted = "tee_disk_counted" | "tee_network_device_counted" | "tee_container_disk_counted";

/** Change is a series that differs between two windows. */
export interface AnomalyChange {
  /** Series selects it in PromQL, Expr is what was compared: the series, or its rate. */
  series: string;
  metric: string;
  labels: { [key: string]: string } | null;
  expr: string;
  unit: string;
  /** Before and After are medians, or of an event the mean while the process lived; nil where the series had no values. */
  before: number | null;
  after: number | null;
  /** Score is the difference in units of the spread within the windows, which ranks the changes, or of an event its use over the least that is listed, times LeastScore; Ratio is After / Before, nil where that is no number. */
  score: number;
  ratio: number | null;
  /** Since is the approximate time of the change; nil where no moment stands out. */
  since: string | null;
  /** Alike is the number of series of the same metric that also changed and are not listed. */
  alike: number;
  /** Event is "started" or "stopped" for a process that did so between the windows; "" for others. */
  event?: string;
  /** Text is the change as a sentence. */
  text: string;
}

/** Changes are the series that differ between two windows, the most unusual first. */
export interface AnomalyChanges {
  before: AnomalyWindow;
  after: AnomalyWindow;
  changes: AnomalyChange[] | null;
  /** Note says that the windows are others than those asked for, because the store does not reach so far back. */
  note?: string;
  /** Compared is the number of series looked at; Unable says why others were not. */
  compared: number;
  unable: string[] | null;
}
