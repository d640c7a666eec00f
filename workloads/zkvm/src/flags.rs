//! The command line.

use crate::guests::{self, Guest};

/// A usage error has another exit status than a run that failed, as those of teescope's other programs.
pub const EXIT_USAGE: i32 = 4;

const MOST_THREADS: u64 = 1 << 12;
const MOST_HASH: u64 = 1 << 16; // MiB
                                // A shard of 2^21 cycles is the largest that SP1 chooses itself; smaller ones than 2^14 would be nothing but constant parts.
const LEAST_SHARD: u64 = 1 << 14;
const MOST_SHARD: u64 = 1 << 21;

/// What to do.
pub struct Job {
    pub guest: &'static Guest,
    /// 0 if the guest has no size.
    pub n: u32,
    pub shard: usize,
    pub threads: usize,
    /// MiB to hash outside of the zkVM.
    pub hash: u64,
}

pub fn usage() -> String {
    let mut out = String::from("usage: teescope-zkvm [-guest NAME] [-n N] [-shard CYCLES] [-threads N] [-hash MIB]\n\n");
    for g in guests::ALL {
        out += &format!("  -guest {:<10} {}\n", g.name, g.doc);
    }
    out + &format!("  -n N              how often the guest repeats its work (default 200)\n  -shard CYCLES     cycles of a shard, a power of two from {LEAST_SHARD} to {MOST_SHARD} (default 524288)\n  -threads N        threads of the prover's pool (default 2); a few more prepare its work\n  -hash MIB         MiB to hash outside of the zkVM (default 64)\n")
}

/// Reads the arguments; None asks for help.
pub fn parse(args: impl Iterator<Item = String>) -> Result<Option<Job>, String> {
    let mut args = args;
    let (mut guest, mut n, mut shard, mut threads, mut hash) = (guests::ALL[0].name.to_string(), 200, 1 << 19, 2, 64);
    while let Some(flag) = args.next() {
        let name =
            flag.strip_prefix("--").or(flag.strip_prefix('-')).ok_or(format!("unexpected argument {flag:?}: teescope-zkvm -help lists the flags"))?;
        if name == "help" || name == "h" {
            return Ok(None);
        }
        let mut value = || args.next().ok_or(format!("-{name}: its value is missing"));
        match name {
            "guest" => guest = value()?,
            "n" => n = number(name, &value()?, 0, u32::MAX as u64)?,
            "shard" => shard = number(name, &value()?, LEAST_SHARD, MOST_SHARD)?,
            "threads" => threads = number(name, &value()?, 1, MOST_THREADS)?,
            "hash" => hash = number(name, &value()?, 1, MOST_HASH)?,
            _ => return Err(format!("there is no flag -{name}: teescope-zkvm -help lists the flags")),
        }
    }
    let names: Vec<_> = guests::ALL.iter().map(|g| g.name).collect();
    let guest = guests::ALL.iter().find(|g| g.name == guest).ok_or(format!("-guest {guest:?}: want one of {}", names.join(", ")))?;
    if guest.most > 0 && !(1..=guest.most as u64).contains(&n) {
        return Err(format!("-n {n}: want a whole number from 1 to {} with -guest {}", guest.most, guest.name));
    }
    if !shard.is_power_of_two() {
        return Err(format!("-shard {shard}: want a power of two"));
    }
    let n = if guest.most > 0 { n as u32 } else { 0 };
    Ok(Some(Job { guest, n, shard: shard as usize, threads: threads as usize, hash }))
}

fn number(name: &str, text: &str, least: u64, most: u64) -> Result<u64, String> {
    match text.parse() {
        Ok(v) if (least..=most).contains(&v) => Ok(v),
        _ => Err(format!("-{name} {text}: want a whole number from {least} to {most}")),
    }
}
