//! Tool names that all clients accept.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::spec::OperationId;

/// Maximum length of a tool name; all clients accept it.
const MAX_LEN: usize = 64;
/// Maximum length of a name before the hash suffix.
const PREFIX_LEN: usize = 55;

/// Returns the tool name of an operation: `namespace__name`, matching `^[a-zA-Z0-9_-]{1,64}$`.
///
/// A name that is too long, or in which a character was replaced by `_`, is truncated to 55
/// characters and gets a suffix of eight hex digits of a hash of the id. The name depends only on
/// the id, so client permissions for a tool survive changes to other operations.
///
/// A namespace contains no `__` and does not end in `_`, so two ids without replaced characters
/// never share a name. For hashed names, [`ToolSet`](super::ToolSet) detects collisions.
///
/// ```
/// use toolpost::view::tool_name;
///
/// assert_eq!(tool_name(&"demo.add".parse().unwrap()), "demo__add");
/// assert_eq!(tool_name(&"box.fs.read".parse().unwrap()), "box__fs_read_ec4b5935");
/// ```
pub fn tool_name(id: &OperationId) -> String {
    sanitize(format!("{}__", id.namespace()), id)
}

/// Returns the tool name in a listing of one namespace: the operation name, if valid.
pub(super) fn local_tool_name(id: &OperationId) -> String {
    sanitize(String::new(), id)
}

fn sanitize(mut name: String, id: &OperationId) -> String {
    let mut is_unchanged = true;
    for character in id.name().chars() {
        let fits = character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
        is_unchanged &= fits;
        name.push(if fits { character } else { '_' });
    }
    if is_unchanged && name.len() <= MAX_LEN {
        return name;
    }
    name.truncate(PREFIX_LEN);
    name.push('_');
    HEXLOWER.encode_append(&Sha256::digest(id.as_str().as_bytes())[..4], &mut name);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_name_is_sanitized_and_unique() {
        let long = "n".repeat(200);
        let rows = [
            ("demo.add".to_owned(), "demo__add".to_owned()),
            ("a-b_c.x-y_z".to_owned(), "a-b_c__x-y_z".to_owned()),
            ("a._b".to_owned(), "a___b".to_owned()),
            (format!("d.{}", &long[..61]), format!("d__{}", &long[..61])),
            (format!("d.{}", &long[..62]), format!("d__{}_c46f1925", &long[..52])),
            (format!("d.{long}"), format!("d__{}_03356e1c", &long[..52])),
            ("github.issues/list".to_owned(), "github__issues_list_21c4975d".to_owned()),
            ("box.ü ✓".to_owned(), "box______934ad9c1".to_owned()),
        ];
        for (id, expected) in rows {
            assert_eq!(tool_name(&id.parse().unwrap()), expected, "{id}");
        }
        for (id, expected) in
            [("demo.add", "add"), ("box.fs.read", "fs_read_ec4b5935"), ("box.ü ✓", "____934ad9c1")]
        {
            assert_eq!(local_tool_name(&id.parse().unwrap()), expected, "{id}");
        }
    }
}
