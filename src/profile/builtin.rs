//! The profiles built into the binary.

/// Name and text of each, by name.
const PROFILES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/builtin_profiles.rs"));

/// All built-in profiles: name (`vendor/model`) and YAML text, in the order of names.
pub fn builtin() -> &'static [(&'static str, &'static str)] {
    PROFILES
}

/// The YAML text of one built-in profile.
pub fn builtin_text(name: &str) -> Option<&'static str> {
    PROFILES.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::profile::parse;

    #[test]
    fn every_built_in_profile_is_without_mistakes_and_named_as_its_file() {
        for (name, text) in builtin() {
            let document = Document::parse(&format!("{name}.yaml"), text).unwrap_or_else(|d| panic!("{}", d.render()));
            let profile = parse(&document).unwrap_or_else(|d| panic!("{}", d.render()));
            assert_eq!(&*profile.name, *name);
            assert_eq!(builtin_text(name), Some(*text));
        }
        assert_eq!(builtin_text("no/such"), None);
    }
}
