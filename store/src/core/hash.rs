//! A hash that is the same in every version and on every machine.

/// What [`fnv1a`] begins with.
pub const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a of 64 bits (Fowler, Noll, Vo): `hash` is [`FNV_BASIS`], or what came before these bytes.
///
/// It is short and spreads well. Do not use it where strangers choose the bytes, for they can make many of them meet.
pub const fn fnv1a(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut n = 0;
    while n < bytes.len() {
        hash = (hash ^ bytes[n] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        n += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the authors' list of test vectors.
    #[test]
    fn the_hash_is_fnv1a() {
        for (bytes, hash) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(fnv1a(FNV_BASIS, bytes.as_bytes()), hash, "{bytes}");
        }
        let begun = fnv1a(FNV_BASIS, b"foo");
        assert_eq!(fnv1a(begun, b"bar"), fnv1a(FNV_BASIS, b"foobar"));
    }
}
