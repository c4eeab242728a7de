//! Conversion of the variable references of other clients to `${VAR}`.

use std::path::{Path, PathBuf};

/// Translates the variable references of a client file, such as `${workspaceFolder}`.
pub(super) struct ClientVariables {
    editor_folder: PathBuf,
}

impl ClientVariables {
    /// Creates the translation for a file. The workspace is the folder of the file, or its
    /// parent if that is an editor's folder such as `.vscode`.
    pub(super) fn for_file(file: &Path) -> Self {
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let folder = absolute.parent().unwrap_or(Path::new("/"));
        let is_editors = [".vscode", ".cursor", ".zed"].iter().any(|name| folder.ends_with(name));
        let workspace = if is_editors { folder.parent().unwrap_or(folder) } else { folder };
        Self { editor_folder: workspace.to_owned() }
    }

    /// Rewrites `${env:VAR}` as `${VAR}` and replaces `${workspaceFolder}`. `${VAR}` and
    /// `${VAR:-default}` stay as they are.
    ///
    /// # Errors
    ///
    /// The text has a reference that only the client can resolve.
    pub(super) fn translate(&self, text: &str) -> Result<String, String> {
        let mut translated = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, reference)) = rest.split_once("${") {
            translated.push_str(before);
            let (inside, behind) = reference.split_once('}').unwrap_or((reference, ""));
            match inside.split_once(':') {
                Some(("env", variable)) => translated.push_str(&format!("${{{variable}}}")),
                Some((kind, name)) if !name.starts_with('-') => {
                    return Err(unsupported_reference(kind));
                }
                _ if inside == "workspaceFolder" => {
                    translated.push_str(&self.editor_folder.to_string_lossy());
                }
                _ if inside == "userHome" => translated.push_str("${HOME}"),
                _ => translated.push_str(&format!("${{{inside}}}")),
            }
            rest = behind;
        }
        translated.push_str(rest);
        Ok(translated)
    }
}

fn unsupported_reference(kind: &str) -> String {
    match kind {
        "input" => "`${input:…}` is not supported; use `${VAR}` and set the variable".to_owned(),
        "config" | "command" | "workspaceFolder" | "extensionInstallFolder" => {
            format!("`${{{kind}:…}}` is not supported; use the value or `${{VAR}}`")
        }
        _ => "unsupported reference; use `${VAR}`, `${VAR:-default}` or `${env:VAR}`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_references_are_translated() {
        for (file, text, expected) in [
            ("/home/x/.mcp.json", "plain $A {A}", Ok("plain $A {A}")),
            ("/home/x/.mcp.json", "${A} ${B:-c:d} ${env:C}", Ok("${A} ${B:-c:d} ${C}")),
            ("/home/x/.mcp.json", "${env:C:-d}", Ok("${C:-d}")),
            ("/home/x/.mcp.json", "${workspaceFolder}/a", Ok("/home/x/a")),
            ("/home/x/.vscode/mcp.json", "${workspaceFolder}/a", Ok("/home/x/a")),
            ("/home/x/.mcp.json", "${userHome}/a", Ok("${HOME}/a")),
            ("/home/x/.mcp.json", "a ${input:key}", Err("`${input:…}` is not supported")),
            ("/home/x/.mcp.json", "${config:hush}", Err("is not supported")),
            ("/home/x/.mcp.json", "${hush:hush}", Err("unsupported reference")),
        ] {
            match (ClientVariables::for_file(Path::new(file)).translate(text), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(error), Err(expected_error)) => {
                    assert!(
                        error.contains(expected_error) && !error.contains("hush"),
                        "{text}: {error}"
                    );
                }
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
