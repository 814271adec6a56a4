use super::*;

#[test]
fn only_what_is_offered_and_not_masked_is_agreed() {
    let all: u64 = Capability::ALL.iter().map(|capability| capability.flag()).sum();
    let none = CapabilitySet::default();
    for capability in Capability::ALL {
        assert!(agree(all, none, true).contains(capability));
        assert!(!agree(all & !capability.flag(), none, true).contains(capability));
        let masked: CapabilitySet = [capability].into_iter().collect();
        assert!(!agree(all, masked, true).contains(capability));
    }
    assert!(!agree(all, none, false).contains(Capability::PosixAcl), "no ACL, no question");
    assert_eq!(agree(0, none, true), none);
}

#[test]
fn flags_from_bit_32_on_have_their_own_field() {
    let answer = answer(init::ALLOW_IDMAP | init::DO_READDIRPLUS, 131_072);
    // Bits 40 and 13 of `include/uapi/linux/fuse.h`.
    assert_eq!((answer.flags, answer.flags2), (0x2000, 0x100));
    assert_eq!(answer.max_readahead, 131_072);
}
