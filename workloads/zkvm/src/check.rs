//! What a verifier checks. SP1's core machine verifies each shard by itself, and that all shards together read what was written; that the shards
//! are one execution of the guest, from its first instruction to its end, and that its public values are those expected, is checked here.

use std::borrow::{Borrow, BorrowMut};

use p3_baby_bear::BabyBear;
use p3_field::{AbstractField, PrimeField32};
use sha2::{Digest, Sha256};
use sp1_core_machine::riscv::RiscvAir;
use sp1_stark::{
    air::PublicValues, baby_bear_poseidon2::BabyBearPoseidon2, MachineProof, ShardProof, StarkGenericConfig, StarkMachine, StarkVerifyingKey, Word,
    PROOF_MAX_NUM_PVS,
};

pub type Machine = StarkMachine<BabyBearPoseidon2, RiscvAir<BabyBear>>;
pub type Proof = MachineProof<BabyBearPoseidon2>;
pub type Key = StarkVerifyingKey<BabyBearPoseidon2>;

type Values = PublicValues<Word<BabyBear>, BabyBear>;

/// Beyond these the counters of a shard, or of the shards, could wrap around in the field (log2 of the rows of the table of instructions).
const MOST_LOG_CYCLES: usize = 22;
const MOST_SHARDS: usize = 1 << 16;

pub fn decode(bytes: &[u8]) -> Result<Proof, String> {
    bincode::deserialize(bytes).map_err(|e| format!("read the proof: {e}"))
}

/// What a verifier knows of a guest: its instructions, its first one, and its memory.
pub fn encode(key: &Key) -> Result<Vec<u8>, String> {
    bincode::serialize(&(&key.commit, &key.pc_start, &key.initial_global_cumulative_sum)).map_err(|e| format!("encode the verifying key: {e}"))
}

/// Whether a proof proves that the guest ran to its end and said these public values; the error says why not.
pub fn accepts(machine: &Machine, key: &Key, proof: &Proof, said: &[u8]) -> Result<(), String> {
    one_execution(key, proof, &committed(said))?;
    machine.verify(key, proof, &mut machine.config().challenger()).map_err(|e| e.to_string())
}

/// The digest of public values, as proofs have it.
fn committed(said: &[u8]) -> [Word<BabyBear>; 8] {
    let sum = Sha256::digest(said);
    std::array::from_fn(|i| Word(std::array::from_fn(|k| BabyBear::from_canonical_u8(sum[4 * i + k]))))
}

fn values(shard: &ShardProof<BabyBearPoseidon2>) -> Result<&Values, String> {
    if shard.public_values.len() != PROOF_MAX_NUM_PVS {
        return Err(format!("a shard has {} public values, want {PROOF_MAX_NUM_PVS}", shard.public_values.len()));
    }
    Ok(shard.public_values.as_slice().borrow())
}

/// Checks that each shard goes on where the one before ended.
fn one_execution(key: &Key, proof: &Proof, wanted: &[Word<BabyBear>; 8]) -> Result<(), String> {
    if proof.shard_proofs.len() > MOST_SHARDS {
        return Err(format!("the proof has {} shards, want at most {MOST_SHARDS}", proof.shard_proofs.len()));
    }
    let zero = BabyBear::zero();
    let nothing = [Word([zero; 4]); 8];
    let (mut pc, mut executed) = (key.pc_start, 0);
    let (mut initialized, mut finalized) = ([zero; 32], [zero; 32]); // bits of the last address whose memory was begun or ended
    let mut digest = nothing;
    for (i, shard) in proof.shard_proofs.iter().enumerate() {
        let v = values(shard)?;
        let runs = shard.contains_cpu();
        executed += u32::from(runs);
        let rules = [
            (i > 0 || runs, "the first shard executes nothing"),
            (!runs || shard.log_degree_cpu() <= MOST_LOG_CYCLES, "a shard is too long"),
            (v.shard.as_canonical_u32() as usize == i + 1, "the shards are not in their order"),
            (!runs || v.execution_shard.as_canonical_u32() == executed, "the shards of the execution are not in their order"),
            (v.start_pc == pc, "a shard does not begin where the one before ended"),
            (if runs { v.start_pc != zero } else { v.start_pc == v.next_pc }, "a shard executes after the end, or moves without executing"),
            (v.exit_code == zero, "the guest failed"),
            (v.previous_init_addr_bits == initialized && v.previous_finalize_addr_bits == finalized, "memory is not in its order"),
            (shard.contains_global_memory_init() || v.last_init_addr_bits == initialized, "a shard begins memory that it does not have"),
            (shard.contains_global_memory_finalize() || v.last_finalize_addr_bits == finalized, "a shard ends memory that it does not have"),
            (v.committed_value_digest == digest || runs && digest == nothing, "the digest of the public values changes"),
            (v.deferred_proofs_digest == [zero; 8], "other proofs are needed"),
        ];
        if let Some((_, why)) = rules.iter().find(|(holds, _)| !holds) {
            return Err(format!("shard {}: {why}", i + 1));
        }
        (pc, initialized, finalized, digest) = (v.next_pc, v.last_init_addr_bits, v.last_finalize_addr_bits, v.committed_value_digest);
    }
    if pc != zero {
        return Err("the guest has not ended".into());
    }
    if digest != *wanted {
        return Err("the public values are not those of the proof".into());
    }
    Ok(())
}

/// False proofs, each with the public values that it would prove: other values, other values with their digest in the proof, and an opening of
/// the first table that is another.
pub fn false_ones(proof: &Proof, said: &[u8]) -> Vec<(&'static str, Proof, Vec<u8>)> {
    let mut other = said.to_vec();
    *other.last_mut().expect("a guest says something") ^= 1;
    let digest = committed(&other);
    let mut forged = proof.clone();
    for shard in &mut forged.shard_proofs {
        let v: &mut Values = shard.public_values.as_mut_slice().borrow_mut();
        if v.committed_value_digest == committed(said) {
            v.committed_value_digest = digest;
        }
    }
    let mut opened = proof.clone();
    let table = opened.shard_proofs[0].opened_values.chips.iter_mut().find_map(|c| c.main.local.first_mut()).expect("a shard has a table");
    *table += <BabyBearPoseidon2 as StarkGenericConfig>::Challenge::one();
    vec![
        ("a proof for another public value", proof.clone(), other.clone()),
        ("a proof with another public value in it", forged, other),
        ("a proof with another opening", opened, said.to_vec()),
    ]
}
