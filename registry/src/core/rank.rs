//! An order of texts that is as good as drawn by lot, and the same on all nodes of all versions.

use callsign_store::random::splitmix;

/// A number that follows from a text and a seed (FNV-1a, Fowler, Noll and Vo, and `SplitMix64`). To choose by, not to protect.
pub(crate) fn rank(text: &str, seed: u64) -> u64 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    // With eight bytes behind it, as nodes that choose by it have always had it.
    splitmix(seed ^ text.bytes().chain([0; 8]).fold(0xcbf2_9ce4_8422_2325, fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_the_same_for_ever() {
        assert_eq!(rank("a/1/5/key", 0), 0x16a7_74fe_35e4_56fd);
        assert_eq!(rank("", 0), 0x5ba3_14b8_cfda_3b6b);
        assert_eq!(rank("a/1/5/key", 7), 0x4b00_78ea_d036_3d86);
    }
}
