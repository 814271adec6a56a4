use super::{Capability, CapabilitySet, UnknownCapability};

#[test]
fn names_are_read_back() {
    for capability in Capability::ALL {
        assert_eq!(capability.name().parse(), Ok(capability));
    }
    assert_eq!("splice".parse::<Capability>(), Err(UnknownCapability));
}

#[test]
fn a_set_holds_what_was_put_in() {
    let set: CapabilitySet = [Capability::NoOpen, Capability::Export].into_iter().collect();
    let held: Vec<_> = Capability::ALL.into_iter().filter(|one| set.contains(*one)).collect();
    assert_eq!(held, [Capability::NoOpen, Capability::Export]);
}

#[test]
fn the_message_names_every_capability() {
    let message = UnknownCapability.to_string();
    for capability in Capability::ALL {
        assert!(message.contains(capability.name()), "{}", capability.name());
    }
}
