//! The guests: programs in C (folder guests), and what they must say.

use sha2::{Digest, Sha256};

/// A program that can be proved.
pub struct Guest {
    pub name: &'static str,
    pub doc: &'static str,
    pub elf: &'static [u8],
    /// The most repetitions; 0 for a guest that has one size.
    pub most: u32,
    pub input: fn(n: u32) -> Vec<u8>,
    /// The public values of a right execution, computed outside of the zkVM.
    pub public: fn(n: u32) -> Vec<u8>,
    /// Bytes hashed as the guest's work.
    pub hashed: fn(n: u32) -> u64,
}

pub static ALL: &[Guest] = &[
    Guest {
        name: "rsa-2048",
        doc: "an RSA-2048 PKCS#1 v1.5 signature over SHA-256 is right: key and message are public",
        elf: include_bytes!("../guests/rsa-2048.elf"),
        most: 0,
        input: |_| certificate(),
        public: |_| certificate()[..PUBLIC].to_vec(),
        hashed: |_| MESSAGE as u64,
    },
    Guest {
        name: "sha256",
        doc: "a chain of N hashes",
        elf: include_bytes!("../guests/sha256.elf"),
        most: 10_000,
        input: |n| n.to_le_bytes().to_vec(),
        public: |n| {
            let last = (0..n).fold([0; 32], |link: [u8; 32], _| Sha256::digest(link).into());
            [&n.to_le_bytes()[..], &last].concat()
        },
        hashed: |n| 32 * n as u64,
    },
    Guest {
        name: "fibonacci",
        doc: "the Nth number of Fibonacci modulo 2^32",
        elf: include_bytes!("../guests/fibonacci.elf"),
        most: 10_000_000,
        input: |n| n.to_le_bytes().to_vec(),
        public: |n| {
            let (nth, _) = (0..n).fold((0u32, 1u32), |(a, b), _| (b, a.wrapping_add(b)));
            [n.to_le_bytes(), nth.to_le_bytes()].concat()
        },
        hashed: |_| 0,
    },
];

const MODULUS: usize = 256;
const MESSAGE: usize = 64;
const PUBLIC: usize = MODULUS + MESSAGE;

/// Modulus, message and signature, as the workload zk-rsa proves them.
fn certificate() -> Vec<u8> {
    let text = include_str!("../guests/rsa-2048.hex");
    let bytes: Vec<u8> = text.lines().flat_map(|line| hex::decode(line).expect("rsa-2048.hex has lines of hexadecimal digits")).collect();
    assert_eq!(bytes.len(), PUBLIC + MODULUS, "bytes in rsa-2048.hex");
    bytes
}
