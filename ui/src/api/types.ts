// Generated from internal/web/types.go by `go generate ./internal/web`. Do not edit.

/** Role says from which side the TEE is seen. */
export type TeeRole = "host" | "guest";

/** Evidence is one thing that was read: where, and what it said. */
export interface TeeEvidence {
  source: string;
  value: string;
}

/** Facts are what Detect found out about one TEE. */
export interface TeeFacts {
  /** Kind is the Kind's Name ("sgx", "tdx", "sev"), filled in by the package's Detect. */
  kind: string;
  /** Variant tells members of a family apart ("in-tree", "isgx", "sev-es", "sev-snp"). */
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

/** Platform is the answer of GET platform: what this machine is. */
export interface Platform {
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
  /** Interval is the time between two readings in seconds; absent where nothing is stored. */
  interval?: number;
  tees: TEE[] | null;
}

/** Source is one element of GET sources. */
export interface Source {
  name: string;
  doc: string;
  /** "available", "degraded", "unavailable", "not here", "off" */
  state: string;
  reason?: string;
  remedy?: string;
  blind?: boolean;
  /** the filter in force */
  process?: string;
  /** Coverage is the share of all events that were counted; absent where it is not known. Missed and Folded are absent where nothing is read. */
  coverage?: number;
  missed?: number;
  folded?: number;
  series: number;
  metrics: string[] | null;
}

/** SourceSetting is the body of POST sources/{name}; an absent field leaves things as they are. */
export interface SourceSetting {
  on?: boolean;
  process?: string;
}

/** Severity orders findings. */
export type AnalysisSeverity = "info" | "warning" | "critical";

/** Evidence is one number behind a finding, with the query that gives it. */
export interface AnalysisEvidence {
  text: string;
  value: number;
  /** Unit is a word for printing: "1/s", "ratio", "cores", "bytes", "seconds", or "" for a plain number. */
  unit: string;
  expr: string;
}

/** Finding is a cause seen on a subject. */
export interface AnalysisFinding {
  rule: string;
  /** Subject is what shows it: a process name, a container, "machine". With Rule it identifies the finding. */
  subject: string;
  /** Title is the verdict in one sentence, with the main number. */
  title: string;
  severity: AnalysisSeverity;
  evidence: AnalysisEvidence[] | null;
  /** Share is the interval of the share of CPU time that the cause takes, where it is known, as ratios. */
  share?: [number, number];
  remedy: string;
  reference: string;
}

/** State of a finding over time. */
export type AnalysisState = "open" | "closed";

/** Record is a finding with its history, as the API serves it. */
export interface AnalysisRecord extends AnalysisFinding {
  /** ID is stable: the same rule and subject opened at the same time. */
  id: string;
  state: AnalysisState;
  since: string;
  /** LastSeen is the last evaluation in which the rule held; Until is set once closed. */
  lastSeen: string;
  until?: string;
}

/** Answer is what the last evaluation of a rule said. */
export type AnalysisAnswer = "fires" | "silent" | "cannot tell";

/** RuleStat is a rule with the outcome of its last evaluation. */
export interface AnalysisRuleStat {
  name: string;
  title: string;
  doc: string;
  answer: AnalysisAnswer;
  reason?: string;
  at?: string;
  /** Windows are the long and the short one, in seconds. */
  windows: [number, number];
}

/** Findings is the answer of GET findings. */
export interface Findings {
  /** open ones first, then the newest closed ones */
  findings: AnalysisRecord[] | null;
  rules: AnalysisRuleStat[] | null;
  at: string;
}

/** Overhead is the answer of GET overhead: what the monitor itself costs. */
export interface Overhead {
  /** CPU maps a part (body, dispatch, userspace) to the share of one core over the last minute; a part that is not known is absent. */
  cpu: { [key: string]: number } | null;
  /** Missing explains the absent parts, and the absent "memory" and "series". */
  missing?: { [key: string]: string };
  rssBytes?: number;
  series?: number;
  /** Budget is the share of each core that the monitor may use. */
  budget: number;
  /** StoreError says that the store has lost or may lose samples, "" when all is well. */
  storeError?: string;
}

/** Error is the body of every failed request. */
export interface Error {
  error: string;
}
