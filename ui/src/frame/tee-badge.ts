// The badge of this machine's trusted execution environment.
import type { TEE } from "../api/types";

export interface Badge {
  text: string;
  level: "here" | "inactive" | "none" | "unknown";
  title: string;
}

const names: Record<string, string> = { sgx: "SGX", tdx: "TDX", "tdx-host": "TDX", sev: "SEV", "sev-host": "SEV", "sev-es": "SEV-ES", "sev-snp": "SEV-SNP", cca: "CCA", nitro: "Nitro", "ibm-se": "IBM Secure Execution", "ibm-pef": "IBM PEF", "nvidia-cc": "NVIDIA confidential GPU" };

/** A kind or variant as its makers write it. */
export function teeName(kind: string, variant?: string): string {
  return names[variant ?? ""] ?? names[kind] ?? kind;
}

/** A name with the indefinite article that its pronunciation asks for: "an SEV-SNP guest". */
export function withArticle(name: string): string {
  return `${/^(SEV|SGX|IBM|NVIDIA)/.test(name) ? "an" : "a"} ${name}`;
}

/** A detector's name: hosts and guests of a kind have separate ones. */
export function kindName(kind: string): string {
  return teeName(kind) + (kind.endsWith("-host") ? " host" : "");
}

/** Detection reads kernel and CPU; only attestation would verify them. */
export function badgeOf(tees: TEE[] | null): Badge {
  const list = tees ?? [];
  const here = list.filter((t) => t.state === "here" && t.facts);
  const active = here.find((t) => t.facts?.active);
  const shown = active ?? here[0];
  if (shown?.facts) {
    const { kind, variant, role, debug } = shown.facts;
    const name = `${teeName(kind, variant)} ${role}`;
    const more = here.length > 1 ? ` and ${here.length - 1} more` : "";
    if (!active) return { text: `${name}, not active${more}`, level: "inactive", title: shown.facts.why ?? "" };
    return {
      text: `${name}, detected${debug ? ", debug" : ""}${more}`,
      level: "here",
      title: "Detected from the kernel and the CPU; nothing was attested.",
    };
  }
  const unsure = list.filter((t) => t.state === "could not tell");
  if (unsure.length > 0) return { text: "TEE: unknown", level: "unknown", title: unsure.map((t) => `${kindName(t.kind)}: ${t.reason ?? "no reason given"}`).join("\n") };
  if (list.length === 0) return { text: "TEE: not known yet", level: "unknown", title: "" };
  return { text: "no TEE here", level: "none", title: `Looked for ${list.map((t) => kindName(t.kind)).join(", ")}.` };
}
