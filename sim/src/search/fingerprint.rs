//! `SipHash` with 128 bits of output, the same on every little-endian machine.
//!
//! Among 10 million states two share 128 bits with a probability of about 10^-25; with 64 bits it would be 10^-6.
//! The standard library's hasher has neither the width nor a promised algorithm.

use std::hash::{Hash, Hasher};

/// What stands for a state.
pub type Fingerprint = u128;

/// The fingerprint of a value: SipHash-1-3-128 with the key 0 over what its `Hash` writes.
pub fn fingerprint<T: Hash + ?Sized>(value: &T) -> Fingerprint {
    let mut hasher = Sip::<1, 3>::new(0, 0);
    value.hash(&mut hasher);
    hasher.finish128()
}

/// `SipHash`: `C` rounds for each word, `D` at the end.
struct Sip<const C: usize, const D: usize> {
    v: [u64; 4],
    /// Bytes that do not fill a word yet.
    tail: u64,
    length: u64,
}

impl<const C: usize, const D: usize> Sip<C, D> {
    fn new(k0: u64, k1: u64) -> Self {
        let v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        Sip { v, tail: 0, length: 0 }
    }

    fn rounds(v: &mut [u64; 4], rounds: usize) {
        for _ in 0..rounds {
            v[0] = v[0].wrapping_add(v[1]);
            v[1] = v[1].rotate_left(13) ^ v[0];
            v[0] = v[0].rotate_left(32);
            v[2] = v[2].wrapping_add(v[3]);
            v[3] = v[3].rotate_left(16) ^ v[2];
            v[0] = v[0].wrapping_add(v[3]);
            v[3] = v[3].rotate_left(21) ^ v[0];
            v[2] = v[2].wrapping_add(v[1]);
            v[1] = v[1].rotate_left(17) ^ v[2];
            v[2] = v[2].rotate_left(32);
        }
    }

    fn word(&mut self, word: u64) {
        self.v[3] ^= word;
        Self::rounds(&mut self.v, C);
        self.v[0] ^= word;
    }

    /// Adds the lowest `bytes` bytes of a word whose others are 0.
    fn add(&mut self, word: u64, bytes: u32) {
        let filled = u32::try_from(self.length % 8).unwrap_or(0);
        self.length = self.length.wrapping_add(u64::from(bytes));
        self.tail |= word << (8 * filled);
        if filled + bytes >= 8 {
            self.word(self.tail);
            self.tail = word.checked_shr(8 * (8 - filled)).unwrap_or(0);
        }
    }

    fn finish128(&self) -> u128 {
        let mut last = Self { v: self.v, ..*self };
        last.word(self.tail | self.length << 56);
        let mut v = last.v;
        v[2] ^= 0xee;
        Self::rounds(&mut v, D);
        let low = v[0] ^ v[1] ^ v[2] ^ v[3];
        v[1] ^= 0xdd;
        Self::rounds(&mut v, D);
        let high = v[0] ^ v[1] ^ v[2] ^ v[3];
        u128::from(high) << 64 | u128::from(low)
    }
}

impl<const C: usize, const D: usize> Hasher for Sip<C, D> {
    fn finish(&self) -> u64 {
        let all = self.finish128().to_le_bytes();
        u64::from_le_bytes([all[0], all[1], all[2], all[3], all[4], all[5], all[6], all[7]])
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word), 8);
        }
        if !rest.is_empty() {
            let word = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.add(word, u32::try_from(rest.len()).unwrap_or(0));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.add(value.into(), 1);
    }

    fn write_u16(&mut self, value: u16) {
        self.add(value.into(), 2);
    }

    fn write_u32(&mut self, value: u32) {
        self.add(value.into(), 4);
    }

    fn write_u64(&mut self, value: u64) {
        self.add(value, 8);
    }

    fn write_u128(&mut self, value: u128) {
        self.write(&value.to_le_bytes());
    }

    fn write_usize(&mut self, value: usize) {
        self.add(value as u64, 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the reference implementation (`vectors_sip128`): key 00 to 0f, message 00, 01, 02, ...
    #[test]
    fn computes_the_published_vectors() {
        let vector = |length: u8| {
            let mut hasher = Sip::<2, 4>::new(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
            hasher.write(&(0..length).collect::<Vec<u8>>());
            u128::from_be_bytes(hasher.finish128().to_le_bytes())
        };
        assert_eq!(vector(0), 0xa381_7f04_ba25_a8e6_6df6_7214_c755_0293);
        assert_eq!(vector(1), 0xda87_c1d8_6b99_af44_3476_5911_9b22_fc45);
        assert_eq!(vector(2), 0x8177_228d_a4a4_5dc7_fca3_8bde_f60a_ffe4);
    }

    #[test]
    fn does_not_depend_on_how_the_bytes_are_cut() {
        let bytes: Vec<u8> = (0..40).collect();
        let mut whole = Sip::<1, 3>::new(1, 2);
        whole.write(&bytes);
        for cut in 0..bytes.len() {
            let mut parts = Sip::<1, 3>::new(1, 2);
            parts.write(&bytes[..cut]);
            parts.write(&bytes[cut..]);
            assert_eq!(parts.finish128(), whole.finish128(), "{cut}");
        }
        let mut numbers = Sip::<1, 3>::new(1, 2);
        numbers.write_u8(0);
        numbers.write_u16(0x0201);
        numbers.write_u32(0x0605_0403);
        numbers.write_u64(0x0e0d_0c0b_0a09_0807);
        numbers.write(&bytes[15..]);
        assert_eq!(numbers.finish128(), whole.finish128());
    }

    #[test]
    fn stays_what_it_is() {
        assert_eq!(fingerprint(&(1_u8, "name", 2_u64, -3_i32)), 0x96ef_6480_80a0_6740_7dac_346e_618b_b7a0);
        assert_ne!(fingerprint(&1_u8), fingerprint(&1_u16));
    }
}
