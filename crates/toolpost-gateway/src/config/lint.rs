//! Warnings about valid settings that are probably mistakes. The gateway runs with them.

use std::path::Path;

use toolpost::mcp::{McpTransport, StdioSettings};
use toolpost::openapi::{DocumentLocation, Namespaces};

use super::node::did_you_mean;
use super::{Config, Glob, SourceConfig, SourceKind};
use crate::admin::OPERATOR;
use crate::approval::ApprovalSettings;
use crate::auth::LOCAL;

impl Config {
    /// Returns warnings that can be found before any source is started. `built_in` contains the ids
    /// of the operations that exist without sources.
    pub fn lint(&self, built_in: &[&str]) -> Vec<String> {
        let unseen: Vec<&str> = self.sources.iter().map(|source| source.name.as_str()).collect();
        let approval = self.unmatched_approval_patterns(built_in, &unseen);
        let sources = self.sources.iter().filter_map(lint_source);
        approval.into_iter().chain(sources).chain(self.unknown_room_members()).collect()
    }

    /// Room members that are not configured identities. Skipped with `[auth]`, since JWTs may
    /// provide them.
    fn unknown_room_members(&self) -> Vec<String> {
        let is_known = |member: &str| {
            [LOCAL, OPERATOR].contains(&member)
                || self.identities.iter().any(|known| known.identity.id == member)
        };
        let rooms = self.rooms.rooms.iter();
        let members = rooms.flat_map(|(room, settings)| {
            settings.members.iter().flatten().map(move |member| (room, member))
        });
        let unknown = members.filter(|(_, member)| self.auth.is_none() && !is_known(member));
        unknown
            .map(|(room, member)| {
                format!("room `{room}`: member `{member}` is not an identity; create it with `toolpost token new`")
            })
            .collect()
    }

    /// Patterns of `[approval]` that match none of the operations in `ids`. A pattern that could
    /// match an operation of a source in `unseen` is not reported.
    pub(crate) fn unmatched_approval_patterns(&self, ids: &[&str], unseen: &[&str]) -> Vec<String> {
        // Such a source brings its own namespaces, so any pattern could match one of them.
        let is_wide = |source: &&SourceConfig| unseen.contains(&&*source.name);
        if self.sources.iter().filter(is_wide).any(keeps_namespaces) {
            return Vec::new();
        }
        let patterns = self.approval.operations.iter();
        let unfit = patterns.filter(|pattern| {
            let alone = ApprovalSettings {
                operations: vec![(*pattern).clone()],
                ..ApprovalSettings::default()
            };
            !ids.iter().any(|id| alone.requires_approval(id))
                && !unseen.iter().any(|name| could_match(pattern, name))
        });
        let message = |pattern: &Glob| {
            let (pattern, hint) = (pattern.as_str(), did_you_mean(pattern.as_str(), ids));
            format!(
                "[approval]: `{pattern}` matches no operation, so it requires no approval{hint}"
            )
        };
        unfit.map(message).collect()
    }
}

fn keeps_namespaces(source: &SourceConfig) -> bool {
    matches!(&source.kind, SourceKind::OpenApi(settings) if settings.namespaces == Namespaces::Keep)
}

/// Whether a pattern for operation ids could match an operation of this source.
fn could_match(pattern: &Glob, source: &str) -> bool {
    match pattern.as_str().split_once('.') {
        Some((namespace, _)) => Glob::new(namespace).matches(source),
        // The star may also match the dot.
        None => pattern.as_str().split('*').next().is_some_and(|start| source.starts_with(start)),
    }
}

/// Returns a warning if a source needs a program or document that does not exist on this machine.
fn lint_source(source: &SourceConfig) -> Option<String> {
    let name = &source.name;
    match &source.kind {
        SourceKind::OpenApi(settings) => match &settings.document {
            DocumentLocation::File(file) if !file.is_file() => {
                let file = file.display();
                Some(format!("source `{name}`: the document {file} does not exist"))
            }
            _ => None,
        },
        SourceKind::Mcp(settings) => match &settings.transport {
            McpTransport::Stdio(process) if !program_exists(process) => {
                let command = &process.command;
                Some(format!("source `{name}`: the program `{command}` does not exist"))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether the command exists. It is resolved as at startup: paths directly, names with `PATH`.
fn program_exists(process: &StdioSettings) -> bool {
    let command = Path::new(&process.command);
    if command.components().count() > 1 {
        let folder = process.cwd.as_deref().unwrap_or(Path::new(""));
        return command.is_file() || folder.join(command).is_file();
    }
    // The command is resolved with the server's own `PATH`, which is not checked.
    if process.env.contains_key("PATH") {
        return true;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(command).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lint_text(text: &str) -> Vec<String> {
        let nothing = |_: &str| None;
        let config = Config::parse("toolpost.toml".as_ref(), text, &nothing).unwrap();
        config.lint(&["demo.add", "demo.note"])
    }

    #[test]
    fn suspicious_settings_produce_lints() {
        let here = std::env::current_exe().unwrap();
        let here = here.display();
        let spoke = "[source.box]\nhub = { url = 'ws://x' }\n";
        let approval_config =
            |pattern: &str| format!("[approval]\noperations = ['{pattern}']\n{spoke}");
        for (text, expected) in [
            (approval_config("demo.note"), None),
            (approval_config("demo.*"), None),
            (approval_config("*"), None),
            (approval_config("box.write"), None),
            (approval_config("b*"), None),
            (approval_config("*.write"), None),
            (
                approval_config("demo.nte"),
                Some(
                    "`demo.nte` matches no operation, so it requires no approval; did you mean `demo.note`?",
                ),
            ),
            (approval_config("bx.write"), Some("`bx.write` matches no operation")),
            (approval_config("gateway.reload"), Some("`gateway.reload` matches no operation")),
            (approval_config("x*"), Some("`x*` matches no operation")),
            (
                "[source.a]\nopenapi = 'none.yaml'\n".to_owned(),
                Some("source `a`: the document none.yaml does not exist"),
            ),
            (format!("[source.a]\nopenapi = '{here}'\n"), None),
            (format!("[source.a]\nmcp = {{ command = '{here}' }}\n"), None),
            (
                "[source.a]\nmcp = { command = 'no-such-program' }\n".to_owned(),
                Some("source `a`: the program `no-such-program` does not exist"),
            ),
            (
                "[source.a]\nmcp = { command = './no/such' }\n".to_owned(),
                Some("the program `./no/such` does not exist"),
            ),
        ] {
            let found = lint_text(&text);
            match expected {
                Some(expected) => {
                    assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}");
                }
                None => assert_eq!(found, [""; 0], "{text}"),
            }
        }
    }
}
