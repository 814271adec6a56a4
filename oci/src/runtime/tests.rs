use super::*;

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nweb:x:33:34:w:/srv:/bin/false\nbad line\n";
const GROUP: &str = "root:x:0:\nweb:x:34:\nlog:x:40:web,other\nstaff:x:50:\n";

#[test]
fn users_by_name_and_number() {
    let user = |text| resolve_user(text, PASSWD, GROUP);
    let root = user("").unwrap();
    assert_eq!((root.uid, root.gid), (0, 0));
    let web = user("web").unwrap();
    assert_eq!((web.uid, web.gid, web.additional.as_slice()), (33, 34, &[40][..]));
    assert_eq!(web.home.as_deref(), Some("/srv"));
    let other = user("33:staff").unwrap();
    assert_eq!((other.uid, other.gid, other.additional.len()), (33, 50, 0));
    assert_eq!(user("1234:99").map(|user| (user.uid, user.gid)), Ok((1234, 99)));
    assert_eq!(user("nobody"), Err(UserError::NoUser("nobody".into())));
    assert_eq!(user("web:none"), Err(UserError::NoGroup("none".into())));
}

#[test]
fn command_and_environment_follow_the_image() {
    let image = ConfigOptions {
        entrypoint: Some(vec!["/init".into()]),
        cmd: Some(vec!["default".into()]),
        env: vec!["A=1".into()],
        working_dir: Some("/srv".into()),
        ..ConfigOptions::default()
    };
    let user = RuntimeUser::default();
    let config = bundle_config(&image, &user, &BundleOptions::default());
    assert_eq!(config["process"]["args"], json!(["/init", "default"]));
    assert_eq!(config["process"]["cwd"], "/srv");
    let env = config["process"]["env"].as_array().unwrap();
    assert!(env.contains(&json!("A=1")) && env.contains(&json!(DEFAULT_PATH)));
    let options = BundleOptions { args: vec!["x".into()], ..BundleOptions::default() };
    let config = bundle_config(&image, &user, &options);
    assert_eq!(config["process"]["args"], json!(["/init", "x"]));
}
