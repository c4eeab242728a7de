//! `remove`: removes a source from the configuration.

use serde_json::json;
use toolpost_gateway::config::remove_source;

use crate::arguments::RemoveOptions;
use crate::error::CommandError;
use crate::output;

pub(crate) fn remove(options: &RemoveOptions) -> Result<(), CommandError> {
    let (name, file) = (&options.name, &options.config);
    remove_source(file, name)?;
    if output::wants_json(options.format.json) {
        let file = file.display().to_string();
        output::print_json_line(&json!({"name": name, "removed": true, "file": file}))?;
    } else {
        output::print_line(&format!("`{name}` is no longer in {}.", file.display()))?;
    }
    output::notice(output::RELOAD_NOTICE);
    Ok(())
}
