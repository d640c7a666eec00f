// Terms of the field, each explained in a sentence or two, shown on hover.

export const glossary = {
  EPC: "Enclave page cache: the protected memory that SGX enclaves share. When the EPC is full, the kernel encrypts pages and moves them out. It moves a page back in when the page is used. This paging is slow.",
  enclave: "A part of a process whose memory the CPU encrypts and protects from everything outside, including the kernel.",
  "async exit": "The CPU leaves the enclave because of an interrupt or fault, saves the enclave's state and comes back later. Each exit costs thousands of cycles.",
  "bounce buffer": "Memory that a confidential VM shares with its host. Devices cannot reach private memory, so all input and output is copied through bounce buffers.",
  SWIOTLB: "The kernel's pool of bounce buffers. When the pool is full, input and output fail or wait.",
  SGX: "Intel Software Guard Extensions: encrypted parts of a process, called enclaves.",
  TDX: "Intel Trust Domain Extensions: virtual machines whose memory and CPU state the host cannot read.",
  "SEV-SNP": "AMD Secure Encrypted Virtualization with Secure Nested Paging: encrypted virtual machines whose memory map the host cannot change unnoticed.",
  "SEV-ES": "AMD Secure Encrypted Virtualization with encrypted CPU state.",
  SEV: "AMD Secure Encrypted Virtualization: virtual machines with encrypted memory.",
  TEE: "Trusted execution environment: hardware that protects a program's memory from the machine's owner.",
  attestation: "Proof, signed by the hardware, of what runs in a trusted execution environment.",
  "system calls": "Requests from a program to the kernel: read, write, send, wait. Inside a TEE, each call can cause an expensive exit.",
  "context switches": "A CPU stops one thread and continues another: voluntary when the thread waits, involuntary when its time is up.",
  voluntary: "The thread gave up the CPU to wait for something.",
  involuntary: "The kernel took the CPU away, because the thread's time was up or a more urgent thread became ready.",
  "page faults": "A program accessed memory that is not mapped for that use. The kernel maps the memory, copies it, or reads it from disk.",
  "page cache": "File contents that the kernel keeps in memory.",
  pressure: "Share of time in which at least one task waited for the resource.",
  steal: "Time in which this virtual machine wanted to run, but the hypervisor ran something else.",
  eBPF: "Small verified programs that run inside the kernel. teescope counts events with these programs.",
  coverage: "Share of all events that the source has counted. Below 100 %, counters are scaled up and are estimates.",
  "working set": "Memory in use that the kernel cannot free at once: usage minus the inactive file cache.",
  throttled: "The container exhausted its CPU quota and had to wait for the next period.",
  lockdown: "A kernel mode that stops even root from changing the running kernel. This mode can stop eBPF from reading memory.",
  folded: "A bounded table was full, so events were counted under the name other. Sums stay exact.",
} as const;

export type TermName = keyof typeof glossary;

// Longer terms first, so SEV-SNP does not match as SEV.
const names = (Object.keys(glossary) as TermName[]).sort((a, b) => b.length - a.length);
const pattern = new RegExp(`(?<![\\w-])(${names.map((n) => n.replace("-", "\\-")).join("|")})(?:s)?(?![\\w-])`, "gi");

/** Cuts a text at the first mention of each term. */
export function findTerms(text: string): { text: string; term: TermName | null }[] {
  const seen = new Set<TermName>();
  const out: { text: string; term: TermName | null }[] = [];
  let last = 0;
  for (const m of text.matchAll(pattern)) {
    const term = names.find((n) => n.toLowerCase() === m[1]!.toLowerCase());
    if (!term || seen.has(term)) continue;
    seen.add(term);
    if (m.index > last) out.push({ text: text.slice(last, m.index), term: null });
    out.push({ text: m[0], term });
    last = m.index + m[0].length;
  }
  if (last < text.length) out.push({ text: text.slice(last), term: null });
  return out;
}
