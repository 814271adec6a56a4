//! One file for each verb: arguments in, library calls, text out.

pub mod build;
pub mod bundle;
pub mod cat;
pub mod check;
pub mod convert;
pub mod diff;
pub mod docs;
pub mod dump;
pub mod export;
pub mod extract;
pub mod gc;
pub mod images;
pub mod inspect;
pub mod ls;
pub mod mount;
mod path;
pub mod squash;
pub mod status;
pub mod tag;
pub mod umount;
