//! Imports the tools, methods and subscriptions of a server as operations.

use std::collections::HashSet;
use std::sync::Arc;

use super::method::{PASSTHROUGH_METHODS, SUBSCRIBE};
use super::session::{ClientSession, ToolList};
use super::source_handle::SourceHandle;
use super::subscriptions;
use super::tool;
use super::tool_handler;
use crate::handler::Handler;
use crate::operation::{Operation, ResultPolicy};
use crate::source::SourceHooks;
use crate::spec::OperationSpec;

/// Imported operations and the warnings of the import.
#[derive(Debug, Default)]
pub(super) struct ImportedOperations {
    pub(super) operations: Vec<Operation>,
    pub(super) warnings: Vec<String>,
}

pub(super) fn import(
    handle: &Arc<SourceHandle>,
    session: &ClientSession,
    listed: &ToolList,
    hooks: &SourceHooks,
) -> ImportedOperations {
    let mut import =
        ImportedOperations { warnings: listed.warnings.clone(), ..ImportedOperations::default() };
    let mut names = HashSet::new();
    for tool in &listed.tools {
        let read = match tool::parse(&handle.name, tool, session.is_modern_http()) {
            Ok(read) => read,
            Err(reason) => {
                import.warnings.push(reason);
                continue;
            }
        };
        if !names.insert(read.spec.name.clone()) {
            import.warnings.push(format!("`{}` is listed twice; using the first", read.spec.name));
            continue;
        }
        import.warnings.extend(read.warnings);
        let handler = tool_handler::handler(handle, &read.spec, read.header_params);
        import.add(hooks.transform(read.spec), handler);
    }
    let server = &session.server;
    let methods = PASSTHROUGH_METHODS.iter();
    for method in methods.filter(|method| server.has_capability(method.capability)) {
        // A tool with the same name takes precedence.
        if names.insert(method.name.to_owned()) {
            import.add(hooks.transform(method.spec(&handle.name)), method.handler(handle));
        }
    }
    if session.server.supports_resource_subscribe() && names.insert(SUBSCRIBE.name.to_owned()) {
        let mut transformed = hooks.transform(SUBSCRIBE.spec(&handle.name));
        if let Some((spec, _)) = &mut transformed {
            // A long-lived exclusive subscription would block all later ones.
            spec.exclusive = false;
        }
        import.add(transformed, subscriptions::handler(handle));
    }
    if let Some(lint) = &hooks.lint {
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.sort_unstable();
        import.warnings.extend(lint(&names));
    }
    import
}

impl ImportedOperations {
    fn add(&mut self, transformed: Option<(OperationSpec, ResultPolicy)>, handler: Handler) {
        let Some((spec, policy)) = transformed else { return };
        let name = spec.name.clone();
        match Operation::from_spec(spec).handler(handler).policy(policy).build() {
            Ok(operation) => self.operations.push(operation),
            Err(error) => self.warnings.push(format!("`{name}` is skipped: {error}")),
        }
    }
}
