// The documents of docs/README.md, for the palette and the page Settings. They are in the repository, not in the monitor: a link
// leads there.

/** Name of the file, and what it is about. */
export const documents: [string, string][] = [
  ["install.md", "teescope on a server, in a container, on Kubernetes"],
  ["page.md", "what each page shows, and who may change settings"],
  ["busy-machines.md", "estimates, intervals, and what is different under load"],
  ["troubleshooting.md", "messages, what they mean, and what to do"],
  ["glossary.md", "the words that pages, findings and reports use"],
  ["findings.md", "how findings open and close, severity, history, silences, notifications, Slack"],
  ["rules.md", "every rule with its thresholds, and your own rules"],
  ["explain.md", "how an explanation of a process's time is made"],
  ["anomalies.md", "unusual levels, changes between two windows, predictions"],
  ["metrics.md", "every source and metric, and what it cannot see"],
  ["probes.md", "your own probes, without code"],
  ["machines.md", "one monitor for several machines"],
  ["scale.md", "layouts from one machine to a fleet"],
  ["budget.md", "how the monitor stays within its budget, and how good an estimate is"],
  ["bounds.md", "how much memory and time others can make the monitor use"],
  ["performance.md", "what teescope costs"],
  ["benchmarks.md", "the guide to benchmarks"],
  ["experiments.md", "what the mission's experiments say"],
  ["guards.md", "when teescope refuses to give a number"],
  ["statistics.md", "which numbers it prints, and why to believe them"],
  ["history.md", "results commit by commit"],
  ["templates.md", "environments of your own"],
  ["llm.md", "servers of language models"],
  ["attested-results.md", "results bound to the TEE that made them"],
  ["channel.md", "an attested tunnel in front of a service"],
  ["architecture.md", "the map of the code"],
  ["release.md", "how a release is made, checked and installed"],
  ["security.md", "whom teescope trusts with what, what each attacker can and cannot do, and the test of each sentence"],
  ["kernels.md", "the tested kernels"],
  ["measured.md", "promises that a live machine has confirmed, or not"],
];

/** The address of a document. */
export function documentURL(name: string): string {
  return `https://github.com/teescope/teescope/blob/main/docs/${name}`;
}
