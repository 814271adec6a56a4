use std::ffi::OsString;

use super::{HelperCall, HelperError};
use crate::options::OptionError;

fn parsed(line: &[&str]) -> Result<HelperCall, HelperError> {
    HelperCall::parse(line.iter().map(OsString::from))
}

#[test]
fn the_line_that_mount_8_writes() {
    // As util-linux 2.38 calls it for an fstab line with "ro,nosuid,x-systemd.automount".
    let call = parsed(&["/srv/oci:tag", "/mnt", "-o", "rw,nosuid"]).unwrap();
    assert_eq!((call.source.to_str(), call.target.to_str()), (Some("/srv/oci:tag"), Some("/mnt")));
    assert_eq!(call.options.suid, Some(false));
    assert_eq!(call.options.fs_name.unwrap(), "/srv/oci:tag");
    assert!(!call.fake && !call.verbose);
}

#[test]
fn flags_stand_anywhere_and_together() {
    let call = parsed(&["-nv", "a:b", "-f", "-t", "microfs", "/mnt", "-oro,fsname=x", "-N", "/ns"]);
    let call = call.unwrap();
    assert!(call.fake && call.verbose);
    assert_eq!(call.options.fs_name.unwrap(), "x");
    assert_eq!(call.target.to_str(), Some("/mnt"));
}

#[test]
fn sloppy_passes_over_unknown_options_only() {
    let call = parsed(&["a:b", "/mnt", "-s", "-o", "bogus,nodev"]).unwrap();
    assert_eq!(call.options.dev, Some(false));
    let error = parsed(&["a:b", "/mnt", "-s", "-o", "threads=x"]).unwrap_err();
    assert_eq!(error, HelperError::Option(OptionError::BadValue { option: b"threads=x".to_vec() }));
    let error = parsed(&["a:b", "/mnt", "-o", "bogus,nodev"]).unwrap_err();
    assert_eq!(error, HelperError::Option(OptionError::Unknown { option: b"bogus".to_vec() }));
}

#[test]
fn anything_else_is_an_error() {
    for line in [&["a:b"][..], &["a:b", "/mnt", "more"], &[], &["a:b", "/mnt", "-o"]] {
        assert_eq!(parsed(line).unwrap_err(), HelperError::Usage, "{line:?}");
    }
    let error = parsed(&["a:b", "/mnt", "-nq"]).unwrap_err();
    assert_eq!(error, HelperError::UnknownFlag { flag: b"-nq".to_vec() });
}
