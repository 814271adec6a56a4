use super::{fusermount_options, refusal};
use crate::error::MountError;
use crate::options::{Access, MountOptions};

#[test]
fn ordinary_users_ask_for_no_more_than_they_get() {
    let options = MountOptions { fs_name: Some("a,b\\c:t".into()), ..Default::default() };
    let expected = "ro,default_permissions,fsname=a\\,b\\\\c:t,subtype=microfs";
    assert_eq!(fusermount_options(&options, false), expected);
    let options = MountOptions { suid: Some(true), ..options };
    assert_eq!(fusermount_options(&options, false), expected);
    let root = format!("{expected},suid,dev,allow_other");
    assert_eq!(fusermount_options(&options, true), root.as_str());
}

#[test]
fn every_option_is_passed_on() {
    let options = MountOptions {
        access: Access::Everyone,
        suid: Some(false),
        dev: Some(false),
        exec: false,
        noatime: true,
        auto_unmount: true,
        ..Default::default()
    };
    assert_eq!(
        fusermount_options(&options, true),
        "ro,default_permissions,fsname=microfs,subtype=microfs,noexec,noatime,allow_other,auto_unmount"
    );
}

#[test]
fn refusals_have_a_remedy_where_one_is_known() {
    // Messages of fusermount3 3.14.
    let of = |message: &str| refusal(message.into());
    assert!(matches!(
        of(
            "fusermount3: option allow_other only allowed if 'user_allow_other' is set in /etc/fuse.conf"
        ),
        MountError::AllowOtherDenied
    ));
    assert!(matches!(
        of("fusermount3: failed to open /dev/fuse: Permission denied"),
        MountError::DeviceDenied
    ));
    assert!(matches!(
        of("fusermount3: fuse device not found, try 'modprobe fuse' first"),
        MountError::NoDevice
    ));
    let other = of("fusermount3: user has no write access to mountpoint /mnt");
    assert_eq!(other.to_string(), "fusermount3: user has no write access to mountpoint /mnt");
}
