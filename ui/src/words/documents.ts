// The documents for users, of docs/README.md, for the palette and the page Settings. They are in the repository, not in the
// monitor: a link leads there.

/** Name of the file, and what it is about. */
export const documents: [string, string][] = [
  ["install.md", "teescope on a server, in a container, on Kubernetes"],
  ["page.md", "what each page shows, and who may change settings"],
  ["busy-machines.md", "how the numbers change when all CPUs are in use; some become estimates with intervals"],
  ["troubleshooting.md", "messages, what they mean, and what to do"],
  ["glossary.md", "the words that pages, findings and reports use"],
  ["findings.md", "how findings open and close, severity, history, silences, notifications, Slack"],
  ["explain.md", "how an explanation of a process's time is made"],
  ["machines.md", "one monitor for several machines"],
  ["reliability.md", "which data survive disk failures and killed processes, and how this is tested"],
  ["scale.md", "layouts from one machine to a fleet"],
  ["budget.md", "how the monitor stays within its budget, and how accurate its estimates are"],
  ["benchmarks.md", "the guide to benchmarks"],
  ["experiments.md", "published claims that teescope tests again, and our results"],
  ["sources/README.md", "published tables next to our numbers"],
  ["history.md", "results commit by commit"],
  ["attested-results.md", "results that are bound to the TEE that made them"],
  ["channel.md", "an attested tunnel in front of a service"],
  ["metrics.md", "every source, its metrics, and what the source cannot see"],
  ["rules.md", "every rule with its thresholds, and your own rules"],
  ["anomalies.md", "unusual levels, changes between two windows, predictions"],
  ["probes.md", "your own probes, without code"],
  ["bounds.md", "how much memory and time others can make the monitor use"],
  ["security.md", "what teescope trusts, what each attacker can and cannot do, and the test of each claim"],
  ["workloads.md", "every workload, its parameters, where it can run, and what is in a result"],
  ["guards.md", "when teescope refuses to give a number"],
  ["statistics.md", "which numbers teescope prints, and why to believe them"],
  ["templates.md", "environments of your own"],
  ["llm.md", "servers of language models"],
];

/** The address of a document. */
export function documentURL(name: string): string {
  return `https://github.com/teescope/teescope/blob/main/docs/${name}`;
}
