//! What a server has, as operations.

use std::collections::HashSet;
use std::sync::Arc;

use super::desk::Desk;
use super::follow;
use super::method::{self, Method};
use super::session::{Listed, Session};
use super::source::{Adjust, SourceHooks};
use super::tool;
use super::tool_handler::ToolHandler;
use crate::handler::Handler;
use crate::operation::{Operation, ResultPolicy};
use crate::spec::OperationSpec;

/// Operations, and what was odd on the way to them.
#[derive(Debug, Default)]
pub(super) struct Import {
    pub(super) operations: Vec<Operation>,
    pub(super) warnings: Vec<String>,
}

pub(super) fn import(
    desk: &Arc<Desk>,
    session: &Session,
    listed: &Listed,
    hooks: &SourceHooks,
) -> Import {
    let adjust = hooks.adjust.as_ref();
    let mut import = Import { warnings: listed.warnings.clone(), ..Import::default() };
    let mut names = HashSet::new();
    for tool in &listed.tools {
        let read = match tool::read(&desk.name, tool, session.is_modern_http()) {
            Ok(read) => read,
            Err(reason) => {
                import.warnings.push(reason);
                continue;
            }
        };
        if !names.insert(read.spec.name.clone()) {
            import
                .warnings
                .push(format!("`{}` is listed twice; the first is taken", read.spec.name));
            continue;
        }
        import.warnings.extend(read.warnings);
        let handler = ToolHandler::new(desk, &read.spec, read.headers);
        import.add(adjusted(adjust, read.spec), Handler::Once(Arc::new(handler)));
    }
    for method in method::offered(&session.peer) {
        // A tool of the same name is what its server means by it.
        if names.contains(method.name) {
            continue;
        }
        names.insert(method.name.to_owned());
        let handler = Method::handler(method, desk);
        import.add(adjusted(adjust, method.spec(&desk.name)), handler);
    }
    if session.peer.tells_of_resources() && names.insert(follow::SUBSCRIBE.to_owned()) {
        let mut adjusted = adjusted(adjust, follow::spec(&desk.name));
        if let Some((spec, _)) = &mut adjusted {
            // It lasts, and would keep everybody else waiting.
            spec.exclusive = false;
        }
        import.add(adjusted, follow::handler(desk));
    }
    if let Some(review) = &hooks.review {
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.sort_unstable();
        import.warnings.extend(review(&names));
    }
    import
}

fn adjusted(adjust: Option<&Adjust>, spec: OperationSpec) -> Option<(OperationSpec, ResultPolicy)> {
    match adjust {
        Some(adjust) => adjust(spec),
        None => Some((spec, ResultPolicy::default())),
    }
}

impl Import {
    fn add(&mut self, adjusted: Option<(OperationSpec, ResultPolicy)>, handler: Handler) {
        let Some((spec, policy)) = adjusted else { return };
        let name = spec.name.clone();
        match Operation::from_spec(spec).handler(handler).policy(policy).build() {
            Ok(operation) => self.operations.push(operation),
            Err(error) => self.warnings.push(format!("`{name}` is left out: {error}")),
        }
    }
}
