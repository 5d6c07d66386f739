//! Dotted paths as a tree: each object once, members in the order of their first appearance.

/// A member of an object: another object, or the point with this index.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Member<'a> {
    /// Key, and what is under it.
    Object(&'a str, Vec<Member<'a>>),
    /// Key, and the index of the path that ends here.
    Leaf(&'a str, usize),
}

/// Nests paths; an index is a path's place in the input, given with it.
///
/// Paths are unique and none continues another: the profile language refuses both. Should one come nevertheless, the
/// first holds the key and the later path is left out, for an object must not have a key twice.
pub(super) fn nest<'a>(paths: impl Iterator<Item = (usize, &'a str)>) -> Vec<Member<'a>> {
    let mut root = Vec::new();
    for (index, path) in paths {
        insert(&mut root, path, index);
    }
    root
}

fn insert<'a>(mut object: &mut Vec<Member<'a>>, mut path: &'a str, index: usize) {
    while let Some((key, rest)) = path.split_once('.') {
        let at = object.iter().position(|m| m.key() == key).unwrap_or_else(|| {
            object.push(Member::Object(key, Vec::new()));
            object.len() - 1
        });
        let Member::Object(_, members) = &mut object[at] else { return };
        object = members;
        path = rest;
    }
    if !object.iter().any(|m| m.key() == path) {
        object.push(Member::Leaf(path, index));
    }
}

impl<'a> Member<'a> {
    fn key(&self) -> &'a str {
        match self {
            Self::Object(key, _) | Self::Leaf(key, _) => key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Member::{Leaf, Object};

    #[test]
    fn paths_of_one_parent_need_not_be_neighbours() {
        let paths = ["speed.actual", "state", "speed.setpoint", "a.b.c", "a.d", "a.b.e"];
        assert_eq!(
            nest(paths.into_iter().enumerate()),
            vec![
                Object("speed", vec![Leaf("actual", 0), Leaf("setpoint", 2)]),
                Leaf("state", 1),
                Object("a", vec![Object("b", vec![Leaf("c", 3), Leaf("e", 5)]), Leaf("d", 4)]),
            ]
        );
    }

    #[test]
    fn a_key_never_appears_twice() {
        assert_eq!(
            nest(["a", "a.b", "c.d", "c", "a"].into_iter().enumerate()),
            vec![Leaf("a", 0), Object("c", vec![Leaf("d", 2)]),]
        );
    }
}
