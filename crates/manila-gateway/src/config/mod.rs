//! `manila.toml`: read into what was typed, checked into what holds, and written to by `manila
//! token new`.
//!
//! Everything that is wrong is reported at once, each with its place, its key and a remedy, and never
//! with a value, since any value may be a secret.

mod document;
mod duration;
mod edit;
mod expand;
mod file;
mod glob;
mod nearest;
mod node;
mod problem;
mod source;
mod validate;

use std::path::Path;

use manila::Identity;

use crate::auth::{Authenticator, TokenHash};
use document::{Document, Environment};
use file::ConfigFile;

pub use duration::parse_duration;
pub use edit::{EditError, Existing, write_identity};
pub use glob::Glob;
pub use problem::{ConfigError, Problem};
pub use source::{Access, Adjustments, SourceConfig, SourceKind};

/// A configuration in which everything holds. The default is the embedded one: nobody is asked who
/// they are, and there are no sources.
///
/// ```
/// use manila_gateway::config::Config;
///
/// let text = r#"
/// [source.office]
/// hub = { url = "ws://hub.example/hub", token = "${OFFICE_TOKEN}" }
/// timout = "30s"
/// "#;
/// let environment = |name: &str| (name == "OFFICE_TOKEN").then(|| "secret".to_owned());
/// let error = Config::parse("manila.toml".as_ref(), text, &environment).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "manila.toml:4:1: source.office.timout: unknown key; did you mean `timeout`?"
/// );
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Config {
    /// Who may come in, by name.
    pub identities: Vec<IdentityConfig>,
    /// Where operations come from, by name.
    pub sources: Vec<SourceConfig>,
}

/// Somebody with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdentityConfig {
    /// Who it is and what it may do.
    pub identity: Identity,
    /// How its token is known again.
    pub token_hash: TokenHash,
    /// Which messages it may send in a workspace.
    pub capabilities: Vec<String>,
}

impl Config {
    /// The file that is looked for where none is named.
    pub const FILE_NAME: &str = "manila.toml";

    /// Reads and checks a file; `${VAR}` comes from the environment of the process.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| ConfigError::new(vec![Problem::unreadable(file, &error)]))?;
        Self::parse(file, &text, &|name| std::env::var(name).ok())
    }

    /// Checks a text; `file` is what errors call it, `environment` where `${VAR}` comes from.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn parse(
        file: &Path,
        text: &str,
        environment: &Environment<'_>,
    ) -> Result<Self, ConfigError> {
        let document = Document::parse(file, text, environment)?;
        let typed = ConfigFile::read(&document);
        let config = validate::validate(&document, typed);
        document.finish()?;
        Ok(config)
    }

    /// Knows the identities by their tokens; open if there are none.
    pub fn authenticator(&self) -> Authenticator {
        if self.identities.is_empty() {
            return Authenticator::open();
        }
        let known = self.identities.iter().map(|known| (known.token_hash, known.identity.clone()));
        Authenticator::with(known)
    }

    /// The JSON Schema of the file.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(ConfigFile).to_value()
    }
}

#[cfg(test)]
mod tests;
