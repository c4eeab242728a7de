//! Names for use by code generators.

use std::collections::HashSet;

use data_encoding::HEXLOWER;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

use crate::spec::OperationId;

/// Maximum length of a name. Code generators use names as file names.
const MAX_LEN: usize = 100;

/// Names in use, compared without punctuation and case, because code generators ignore both.
#[derive(Debug, Default)]
pub(super) struct UniqueNames(HashSet<String>);

impl UniqueNames {
    /// Returns the preferred name, with a hash of `unique_key` appended if it is taken. The name
    /// therefore does not depend on the number of other names.
    pub(super) fn claim(&mut self, preferred: &str, unique_key: &str) -> String {
        let truncated: String = preferred.chars().take(MAX_LEN).collect();
        let is_complete = truncated.len() == preferred.len() && !fold_name(&truncated).is_empty();
        if is_complete && self.0.insert(fold_name(&truncated)) {
            return truncated;
        }
        for round in 0_u32.. {
            let name = format!("{truncated}_{}", hash_digits(unique_key, round));
            if self.0.insert(fold_name(&name)) {
                return name;
            }
        }
        unreachable!("an unused number always exists")
    }
}

fn fold_name(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn hash_digits(unique_key: &str, round: u32) -> String {
    let mut hash = Sha256::new();
    hash.update(unique_key.as_bytes());
    hash.update(round.to_be_bytes());
    HEXLOWER.encode(&hash.finalize()[..4])
}

/// Returns the path of an operation. All characters except letters, digits and `-._~` are
/// percent-encoded, including braces, which would denote a parameter.
pub(super) fn path(id: &OperationId) -> String {
    const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    format!("/api/{}/{}", id.namespace(), utf8_percent_encode(id.name(), &RESERVED))
}

/// Returns `namespace.name`, with characters other than letters, digits and `_-.` as `_`.
pub(super) fn operation_id(id: &OperationId) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    id.as_str().chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// Returns the text in Pascal case: `issues/list` becomes `IssuesList`.
pub(super) fn type_name(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let capital = |word: &str| [word[..1].to_ascii_uppercase().as_str(), &word[1..]].concat();
    words.map(capital).collect()
}

/// Returns an error code in Pascal case: `SOLD_OUT` becomes `SoldOut`.
pub(super) fn code_name(code: &str) -> String {
    let is_loud = !code.chars().any(|c| c.is_ascii_lowercase());
    type_name(&if is_loud { code.to_ascii_lowercase() } else { code.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_paths_are_percent_encoded() {
        for (id, expected) in [
            ("demo.add", "/api/demo/add"),
            ("github.issues/list", "/api/github/issues%2Flist"),
            ("box.fs.read", "/api/box/fs.read"),
            ("box.{a} ü", "/api/box/%7Ba%7D%20%C3%BC"),
            ("box.50%", "/api/box/50%25"),
        ] {
            assert_eq!(path(&id.parse().unwrap()), expected, "{id}");
        }
    }

    #[test]
    fn unique_names_ignore_case_and_punctuation() {
        let mut names = UniqueNames::default();
        assert_eq!(names.claim("demo.add", "demo.add"), "demo.add");
        let long = "n".repeat(200);
        for (preferred, prefix) in [
            ("demo.ADD", "demo.ADD_"),
            ("demo.a-dd", "demo.a-dd_"),
            ("demo.add", "demo.add_"),
            ("", "_"),
            ("✓", "✓_"),
            (&long, &format!("{}_", &long[..100])),
        ] {
            let name = names.claim(preferred, preferred);
            let digits = name.strip_prefix(prefix).unwrap_or_else(|| panic!("{name}"));
            assert!(digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_hexdigit()), "{name}");
        }
        for (text, expected) in [
            ("add", "Add"),
            ("issues/list", "IssuesList"),
            ("everyMs", "EveryMs"),
            ("x y ✓", "XY"),
            ("", ""),
        ] {
            assert_eq!(type_name(text), expected, "{text}");
        }
        assert_eq!(
            (code_name("SOLD_OUT"), code_name("soldOut")),
            ("SoldOut".into(), "SoldOut".into())
        );
    }
}
