use super::ignored;

#[test]
fn the_set_of_ignored_signals_is_read() {
    // SIGHUP is 1 and SIGPIPE 13 (signal(7)).
    let status = "Name:\tx\nSigBlk:\t0000000000000004\nSigIgn:\t0000000000001001\n";
    assert_eq!(ignored(status), 0x1001);
    assert_eq!(ignored(""), 0);
}
