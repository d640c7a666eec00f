//! teescope-zkvm runs inside environments under test: it executes a guest in SP1's zkVM, proves the execution with SP1's core prover, verifies
//! the proof, and checks that false ones are refused. Lines "begin STEP" and "end STEP" stand around each step, which the harness times by its own
//! clock; the last line is a JSON document.

mod check;
mod flags;
mod guests;
mod memory;

use std::{collections::BTreeMap, process::exit, time::Instant};

use flags::Job;
use p3_baby_bear::BabyBear;
use serde::Serialize;
use sha2::{Digest, Sha256};
use sp1_core_executor::{Executor, Program, SP1Context};
use sp1_core_machine::{io::SP1Stdin, riscv::RiscvAir, utils::prove_core};
use sp1_stark::{baby_bear_poseidon2::BabyBearPoseidon2, CpuProver, MachineProver, SP1CoreOpts, SplitOpts};

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

// As in Cargo.toml.
const LIBRARY: &str = "sp1-core-machine 5.2.4";

/// The document at the end of the output.
#[derive(Serialize)]
struct Report {
    guest: &'static str,
    /// How often the guest repeats its work; 0 for one that does not.
    n: u32,
    library: &'static str,
    /// Of the guest's ELF file.
    program_digest: String,
    /// Of what a verifier knows of the guest.
    key_digest: String,
    /// In hexadecimal.
    public_values: String,
    /// Instructions that the guest executed.
    cycles: u64,
    /// The most cycles of a shard, and how many shards were proved.
    shard_cycles: usize,
    shards: usize,
    threads: usize,
    /// Bytes that the guest hashed as its work.
    hashed_bytes: u64,
    /// Whether the proof was verified, and how many false ones were tried and refused.
    verified: bool,
    false_tried: usize,
    false_refused: usize,
    proof_bytes: usize,
    /// Bytes hashed outside of the zkVM in the step hash, by one thread.
    outside_bytes: u64,
    peak_rss_bytes: u64,
    /// The time of each step by the clock inside.
    inside_seconds: BTreeMap<&'static str, f64>,
}

fn main() {
    if !runs_here() {
        eprintln!("teescope-zkvm: this processor lacks AVX2, for which the program was compiled: run it on another, or compile it with another target-cpu in workloads/zkvm/.cargo/config.toml");
        exit(1);
    }
    // Threads of SP1 panic where something is wrong, and others would wait for them.
    std::panic::set_hook(Box::new(|info| {
        let what = info.payload();
        let what = what.downcast_ref::<String>().map(String::as_str).or(what.downcast_ref::<&str>().copied()).unwrap_or("no reason");
        let place = info.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
        eprintln!("teescope-zkvm: a step failed: {}{place}", what.replace('\n', " "));
        exit(1);
    }));
    // SP1 takes the number of queries from it: fewer prove less.
    std::env::remove_var("FRI_QUERIES");
    match flags::parse(std::env::args().skip(1)) {
        Ok(None) => print!("{}", flags::usage()),
        Ok(Some(job)) => {
            if let Err(why) = run(&job) {
                eprintln!("teescope-zkvm: {why}");
                exit(1);
            }
        }
        Err(why) => {
            eprintln!("teescope-zkvm: {why}");
            exit(flags::EXIT_USAGE);
        }
    }
}

/// Whether the processor has what the compiler was allowed to use (.cargo/config.toml). The macro of the standard library would answer yes.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn runs_here() -> bool {
    const AVX2: u32 = 1 << 5; // of leaf 7 in EBX (Intel SDM, volume 2, CPUID)
    #[allow(unused_unsafe)] // of newer compilers
    let seven = unsafe { core::arch::x86_64::__cpuid_count(7, 0) };
    seven.ebx & AVX2 != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn runs_here() -> bool {
    true
}

/// The steps, with their times.
#[derive(Default)]
struct Steps(BTreeMap<&'static str, f64>);

impl Steps {
    fn step<T>(&mut self, name: &'static str, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        println!("begin {name}");
        let began = Instant::now();
        let out = work()?;
        self.0.insert(name, began.elapsed().as_secs_f64());
        println!("end {name}");
        Ok(out)
    }
}

fn run(job: &Job) -> Result<(), String> {
    let guest = job.guest;
    let wanted = (guest.public)(job.n);
    let dir = std::env::temp_dir();
    if !dir.is_dir() {
        return Err(format!("folder {}, in which SP1 keeps its checkpoints, is not there: name another by TMPDIR", dir.display()));
    }
    let mut stdin = SP1Stdin::new();
    stdin.write_vec((guest.input)(job.n));
    let opts = options(job.shard);
    rayon::ThreadPoolBuilder::new().num_threads(job.threads).build_global().map_err(|e| format!("start {} threads: {e}", job.threads))?;
    let program = Program::from(guest.elf).map_err(|e| format!("read the guest {}: {e}", guest.name))?;
    let mut steps = Steps::default();

    let (cycles, values) = steps.step("execute", || {
        let mut executor = Executor::new(program.clone(), opts);
        executor.write_vecs(&stdin.buffer);
        executor.run_fast().map_err(|e| format!("execute the guest {}: {e}", guest.name))?;
        Ok((executor.report.total_instruction_count(), executor.state.public_values_stream.clone()))
    })?;
    if values != wanted {
        return Err(format!("the guest {} says {}, want {}", guest.name, hex::encode(values), hex::encode(wanted)));
    }

    let prover = CpuProver::<BabyBearPoseidon2, RiscvAir<BabyBear>>::new(RiscvAir::machine(BabyBearPoseidon2::new()));
    let (proving, verifying) = steps.step("keys", || Ok(prover.setup(&program)))?;
    let (proof, values, proved) = steps.step("prove", || {
        prove_core(&prover, &proving, &verifying, program.clone(), &stdin, opts, SP1Context::default(), None, None).map_err(|e| format!("prove: {e}"))
    })?;
    drop(proving);
    if values != wanted || proved != cycles {
        return Err(format!(
            "the proof is of {proved} cycles that end with {}, want {cycles} cycles and {}",
            hex::encode(values),
            hex::encode(wanted)
        ));
    }
    let shards = proof.shard_proofs.len();
    let bytes = bincode::serialize(&proof).map_err(|e| format!("encode the proof: {e}"))?;
    drop(proof);

    let machine = prover.machine();
    let proof = steps.step("verify", || {
        let proof = check::decode(&bytes)?;
        check::accepts(machine, &verifying, &proof, &wanted).map_err(|why| format!("the proof is refused: {why}"))?;
        Ok(proof)
    })?;
    let tried = check::false_ones(&proof, &wanted);
    for (what, proof, values) in &tried {
        if check::accepts(machine, &verifying, proof, values).is_ok() {
            return Err(format!("{what} was accepted: this verification proves nothing"));
        }
    }

    let outside_bytes = job.hash << 20;
    steps.step("hash", || {
        hash(outside_bytes);
        Ok(())
    })?;
    let report = Report {
        guest: guest.name,
        n: job.n,
        library: LIBRARY,
        program_digest: digest(guest.elf),
        key_digest: digest(&check::encode(&verifying)?),
        public_values: hex::encode(&wanted),
        cycles,
        shard_cycles: job.shard,
        shards,
        threads: job.threads,
        hashed_bytes: (guest.hashed)(job.n),
        verified: true,
        false_tried: tried.len(),
        false_refused: tried.len(),
        proof_bytes: bytes.len(),
        outside_bytes,
        peak_rss_bytes: memory::peak_rss(),
        inside_seconds: steps.0,
    };
    println!("{}", serde_json::to_string(&report).map_err(|e| format!("encode the report: {e}"))?);
    Ok(())
}

/// How SP1 divides the work. Its own defaults follow from the machine's memory, and then two machines would prove different shards: these are
/// those of machines with up to 32 GiB.
fn options(shard: usize) -> SP1CoreOpts {
    SP1CoreOpts {
        shard_size: shard,
        shard_batch_size: 1,
        split_opts: SplitOpts::new(1 << 12),
        trace_gen_workers: 1,
        checkpoints_channel_capacity: 128,
        records_and_traces_channel_capacity: 1,
    }
}

/// Hashes so many bytes in pieces that stay in the cache.
fn hash(bytes: u64) {
    let piece = [0x5au8; 64 << 10];
    let mut h = Sha256::new();
    for _ in 0..bytes / piece.len() as u64 {
        h.update(std::hint::black_box(&piece));
    }
    std::hint::black_box(h.finalize());
}

fn digest(of: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(of)))
}
