//! The next version of a tree.

use super::content::{Content, Fill};
use super::kinds;
use super::plan::{Number, Plan, ROOT, What};
use super::random::Random;

/// Directories that names lead to, the root first.
fn directories(plan: &Plan) -> Vec<Number> {
    let mut found = vec![ROOT];
    let mut at = 0;
    while let Some(directory) = found.get(at).copied() {
        let inner = plan.names(directory).into_iter().map(|(_, object)| object);
        found.extend(inner.filter(|object| matches!(plan.object(*object).what, What::Directory)));
        at += 1;
    }
    found
}

/// Makes about `count` changes of every sort: attributes, content, types,
/// names that go, come, move, join or leave a group of links.
pub fn mutate(plan: &mut Plan, seed: u64, count: u64) {
    let random = &mut Random::new(seed);
    for change in 0..count {
        let directories = directories(plan);
        let directory = *random.pick(&directories);
        let names = plan.names(directory);
        let new_name = format!("changed-{seed}-{change}").into_bytes();
        if names.is_empty() || random.one_in(6) {
            let what = match random.below(4) {
                0 => What::Directory,
                1 => What::Symlink(b"somewhere/else".to_vec()),
                2 => What::CharDevice(random.below(200) as u32, random.below(2000) as u32),
                _ => What::File(some_content(random)),
            };
            plan.add(directory, &new_name, what, kinds::meta(random));
            continue;
        }
        let (name, object) = random.pick(&names).clone();
        let is_directory = matches!(plan.object(object).what, What::Directory);
        match random.below(9) {
            0 => plan.object_mut(object).meta = kinds::meta(random),
            1 => plan.object_mut(object).meta.mtime.1 ^= 1,
            2 if !is_directory => plan.object_mut(object).what = What::File(some_content(random)),
            3 => plan.remove(directory, &name),
            // What was there, of another type, with the name it had.
            4 => {
                plan.remove(directory, &name);
                let what =
                    if is_directory { What::File(some_content(random)) } else { What::Directory };
                let made = plan.add(directory, &name, what, kinds::meta(random));
                if !is_directory {
                    plan.add(made, b"inside", What::Fifo, kinds::meta(random));
                }
            }
            5 if !is_directory => {
                let other = *random.pick(&directories);
                plan.link(other, &new_name, object);
            }
            // Leaves its group: the same in everything, but another object.
            6 if !is_directory => {
                let same = plan.object(object).clone();
                plan.remove(directory, &name);
                plan.add(directory, &name, same.what, same.meta);
            }
            7 if !is_directory => {
                let other = *random.pick(&directories);
                plan.remove(directory, &name);
                plan.link(other, &new_name, object);
            }
            // A directory made anew with the same name and attributes.
            8 if is_directory => {
                let same = plan.object(object).clone();
                plan.remove(directory, &name);
                plan.add(directory, &name, same.what, same.meta);
            }
            _ => {
                if let What::File(content) = &mut plan.object_mut(object).what {
                    // The longest file cannot grow.
                    content.size += u64::from(content.size < 1 << 40);
                }
            }
        }
    }
}

fn some_content(random: &mut Random) -> Content {
    let size = *random.pick(&[0, 1, 700, 4096, 70_000, 131_072, 300_000]);
    match random.below(4) {
        0 => Content::hole(size),
        1 => Content::whole(size, Fill::Zeros),
        2 => Content::whole(size, Fill::Words(random.below(3))),
        _ => Content::whole(size, Fill::Random(random.below(3))),
    }
}
