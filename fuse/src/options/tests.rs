use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::{Access, MountOptions, OptionError, Origin, split};

fn parsed(list: &str) -> Result<MountOptions, OptionError> {
    let mut options = MountOptions::default();
    options.apply(OsStr::new(list), Origin::CommandLine).map(|()| options)
}

#[test]
fn nothing_is_a_valid_list() {
    let options = parsed("").unwrap();
    assert_eq!((options.access, options.suid, options.dev), (Access::Automatic, None, None));
    assert!(options.exec && !options.noatime && !options.auto_unmount && !options.over);
    assert_eq!(options.subtype, "microfs");
}

#[test]
fn the_last_of_contradicting_options_wins() {
    let options = parsed("suid,nosuid,nodev,dev,exec,noexec,atime,noatime,allow_root,allow_other");
    let options = options.unwrap();
    assert_eq!((options.suid, options.dev), (Some(false), Some(true)));
    assert_eq!((options.exec, options.noatime, options.access), (false, true, Access::Everyone));
    assert_eq!(parsed("allow_other,allow_root").unwrap().access, Access::RootAndOwner);
}

#[test]
fn what_fstab_holds_is_tolerated() {
    let list = "defaults,ro,user,nofail,_netdev,noauto,x-systemd.automount,X-mount.mkdir=0755,sync,\
                dirsync,async,default_permissions,user=anna,relatime,comment=y,,nonempty";
    assert!(parsed(list).is_ok());
}

#[test]
fn values_are_taken_with_their_escapes() {
    let options =
        parsed(r"fsname=/srv/a\,b\\c:tag=1,subtype=other,threads=3,auto_unmount").unwrap();
    assert_eq!(options.fs_name.unwrap(), r"/srv/a,b\c:tag=1");
    assert_eq!((options.subtype.as_os_str(), options.auto_unmount), (OsStr::new("other"), true));
    assert_eq!(options.threads.unwrap().get(), 3);
    let mut options = MountOptions::default();
    options.apply(OsStr::from_bytes(b"fsname=\xff"), Origin::CommandLine).unwrap();
    assert_eq!(options.fs_name.unwrap().as_bytes(), b"\xff");
}

#[test]
fn unknown_options_are_named() {
    for option in ["bogus", "bogus=1", "RO", "threads", "=", "max_read=4096", "allow_others"] {
        let error = parsed(&format!("ro,{option},nosuid")).unwrap_err();
        assert_eq!(error, OptionError::Unknown { option: option.into() });
        assert_eq!(error.to_string(), format!("unknown mount option {option:?}"));
    }
}

#[test]
fn bad_values_are_named() {
    for option in ["threads=0", "threads=-1", "threads=many", "fsname=", "subtype=a/b", "fsname=\0"]
    {
        let error = parsed(option).unwrap_err();
        assert_eq!(error, OptionError::BadValue { option: option.into() });
    }
}

#[test]
fn rw_is_refused_from_users_and_ignored_from_mount_8() {
    assert_eq!(parsed("rw").unwrap_err(), OptionError::ReadWrite);
    let mut options = MountOptions::default();
    assert_eq!(options.apply(OsStr::new("rw,nodev"), Origin::MountHelper), Ok(()));
    assert_eq!(options.dev, Some(false));
}

#[test]
fn commas_separate_unless_escaped() {
    assert_eq!(split(br"a,b\,c,\\,d\"), [&b"a"[..], b"b,c", b"\\", b"d\\"]);
}
