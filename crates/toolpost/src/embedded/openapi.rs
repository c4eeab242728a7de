//! Builder methods for OpenAPI services.

use super::{BuildError, ToolpostBuilder};
use crate::openapi::{DocumentLocation, OpenApiSettings, OpenApiSource};
use crate::source::{RunningSource, SourceHooks};

impl ToolpostBuilder {
    /// Adds an HTTP service, given the path or URL of its OpenAPI document. Its operations are in
    /// the namespace `name`.
    pub fn openapi(self, name: &str, document: &str) -> Self {
        self.openapi_with(name, OpenApiSettings::new(DocumentLocation::from_path_or_url(document)))
    }

    /// Adds an HTTP service with settings.
    pub fn openapi_with(self, name: &str, settings: OpenApiSettings) -> Self {
        let name = name.to_owned();
        self.start_with(move |registry| {
            let source = OpenApiSource::new(&name, settings)
                .map_err(|error| BuildError::Settings { name, reason: error.to_string() })?;
            Ok(RunningSource::start(registry, source, SourceHooks::default()))
        })
    }
}
